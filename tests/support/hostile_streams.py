"""Hypothesis strategies for the input of any reader: streams that are damaged in many ways."""

import re
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from schemas.membership import Membership
from schemas.record import Record
from support.record_samples import samples
from transforms.formats import WriteOptions, by_name
from transforms.formats.canonical import avro
from transforms.formats.canonical.avro import our_sync
from transforms.rules.adapt import Target, adapter
from transforms.rules.normalize import normalize

GOLDEN = Path(__file__).parents[1] / "golden"
BLANKS = (b" ", b"\t", b"\r", b"\n", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0", b"\xc2\xa0")
"""What Python, XML or Unicode takes as white space."""
PIECES = (
    *BLANKS,
    *(bytes([byte]) for byte in b"\0\xff\x80<>&\"'/=,{}[]"),
    *(b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?", b"?>", b"<!DOCTYPE ", b"<!DOCTYPE a ["),
    *(b"<record", b"<record>", b"</record>", b"</Record>", b'<acl url="a">', b"<acl>", b"</acl>"),
    *(b"<group>", b"</group>", b"<header>", b"</header>", b"<gsafeed>", b"</gsafeed>"),
    *(b"<xmlgroups>", b"</xmlgroups>", b"<membership>", b"</membership>"),
    *(b"<ThunderstoneReplication>", b"<Item>", b"</Item>", b"</ThunderstoneReplication>"),
    *(
        b"id=a",
        b"id-list",
        b"\0\0",
        b"content\0",
        b"content\n",
        b"acl",
        b"group=a",
        b"authz-status=PERMIT",
    ),
    *(b"g,u,user\n", b'"g\n', b'a",""",\n', b'{"action":"ADD","url":"a"}\n', b'{"group":'),
    *(b"\0\2" + our_sync("record"), b"\2\x80\x80\x80\x80\4", our_sync("record")),
)
"""What the formats give a meaning to."""
HEADS = {
    "gsa-feed": (b"", b"<gsafeed>", b"<gsafeed><group>", b"<gsafeed><group><record>"),
    "thunderstone": (b"", b"<ThunderstoneReplication>", b"<ThunderstoneReplication><Item>"),
    "gsa-groups": (b"", b"<xmlgroups>", b"<xmlgroups><membership>"),
    "groups-csv": (b"", b"group,member,scope\n"),
    "jsonl": (b"", b'{"action":"ADD","url":"a"}\n'),
    "avro": (avro.AvroEncoder().prolog(),),
    **{
        name: tuple(b"GSA Adaptor Data Version 1 [%b]" % end for end in (b"\0", b"\n", b"**"))
        for name in ("lister-stream", "retriever-stream", "authorizer-stream")
    },
}
"""How a stream may begin, so that more of a reader runs than its check of the first bytes."""

_MARKS = re.compile(rb"(?<=[>\n\0])|(?=<)")
_SHORT = 100


@st.composite
def mutated(draw: st.DrawFn, format: str) -> bytes:
    """A golden file of the format, or a stream of many records, with pieces put in or over it."""
    text = draw(st.sampled_from(seeds(format)))
    pieces = st.sampled_from(PIECES) | st.sampled_from(vocabulary(format))
    for _ in range(draw(st.integers(0, 4))):
        marks = [match.start() for match in _MARKS.finditer(text)]
        at = draw(st.integers(0, len(text)) | st.sampled_from([0, *marks]))
        behind = at + draw(st.just(0) | st.integers(0, 20))
        text = text[:at] + draw(pieces) + text[behind:]
    return text


def hostile(format: str) -> st.SearchStrategy[bytes]:
    pieces = st.sampled_from(PIECES) | st.sampled_from(vocabulary(format)) | st.binary(max_size=3)
    texts = st.lists(pieces, max_size=30).map(b"".join)
    return st.tuples(st.sampled_from(HEADS[format]), texts).map(b"".join) | mutated(format)


@cache
def vocabulary(format: str) -> list[bytes]:
    """The short stretches of markup and text that streams of the format consist of."""
    stretches = {item for text in seeds(format) for item in _MARKS.split(text)}
    return sorted(item for item in stretches if len(item) < _SHORT)


@cache
def seeds(format: str) -> list[bytes]:
    files = sorted((GOLDEN / format.replace("-", "_")).glob("*"))
    inputs = [path.read_bytes() for path in files if path.suffix != ".jsonl"]
    small = [text for text in inputs if len(text) < 2000]
    return small if by_name(format).encoder is None else [*small, written(format)]


@cache
def written(format: str) -> bytes:
    """A stream with some records of each kind that the format holds."""
    is_of_groups = by_name(format).holds_only_memberships
    encoder = by_name(format).make_encoder(WriteOptions(memberships=is_of_groups))
    kept = [item for item in samples().values() if isinstance(item, Membership) is is_of_groups]
    adapt = adapter(Target(format=format, feedtype="incremental", wide_deletes=True))
    frames = []
    for item in kept * 6:
        for held in (item,) if isinstance(item, Membership) else adapt(normalize(item))[0]:
            if isinstance(held, Record | Membership):
                frames.append(encoder.frame([encoder.encode(held)]))
    return encoder.prolog() + b"".join(frames) + encoder.epilog()
