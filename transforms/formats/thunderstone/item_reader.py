"""One Item of a Thunderstone document as a record.

Each field of the record takes the elements that it understands. The other elements are extras, with
their markup: unknown elements, numbers and dates in unknown forms, a second Title.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TypeVar

import pybase64
from lxml import etree

from schemas.content import check
from schemas.errors import RecordError
from schemas.record import (
    Action,
    Arrival,
    Content,
    Encoding,
    Extra,
    Field,
    History,
    Meta,
    Provenance,
    Record,
)
from transforms.formats.base import ReadOptions
from transforms.formats.dates import parse_date
from transforms.formats.thunderstone.elements import (
    CHARSET,
    DATATYPES,
    ERRORS,
    PARAMETRIC,
    REFS,
    bare_base64,
    characters,
    encode_text,
    is_base64,
    is_layout,
    parse_integer,
    parse_item_extras,
    parse_metadata,
    parse_nested,
    parse_number,
    text_of,
    url_of,
)
from transforms.formats.xml.extras import XML_NAMESPACE, extra_element

ACTIONS = {
    "I": Action.ADD,
    "D": Action.DELETE,
    "DP": Action.DELETE_PATTERN,
    "U": Action.UPDATE,
    "UI": Action.UPDATE_INDEX,
}
FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

_SPECIFIED = frozenset(
    (
        *("Type", "Size", "Visited", "Dlsecs", "Depth", "Url", "Title", "Body", "Keywords"),
        *("Description", "Meta", "Category", "Modified", "NextCheck", "Views", "Clicks", "CTR"),
        *("Pop", "MimeType", "Charset", "Refs", "Errors", "RawData"),
    )
)
_NO_FIELDS = (DATATYPES, XML_NAMESPACE)
_PUSHED = (Action.ADD, Action.UPDATE)
_NO_HISTORY = History()
_Value = TypeVar("_Value")


def parse_item(item: etree._Element, *, options: ReadOptions, provenance: Provenance) -> Record:
    """Return the record of an Item; raise RecordError without an action or URL, or for damage."""
    reader = _ItemReader(item, zone=options.zone)
    action = reader.action()
    if action is Action.UPDATE_INDEX:
        return Record(url="", action=action, extras=reader.extras(action), provenance=provenance)
    charset, url = reader.read_charset(), reader.url(action)
    body = reader.text("Body")
    return Record(
        url=url,
        action=action,
        arrival=Arrival.PUSHED if action in _PUSHED else None,
        content=reader.content(body, max_bytes=options.max_content_bytes),
        mimetype=reader.text("MimeType"),
        charset=charset,
        size=reader.integer("Size"),
        title=reader.text("Title"),
        description=reader.text("Description"),
        keywords=reader.text("Keywords"),
        body=body,
        categories=tuple(reader.stated_texts("Category")),
        metadata=reader.metadata(),
        fields=reader.fields(),
        modified=reader.date("Modified"),
        visited=reader.date("Visited"),
        next_check=reader.date("NextCheck"),
        history=reader.history(url),
        extras=reader.extras(action),
        provenance=provenance,
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
        text = self.text("Type")
        if text is None:
            raise RecordError("no-type", "an Item without Type; expected I, D, DP, U or UI")
        action = ACTIONS.get(text.strip())
        if action is None:
            raise RecordError("unknown-type", f"Type {text!r}; expected I, D, DP, U or UI")
        return action

    def read_charset(self) -> str | None:
        """Return the Charset; the texts that follow are decoded with it."""
        charset = self.text("Charset")
        self._charset = charset or CHARSET
        return charset

    def url(self, action: Action) -> str:
        url = self._take("Url", lambda child: url_of(child, self._charset))
        if not url:
            reason = f"an Item to {action.value} without Url; expected one, of text alone"
            raise RecordError("no-url", reason)
        return url

    def text(self, tag: str) -> str | None:
        return self._take(tag, self._text_of)

    def stated_texts(self, tag: str) -> Iterator[str]:
        """Yield the text of each element with this name that is not blank."""
        return self._take_all(self._named.get(tag, ()), self._stated_text)

    def integer(self, tag: str) -> int | None:
        return self._take(tag, lambda child: parse_integer(self._text_of(child) or ""))

    def number(self, tag: str) -> float | None:
        return self._take(tag, lambda child: parse_number(self._text_of(child) or ""))

    def date(self, tag: str) -> datetime | None:
        """Return a date. One with a fraction of a second stays an extra: it cannot be written."""

        def parse(child: etree._Element) -> datetime | None:
            moment = parse_date(self._text_of(child) or "", zone=self._zone)
            return moment if moment and not moment.microsecond else None

        return self._take(tag, parse)

    def content(self, body: str | None, *, max_bytes: int) -> Content | None:
        """Return RawData; an empty one next to a Body is no content, as the specification says."""
        text = self._take("RawData", lambda child: self._raw_data(child, body))
        if text is None:
            return None
        content = Content(text, Encoding.BASE64)
        check(content, max_bytes=max_bytes)
        return content

    def metadata(self) -> tuple[Meta, ...]:
        return tuple(pair for text in self.stated_texts("Meta") for pair in parse_metadata(text))

    def fields(self) -> tuple[Field, ...]:
        """Return the elements in any namespace that have the shape of a field."""
        qualified = [child for child in self._left if str(child.tag).startswith("{")]
        return tuple(self._take_all(qualified, lambda child: _field(child, self._charset)))

    def history(self, url: str) -> History | None:
        history = History(
            download_seconds=self.number("Dlsecs"),
            depth=self.integer("Depth"),
            views=self.integer("Views"),
            clicks=self.integer("Clicks"),
            click_ratio=self.number("CTR"),
            popularity=self.integer("Pop"),
            references=self._take("Refs", lambda child: parse_nested(child, REFS, url=url)),
            errors=self._take("Errors", lambda child: parse_nested(child, ERRORS, url=url)),
        )
        return None if history == _NO_HISTORY else history

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
