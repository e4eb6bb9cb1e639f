"""One Item of a Thunderstone document as a record.

**Spec:** Thunderstone dataload API, "Specifying all fields manually", "Other Details". A text is
character data, or base64 in the Charset of its Item. Refs and Errors hold a document of
`results/result`, each with a Url and one text.

Each field of the record takes the elements that it understands. The other elements are extras, with
their markup: unknown elements, numbers and dates in unknown forms, a second Title. So are the
attributes of an Item, and the text between its elements.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import pybase64
from lxml import etree

from feedferry.schemas.content import check, clean_base64
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import (
    Action,
    Arrival,
    Content,
    Encoding,
    Extra,
    Field,
    History,
    Provenance,
    Record,
)
from feedferry.transforms.content_types.charset import NO_CHARSETS
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.thunderstone.dataload_format import DATATYPES, PARAMETRIC
from feedferry.transforms.formats.thunderstone.rows import NESTED, SEPARATORS, TYPES, item_rows
from feedferry.transforms.formats.xml.rows import Row
from feedferry.transforms.formats.xml.serializer import XML_NAMESPACE, extra_element, shut_parser

CHARSET = "UTF-8"
"""The charset of texts in base64 whose Item declares none."""
ATTRIBUTE_PLACE = "Item/@"
TEXT_PLACE = "Item/text()"
FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
LEAVES = {"Refs": "Ref", "Errors": "Reason"}
"""The element of a text in the results of Refs and Errors."""

_DT = f"{{{DATATYPES}}}dt"
_FIRST = ("Url", "Charset")
"""Other elements depend on these."""

_SPECIFIED = frozenset(("Type", "RawData", *LEAVES, *(row.name for row in item_rows("UTC").rows)))
_NO_FIELDS = (DATATYPES, XML_NAMESPACE)
_PUSHED = (Action.ADD, Action.UPDATE)
_Value = TypeVar("_Value")


def parse_item(item: etree._Element, *, options: ReadOptions, provenance: Provenance) -> Record:
    """Return the record of an Item; raise RecordError without an action or URL, or for damage."""
    reader = _ItemReader(item, zone=options.zone)
    action = reader.action()
    if action is Action.UPDATE_INDEX:
        return Record(url="", action=action, extras=reader.extras(action), provenance=provenance)
    charset, url = reader.read_charset(), reader.url(action)
    values, history = reader.values(url)
    return Record(
        url=url,
        action=action,
        arrival=Arrival.PUSHED if action in _PUSHED else None,
        content=reader.content(values.get("body"), max_bytes=options.max_content_bytes),
        charset=charset,
        fields=reader.fields(),
        history=History(**history) if history else None,
        extras=reader.extras(action),
        provenance=provenance,
        **values,
    )


class _ItemReader:
    """The child elements of one Item. Each is taken once, by the field that understands it."""

    def __init__(self, item: etree._Element, *, zone: str) -> None:
        self._item = item
        self._zone = zone
        self._charset = CHARSET
        self._left = dict.fromkeys(item)
        self._named: dict[str, list[etree._Element]] = {}
        for child in self._left:
            self._named.setdefault(str(child.tag), []).append(child)

    def action(self) -> Action:
        text = self._take("Type", self._text_of)
        if text is None:
            raise RecordError("no-type", f"an Item without Type; expected {TYPES.expected}")
        action: Action | None = TYPES.decode(text.strip())
        if action is None:
            raise RecordError("unknown-type", f"Type {text!r}; expected {TYPES.expected}")
        return action

    def read_charset(self) -> str | None:
        """Return the Charset; the texts that follow are decoded with it."""
        charset = self._take("Charset", self._text_of)
        self._charset = charset or CHARSET
        return charset

    def url(self, action: Action) -> str:
        url = self._take("Url", lambda child: url_of(child, self._charset))
        if not url:
            reason = f"an Item to {action.value} without Url; expected one, of text alone"
            raise RecordError("no-url", reason)
        return url

    def values(self, url: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values of the record and those of its history, by their fields."""
        values: dict[str, dict[str, Any]] = {"": {}, "history": {}}  # each of the type of its field
        for row in item_rows(self._zone).rows:
            if row.name in self._named and row.name not in _FIRST:
                value = self._all(row) if row.name in SEPARATORS else self._value(row)
                if value is not None:
                    values[row.struct][row.attribute] = value
        for row in NESTED:
            nested = self._take(row.name, partial(parse_nested, url=url))
            if nested is not None:
                values[row.struct][row.attribute] = nested
        return values[""], values["history"]

    def _value(self, row: Row) -> object:
        """Return the value of the first element that the row understands."""
        for child in self._named[row.name]:
            text = text_of(child, self._charset)
            value = None if text is None else row.codec.decode(text)
            if value is not None:
                del self._left[child]
                return value
        return None

    def _all(self, row: Row) -> tuple[object, ...]:
        """Return the values of all elements that are not blank, without blank values."""
        texts = self._take_all(self._named[row.name], self._stated_text)
        separator = SEPARATORS[row.name]
        parts = [text.split(separator) if separator else [text] for text in texts]
        return tuple(row.codec.decode(part) for part in chain(*parts) if part.strip())

    def content(self, body: str | None, *, max_bytes: int) -> Content | None:
        """Return RawData; an empty one next to a Body is no content, as the specification says."""
        text = self._take("RawData", lambda child: self._raw_data(child, body))
        if text is None:
            return None
        content = Content(text, Encoding.BASE64)
        check(content, max_bytes=max_bytes)
        return content

    def fields(self) -> tuple[Field, ...]:
        """Return the elements in any namespace that have the shape of a field."""
        qualified = [child for child in self._left if str(child.tag).startswith("{")]
        return tuple(self._take_all(qualified, lambda child: _field(child, self._charset)))

    def extras(self, action: Action) -> tuple[Extra, ...]:
        """Return attributes, text between elements, then the elements that no field took.

        An empty element of the specification has no meaning where the whole document is replaced.
        In an update it clears a field of the appliance, so it is kept.
        """
        is_update = action is Action.UPDATE
        return (
            *parse_item_extras(self._item),
            *(
                extra_element(f"Item/{child.tag!s}", child)
                for child in self._left
                if is_update or child.tag not in _SPECIFIED or not _is_blank(child)
            ),
        )

    def _take(self, tag: str, parse: Callable[[etree._Element], _Value | None]) -> _Value | None:
        """Return the value of the first element with this name that `parse` understands."""
        for child in self._named.get(tag, ()):
            value = parse(child)
            if value is not None:
                del self._left[child]
                return value
        return None

    def _take_all(
        self, children: Iterable[etree._Element], parse: Callable[[etree._Element], _Value | None]
    ) -> Iterator[_Value]:
        for child in children:
            value = parse(child)
            if value is not None:
                del self._left[child]
                yield value

    def _text_of(self, child: etree._Element) -> str | None:
        return text_of(child, self._charset)

    def _stated_text(self, child: etree._Element) -> str | None:
        text = self._text_of(child)
        return text if text and text.strip() else None

    def _raw_data(self, child: etree._Element, body: str | None) -> bytes | None:
        text = characters(child)
        if text is None:
            return None
        data = text.encode()
        if is_base64(child) or not data.strip():
            data = bare_base64(data, "RawData")
        else:  # without dt:dt, which the specification requires, the text is the document itself
            data = pybase64.b64encode(encode_text(text, self._charset, "RawData"))
        return None if not data and body is not None else data


