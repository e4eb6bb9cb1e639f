"""One Item of a Thunderstone document as a record.

Each element is taken once, by the field that it is for. What no field understands stays, as an
Extra with its markup: elements that the specification does not have, numbers and dates in
forms that we do not know, a second Title.
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
from transforms.formats.thunderstone.extras import parse_around, parse_element
from transforms.formats.thunderstone.text import (
    CHARSET,
    DATATYPES,
    PARAMETRIC,
    bare_base64,
    characters,
    encode_text,
    is_base64,
    is_layout,
    parse_integer,
    parse_metadata,
    parse_number,
    text_of,
    url_of,
)
from transforms.formats.thunderstone.thunderstone_nested import ERRORS, REFS, parse_nested
from transforms.formats.xml.elements import parse_markup

ACTIONS = {
    "I": Action.ADD,
    "D": Action.DELETE,
    "DP": Action.DELETE_PATTERN,
    "U": Action.UPDATE,
    "UI": Action.UPDATE_INDEX,
}
FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

_CORE = frozenset(
    (
        *("Type", "Size", "Visited", "Dlsecs", "Depth", "Url", "Title", "Body", "Keywords"),
        *("Description", "Meta", "Category", "Modified", "NextCheck", "Views", "Clicks", "CTR"),
        *("Pop", "MimeType", "Charset", "Refs", "Errors", "RawData"),
    )
)
_NO_FIELDS = (DATATYPES, "http://www.w3.org/XML/1998/namespace")
_PUSHED = (Action.ADD, Action.UPDATE)
_NO_HISTORY = History()
_TEXT = "expected one, of text alone"
_Stated = TypeVar("_Stated")


def parse_item(
    item: etree._Element, *, options: ReadOptions, provenance: Provenance, content: bytes | None
) -> Record:
    """Return the record of an Item; raise RecordError where it has no action or url, or is torn.

    `content` is the character data of its RawData where that was cut out of the markup.
    """
    found = _Item(item, zone=options.zone, raw=content)
    action = found.action()
    if action is Action.UPDATE_INDEX:
        return Record(url="", action=action, extras=found.extras(action), provenance=provenance)
    charset, url = found.read_charset(), found.url(action)
    body = found.text("Body")
    return Record(
        url=url,
        action=action,
        arrival=Arrival.PUSHED if action in _PUSHED else None,
        content=found.content(body, max_bytes=options.max_content_bytes),
        mimetype=found.text("MimeType"),
        charset=charset,
        size=found.integer("Size"),
        title=found.text("Title"),
        description=found.text("Description"),
        keywords=found.text("Keywords"),
        body=body,
        categories=found.categories(),
        metadata=found.metadata(),
        fields=found.fields(),
        modified=found.take("Modified", found.date_of),
        visited=found.take("Visited", found.date_of),
        next_check=found.take("NextCheck", found.date_of),
        history=found.history(url),
        extras=found.extras(action),
        provenance=provenance,
    )


class _Item:
    """The child elements of one Item, of which each field takes its own."""

    def __init__(self, item: etree._Element, *, zone: str, raw: bytes | None) -> None:
        self._item = item
        self._zone = zone
        self._charset = CHARSET
        self._raw = None if raw is None else _own_payload(item, raw)
        self._left = dict.fromkeys(item)
        self._named: dict[str, list[etree._Element]] = {}
        for child in self._left:
            self._named.setdefault(str(child.tag), []).append(child)

    def take(
        self, tag: str, understand: Callable[[etree._Element], _Stated | None]
    ) -> _Stated | None:
        """Return what the first element of the name that is understood says, and take it."""
        for child in self._named.get(tag, ()):
            stated = understand(child)
            if stated is not None:
                del self._left[child]
                return stated
        return None

    def action(self) -> Action:
        stated = self.text("Type")
        if stated is None:
            raise RecordError("no-type", "an Item without Type; expected I, D, DP, U or UI")
        action = ACTIONS.get(stated.strip())
        if action is None:
            raise RecordError("unknown-type", f"Type {stated!r}; expected I, D, DP, U or UI")
        return action

    def read_charset(self) -> str | None:
        """Return what Charset states; texts are decoded by it from here on."""
        stated = self.text("Charset")
        self._charset = stated or CHARSET
        return stated

    def url(self, action: Action) -> str:
        url = self.take("Url", lambda child: url_of(child, self._charset))
        if not url:
            raise RecordError("no-url", f"an Item to {action.value} without Url; {_TEXT}")
        return url

    def text(self, tag: str) -> str | None:
        return self.take(tag, self.text_of)

    def text_of(self, child: etree._Element) -> str | None:
        return text_of(child, self._charset)

    def integer(self, tag: str) -> int | None:
        return self.take(tag, lambda child: parse_integer(self.text_of(child) or ""))

    def number(self, tag: str) -> float | None:
        return self.take(tag, lambda child: parse_number(self.text_of(child) or ""))

    def date_of(self, child: etree._Element) -> datetime | None:
        moment = parse_date(self.text_of(child) or "", zone=self._zone)
        # Fractions of a second cannot be written again: such a date stays as it is.
        return moment if moment and not moment.microsecond else None

    def content(self, body: str | None, *, max_bytes: int) -> Content | None:
        """Return RawData; an empty one beside a Body is the specification's way to say none."""
        text = self.take("RawData", lambda child: self._raw_data(child, body))
        if text is None:
            return None
        content = Content(text, Encoding.BASE64)
        check(content, max_bytes=max_bytes)
        return content

    def categories(self) -> tuple[str, ...]:
        """Return a name for each Category that is not blank: none is documented to hold several."""
        found = self._take_each(self._named.get("Category", ()), self._stated_text)
        return tuple(found)

    def metadata(self) -> tuple[Meta, ...]:
        """Return the lines of each Meta that is not blank."""
        found = self._take_each(self._named.get("Meta", ()), self._stated_text)
        return tuple(pair for text in found for pair in parse_metadata(text))

    def fields(self) -> tuple[Field, ...]:
        """Return the elements in any namespace that are of a field's shape."""
        named = [child for child in self._left if str(child.tag).startswith("{")]
        return tuple(self._take_each(named, lambda child: _field(child, self._charset)))

    def history(self, url: str) -> History | None:
        found = History(
            download_seconds=self.number("Dlsecs"),
            depth=self.integer("Depth"),
            views=self.integer("Views"),
            clicks=self.integer("Clicks"),
            click_ratio=self.number("CTR"),
            popularity=self.integer("Pop"),
            references=self.take("Refs", lambda child: parse_nested(child, REFS, url=url)),
            errors=self.take("Errors", lambda child: parse_nested(child, ERRORS, url=url)),
        )
        return None if found == _NO_HISTORY else found

    def extras(self, action: Action) -> tuple[Extra, ...]:
        """Return what no field took: attributes, text between elements, then elements in order.

        An empty element of the specification says nothing where all of a document is replaced, but
        in an update it clears what the appliance has: only then is it kept.
        """
        return (
            *parse_around(self._item),
            *(
                parse_element(child)
                for child in self._left
                if action is Action.UPDATE or child.tag not in _CORE or not _is_blank(child)
            ),
        )

    def _take_each(
        self,
        children: Iterable[etree._Element],
        understand: Callable[[etree._Element], _Stated | None],
    ) -> Iterator[_Stated]:
        for child in children:
            stated = understand(child)
            if stated is not None:
                del self._left[child]
                yield stated

    def _stated_text(self, child: etree._Element) -> str | None:
        text = self.text_of(child)
        return text if text and text.strip() else None

    def _raw_data(self, child: etree._Element, body: str | None) -> bytes | None:
        text = characters(child)
        if text is None:
            return None
        if self._raw is not None:
            octets, self._raw = self._raw, None
        else:
            octets = text.encode()
        if is_base64(child) or not octets.strip():
            octets = bare_base64(octets, "RawData")
        else:
            # The specification demands dt:dt; text without it can only be the document itself.
            octets = pybase64.b64encode(encode_text(text, self._charset, "RawData"))
        return None if not octets and body is not None else octets


