"""A reader makes progress: what it yields is bounded by the bytes that it is given."""

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import FormatError, ProgressError, UnavailableError
from schemas.record import Action, Record
from schemas.reject import Reject
from schemas.span import Span
from support.gsa_records import read_feed
from support.steps import within_lines
from transforms.formats import FORMATS, Mode, ReadOptions, ReadResult, by_name
from transforms.formats.canonical import avro
from transforms.formats.canonical.avro import our_sync
from transforms.formats.xml.element_names import ElementNames
from transforms.formats.xml.scanner import RecordScanner

GOLDEN = Path(__file__).parents[2] / "golden"
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
    *(b"id=a", b"id-list", b"\0\0", b"content", b"acl", b"group=a", b"authz-status=PERMIT"),
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
LINES_EACH = 500
"""More lines than a reader executes for any one byte."""
LINES_AT_LEAST = 50_000
"""More lines than a reader executes for no byte."""
One = TypeVar("One")
VOCABULARY = ElementNames(root="feed", records=("record",))

pieces = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=30).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn, format: str) -> bytes:
    """A golden file of the format, or a whole stream, with some pieces put in or over others."""
    text = draw(st.sampled_from(seeds(format)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        behind = at + draw(st.integers(0, 20))
        text = text[:at] + draw(st.sampled_from(PIECES)) + text[behind:]
    return text


def hostile(format: str) -> st.SearchStrategy[bytes]:
    made = st.tuples(st.sampled_from(HEADS[format]), pieces).map(b"".join)
    return made | mutated(format)


def seeds(format: str) -> list[bytes]:
    files = sorted((GOLDEN / format.replace("-", "_")).glob("*"))
    inputs = [path.read_bytes() for path in files if path.suffix != ".jsonl"]
    small = [text for text in inputs if len(text) < 2000]
    return small or [made_stream(format)]


def made_stream(format: str) -> bytes:
    records = [Record(url=url, action=Action.ADD) for url in ("http://e.com/1", "http://e.com/2")]
    if format == "avro":
        encoder = avro.AvroEncoder()
        frames = [encoder.frame([encoder.encode(record)]) for record in records]
        return encoder.prolog() + b"".join(frames)
    return b"".join(b'{"action":"ADD","url":"%b"}\n' % one.url.encode() for one in records)


def read(format: str, text: bytes, mode: Mode = Mode.LENIENT) -> list[ReadResult]:
    """What a reader yields until it ends or refuses the stream."""
    reader, options = by_name(format).read, ReadOptions(mode=mode)
    return taken(text, lambda: reader(io.BytesIO(text), options=options))


def cut(format: str, text: bytes, span_bytes: int) -> list[Span]:
    """The spans that a cutter yields until it ends or refuses the stream."""
    cutter = by_name(format).split
    return taken(text, lambda: cutter(io.BytesIO(text), source="s", span_bytes=span_bytes))


def taken(text: bytes, begin: Callable[[], Iterator[One]]) -> list[One]:
    found: list[One] = []

    def take() -> None:
        with suppress(FormatError, UnavailableError):
            for one in begin():
                found.append(one)

    within_lines(LINES_AT_LEAST + LINES_EACH * len(text), take)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("format", [format_.name for format_ in FORMATS])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_reader_yields_no_more_than_its_input_can_hold(format: str, data: st.DataObject) -> None:
    text = data.draw(hostile(format))
    mode = data.draw(st.sampled_from(Mode))
    assert len(read(format, text, mode)) <= 3 * len(text) + 3


@pytest.mark.parametrize("format", [format_.name for format_ in FORMATS])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_each_span_of_a_cutter_begins_behind_the_one_before(
    format: str, data: st.DataObject
) -> None:
    text = data.draw(hostile(format))
    spans = cut(format, text, data.draw(st.sampled_from((1, 10, 200))))
    assert all(span.length is None or span.length > 0 for span in spans)
    assert [span.offset for span in spans] == sorted({span.offset for span in spans})


@pytest.mark.slow
@pytest.mark.parametrize("format", ["gsa-feed", "thunderstone", "gsa-groups"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_only_the_torn_end_of_an_xml_document_is_an_empty_reject(
    format: str, data: st.DataObject
) -> None:
    found = read(format, data.draw(hostile(format)))
    empty = [one.code for one in found if isinstance(one, Reject) and not one.length]
    assert empty in ([], ["torn-end"])


@pytest.mark.parametrize("blank", [b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0"])
@pytest.mark.parametrize(
    ("format", "head", "record", "tail"),
    [
        ("gsa-feed", b"<gsafeed><group>", b'<record url="a"/>', b"</group></gsafeed>"),
        (
            "thunderstone",
            b"<ThunderstoneReplication>",
            b"<Item><Type>D</Type><Url>a</Url></Item>",
            b"</ThunderstoneReplication>",
        ),
        (
            "gsa-groups",
            b"<xmlgroups>",
            b'<membership><principal scope="GROUP">g</principal><members/></membership>',
            b"</xmlgroups>",
        ),
    ],
)
def test_a_control_character_between_two_records_costs_neither(
    format: str, head: bytes, record: bytes, tail: bytes, blank: bytes
) -> None:
    text = head + record + blank + record + tail
    first, reject, second = read(format, text)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.data) == ("stray", blank)
    assert not isinstance(first, Reject)
    assert not isinstance(second, Reject)
    assert len(cut(format, text, 1)) >= 1


@pytest.mark.parametrize("blank", [b"\x0b", b"\x0c"])
@pytest.mark.parametrize("root", [b"<gsafeed>", b"<xmlgroups>", b"<ThunderstoneReplication>"])
def test_a_control_character_before_the_root_is_a_stray(blank: bytes, root: bytes) -> None:
    formats = {b"<gsafeed>": "gsa-feed", b"<xmlgroups>": "gsa-groups"}
    found = read(formats.get(root, "thunderstone"), blank + root)
    codes = [(one.code, one.data) for one in found if isinstance(one, Reject)]
    assert codes == [("stray", blank), ("torn-end", b"")]


def test_a_step_that_consumes_nothing_is_an_error() -> None:
    class Stuck(RecordScanner):
        def _stray(self) -> Reject:
            return self._reject("stray", "nothing", 0)

    stream = io.BytesIO(b"<feed>x")
    with pytest.raises(ProgressError) as caught:
        list(Stuck(stream, VOCABULARY, Span(source="f.xml"), max_unit_bytes=1 << 20))
    assert str(caught.value) == (
        "f.xml:1 (byte 6): the reader does not advance; expected at least one byte to be read: "
        "report this defect of feedferry"
    )


def test_bytes_that_only_continue_characters_are_not_held() -> None:
    text = b"<gsafeed>" + b"\x80" * 3_000_000 + b"</gsafeed>"
    (reject,) = within_lines(20_000, lambda: list(read_feed(io.BytesIO(text))))
    assert isinstance(reject, Reject)
    assert (reject.code, reject.length, reject.truncated) == ("stray", 3_000_000, True)


def test_what_is_kept_of_a_long_stretch_in_another_encoding_ends_with_a_character() -> None:
    text = ("<gsafeed>x" + "ü" * 700_000 + "<record url='a'/></gsafeed>").encode("utf-16-le")
    reject, record = read_feed(io.BytesIO(text))
    assert isinstance(reject, Reject)
    assert (len(reject.data), reject.length) == (2 + 2 * ((1 << 20) // 2 - 1), 1_400_002)
    assert isinstance(record, Record)
