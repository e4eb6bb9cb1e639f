"""The document of a row: in a column, in a file, at a URL, or the row rendered as an HTML page.

Bytes are kept as they are, and texts are UTF-8. A document over the size limit is rejected, never
truncated. So is a row without a document: a record without content would replace the document that
the appliance has.

A page is a plain table, or a Jinja2 template. The template has the columns by their names, and all
of them as `row`, for names such as `row["first name"]`. Values are those of the driver, NULL is
None, and output is escaped. An unknown name fails the row. The template runs in a sandbox and can
include files of its folder only.

**Drops:** in pages, lone surrogates for U+FFFD, and bytes that are not UTF-8 for their length.
"""

import os
import re
import stat
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple

from jinja2 import (
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
)
from jinja2.sandbox import SandboxedEnvironment

from feedferry.schemas.content import content_too_large
from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.record import Content
from feedferry.transforms.content_types.charset import UTF_8, find_charset
from feedferry.transforms.content_types.detection import UNKNOWN, detect
from feedferry.transforms.formats.text.xml_text import escape_bytes
from feedferry.transforms.formats.xml.serializer import element
from feedferry.transforms.net.web_client import LinkedDocument, WebClient, WebLimits
from feedferry.transforms.sources.database.mapping.columns import (
    ColumnIndex,
    ColumnReference,
    Page,
    Row,
    column_of,
)
from feedferry.transforms.sources.database.mapping.row_mapping import RowMapping
from feedferry.transforms.sources.database.mapping.values import values_of
from feedferry.transforms.sources.files import open_file

TypedContent = tuple[Content | None, str | None, str | None]
"""A content, its mimetype and its charset."""


class TypedContents(NamedTuple):
    """The contents of a page in columns; `documents` are contents, or texts as they came."""

    documents: Sequence[Content | str | None]
    mimetypes: Sequence[str | None]
    charsets: Sequence[str | None]


_HTML = "text/html"
_PLAIN = "text/plain"
_HEAD = 256
_MAX_UTF8 = 4
_FRAGMENT = re.compile(
    r"<(?:!--|/?(?:a|b|body|br|center|div|em|font|form|h[1-6]|head|hr|i|img|li|link|meta|ol|p|pre"
    r"|script|section|article|span|strong|style|table|tbody|td|th|title|tr|u|ul)[\s/>])",
    re.IGNORECASE,
)
_PAGE_BEGIN = b'<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n'
_PAGE_TABLE = b"</head>\n<body>\n<table>\n"
_PAGE_END = b"</table>\n</body>\n</html>\n"


def content_getter(
    mapping: RowMapping, index: ColumnIndex, *, max_bytes: int, without: Collection[int] = ()
) -> Callable[[Row], TypedContent]:
    """Return the function that returns the document of a row; raise ConfigError if it cannot.

    The function raises RecordError where there is no document. A plain table is rendered `without`
    some columns.
    """
    content, stated = mapping.content, _mimetype_getter(mapping, index)
    if content.is_none:
        return lambda row: (None, stated(row), None)
    if content.column is not None:
        return _ColumnContent(content.column, mapping, index, max_bytes=max_bytes)
    if content.path is not None:
        folder = mapping.resolve(content.folder or ".")
        if not folder.is_dir():
            raise ConfigError(f"content: folder: '{folder}'; expected an existing folder")
        find = partial(_read_file, os.path.realpath(folder), max_bytes=max_bytes)
        return _linked_getter("path", content.path, mapping, index, find)
    if content.fetch is not None:
        find = partial(fetch, timeout_seconds=content.timeout_seconds, max_bytes=max_bytes)
        return _linked_getter("fetch", content.fetch, mapping, index, find)
    if content.template is not None:
        path = mapping.resolve(content.template)
        render = template_renderer(path, index, max_bytes=max_bytes)
    else:
        render = table_renderer(index, without=without, title=mapping.title)

    def get(row: Row) -> TypedContent:
        data = render(row)
        _check_size(len(data), max_bytes)
        return Content(data), stated(row) or _HTML, UTF_8

    return get


def _mimetype_getter(mapping: RowMapping, index: ColumnIndex) -> Callable[[Row], str | None]:
    mimetype = mapping.mimetype
    if isinstance(mimetype, ColumnReference):
        return index.text_getter("mimetype", mimetype.column)
    return lambda row: mimetype


class _ColumnContent:
    def __init__(
        self, name: str, mapping: RowMapping, index: ColumnIndex, *, max_bytes: int
    ) -> None:
        self._at, self._name = index.at("content: column", name), name
        self._max_bytes, self._charset = max_bytes, mapping.charset
        self._stated = _mimetype_getter(mapping, index)

    def __call__(self, row: Row) -> TypedContent:
        return self._document(row[self._at], self._stated(row))

    def columns(self, page: Page) -> TypedContents:
        """Return the columns of a page; texts are not copied if all of them are small enough."""
        values, stated = page.columns[self._at], column_of(self._stated, page)
        types = {*map(type, values)}
        if types != {str} or _MAX_UTF8 * max(map(len, values)) > self._max_bytes:
            return TypedContents(*zip(*map(self._document, values, stated), strict=True))
        if not all(stated):
            stated = [*map(_stated_or_text_type, stated, values)]
        return TypedContents(values, stated, [UTF_8] * len(values))

    def _document(self, value: object, mimetype: str | None) -> TypedContent:
        if type(value) is str:
            data = value.encode("utf-8", "surrogatepass")
            _check_size(len(data), self._max_bytes)
            return Content(data), _stated_or_text_type(mimetype, value), UTF_8
        if value is None:
            raise _null(self._name, "NULL")
        if not isinstance(value, bytes):
            reason = f"{self._name}: a value of the type {type(value).__name__}; expected a "
            raise RecordError("bad-value", f"{reason}document: text or bytes")
        _check_size(len(value), self._max_bytes)
        return _typed(value, "", mimetype, self._charset)


