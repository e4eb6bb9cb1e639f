"""Read records without a parser if their markup was seen before: most records of a feed are alike.

Cut the content and the names of principals out of an element, and split the rest at its double
quotes: every second piece is the value of an attribute, and the other pieces are its *markup*.
Every element with the markup of one that is well-formed is well-formed, as long as its values have
no markup, no control character and no reference but the five of XML. Any other element goes to the
parser.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pybase64

from feedferry.schemas.content import clean_base64
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Encoding
from feedferry.transforms.formats.fast_path.columns.cells import escaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import ColumnKind
from feedferry.transforms.formats.gsa.rows import ENCODING
from feedferry.transforms.formats.holding.acl_metadata import BLANKS
from feedferry.transforms.formats.xml.bulk.run_shapes import MarkupTemplate, ShapeKey

END = "</record>"
END_PRINCIPAL = "</principal>"
_END_CONTENT = "</content"

NO_NAME = f">{END_PRINCIPAL}"
_PLACE = re.compile(f'"|(?<=>){END_PRINCIPAL}|{_END_CONTENT}')
"""Where a value is in a markup: of an attribute, of a principal, of a content.

The name of a principal that all records of a run share is part of the markup.
"""

_TAG = re.compile(r"<([^\s<>/]+)([^<>]*)")
_ATTRIBUTE = re.compile(r'([^\s"=]+)\s*=\s*"')
_NAME = ("principal", "")
_ENCODED_VALUE = ("encoded meta", "content")
FREE_VALUES = {
    ("record", "url"): ColumnKind.URL,
    ("record", "displayurl"): ColumnKind.TEXT,
    ("record", "last-modified"): ColumnKind.DATE,
    ("meta", "content"): ColumnKind.TEXT,
    _ENCODED_VALUE: ColumnKind.TEXT,
    _NAME: ColumnKind.NAME,
}
"""The values that differ from record to record, and the kinds of their columns."""

_NOT_TEXT = "\1"
"""Is in place of base64 that is no text; it is a value that no attribute has."""

_TEXT_KINDS = {False: ColumnKind.CONTENT, True: ColumnKind.CDATA}
_CONTENT_KINDS = {Encoding.BASE64: ColumnKind.BASE64, Encoding.ZLIB_BASE64: ColumnKind.ZLIB}


class RecordTemplate(MarkupTemplate):
    """A markup in which a double quote is in place of each value."""

    has_rules = False
    free_values: ClassVar[Mapping[tuple[str, str], ColumnKind]] = FREE_VALUES

    def __init__(self, markup: str) -> None:
        self.markup = markup
        self._names = [*_names_of_values(markup)]
        self._count = len(self._names)
        self._names += [_NAME] * markup.count(NO_NAME)
        super().__init__(
            [*map(self.free_values.get, self._names)], contents=markup.count(_END_CONTENT)
        )
        self._in_base64 = [
            column for column, at in enumerate(self.free) if self._names[at] == _ENCODED_VALUE
        ]

    @property
    def is_known(self) -> bool:
        """Whether the names of all attributes are known, and the record has a URL."""
        return self.has_url and self._count == self.markup.count('"')

    @property
    def has_encoded_values(self) -> bool:
        """Whether values are in base64, and columns have their texts."""
        return bool(self._in_base64)

    def content_kinds(self, key: ShapeKey) -> list[ColumnKind]:
        names = [self._names[at] for at in self.constant]
        stated = dict(zip(names, key.constants, strict=True)).get(("content", "encoding"), "")
        encoding: Encoding | None = ENCODING.decode(stated)
        encoded = encoding and _CONTENT_KINDS.get(encoding)
        return [encoded or _TEXT_KINDS[is_cdata] for is_cdata in key.are_cdata]

    def sample(self, key: ShapeKey, texts: Sequence[str]) -> str:
        values = self.values(key, texts)
        for column in self._in_base64:
            text = html.unescape(texts[column])
            values[self.free[column]] = pybase64.b64encode(text.encode()).decode()
        places = {
            '"': (f'"{value}"' for value in values[: self._count]),
            END_PRINCIPAL: (name + END_PRINCIPAL for name in values[self._count :]),
            _END_CONTENT: (content + _END_CONTENT for content in texts[len(self.free) :]),
        }
        return _PLACE.sub(lambda place: next(places[place[0]]), self.markup)

    def escaped(self, columns: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        columns = [*columns]
        for at in self._in_base64:
            columns[at] = escaped(_decoded(columns[at]))
        return columns


def _names_of_values(markup: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the elements and the attributes of all values in double quotes."""
    for tag, rest in _TAG.findall(markup):
        names = _ATTRIBUTE.findall(rest)
        is_encoded = tag == "meta" and "encoding" in names
        yield from (("encoded meta" if is_encoded else tag, name) for name in names)


def common_markup(pieces: list[str], width: int, count: int) -> str | None:
    """Return the markup of the first element if all others have the same."""
    first, last, joints = pieces[0].lstrip(BLANKS), pieces[-1], pieces[width:-1:width]
    if joints:
        joint = joints[0]
        if joints.count(joint) != count - 1 or not joint.startswith(last):
            return None
        if joint[len(last) :].lstrip(BLANKS) != first:
            return None
    for column in range(2, width, 2):
        markup = pieces[column::width]
        if markup.count(markup[0]) != count:
            return None
    return '"'.join([first, *pieces[2:width:2], last])


def _decoded(column: Sequence[str]) -> list[str]:
    """Return the texts of base64; `_NOT_TEXT` in place of what needs the parser."""
    texts = []
    for value in column:
        try:
            texts.append(pybase64.b64decode(clean_base64(value.encode())).decode())
        except (RecordError, UnicodeDecodeError):
            texts.append(_NOT_TEXT)
    return texts
