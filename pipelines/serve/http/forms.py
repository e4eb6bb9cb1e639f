"""Forms that clients post: multipart with any boundary, or urlencoded; in any order of fields.

The field `data` holds a feed, and goes where it is told to as it comes. The others are small.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from multipart import MultipartError, MultipartSegment, PushMultipartParser

from pipelines.serve.http.body_decoding import PercentDecoder, peek
from pipelines.serve.http.exchange import RefusedError

DATA = "data"
FIELD_BYTES = 4096
FIELDS = 20
_HEAD_BYTES = 1024
_BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))', re.IGNORECASE)

Event = str | bytes
"""The name of a field that begins, or some of what the field holds."""


def read(
    blocks: Iterable[bytes],
    content_type: str,
    *,
    known: Collection[str],
    write: Callable[[bytes], object],
) -> dict[str, str]:
    """Return the fields that are known, each by its name; `data` is handed to `write`.

    Raises RefusedError where the body is no form, or a known field comes twice, is no text or
    too long.
    """
    fields: dict[str, bytes] = {}
    name = ""
    for event in events(blocks, content_type):
        if isinstance(event, str):
            name = _begin(event, fields, known)
        elif name == DATA:
            write(event)
        elif name:
            fields[name] += event
            if len(fields[name]) > FIELD_BYTES:
                raise RefusedError(400, f"{name}: more than {FIELD_BYTES} bytes; expected a name")
    return {name: _text(name, value) for name, value in fields.items()}


def events(blocks: Iterable[bytes], content_type: str) -> Iterator[Event]:
    """Yield the fields one by one: a name, then what it holds, in blocks.

    The guide's own example says multipart without a boundary, and sends what is urlencoded: where
    the header does not tell, the first bytes do.
    """
    kind = content_type.partition(";")[0].strip().lower()
    match = _BOUNDARY.search(content_type) if kind == "multipart/form-data" else None
    boundary = _unquoted(match) if match else b""
    if kind != "application/x-www-form-urlencoded" and not boundary:
        head, blocks = peek(blocks, 2)
        if head.startswith(b"--"):
            boundary, blocks = _first_line(blocks)
    yield from _parts(blocks, boundary) if boundary else _pairs(blocks)


def _begin(name: str, fields: dict[str, bytes], known: Collection[str]) -> str:
    """Note a field; return "" for one that nobody asked for."""
    if name != DATA and name not in known:
        return ""
    if name in fields:
        raise RefusedError(400, f"{name}: given twice; expected it once")
    fields[name] = b""
    return name


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode().strip()
    except UnicodeDecodeError as exc:
        raise RefusedError(400, f"{name}: {value[:80]!r}; expected UTF-8") from exc


def _unquoted(match: re.Match[str]) -> bytes:
    quoted, bare = match.groups()
    text = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare.strip()
    return text.encode("latin-1")


def _first_line(blocks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return what the first line tells behind its two dashes, and all the blocks."""
    rest = iter(blocks)
    head = b""
    while b"\n" not in head and len(head) < _HEAD_BYTES and (block := next(rest, b"")):
        head += block
    line, end, _ = head.partition(b"\n")
    boundary = line[2:].rstrip(b"\r")
    if not end or not boundary:
        raise RefusedError(400, f"{line[:80]!r}; expected a boundary, and a line end behind it")
    return boundary, itertools.chain([head], rest)


def _parts(blocks: Iterable[bytes], boundary: bytes) -> Iterator[Event]:
    """Yield the parts of a multipart body; raise RefusedError unless it comes to its end."""
    try:
        # Latin-1 holds all bytes: a filename in whatever encoding is no reason to refuse a feed.
        parser = PushMultipartParser(
            boundary, max_segment_count=FIELDS, header_charset="latin-1", strict=False
        )
        for block in filter(None, blocks):  # an empty one would mean the end
            for event in parser.parse(block):
                if isinstance(event, MultipartSegment):
                    yield _name_of(event)
                elif event:
                    yield event
        parser.close()
    except MultipartError as exc:
        raise RefusedError(
            400, f"multipart/form-data: {exc}; expected parts, to their end"
        ) from exc


def _name_of(part: MultipartSegment) -> str:
    transfer = str(part.header("Content-Transfer-Encoding", "")).strip().lower()
    if transfer in {"base64", "quoted-printable"}:
        raise RefusedError(
            400, f"Content-Transfer-Encoding: {transfer}; expected the content as it is"
        )
    return part.name or ""


def _pairs(blocks: Iterable[bytes]) -> Iterator[Event]:
    """Yield the pairs of an urlencoded body."""
    head, decoder = b"", None
    for some, is_last in _cut(blocks):
        piece = some
        if decoder is None:
            head, equals, piece = (head + some).partition(b"=")
            if len(head) > _HEAD_BYTES:
                raise RefusedError(400, f"{head[:80]!r}; expected name=value")
            if not equals and not is_last:
                continue
            decoder = PercentDecoder()
            yield decoder.decode(head, is_last=True).decode("latin-1")
        if decoded := decoder.decode(piece, is_last=is_last):
            yield decoded
        if is_last:
            head, decoder = b"", None


def _cut(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield what stands between `&`, in pieces, and whether a piece is the last of its pair."""
    pairs = 1
    for block in blocks:
        begin = 0
        while (end := block.find(b"&", begin)) >= 0:
            pairs += 1
            if pairs > FIELDS:
                raise RefusedError(400, f"more than {FIELDS} fields; expected those of a feed")
            yield block[begin:end], True
            begin = end + 1
        yield block[begin:], False
    yield b"", True
