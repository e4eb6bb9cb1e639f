"""Rows as pages of HTML, where no column holds the document: a plain table, or by a template.

A template is one of Jinja2. It has the columns by their names, and all of them as `row`, for names
such as `row["first name"]`. Values are as the database has them, NULL is None, and are escaped; a
name that is none stops the row. It runs in a sandbox: it reads what is beside it, and nothing else.

**Drops:** what HTML cannot hold, lone surrogates, for U+FFFD; bytes, for how many there are.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from traceback import extract_tb

from jinja2 import (
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
)
from jinja2.sandbox import SandboxedEnvironment

from schemas.errors import ConfigError, RecordError
from transforms.formats.xml.serializer import element, escape_bytes
from transforms.sources.database.column_index import Row, Rows
from transforms.sources.database.values import values_of

_BEGIN = b'<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n'
_TITLE, _TITLE_END = b"<title>", b"</title>\n"
_TABLE = b"</head>\n<body>\n<table>\n"
_LINE_END = b"</td></tr>\n"
_END = b"</table>\n</body>\n</html>\n"


def table_maker(
    rows: Rows, *, without: Collection[int], title: str | None
) -> Callable[[Row], bytes]:
    """Return the function that makes a page of a row, a line for each column but some.

    Columns of NULL have no line. The title is that of the column `title`.
    """
    shown = [(at, _head(name)) for at, name in enumerate(rows.names) if at not in without]
    title_at = None if title is None else rows.at("title", title)

    def make(row: Row) -> bytes:
        parts = [_BEGIN]
        if title_at is not None:
            parts += (_TITLE, _shown(row[title_at]), _TITLE_END)
        parts.append(_TABLE)
        for at, head in shown:
            value = row[at]
            if value is not None:
                parts += (head, _shown(value), _LINE_END)
        parts.append(_END)
        return b"".join(parts)

    return make


def check_page_template(path: Path) -> None:
    """Raise ConfigError unless a file is a template."""
    _load(path)


def page_maker(path: Path, rows: Rows, *, max_bytes: int) -> Callable[[Row], bytes]:
    """Return the function that makes a page by a template; raise ConfigError if it is none.

    The function raises RecordError where the template fails for a row. It stops soon after
    `max_bytes`, and then gives more than that.
    """
    template = _load(path)

    def make(row: Row) -> bytes:
        named = dict(zip(rows.names, row, strict=True))
        parts: list[str] = []
        left = max_bytes
        try:
            for part in template.generate(named, row=named):
                parts.append(part)
                left -= len(part)
                if left < 0:
                    break
        except Exception as exc:  # whatever an expression of a template can raise
            raise RecordError("template", _told(path, exc)) from exc
        return _utf8("".join(parts))

    return make


def _head(name: str) -> bytes:
    return _utf8(f"<tr>{element('th', name)}<td>")


def _shown(value: object) -> bytes:
    if isinstance(value, str):
        return escape_bytes(_utf8(value))
    many = values_of(value)
    texts = (one if isinstance(one, str) else f"{len(one)} bytes" for one in many)
    return escape_bytes(_utf8(", ".join(texts)))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _load(path: Path) -> Template:
    environment = SandboxedEnvironment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    try:
        return environment.get_template(path.name)
    except TemplateSyntaxError as exc:
        raise ConfigError(
            f"{path}:{exc.lineno}: {exc.message}; expected a Jinja2 template"
        ) from exc
    except TemplateNotFound as exc:
        raise ConfigError(f"{path}: no such file; expected a Jinja2 template") from exc
    except (OSError, UnicodeDecodeError) as exc:
        cause = getattr(exc, "strerror", None) or "not UTF-8"
        raise ConfigError(f"{path}: {cause}; expected a Jinja2 template") from exc


def _told(path: Path, exc: Exception) -> str:
    """Where it failed and how; only Jinja2's own words, as others may quote a document."""
    lines = [one.lineno for one in extract_tb(exc.__traceback__) if one.filename == str(path)]
    line = f":{lines[-1]}" if lines else ""
    words = f": {exc.message}" if isinstance(exc, TemplateError) else ""
    return f"{path.name}{line}: {type(exc).__name__}{words}; expected a page of each row"