def _own_payload(item: etree._Element, payload: bytes) -> bytes | None:
    """Return the payload if it is of the Item's first RawData; else put it where it was cut out."""
    if b"&" in payload:  # .NET writes the line ends of base64 as &#xD;
        payload = (parse_markup(b"<RawData>" + payload + b"</RawData>").text or "").encode()
    first = next(item.iter("RawData"))
    if first.getparent() is item and is_base64(first) and characters(first) == "":
        return payload
    _cut_out(item).text = bare_base64(payload, "RawData").decode()
    return None


def _cut_out(item: etree._Element) -> etree._Element:
    return next(
        child
        for child in item.iter("RawData")
        if child.values() == ["bin.base64"] and not child.text
    )


def _field(child: etree._Element, charset: str) -> Field | None:
    """Return a field; None where its name or shape is not one that a profile can define."""
    name = etree.QName(child)
    if name.namespace in _NO_FIELDS or not FIELD_NAME.fullmatch(name.localname):
        return None
    namespace = None if name.namespace == PARAMETRIC else name.namespace
    text = text_of(child, charset)
    if text is not None:
        return Field(name.localname, (text,), namespace=namespace)
    values = tuple(_values(child, charset))
    if None in values or not is_layout(child):
        return None
    stated = tuple(value for value in values if value is not None)
    return Field(name.localname, stated, many=True, namespace=namespace)


def _values(child: etree._Element, charset: str) -> Iterator[str | None]:
    for value in child:
        yield text_of(value, charset) if etree.QName(value).localname == "value" else None


def _is_blank(child: etree._Element) -> bool:
    text = characters(child)
    return text is not None and not text.strip()
