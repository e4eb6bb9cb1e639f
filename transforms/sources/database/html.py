"""HTML pages of rows, for documents without a content column: a plain table, or a template.

A Jinja2 template has the columns by their names, and all of them as `row`, for names such as
`row["first name"]`. Values are those of the driver, NULL is None, and output is escaped. An unknown
name fails the row. The template runs in a sandbox and can include files of its folder only.

**Drops:** lone surrogates, for U+FFFD; bytes that are not UTF-8, for their length.
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
from transforms.sources.database.column_index import ColumnIndex, Row
from transforms.sources.database.values import values_of

_BEGIN = b'<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n'
_TABLE = b"</head>\n<body>\n<table>\n"
_LINE_END = b"</td></tr>\n"
_END = b"</table>\n</body>\n</html>\n"


def table_renderer(
    index: ColumnIndex, *, without: Collection[int], title: str | None
) -> Callable[[Row], bytes]:
    """Return the function that renders a row as a table with a line for each column but some.

    NULL has no line. `title` is the column of the page's title.
    """
    lines = [
        (at, _utf8(f"<tr>{element('th', name)}<td>"))
        for at, name in enumerate(index.names)
        if at not in without
    ]
    title_at = None if title is None else index.at("title", title)

    def render(row: Row) -> bytes:
        parts = [_BEGIN]
        if title_at is not None:
            parts += (b"<title>", _cell(row[title_at]), b"</title>\n")
        parts.append(_TABLE)
        for at, head in lines:
            if row[at] is not None:
                parts += (head, _cell(row[at]), _LINE_END)
        parts.append(_END)
        return b"".join(parts)

    return render


def load_template(path: Path) -> Template:
    """Return a Jinja2 template; raise ConfigError for a file that is none."""
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


def template_renderer(path: Path, index: ColumnIndex, *, max_bytes: int) -> Callable[[Row], bytes]:
    """Return the function that renders a row by a template.

    The function raises RecordError if the template fails for a row. It stops soon after `max_bytes`
    and returns more than that.
    """
    template = load_template(path)

    def render(row: Row) -> bytes:
        values = dict(zip(index.names, row, strict=True))
        parts: list[str] = []
        left = max_bytes
        try:
            for part in template.generate(values, row=values):
                parts.append(part)
                left -= len(part)
                if left < 0:
                    break
        except Exception as exc:  # an expression of a template can raise any class
            raise RecordError("template", _explain(path, exc)) from exc
        return _utf8("".join(parts))

    return render


def _cell(value: object) -> bytes:
    if isinstance(value, str):
        return escape_bytes(_utf8(value))
    texts = (item if isinstance(item, str) else f"{len(item)} bytes" for item in values_of(value))
    return escape_bytes(_utf8(", ".join(texts)))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _explain(path: Path, exc: Exception) -> str:
    """Return line and error; only Jinja2's own texts, as others may quote the document."""
    lines = [frame.lineno for frame in extract_tb(exc.__traceback__) if frame.filename == str(path)]
    line = f":{lines[-1]}" if lines else ""
    words = f": {exc.message}" if isinstance(exc, TemplateError) else ""
    return f"{path.name}{line}: {type(exc).__name__}{words}; expected a page for each row"
