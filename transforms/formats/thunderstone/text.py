"""The texts of Thunderstone elements, both ways: character data, or base64 in the Item's Charset.

**Spec:** Thunderstone dataload API, "Specifying all fields manually".
"""

import codecs
import math
import re
from functools import lru_cache

import pybase64
from lxml import etree

from schemas.content import clean_base64
from schemas.errors import RecordError
from schemas.record import Meta
from transforms.formats.xml.serializer import attributes, element, escape_bytes, holds_bytes

DATATYPES = "urn:schemas-microsoft-com:datatypes"
PARAMETRIC = "http://www.thunderstone.com/ParametricSearch/1.0/"
CHARSET = "UTF-8"
"""Of texts in base64 whose Item declares none."""

BASE64 = attributes([("dt:dt", "bin.base64")])

_DT = f"{{{DATATYPES}}}dt"
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
# What Python calls codecs but no document is in: they take quadratic time, warn, or fit one system.
_NO_CHARSETS = frozenset(
    ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem")
)
_SEPARATOR = ": "
_TOO_LARGE = 1 << 63


@lru_cache(maxsize=256)
def tags(name: str, attrs: str = "") -> tuple[bytes, bytes]:
    """Return start tag and end tag of an element; `attrs` comes from `attributes`."""
    start, slash, end = element(name, "", attrs).rpartition("</")
    return start.encode(), f"{slash}{end}".encode()


def enclose(name: str, markup: bytes, attrs: str = "") -> bytes:
    """Return an element with markup in it."""
    start, end = tags(name, attrs)
    return b"".join((start, markup, end))


def is_base64(child: etree._Element) -> bool:
    """Whether the element declares that its character data is base64, under any prefix."""
    return child.get(_DT) == "bin.base64"


def characters(child: etree._Element) -> str | None:
    """Return the character data as it stands; None where elements or attributes are with it.

    `dt:dt="bin.base64"` is the one attribute that we know.
    """
    keys = child.keys()
    if len(child) or (keys and not (keys == [_DT] and is_base64(child))):
        return None
    return child.text or ""


def is_layout(parent: etree._Element) -> bool:
    """Whether an element has nothing but elements and white space in it."""
    between = (parent.text, *(child.tail for child in parent))
    return not parent.keys() and not any(text and text.strip() for text in between)


def text_of(child: etree._Element, charset: str) -> str | None:
    """Return the text of an element; None where `characters` has none.

    Raises RecordError where base64 is torn, or is no text in `charset`.
    """
    text = characters(child)
    if text is None or not child.keys():
        return text
    name = etree.QName(child).localname
    return decode_text(decode_base64(text.encode(), name), charset, name)


def url_of(child: etree._Element, charset: str) -> str | None:
    """Return the text of an element that is a url; white space around it is layout."""
    url = text_of(child, charset)
    return url if url is None or is_base64(child) else url.strip()


def bare_base64(text: bytes, name: str) -> bytes:
    """Return base64 text padded and without white space; `name` is the element that it is of."""
    try:
        return clean_base64(text)
    except RecordError as exc:
        raise RecordError(exc.code, f"{name}: {exc.reason}") from exc


def decode_base64(text: bytes, name: str) -> bytes:
    """Return the bytes that base64 text stands for; `name` is the element that it is of."""
    return pybase64.b64decode(bare_base64(text, name))


def decode_text(octets: bytes, charset: str, name: str) -> str:
    """Return bytes as text; raise RecordError where they are none in `charset`."""
    try:
        text = octets.decode(_codec(charset))
        text.encode()  # UTF-7 can say half a surrogate pair, and nothing can write that again
    except (LookupError, ValueError) as exc:
        reason = f"{name}: base64 of {len(octets)} bytes that are no text in {charset!r}"
        cure = "expected text in the Charset of its Item"
        raise RecordError("bad-charset", f"{reason}; {cure}") from exc
    return text


def encode_text(text: str, charset: str, name: str) -> bytes:
    """Return text as bytes that `decode_text` reads back; raise RecordError where none do."""
    try:
        octets = text.encode(_codec(charset))
        if octets.decode(_codec(charset)) == text:
            return octets
    except (LookupError, ValueError):
        pass
    reason = f"{name}: text that {charset!r} cannot hold; expected a Charset that can"
    raise RecordError("bad-charset", reason)


def text_element(name: str, text: str, charset: str, attrs: str = "") -> bytes:
    """Return an element whose text reads back unchanged, in base64 where XML cannot hold it."""
    try:
        utf8 = text.encode()
    except UnicodeEncodeError:
        return _base64_element(name, text, charset, attrs)
    if holds_bytes(utf8):
        return enclose(name, escape_bytes(utf8), attrs)
    return _base64_element(name, text, charset, attrs)


def url_element(name: str, url: str, charset: str) -> bytes:
    """Return an element whose url reads back unchanged, with any white space around it."""
    if url == url.strip():
        return text_element(name, url, charset)
    return _base64_element(name, url, charset)


def base64_element(name: str, octets: bytes, attrs: str = "") -> bytes:
    """Return an element that declares itself as base64, of `octets`."""
    return enclose(name, pybase64.b64encode(octets), attrs + BASE64)


def parse_integer(text: str) -> int | None:
    """Return a whole number of 64 bits; None where `text` is something else."""
    text = text.strip()
    number = int(text) if _INTEGER.fullmatch(text) else _TOO_LARGE
    return number if -_TOO_LARGE <= number < _TOO_LARGE else None


def parse_number(text: str) -> float | None:
    """Return a finite number; None where `text` is something else."""
    text = text.strip()
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def seconds_text(number: float) -> str:
    """Return a number as the specification's Dlsecs: whole where it is whole."""
    return str(int(number)) if number == int(number) else repr(number)


def ratio_text(number: float) -> str:
    """Return a number as the specification's CTR, with six decimals, or more where it has more."""
    text = f"{number:.6f}"
    return text if float(text) == number else repr(number)


def parse_metadata(text: str) -> tuple[Meta, ...]:
    """Return a pair for each line that is not blank; one without `: ` is a value without a name."""
    return tuple(_pair(line) for line in text.split("\n") if line.strip())


def metadata_text(metadata: tuple[Meta, ...]) -> str:
    """Return the lines that `parse_metadata` reads; raise RecordError where a pair fits on none."""
    return "\n".join(_line(pair) for pair in metadata)


def _codec(charset: str) -> str:
    name = codecs.lookup(charset.strip() or CHARSET).name
    if name in _NO_CHARSETS:
        raise LookupError(name)
    return name


def _base64_element(name: str, text: str, charset: str, attrs: str = "") -> bytes:
    return base64_element(name, encode_text(text, charset, name), attrs)


def _pair(line: str) -> Meta:
    name, separator, value = line.partition(_SEPARATOR)
    return Meta(name, value) if separator else Meta("", line)


def _line(pair: Meta) -> str:
    if pair.data is not None:
        reason = f"metadata {pair.name!r} of {len(pair.data)} bytes that are no text; expected text"
        raise RecordError("bad-metadata", reason)
    if "\n" in pair.name or "\n" in pair.value or _SEPARATOR in pair.name:
        reason = f"metadata {pair.name!r} does not fit on a line of Meta"
        raise RecordError(
            "bad-metadata",
            f"{reason}; expected no line end in it and no {_SEPARATOR!r} in its name",
        )
    if not pair.name and pair.value.strip() and _SEPARATOR not in pair.value:
        return pair.value
    return f"{pair.name}{_SEPARATOR}{pair.value}"
