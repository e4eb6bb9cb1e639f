"""The markup of an Item's elements, read and written: texts, nested documents, extras.

**Spec:** Thunderstone dataload API, "Specifying all fields manually", "Other Details".

A text is character data, or base64 in the Charset of its Item. Refs and Errors hold a document of
`results/result`, each with a Url and one text. Extras are the attributes of an Item, the text
between its elements, and elements that no field understands.
"""

import codecs
import math
import re
from collections.abc import Iterator
from functools import lru_cache

import pybase64
from lxml import etree

from schemas.content import clean_base64
from schemas.errors import RecordError
from schemas.record import Extra, Meta
from transforms.formats.xml.elements import parse_markup
from transforms.formats.xml.extras import ExtraMarkup
from transforms.formats.xml.serializer import (
    attributes,
    element,
    escape_bytes,
    escape_text,
    holds_bytes,
    shut_parser,
)

DATATYPES = "urn:schemas-microsoft-com:datatypes"
PARAMETRIC = "http://www.thunderstone.com/ParametricSearch/1.0/"
CHARSET = "UTF-8"
"""The charset of texts in base64 whose Item declares none."""
BASE64 = attributes([("dt:dt", "bin.base64")])
REFS = ("Refs", "Ref")
ERRORS = ("Errors", "Reason")

_DT = f"{{{DATATYPES}}}dt"
_RESULTS = attributes([("xmlns:dt", DATATYPES)])
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
# Python codecs that are no charsets of documents: they are quadratic, warn, or need one system.
_NO_CHARSETS = frozenset(
    ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem")
)
_SEPARATOR = ": "
_INTEGER_LIMIT = 1 << 63
_ATTRIBUTE = "Item/@"
_TEXT = "Item/text()"


@lru_cache(maxsize=256)
def tags(name: str, attrs: str = "") -> tuple[bytes, bytes]:
    """Return the start tag and the end tag of an element; `attrs` comes from `attributes`."""
    start, slash, end = element(name, "", attrs).rpartition("</")
    return start.encode(), f"{slash}{end}".encode()


def enclose(name: str, markup: bytes, attrs: str = "") -> bytes:
    """Return an element with markup in it."""
    start, end = tags(name, attrs)
    return b"".join((start, markup, end))


# Texts


def is_base64(child: etree._Element) -> bool:
    """Return whether the element declares base64, with any prefix."""
    return child.get(_DT) == "bin.base64"


def characters(child: etree._Element) -> str | None:
    """Return the character data; None if the element has children or unknown attributes."""
    keys = child.keys()
    if len(child) or (keys and not (keys == [_DT] and is_base64(child))):
        return None
    return child.text or ""


def is_layout(parent: etree._Element) -> bool:
    """Return whether an element holds only elements and white space, and has no attributes."""
    between = (parent.text, *(child.tail for child in parent))
    return not parent.keys() and not any(text and text.strip() for text in between)


def text_of(child: etree._Element, charset: str) -> str | None:
    """Return the text of an element, None if it is not a text.

    Raises RecordError if its base64 is torn or is not text in `charset`.
    """
    text = characters(child)
    if text is None or not child.keys():
        return text
    name = etree.QName(child).localname
    return _decode_text(decode_base64(text.encode(), name), charset, name)


def url_of(child: etree._Element, charset: str) -> str | None:
    """Return the text of an element that holds a URL; white space around it is layout."""
    url = text_of(child, charset)
    return url if url is None or is_base64(child) else url.strip()


def bare_base64(text: bytes, name: str) -> bytes:
    """Return base64 with padding and without white space; an error names the element `name`."""
    try:
        return clean_base64(text)
    except RecordError as exc:
        raise RecordError(exc.code, f"{name}: {exc.reason}") from exc


def decode_base64(text: bytes, name: str) -> bytes:
    """Decode base64; an error names the element `name`."""
    return pybase64.b64decode(bare_base64(text, name))


def _decode_text(data: bytes, charset: str, name: str) -> str:
    try:
        text = data.decode(_codec(charset))
        text.encode()  # UTF-7 can encode half a surrogate pair, which cannot be written again
    except (LookupError, ValueError) as exc:
        reason = f"{name}: base64 of {len(data)} bytes that are no text in {charset!r}"
        cure = "expected text in the Charset of its Item"
        raise RecordError("bad-charset", f"{reason}; {cure}") from exc
    return text


def encode_text(text: str, charset: str, name: str) -> bytes:
    """Encode a text so that it reads back; raise RecordError if the charset cannot hold it."""
    try:
        data = text.encode(_codec(charset))
        if data.decode(_codec(charset)) == text:
            return data
    except (LookupError, ValueError):
        pass
    reason = f"{name}: text that {charset!r} cannot hold; expected a Charset that can"
    raise RecordError("bad-charset", reason)


def text_element(name: str, text: str, charset: str, attrs: str = "") -> bytes:
    """Return an element with a text, in base64 if XML cannot hold it."""
    try:
        utf8 = text.encode()
    except UnicodeEncodeError:
        utf8 = b"\0"
    if holds_bytes(utf8):
        return enclose(name, escape_bytes(utf8), attrs)
    return _base64_element(name, encode_text(text, charset, name), attrs)


def url_element(name: str, url: str, charset: str) -> bytes:
    """Return an element with a URL, in base64 if white space around it must be kept."""
    if url == url.strip():
        return text_element(name, url, charset)
    return _base64_element(name, encode_text(url, charset, name))


def _base64_element(name: str, data: bytes, attrs: str = "") -> bytes:
    return enclose(name, pybase64.b64encode(data), attrs + BASE64)


