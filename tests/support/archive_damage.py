"""Archives that hypothesis makes, with the faults and traps of their framing."""

import zlib
from collections.abc import Callable

from hypothesis import strategies as st

from feedferry.schemas.avro import long
from feedferry.schemas.record import Action, Content, Record
from feedferry.transforms.formats.canonical import jsonl
from feedferry.transforms.formats.canonical.avro import (
    RECORD,
    SYNC_BYTES,
    AvroEncoder,
    our_header,
    our_sync,
)

HEADER, SYNC = our_header(RECORD), our_sync(RECORD)
DEFLATED = HEADER.replace(b"\x08null", b"\x0edeflate")
_ENCODER = AvroEncoder()
_JUNK = (b"\x80" * 10, SYNC, SYNC[:9], long(2) + long(1 << 62), b"\0" * 40, b"\n", b"}\n{")


def document(number: int, content: bytes = b"text") -> Record:
    return Record(
        url=f"http://www.example.com/{number}",
        action=Action.ADD,
        mimetype="text/plain",
        content=Content(content),
    )


def block(*records: Record) -> bytes:
    return _ENCODER.frame([*map(_ENCODER.encode, records)])


def deflated(data: bytes) -> bytes:
    """A block as the codec deflate has it."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    count, datums = data[:1], data[:-SYNC_BYTES]
    at = next(at for at in range(1, len(datums)) if datums[at] < 0x80) + 1
    packed = packer.compress(datums[at:]) + packer.flush()
    return b"".join((count, long(len(packed)), packed, SYNC))


TRAP = block(document(7)) * 2
_CONTENTS = st.sampled_from((b"", b"text", SYNC, TRAP, b"x" + TRAP, b"\n" * 9, bytes(700)))
_RECORDS = st.builds(document, st.integers(0, 9), _CONTENTS)
_BLOCKS = st.lists(_RECORDS, min_size=1, max_size=3).map(lambda records: block(*records))


@st.composite
def containers(draw: st.DrawFn) -> bytes:
    """Containers of both codecs, damaged or not, whose contents hold blocks and sync markers."""
    blocks = draw(st.lists(_BLOCKS, max_size=8))
    is_packed = draw(st.booleans())
    parts = [deflated(part) for part in blocks] if is_packed else blocks
    header = DEFLATED if is_packed else HEADER
    return header + b"".join(map(draw, map(_damaged, parts)))[: draw(_ENDS)]


@st.composite
def line_files(draw: st.DrawFn) -> bytes:
    """JSON lines, damaged or not, with the line ends and marks of editors."""
    records = draw(st.lists(_RECORDS, max_size=12))
    parts = [jsonl.line(record) for record in records]
    parts = [draw(st.just(part) | _damaged(part) | st.sampled_from(_LINES)) for part in parts]
    if draw(st.booleans()):
        parts = [part.replace(b"\n", b"\r\n") for part in parts]
    return draw(st.sampled_from((b"", b"", b"\xef\xbb\xbf"))) + b"".join(parts)[: draw(_ENDS)]


_LINES = (b"\n", b"\n" * 5, b"  \n", b'{"action":\n', b"[" + b"0," * 3000 + b"0]\n", b"no line end")
_ENDS = st.none() | st.none() | st.integers(-40, -1)


def _damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """The bytes themselves, three times in four, or with a fault at a random place."""
    places = st.integers(0, max(len(data) - 1, 0)) | st.integers(0, 2)
    faults: tuple[Callable[[int, bytes], bytes], ...] = (
        lambda at, _: data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :],
        lambda at, junk: data[:at] + junk + data[at:],
        lambda at, junk: data[:at] + junk + data[at + len(junk) :],
        lambda at, junk: data[:at] + data[at + len(junk) :],
        lambda _, junk: data[:-SYNC_BYTES] + junk,
    )
    fault = st.builds(
        lambda make, at, junk: make(at, junk),
        st.sampled_from(faults),
        places,
        st.sampled_from(_JUNK),
    )
    return st.one_of(*[st.just(data)] * 3, fault)