def _field(child: etree._Element, charset: str) -> Field | None:
    """Return a field; None if a profile cannot define one with this name or shape."""
    name = etree.QName(child)
    if name.namespace in _NO_FIELDS or not FIELD_NAME.fullmatch(name.localname):
        return None
    namespace = None if name.namespace == PARAMETRIC else name.namespace
    text = text_of(child, charset)
    if text is not None:
        return Field(name.localname, (text,), namespace=namespace)
    if not is_layout(child) or any(etree.QName(value).localname != "value" for value in child):
        return None
    values = [text_of(value, charset) for value in child]
    stated = tuple(value for value in values if value is not None)
    if len(stated) < len(values):
        return None
    return Field(name.localname, stated, many=True, namespace=namespace)


def _is_blank(child: etree._Element) -> bool:
    text = characters(child)
    return text is not None and not text.strip()


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
    if not child.keys():
        return None if len(child) else child.text or ""
    text = characters(child)
    if text is None:
        return None
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


def _codec(charset: str) -> str:
    name = codecs.lookup(charset.strip() or CHARSET).name
    if name in NO_CHARSETS:
        raise LookupError(name)
    return name


def parse_nested(child: etree._Element, *, url: str) -> tuple[str, ...] | None:
    """Return the texts of a Refs or Errors element, in order; an empty element has none.

    Return None if the element holds more: another URL, other elements, no such document. Raise
    RecordError if its base64 is torn.
    """
    text = characters(child)
    if text is None or not text.strip():
        return None if text is None else ()
    if not is_base64(child):
        return None
    root = _parse_document(decode_base64(text.encode(), str(child.tag)))
    if root is None or root.tag != "results" or not is_layout(root):
        return None
    leaf = LEAVES[str(child.tag)]
    texts = [_nested_text(result, leaf, url) for result in root]
    stated = tuple(text for text in texts if text is not None)
    return stated if len(stated) == len(texts) else None


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
    read = url_of if leaf == "Ref" else text_of
    return read(result[1], CHARSET)


def parse_item_extras(item: etree._Element) -> Iterator[Extra]:
    """Yield an Item's attributes, and the text between its elements as one extra."""
    yield from (Extra(f"{ATTRIBUTE_PLACE}{name}", value) for name, value in item.items())
    between = [item.text, *[child.tail for child in item]]
    text = " ".join([text.strip() for text in between if text and not text.isspace()])
    if text:
        yield Extra(TEXT_PLACE, text)