def _codec(charset: str) -> str:
    name = codecs.lookup(charset.strip() or CHARSET).name
    if name in _NO_CHARSETS:
        raise LookupError(name)
    return name


# Numbers and metadata


def parse_integer(text: str) -> int | None:
    """Return an integer of 64 bits, None for any other text."""
    text = text.strip()
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INTEGER_LIMIT <= number < _INTEGER_LIMIT else None


def parse_number(text: str) -> float | None:
    """Return a finite number, None for any other text."""
    text = text.strip()
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def seconds_text(number: float) -> str:
    """Return a number in the form of Dlsecs: without decimals if it is whole."""
    return str(int(number)) if number == int(number) else repr(number)


def ratio_text(number: float) -> str:
    """Return a number in the form of CTR: with six decimals, or more if it has more."""
    text = f"{number:.6f}"
    return text if float(text) == number else repr(number)


def parse_metadata(text: str) -> tuple[Meta, ...]:
    """Return a pair for each line that is not blank; without `: ` it is a value without a name."""
    lines = (line.partition(_SEPARATOR) for line in text.split("\n") if line.strip())
    return tuple(
        Meta(name, value) if separator else Meta("", name) for name, separator, value in lines
    )


def metadata_text(metadata: tuple[Meta, ...]) -> str:
    """Return the lines that `parse_metadata` reads; raise RecordError if a pair has none."""
    return "\n".join(map(_line, metadata))


def _line(pair: Meta) -> str:
    if pair.data is not None:
        reason = f"metadata {pair.name!r} of {len(pair.data)} bytes that are no text; expected text"
        raise RecordError("bad-metadata", reason)
    if "\n" in pair.name or "\n" in pair.value or _SEPARATOR in pair.name:
        raise RecordError(
            "bad-metadata",
            f"metadata {pair.name!r} does not fit on a line of Meta; expected no line end in it"
            f" and no {_SEPARATOR!r} in its name",
        )
    if not pair.name and pair.value.strip() and _SEPARATOR not in pair.value:
        return pair.value
    return f"{pair.name}{_SEPARATOR}{pair.value}"


# Nested documents: Refs and Errors


def parse_nested(
    child: etree._Element, names: tuple[str, str], *, url: str
) -> tuple[str, ...] | None:
    """Return the texts of a Refs or Errors element, in order; an empty element has none.

    Return None if the element holds more: another URL, other elements, no such document. Raise
    RecordError if its base64 is torn.
    """
    text = characters(child)
    if text is None or not text.strip():
        return None if text is None else ()
    if not is_base64(child):
        return None
    root = _parse_document(decode_base64(text.encode(), names[0]))
    if root is None or root.tag != "results" or not is_layout(root):
        return None
    texts = [_nested_text(result, names[1], url) for result in root]
    stated = tuple(text for text in texts if text is not None)
    return stated if len(stated) == len(texts) else None


def nested_element(names: tuple[str, str], texts: tuple[str, ...], *, url: str) -> bytes:
    """Return the element that `parse_nested` reads."""
    if not texts:
        return enclose(names[0], b"", BASE64)
    write = url_element if names == REFS else text_element
    location = url_element("Url", url, CHARSET)
    results = (enclose("result", location + write(names[1], text, CHARSET)) for text in texts)
    return _base64_element(names[0], enclose("results", b"".join(results), _RESULTS))


def _parse_document(document: bytes) -> etree._Element | None:
    try:
        root = etree.fromstring(document, shut_parser())
    except (etree.XMLSyntaxError, ValueError):
        return None
    return root if root.getroottree().docinfo.internalDTD is None else None


def _nested_text(result: etree._Element, leaf: str, url: str) -> str | None:
    if result.tag != "result" or not is_layout(result):
        return None
    if [child.tag for child in result] != ["Url", leaf] or url_of(result[0], CHARSET) != url:
        return None
    read = url_of if leaf == REFS[1] else text_of
    return read(result[1], CHARSET)


# Extras


def parse_item_extras(item: etree._Element) -> Iterator[Extra]:
    """Yield an Item's attributes, and the text between its elements as one extra."""
    yield from (Extra(f"{_ATTRIBUTE}{name}", value) for name, value in item.items())
    between = (item.text, *(child.tail for child in item))
    text = " ".join(text.strip() for text in between if text and text.strip())
    if text:
        yield Extra(_TEXT, text)


def encode_extras(extras: tuple[Extra, ...]) -> tuple[bytes, bytes]:
    """Return the start tag of an Item with the attributes among `extras`, and the others' markup.

    Extras may come from anywhere. Raises RecordError unless they read back as they are.
    """
    extras = tuple(extra for extra in extras if extra.place.startswith("Item/"))
    if not extras:
        return tags("Item")[0], b""
    elements = [extra for extra in extras if not extra.place.startswith((_ATTRIBUTE, _TEXT))]
    texts = [escape_text(extra.value) for extra in extras if extra.place == _TEXT]
    try:
        start = f"<Item{ExtraMarkup(extras).attributes('Item')}>".encode()
        markup = "".join((*texts, *(extra.value for extra in elements))).encode()
        item = parse_markup(b"%b%b</Item>" % (start, markup))
    except (RecordError, ValueError):
        item = None
    stated = [extra for extra in extras if extra not in elements]
    if (
        item is None
        or [*parse_item_extras(item)] != stated
        or [f"Item/{child.tag!s}" for child in item] != [extra.place for extra in elements]
    ):
        places = ", ".join(extra.place for extra in extras)
        reason = f"{places} of an Item; expected extras with the markup of their places"
        raise RecordError("bad-extra", reason)
    return start, markup
