"""Write markup: escapes, checks whether XML can hold a text, and extras as they were."""

import re
from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy
from functools import lru_cache

from lxml import etree

from schemas.errors import RecordError
from schemas.record import Extra
from transforms.formats.xml.rows import ElementRows

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROLS = bytes(set(range(0x20)) - {0x09, 0x0A, 0x0D})
_NOT_TEXT = _CONTROLS + b"&<>\r"
_WITHOUT_NOT_TEXT = bytes(0x20 if byte in _NOT_TEXT else byte for byte in range(256))
_NOT_RAW = bytes(range(0x20)) + b"<"
_SPECIAL = bytes(range(0x20)) + b'&<>"'
_NO_MARKS = bytes(set(range(0x100)) - set(_SPECIAL)) + b"&"
_IN_TEXT = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;"))
_IN_TEXT_BYTES = tuple((char.encode(), reference.encode()) for char, reference in _IN_TEXT)
_IN_ATTRIBUTE = str.maketrans({**dict(_IN_TEXT), '"': "&quot;", "\t": "&#9;", "\n": "&#10;"})


def shut_parser(*, huge_tree: bool = False) -> etree.XMLParser:
    """Return a parser without entities and network access; for small documents by default."""
    return etree.XMLParser(
        huge_tree=huge_tree,
        collect_ids=False,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )


def holds(text: str) -> bool:
    """Whether XML 1.0 can hold the text: it has no control characters, surrogates, U+FFFE/F."""
    return _FORBIDDEN.search(text) is None


def not_xml(exc: ValueError) -> RecordError:
    """Return the error for a text that XML or UTF-8 cannot hold."""
    found = "a lone surrogate" if isinstance(exc, UnicodeError) else str(exc)
    return RecordError("not-xml", f"{found}; expected characters that XML can hold")


def escape_text(text: str) -> str:
    """Return `text` as character data that reads back unchanged."""
    for char, reference in _IN_TEXT:
        text = text.replace(char, reference)
    return text


def escape_attribute(text: str) -> str:
    """Return `text` for use in double quotes; tabs and line ends survive normalization."""
    return text.translate(_IN_ATTRIBUTE)


def holds_bytes(text: bytes) -> bool:
    """Whether XML 1.0 can hold `text`, which must be valid UTF-8."""
    if len(text.translate(None, _CONTROLS)) != len(text):
        return False
    return text.isascii() or (b"\xef\xbf\xbe" not in text and b"\xef\xbf\xbf" not in text)


def is_plain_text(text: bytes) -> bool:
    """Whether a text is ASCII that needs no escapes: a quick check that holds for most texts."""
    return text.isascii() and text.translate(_WITHOUT_NOT_TEXT) == text


def escape_bytes(text: bytes) -> bytes:
    """Return UTF-8 `text` as character data; `escape_text` for long texts."""
    for char, reference in _IN_TEXT_BYTES:
        text = text.replace(char, reference)
    return text


def is_plain(text: str) -> bool:
    """Whether `text` needs no escapes in an attribute; false for a few texts that need none.

    Joining many values and checking them at once costs a fraction of checking each.
    """
    try:
        utf8 = text.encode()
    except UnicodeEncodeError:
        return False
    return len(utf8.translate(None, _SPECIAL)) == len(utf8) and b"\xef\xbf" not in utf8


def count_marks(markup: bytes) -> int:
    """Count characters that a value may not have: angles, quotes, line ends, other controls.

    If there are more than the markup itself has, a value may need escapes. `&` is not counted,
    because it is quickly replaced in the whole markup.
    """
    count = len(markup.translate(None, _NO_MARKS))
    return count if markup.isascii() else count + markup.count(b"\xef\xbf")


def may_be_attribute(text: str) -> bool:
    """Whether a text of a document can be the values of attributes: it has no markup."""
    utf8 = text.encode()
    return len(utf8.translate(None, _NOT_RAW)) == len(utf8) and b"\xef\xbf" not in utf8


def attributes(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Return ` name="value"` for each pair that has a value, in order.

    Raises ValueError, with the pair for a message, for a value that XML cannot hold.
    """
    return _stated_attributes([(name, value) for name, value in pairs if value is not None])


def attributes_of(rows: ElementRows, source: object) -> str:
    """Return the attributes of a record or a struct by the rows of its element."""
    rows = rows.stated_by(source)
    return _stated_attributes(rows.pairs(rows.values(source)))


@lru_cache(maxsize=1024)
def similar_attributes(rows: ElementRows, values: tuple[object, ...]) -> str:
    """Return the attributes with these values, of which most documents have a few only."""
    return _stated_attributes(rows.pairs(values))


def _stated_attributes(stated: list[tuple[str, str]]) -> str:
    text = "".join([value for _, value in stated])
    if is_plain(text):
        return "".join([f' {name}="{value}"' for name, value in stated])
    if is_plain(text.replace("&", "")):  # as in most urls with a query
        return "".join([f' {name}="{value.replace("&", "&amp;")}"' for name, value in stated])
    return "".join([f' {name}="{_escaped(name, value)}"' for name, value in stated])


def _escaped(name: str, value: str) -> str:
    if not holds(value):
        raise ValueError(f"{name}={value!r}")
    return escape_attribute(value)


def element(name: str, text: str, attrs: str = "") -> str:
    """Return an element with character data; `attrs` comes from `attributes`."""
    return f"<{name}{attrs}>{escape_text(text)}</{name}>"


class ExtraMarkup:
    """Extras as markup, by the place of the element that they belong to."""

    def __init__(self, extras: tuple[Extra, ...]) -> None:
        self._attributes: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        self._markup: dict[str, list[str]] = defaultdict(list)
        for number, extra in enumerate(extras):
            place, at, name = extra.place.partition("/@")
            if at:
                self._attributes[place].append((name, extra.value, number))
            elif "@" not in place:
                self._markup[place.rpartition("/")[0]].append(extra.value + "\n")

    def __bool__(self) -> bool:
        return bool(self._attributes or self._markup)

    def attributes(self, place: str, *, stated: str = "") -> str:
        """Return the attributes `stated` of an element, and its unknown ones after them.

        Raises RecordError for an attribute that would occur twice: that is no XML.
        """
        for name, value, number in self._attributes.get(place, ()):
            if f' {name}="' in stated:
                reason = f"a second {name} at {place}/@{name}; expected one value"
                raise RecordError("bad-extra", reason)
            uri, _, local = name.removeprefix("{").rpartition("}")
            if uri == XML_NAMESPACE:
                stated += attributes([(f"xml:{local}", value)])
            elif uri:
                stated += attributes([(f"xmlns:n{number}", uri), (f"n{number}:{local}", value)])
            else:
                stated += attributes([(name, value)])
        return stated

    def children(self, place: str) -> str:
        """Return the unknown elements inside an element."""
        return "".join(self._markup.get(place, ()))


def extra_element(place: str, element: etree._Element) -> Extra:
    """Return an unknown element as its markup, with the prefixes that it uses and no others."""
    alone = deepcopy(element)
    etree.cleanup_namespaces(alone)
    return Extra(place, etree.tostring(alone, encoding="unicode", with_tail=False))
