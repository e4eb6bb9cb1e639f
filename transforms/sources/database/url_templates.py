"""Urls of rows: a template with the names of columns in braces, `https://x.example.com/{id}`.

Values are percent-encoded, all but letters, digits, `-`, `.`, `_` and `~` (RFC 3986, 2.3), so that
no value can begin another part of the url. `{{` and `}}` are the braces themselves.
"""

import re
from collections.abc import Callable
from string import Formatter
from urllib.parse import quote

from schemas.errors import ConfigError, RecordError
from transforms.sources.database.column_index import Row, Rows, column_text

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s]+")
_DOTS = frozenset({".", ".."})


def check_template(key: str, template: str) -> str:
    """Return a template; raise ConfigError, which names `key`, if no url can come of it."""
    parts = _parts(key, template)
    if not _ABSOLUTE.match(template):
        raise ConfigError(
            f"{key}: {template!r}; expected an absolute url, such as https://x.example.com/{{id}}"
        )
    for _, name in parts:
        if name == "":
            raise ConfigError(f"{key}: {template!r}; expected the name of a column in {{}}")
    return template


def template_columns(template: str) -> tuple[str, ...]:
    """Return the columns that a template names, in its order."""
    return tuple(name for _, name in _parts("url", template) if name is not None)


def url_maker(key: str, template: str, rows: Rows) -> Callable[[Row], str]:
    """Return the function that makes the url of a row; raise ConfigError if it lacks a column.

    The function raises RecordError where a value is NULL or empty, or where there would be a step
    of dots, which every client takes out of the path.
    """
    parts = _parts(key, template)
    ats = tuple(rows.at(key, name) for _, name in parts if name is not None)
    marks = (literal.replace("%", "%%") + ("" if name is None else "%s") for literal, name in parts)
    pattern = "".join(marks)

    def make(row: Row) -> str:
        values, has_dots = [], False
        for at in ats:
            value = row[at]
            kind = type(value)
            if kind is not int and not (kind is str and value.isalnum() and value.isascii()):
                value = _quoted(value, key=key, name=rows.names[at])
                has_dots = has_dots or value in _DOTS
            values.append(value)
        url = pattern % (*values,)
        return _without_dots(url) if has_dots else url

    return make


def column_url_maker(key: str, name: str, rows: Rows) -> Callable[[Row], str]:
    """Return the function that gives the url in a column; raise ConfigError if it is not there.

    The function raises RecordError where that is NULL, or no absolute url.
    """
    at = rows.at(key, name)

    def make(row: Row) -> str:
        value = row[at]
        url = value if type(value) is str else column_text(name, value)
        if not url:
            raise _null(key, name)
        if not url.startswith(("https://", "http://")) and not _ABSOLUTE.match(url.lstrip()):
            raise RecordError("bad-url", f"{name}={url!r}; expected an absolute url")
        return url

    return make


def _parts(key: str, template: str) -> list[tuple[str, str | None]]:
    """Literal text and the column behind it, None behind the last."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as exc:
        raise ConfigError(
            f"{key}: {template!r}; expected names of columns in braces, and {{{{ and }}}} for "
            "braces of their own"
        ) from exc
    for _, name, spec, conversion in parsed:
        if spec or conversion:
            raise ConfigError(f"{key}: {template!r}; expected {{{name}}}, as values have one form")
    return [(literal, name) for literal, name, _, _ in parsed]


def _quoted(value: object, *, key: str, name: str) -> str:
    text = column_text(name, value)
    if not text:
        raise _null(key, name)
    if text.isascii() and text.replace("-", "").isalnum():
        return text
    return quote(text, safe="", errors="surrogatepass")


def _null(key: str, name: str) -> RecordError:
    reason = f"{name} is NULL or empty; expected a value, as the {key} is made of it"
    return RecordError("null-url", reason)


def _without_dots(url: str) -> str:
    path = url.partition("?")[0].partition("#")[0]
    if not _DOTS.isdisjoint(path.split("/")):
        raise RecordError("bad-url", f"{url!r}; expected no step of dots, which clients take out")
    return url