def _linked_getter(
    key: str,
    name: str,
    mapping: RowMapping,
    index: ColumnIndex,
    find: Callable[[str], LinkedDocument],
) -> Callable[[Row], TypedContent]:
    place, stated = index.text_getter(f"content: {key}", name), _mimetype_getter(mapping, index)

    def get(row: Row) -> TypedContent:
        text = place(row)
        if not text:
            raise _null(name, "NULL or empty")
        document = find(text)
        mimetype, charset = stated(row) or document.mimetype, mapping.charset or document.charset
        return _typed(document.data, document.file_name, mimetype, charset)

    return get


def _typed(data: bytes, name: str, mimetype: str | None, charset: str | None) -> TypedContent:
    """Return a document with its type, which is detected if it is not stated."""
    if mimetype is not None:
        return Content(data), mimetype, find_charset(data, mimetype=mimetype, stated=charset)
    detected = detect(name, data, charset=charset)
    mimetype = None if detected.mimetype == UNKNOWN else detected.mimetype
    if mimetype == _PLAIN and not name:
        mimetype = _HTML if _FRAGMENT.match(_start(data[:_HEAD].decode("latin-1"))) else _PLAIN
    return Content(data), mimetype, detected.charset


def _stated_or_text_type(stated: str | None, text: str) -> str:
    """Return the type of a text. Most are plain by their first letter: no detection is needed."""
    if stated:
        return stated
    start = _start(text[:_HEAD])
    if not start.startswith(("<", "{\\rtf")):
        return _PLAIN
    mimetype = detect("", text.encode("utf-8", "surrogatepass")).mimetype
    return _HTML if mimetype == _PLAIN and _FRAGMENT.match(start) else mimetype


def _start(text: str) -> str:
    return text.lstrip("\ufeff \t\r\n")


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise content_too_large(f"{size} bytes or more", max_bytes)


def _null(name: str, value: str) -> RecordError:
    reason = f"{name} is {value}; expected a document, or a query that leaves such rows out"
    return RecordError("null-content", reason)


def _read_file(folder: str, path: str, *, max_bytes: int) -> LinkedDocument:
    """Return the content of a file; raise RecordError if its real path leaves the folder."""
    try:
        real = os.path.realpath(os.path.join(folder, path))
        if os.path.commonpath((folder, real)) != folder:
            raise RecordError("path-outside", f"{path!r} leaves {folder!r}; expected a file in it")
        with open_file(real) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RecordError("unreadable", f"{path!r}: not a regular file; expected a file")
            _check_size(status.st_size, max_bytes)
            data = stream.read(max_bytes + 1)
    except OSError as exc:
        raise RecordError("unreadable", f"{path!r}: {exc.strerror}; expected a file") from exc
    except ValueError as exc:  # NUL, or a text that the file system cannot encode
        raise RecordError("unreadable", f"{path!r}: not a file name; expected a file") from exc
    _check_size(len(data), max_bytes)
    return LinkedDocument(data, os.path.basename(path))


def fetch(url: str, *, timeout_seconds: float, max_bytes: int) -> LinkedDocument:
    """Return the document at a URL; raise RecordError unless it is complete in time.

    At most five redirects are followed, to http and https only. A response counts only if it has
    the status 200. Messages show no user, password or query of a URL.
    """
    limits = WebLimits(timeout_seconds, max_bytes, "⟦max_content_bytes⟧")
    with closing(WebClient(limits, trust_env=True)) as client:
        document = client.get(url)
    if document is None:
        raise AssertionError("not modified since a time that was not stated")
    return document


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
        parts = [_PAGE_BEGIN]
        if title_at is not None:
            parts += (b"<title>", _cell(row[title_at]), b"</title>\n")
        parts.append(_PAGE_TABLE)
        for at, head in lines:
            if row[at] is not None:
                parts += (head, _cell(row[at]), b"</td></tr>\n")
        parts.append(_PAGE_END)
        return b"".join(parts)

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
        place, cause = f"{path}:{exc.lineno}", exc.message
    except TemplateNotFound:
        place, cause = str(path), "no such file"
    except (OSError, UnicodeDecodeError) as exc:
        place, cause = str(path), getattr(exc, "strerror", None) or "not UTF-8"
    raise ConfigError(f"content: template: {place}: {cause}; expected a Jinja2 template")


def _explain(path: Path, exc: Exception) -> str:
    """Return line and error; only Jinja2's own texts, as others may quote the document."""
    lines = [frame.lineno for frame in extract_tb(exc.__traceback__) if frame.filename == str(path)]
    line = f":{lines[-1]}" if lines else ""
    words = f": {exc.message}" if isinstance(exc, TemplateError) else ""
    return f"{path.name}{line}: {type(exc).__name__}{words}; expected a page for each row"
