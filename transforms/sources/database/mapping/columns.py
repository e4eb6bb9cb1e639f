"""Columns of rows: their positions, the URLs that are made of them, and rows in rejects.

A URL is a template with column names in braces, `https://x.example.com/{id}`, or a column. Values
are percent-encoded, except letters, digits, `-`, `.`, `_` and `~` (RFC 3986, 2.3), so that no value
can begin another part of the URL. `{{` and `}}` are literal braces.
"""

import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from string import Formatter
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.reject import KEPT_BYTES, Place, Reject, reject_bytes
from feedferry.schemas.span import Span
from feedferry.schemas.spelling import did_you_mean
from feedferry.transforms.config.yaml_structs import Value, parse_text
from feedferry.transforms.formats.text.dates import parse_utc_dates
from feedferry.transforms.sources.database.mapping.values import row_json, text_of

Row = Sequence[Any]  # Any: the value types of a driver
Key = tuple[object, ...]
_T = TypeVar("_T")
LoadRows = Callable[[str, Key], Sequence[Row]]
"""Returns the rows that a lookup query has for a key, without their key columns."""


class Page:
    """Rows, and their columns."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    @cached_property
    def columns(self) -> list[tuple[Any, ...]]:
        return [*zip(*self.rows, strict=True)]


def column_of(get: Callable[[Row], _T], page: Page) -> Sequence[_T]:
    """Return the values of a getter for all rows; some have a method for the rows of a page."""
    column: Callable[[Page], Sequence[_T]] | None = getattr(get, "column", None)
    return [*map(get, page.rows)] if column is None else column(page)


class ColumnReference(msgspec.Struct, frozen=True, kw_only=True):
    """A column that holds the value of a key of the mapping: `{column: NAME}`."""

    column: Annotated[str, Value(parse_text, "the name of a column")]


class ColumnIndex:
    """The `names` of the columns of all rows, and the names of the `key` columns.

    `used` are the positions that were looked up: the columns that a mapping needs.
    """

    def __init__(self, names: Sequence[str], key: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        self.key = tuple(key)
        self.used: set[int] = set()

    def at(self, setting: str, name: str) -> int:
        """Return the position of a column; raise ConfigError, which names the setting, if none.

        As in SQL, case matters only if two names differ in nothing else. SQLite gives the second
        of two columns `a` the name `a:1`.
        """
        places = [at for at, other in enumerate(self.names) if other == name] or [
            at for at, other in enumerate(self.names) if other.lower() == name.lower()
        ]
        second = re.compile(re.escape(name) + r":\d+", re.IGNORECASE)
        places += [at for at, other in enumerate(self.names) if second.fullmatch(other) and places]
        if len(places) > 1:
            raise ConfigError(
                f"{setting}: {name!r} is the name of {len(places)} columns; expected different "
                "names, as AS gives them"
            )
        if not places:
            raise ConfigError(
                f"{setting}: {name!r}; expected a column: {', '.join(self.names)}"
                f"{did_you_mean(name, self.names)}"
            )
        self.used.add(places[0])
        return places[0]

    def key_getter(self) -> Callable[[Row], Key]:
        """Return the function that returns the key of a row."""
        positions = [self.at("key", name) for name in self.key]
        return lambda row: tuple([row[at] for at in positions])

    def text_getter(self, setting: str, name: str) -> "TextGetter[str | None]":
        """Return the getter of a column as text, None for NULL.

        It raises RecordError for a value without a text form.
        """
        return TextGetter(self.at(setting, name), partial(column_text, name))

    def reject(  # noqa: PLR0913 # the parts of a Reject
        self,
        row: Row,
        error: RecordError,
        *,
        span: Span,
        without: Collection[int] = (),
        url: str | None = None,
        action: str | None = None,
    ) -> Reject:
        """Return the reject of a row: its key, the reason, and the row `without` some columns."""
        key = ", ".join(f"{name}={_describe_value(row[self.at('key', name)])}" for name in self.key)
        data = row_json({name: row[at] for at, name in enumerate(self.names) if at not in without})
        place = Place(0, len(data))
        reject = reject_bytes(error, span=span, place=place, data=data[:KEPT_BYTES], url=url)
        return replace(reject, key=key, action=action)


class TextGetter(Generic[_T]):
    """Returns a column as text; `convert` is called for values of other types."""

    def __init__(self, at: int, convert: Callable[[object], _T]) -> None:
        self._at = at
        self._convert = convert

    def __call__(self, row: Row) -> str | _T:
        value = row[self._at]
        return value if type(value) is str else self._convert(value)

    def column(self, page: Page) -> Sequence[str | _T]:
        values = page.columns[self._at]
        types = {*map(type, values)}
        if types == {str}:
            return values
        if types == {int}:
            return [*map(str, values)]
        convert = self._convert
        return [value if type(value) is str else convert(value) for value in values]


class ValueGetter(Generic[_T]):
    """Returns what `convert` makes of a value of a column; of a page, it converts each text once.

    Callers do not change what is returned.
    """

    def __init__(self, at: int, convert: Callable[[object], _T]) -> None:
        self._at = at
        self._convert = convert

    def __call__(self, row: Row) -> _T:
        return self._convert(row[self._at])

    def column(self, page: Page) -> Sequence[_T]:
        values = page.columns[self._at]
        if not {*map(type, values)} <= {str, type(None)}:  # others may be equal: 1, 1.0, True
            return [*map(self._convert, values)]
        converted = {value: self._convert(value) for value in {*values}}
        return [*map(converted.__getitem__, values)]


class TimeGetter:
    """Returns a column as times, which `convert` makes of values; texts may have another form."""

    def __init__(
        self, at: int, convert: Callable[[object], datetime | None], *, has_form: bool = False
    ) -> None:
        self._at = at
        self._convert = convert
        self._has_form = has_form

    def __call__(self, row: Row) -> datetime | None:
        return self._convert(row[self._at])

    def column(self, page: Page) -> Sequence[datetime | None]:
        values = page.columns[self._at]
        types = {*map(type, values)}
        if types == {datetime} and {value.tzinfo for value in values} == {UTC}:
            return values
        texts = [value for value in values if value is not None]
        times = None
        if types <= {str, type(None)} and texts and not self._has_form:
            times = parse_utc_dates(texts)
        if times is None:
            return [*map(self._convert, values)]
        if len(texts) == len(values):
            return times
        following = iter(times)
        return [None if value is None else next(following) for value in values]


def column_text(name: str, value: object) -> str | None:
    """Return a value as text, None for NULL; raise RecordError, which names its column."""
    try:
        return text_of(value)
    except RecordError as exc:
        raise RecordError(exc.code, f"{name}: {exc.reason}") from exc


def _describe_value(value: object) -> str:
    if value is None:
        return "NULL"
    try:
        text = text_of(value)
    except RecordError:
        return repr(value)
    return str(value) if type(value) is int else repr(text)


_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s]+")
_DOTS = frozenset({".", ".."})


def parse_template(template: str) -> list[tuple[str, str | None]]:
    """Return pairs of literal text and the column after it, None after the last.

    Raise ValueError for a template that does not give URLs.
    """
    try:
        parts = list(Formatter().parse(template))
    except ValueError:
        raise ValueError(
            f"{template!r}; expected column names in braces, and {{{{ and }}}} for literal braces"
        ) from None
    for _, name, spec, conversion in parts:
        if spec or conversion:
            raise ValueError(f"{template!r}; expected {{{name}}}, as values have one text form")
        if name == "":
            raise ValueError(f"{template!r}; expected the name of a column in {{}}")
    if not _ABSOLUTE.match(template):
        raise ValueError(
            f"{template!r}; expected an absolute URL, such as https://x.example.com/{{id}}"
        )
    return [(literal, name) for literal, name, _, _ in parts]


def url_getter(
    setting: str, source: str | ColumnReference, index: ColumnIndex
) -> Callable[[Row], str]:
    """Return the function that returns the URL of a row; raise ConfigError for a missing column.

    The function raises RecordError where a value is NULL or empty, where a column holds no absolute
    URL, and where the path would get a `.` or `..` segment, which clients remove.
    """
    if not isinstance(source, ColumnReference):
        return _TemplateGetter(setting, source, index)
    name = source.column
    text = index.text_getter(setting, name)

    def get(row: Row) -> str:
        url = text(row)
        if not url:
            raise _null(setting, name)
        if not url.startswith(("https://", "http://")) and not _ABSOLUTE.match(url.lstrip()):
            raise RecordError("bad-url", f"{name}={url!r}; expected an absolute URL")
        return url

    return get


class _TemplateGetter:
    def __init__(self, setting: str, template: str, index: ColumnIndex) -> None:
        parts = parse_template(template)
        self._setting = setting
        self._places = [(index.at(setting, name), name) for _, name in parts if name is not None]
        self._pattern = "".join(
            literal.replace("%", "%%") + ("" if name is None else "%s") for literal, name in parts
        )

    def __call__(self, row: Row) -> str:
        values, has_dots = [], False
        for at, name in self._places:
            value = row[at]
            if not _is_unreserved(type(value), value):
                value = self._quote(name, value)
                has_dots = has_dots or value in _DOTS
            values.append(value)
        url = self._pattern % (*values,)
        if has_dots and not _DOTS.isdisjoint(re.split("[?#]", url)[0].split("/")):
            raise RecordError(
                "bad-url", f"{url!r}; expected no . or .. segment, which clients remove"
            )
        return url

    def column(self, page: Page) -> Sequence[str]:
        columns: list[tuple[object, ...]] = []
        for at, name in self._places:
            values = page.columns[at]
            types = {*map(type, values)}
            is_plain = types == {int} or (
                types == {str} and "" not in values and _is_unreserved(str, "".join(values))
            )
            if not is_plain:
                values = tuple([self._quote(name, value) for value in values])
            columns.append(values)
        if not columns or any(not _DOTS.isdisjoint(values) for values in columns):
            return [*map(self, page.rows)]
        return [*map(self._pattern.__mod__, zip(*columns, strict=True))]

    def _quote(self, name: str, value: object) -> str:
        text = column_text(name, value)
        if not text:
            raise _null(self._setting, name)
        return quote(text, safe="", errors="surrogatepass")


def _is_unreserved(kind: type, value: Any) -> bool:  # Any: the type of a driver
    """Whether values of one type are written in a URL as they are."""
    return kind is int or (kind is str and value.isalnum() and value.isascii())


def _null(setting: str, name: str) -> RecordError:
    return RecordError("null-url", f"{name} is NULL or empty; expected a value for {setting}")
