"""Read documents in any encoding as UTF-8, and convert parts back to the original bytes.

The scanner searches for bytes. That only works in UTF-8: other encodings may use the byte of `<`
inside a character. A byte that is wrong in its encoding becomes a surrogate. No parser accepts
these, so it costs its record, and no other.
"""

import codecs
import re
from typing import IO

from feedferry.schemas.errors import EncodingError
from feedferry.transforms.content_types.charset import NO_CHARSETS

HEAD_BYTES = 4096
"""How many bytes of a stream are needed to find its encoding."""

_DECLARED = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']""")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LATIN = frozenset({"iso8859-1", "iso8859-15", "cp1252"})
_UTF8 = re.compile(
    rb"[\xc2-\xf4](?<![\x80-\xff][\xc2-\xf4])"
    rb"(?:(?<=[\xc2-\xdf])|(?<=[\xe0-\xef])[\x80-\xbf]|(?<=[\xf0-\xf4])[\x80-\xbf]{2})[\x80-\xbf]"
    rb"(?:[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})*"
    rb"(?![\x80-\xff])"
)
"""UTF-8 characters between ASCII characters; Latin text hardly ever looks like that.

The pattern begins with a set of bytes, which `re` finds ten times as fast as a group.
"""

_CONTROLS = bytes(range(0x80, 0xA0))
"""Control characters of ISO-8859; in windows-1252, most of these bytes are quotes and dashes."""

_CONTROL = re.compile(b"[%s]" % _CONTROLS)
_HIGH_BYTES = bytes(range(0x80, 0x100))
_KEEP = "feedferry-keep-bytes"
_KEPT = re.compile("([\udc00-\udcff])")
_SHAPES = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)


def detect(head: bytes, *, source: str, encoding: str = "") -> tuple[str, int]:
    """Return the codec of a document that begins with `head`, and the length of its mark.

    A given `encoding` has precedence over the declaration. A declared UTF-16 without a mark or its
    byte pattern is UTF-8 that was converted and kept its declaration. Raises EncodingError if the
    declaration names an unknown encoding.
    """
    given = _known(encoding, source) if encoding else None
    for mark, codec in _MARKS:
        if head.startswith(mark) and given in (None, codec):
            return codec, len(mark)
    if given is not None:
        return given, 0
    for shape, codec in _SHAPES:
        if head.startswith(shape):
            return codec, 0
    declared = _DECLARED.match(head.lstrip())
    return (_known(declared[1].decode(), source) if declared else "utf-8"), 0


def is_encoding(name: str) -> bool:
    """Whether a user can name this encoding for a document.

    UTF-16 and UTF-32 cannot be named: documents in these are recognised by their bytes.
    """
    try:
        codec = _known(name, "")
    except EncodingError:
        return False
    return codec != "utf-8" or codecs.lookup(name).name in ("utf-8", "utf-8-sig", "ascii")


def _known(name: str, source: str) -> str:
    try:
        codec = codecs.lookup(name).name
        if codec in NO_CHARSETS or "<".encode(name) == b"":
            raise LookupError(name)
    except (LookupError, ValueError) as exc:
        raise EncodingError(
            f"{source}:1: encoding={name!r}; expected the name of an encoding, such as 'UTF-8'"
        ) from exc
    wide = codec.startswith(("utf-16", "utf-32"))
    return "utf-8" if wide or codec in ("ascii", "utf-8-sig") else codec


class Transcoded:
    """A stream in another encoding, read as UTF-8; `original` converts a part back.

    `doubt` is the offset of the first text in a Latin encoding that is in another one, and that.
    """

    def __init__(self, stream: IO[bytes], codec: str, head: bytes) -> None:
        self.codec = codec
        self.doubt: tuple[int, str] | None = None
        self._is_latin = codec in _LATIN
        self._passed = 0
        self._stream = stream
        self._head = head
        codecs.register_error(_KEEP, _keep)
        self._decoder = codecs.getincrementaldecoder(codec)(_KEEP)

    def read(self, size: int) -> bytes:
        """Return UTF-8 of about `size` bytes of the stream; empty at its end."""
        while raw := self._head or self._stream.read(size):
            self._head = b""
            if self._is_latin and self.doubt is None:
                self._search_doubt(raw)
            if text := self._decoder.decode(raw):
                return text.encode("utf-8", "surrogatepass")
        return self._decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")

    def _search_doubt(self, raw: bytes) -> None:
        matches = [(match.start(), "utf-8")] if (match := _UTF8.search(raw)) else []
        if self.codec != "cp1252" and len(raw.translate(None, _CONTROLS)) < len(raw):
            # A character of UTF-8 may be cut at the ends.
            begin = len(raw) - len(raw.lstrip(_HIGH_BYTES))
            control = _CONTROL.search(raw, begin, len(raw.rstrip(_HIGH_BYTES)))
            matches += [(control.start(), "windows-1252")] if control else []
        for place, encoding in sorted(matches)[:1]:
            self.doubt = self._passed + place, encoding
        self._passed += len(raw)

    def original(self, utf8: bytes) -> bytes:
        """Return the bytes of the stream that a whole number of characters came from."""
        pieces = _KEPT.split(utf8.decode("utf-8", "surrogatepass"))
        return b"".join(self._encode(piece) for piece in pieces)

    def _encode(self, piece: str) -> bytes:
        if _KEPT.fullmatch(piece):
            return bytes([ord(piece) & 0xFF])
        return piece.encode(self.codec)


def _keep(exc: UnicodeError) -> tuple[str | bytes, int]:
    """Replace each byte that cannot be decoded by a surrogate."""
    if not isinstance(exc, UnicodeDecodeError):
        raise exc
    return "".join(chr(0xDC00 + byte) for byte in exc.object[exc.start : exc.end]), exc.end
