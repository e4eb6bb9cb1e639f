"""URLs of rows: a template with column names in braces, `https://x.example.com/{id}`, or a column.

Values are percent-encoded, except letters, digits, `-`, `.`, `_` and `~` (RFC 3986, 2.3), so that
no value can begin another part of the URL. `{{` and `}}` are literal braces.
"""

import re
from collections.abc import Callable
from string import Formatter
from urllib.parse import quote

from schemas.errors import RecordError
from transforms.sources.database.columns import ColumnIndex, ColumnReference, Row, column_text

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
    if isinstance(source, ColumnReference):
        return _column_getter(setting, source.column, index)
    return _template_getter(setting, source, index)


def _template_getter(setting: str, template: str, index: ColumnIndex) -> Callable[[Row], str]:
    parts = parse_template(template)
    positions = tuple(index.at(setting, name) for _, name in parts if name is not None)
    pattern = "".join(
        literal.replace("%", "%%") + ("" if name is None else "%s") for literal, name in parts
    )

    def get(row: Row) -> str:
        values, has_dots = [], False
        for at in positions:
            value = row[at]
            kind = type(value)
            if kind is not int and not (kind is str and value.isalnum() and value.isascii()):
                value = _quote(value, setting=setting, name=index.names[at])
                has_dots = has_dots or value in _DOTS
            values.append(value)
        url = pattern % (*values,)
        if has_dots and not _DOTS.isdisjoint(re.split("[?#]", url)[0].split("/")):
            raise RecordError(
                "bad-url", f"{url!r}; expected no . or .. segment, which clients remove"
            )
        return url

    return get


def _column_getter(setting: str, name: str, index: ColumnIndex) -> Callable[[Row], str]:
    text = index.text_getter(setting, name)

    def get(row: Row) -> str:
        url = text(row)
        if not url:
            raise _null(setting, name)
        if not url.startswith(("https://", "http://")) and not _ABSOLUTE.match(url.lstrip()):
            raise RecordError("bad-url", f"{name}={url!r}; expected an absolute URL")
        return url

    return get


def _quote(value: object, *, setting: str, name: str) -> str:
    text = column_text(name, value)
    if not text:
        raise _null(setting, name)
    return quote(text, safe="", errors="surrogatepass")


def _null(setting: str, name: str) -> RecordError:
    return RecordError("null-url", f"{name} is NULL or empty; expected a value for {setting}")
