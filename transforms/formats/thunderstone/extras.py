"""What no field holds of an Item, both ways: attributes, text between elements, whole elements."""

import copy
import re
from collections.abc import Iterator

from lxml import etree

from schemas.errors import RecordError
from schemas.record import Extra
from transforms.formats.thunderstone.text import enclose, tags
from transforms.formats.xml.elements import parse_markup
from transforms.formats.xml.serializer import attributes, escape_text, holds

_ATTRIBUTE = "Item/@"
_TEXT = "Item/text()"
_QUALIFIED = re.compile(r"\{([^{}]+)\}([^{}]+)")
_XML = "{http://www.w3.org/XML/1998/namespace}"


def parse_around(item: etree._Element) -> Iterator[Extra]:
    """Yield an Item's attributes, and the text between its elements as one."""
    yield from (Extra(f"{_ATTRIBUTE}{name}", value) for name, value in item.items())
    between = (item.text, *(child.tail for child in item))
    text = " ".join(text.strip() for text in between if text and text.strip())
    if text:
        yield Extra(_TEXT, text)


def parse_element(child: etree._Element) -> Extra:
    """Return an element with the namespaces that its names use, and nothing around it."""
    alone = copy.deepcopy(child)
    alone.tail = None
    etree.cleanup_namespaces(alone)
    return Extra(_place(child), etree.tostring(alone, encoding="unicode"))


def start_item(extras: tuple[Extra, ...]) -> bytes:
    """Return the start tag of an Item with the attributes among `extras`."""
    stated = [
        (extra.place.removeprefix(_ATTRIBUTE), extra.value)
        for extra in extras
        if extra.place.startswith(_ATTRIBUTE)
    ]
    attrs = _attributes(stated)
    item = _parse(enclose("Item", b"", attrs)) if stated else None
    if stated and (item is None or item.items() != stated):
        names = ", ".join(repr(name) for name, _ in stated)
        raise RecordError("bad-extra", f"attribute {names} of Item; expected what XML can hold")
    return tags("Item", attrs)[0]


def extra_markup(extra: Extra) -> bytes:
    """Return what stands in the Item for an extra: nothing for an attribute or another format's.

    Raises RecordError unless it reads back as the text or element that it is said to be.
    """
    if not extra.place.startswith("Item/") or extra.place.startswith(_ATTRIBUTE):
        return b""
    if extra.place == _TEXT and holds(extra.value):
        return escape_text(extra.value).encode()
    child = parse_only(extra.value)
    if child is None or extra.place != _place(child):
        raise RecordError("bad-extra", f"extra {extra.place!r}; expected the markup of its element")
    return etree.tostring(child, encoding="unicode", with_tail=False).encode()


def parse_only(markup: str) -> etree._Element | None:
    """Return the element that `markup` is; None where it is anything else."""
    if not holds(markup):
        return None
    item = _parse(enclose("Item", markup.encode()))
    if item is None or len(item) != 1 or item.text or item[0].tail:
        return None
    return item[0]


def _place(child: etree._Element) -> str:
    return f"Item/{child.tag!s}"


def _parse(markup: bytes) -> etree._Element | None:
    try:
        return parse_markup(markup)
    except RecordError:
        return None


def _attributes(stated: list[tuple[str, str]]) -> str:
    try:
        return attributes(
            pair
            for ordinal, (name, value) in enumerate(stated)
            for pair in _attribute(name, value, f"a{ordinal}")
        )
    except ValueError:
        return ""  # which is not what was stated


def _attribute(name: str, value: str, prefix: str) -> Iterator[tuple[str, str]]:
    qualified = _QUALIFIED.fullmatch(name)
    if name.startswith(_XML):
        yield f"xml:{name.removeprefix(_XML)}", value
    elif qualified:
        yield f"xmlns:{prefix}", qualified[1]
        yield f"{prefix}:{qualified[2]}", value
    else:
        yield name, value
