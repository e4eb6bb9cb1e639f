"""The document of a row: in a column, in a file, at a URL, or the row rendered as a page.

Bytes are kept as they are, and texts are UTF-8. A document over the size limit is rejected, never
truncated. So is a row without a document: a record without content would replace the document that
the appliance has.
"""

import os
import re
import stat
from collections.abc import Callable, Collection
from pathlib import Path
from urllib.parse import urlsplit

from schemas.errors import RecordError
from schemas.record import Content
from transforms.charset import UTF_8, find_charset
from transforms.sources.database.column_index import (
    ColumnIndex,
    ColumnReference,
    Row,
    column_text,
)
from transforms.sources.database.html import table_renderer, template_renderer
from transforms.sources.database.http_fetch import fetch
from transforms.sources.database.mapping import RowMapping
from transforms.sources.database.values import bytes_of, check_size
from transforms.sources.tree.mimetype import UNKNOWN, detect

TypedContent = tuple[Content | None, str | None, str | None]
"""A content, its mimetype and its charset."""

_Stated = Callable[[Row], str | None]
_HTML = "text/html"
_JSON = "application/json"
_PLAIN = "text/plain"
_HEAD = 256
_FRAGMENT = re.compile(
    r"<(?:!--|/?(?:a|b|body|br|center|div|em|font|form|h[1-6]|head|hr|i|img|li|link|meta|ol|p|pre"
    r"|script|section|article|span|strong|style|table|tbody|td|th|title|tr|u|ul)[\s/>])",
    re.IGNORECASE,
)


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
        return _column_getter(content.column, mapping, index, stated, max_bytes=max_bytes)
    if content.path is not None:
        return _file_getter(content.path, mapping, index, stated, max_bytes=max_bytes)
    if content.fetch is not None:
        return _url_content_getter(content.fetch, mapping, index, stated, max_bytes=max_bytes)
    if content.template is not None:
        render = template_renderer(Path(content.template), index, max_bytes=max_bytes)
    else:
        render = table_renderer(index, without=without, title=mapping.title)

    def get(row: Row) -> TypedContent:
        data = render(row)
        check_size(len(data), max_bytes)
        return Content(data), stated(row) or _HTML, UTF_8

    return get


def _mimetype_getter(mapping: RowMapping, index: ColumnIndex) -> _Stated:
    mimetype = mapping.mimetype
    if isinstance(mimetype, ColumnReference):
        return index.text_getter("mimetype", mimetype.column)
    return lambda row: mimetype


def _column_getter(
    name: str, mapping: RowMapping, index: ColumnIndex, stated: _Stated, *, max_bytes: int
) -> Callable[[Row], TypedContent]:
    at = index.at("content: column", name)

    def get(row: Row) -> TypedContent:
        value = row[at]
        is_text = type(value) is str
        data = value.encode("utf-8", "surrogatepass") if is_text else _bytes(name, value)
        if len(data) > max_bytes:
            check_size(len(data), max_bytes)
        if is_text:
            return Content(data), stated(row) or _text_type(value, data), UTF_8
        if not isinstance(value, bytes | bytearray | memoryview):
            return Content(data), stated(row) or _JSON, UTF_8
        return _typed(data, "", stated(row), mapping.charset)

    return get


def _bytes(name: str, value: object) -> bytes:
    if value is None:
        raise _null(name, "NULL")
    try:
        return bytes_of(value)
    except RecordError as exc:
        raise RecordError(exc.code, f"{name}: {exc.reason}") from exc


def _file_getter(
    name: str, mapping: RowMapping, index: ColumnIndex, stated: _Stated, *, max_bytes: int
) -> Callable[[Row], TypedContent]:
    at = index.at("content: path", name)
    folder = os.path.realpath(mapping.content.folder or ".")

    def get(row: Row) -> TypedContent:
        path = column_text(name, row[at])
        if not path:
            raise _null(name, "NULL or empty")
        data = _read_file(folder, path, max_bytes=max_bytes)
        return _typed(data, os.path.basename(path), stated(row), mapping.charset)

    return get


def _read_file(folder: str, path: str, *, max_bytes: int) -> bytes:
    """Return the content of a file; raise RecordError if its real path leaves the folder."""
    try:
        real = os.path.realpath(os.path.join(folder, path))
        if os.path.commonpath((folder, real)) != folder:
            raise RecordError("path-outside", f"{path!r} leaves {folder!r}; expected a file in it")
        with open(real, "rb", opener=_open_without_waiting) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RecordError("unreadable", f"{path!r}: not a regular file; expected a file")
            check_size(status.st_size, max_bytes)
            data = stream.read(max_bytes + 1)
    except OSError as exc:
        raise RecordError("unreadable", f"{path!r}: {exc.strerror}; expected a file") from exc
    except ValueError as exc:  # NUL, or a text that the file system cannot encode
        raise RecordError("unreadable", f"{path!r}: not a file name; expected a file") from exc
    check_size(len(data), max_bytes)
    return data


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe does not wait for its other end."""
    return os.open(path, flags | os.O_NONBLOCK)


def _url_content_getter(
    name: str, mapping: RowMapping, index: ColumnIndex, stated: _Stated, *, max_bytes: int
) -> Callable[[Row], TypedContent]:
    at = index.at("content: fetch", name)
    timeout_seconds = mapping.content.timeout_seconds

    def get(row: Row) -> TypedContent:
        url = (column_text(name, row[at]) or "").strip()
        if not url:
            raise _null(name, "NULL or empty")
        document = fetch(url, timeout_seconds=timeout_seconds, max_bytes=max_bytes)
        file_name = os.path.basename(urlsplit(url).path)
        mimetype = stated(row) or document.mimetype
        charset = mapping.charset or document.charset
        return _typed(document.content, file_name, mimetype, charset)

    return get


def _typed(data: bytes, file_name: str, mimetype: str | None, charset: str | None) -> TypedContent:
    """Return bytes with the stated mimetype, or the detected one, or None."""
    if mimetype is not None:
        return Content(data), mimetype, find_charset(data, mimetype=mimetype, stated=charset)
    detected = detect(file_name, data, charset=charset)
    mimetype = None if detected.mimetype == UNKNOWN else detected.mimetype
    if mimetype == _PLAIN and not file_name:
        mimetype = _HTML if _FRAGMENT.match(_start(data[:_HEAD].decode("latin-1"))) else _PLAIN
    return Content(data), mimetype, detected.charset


def _text_type(text: str, data: bytes) -> str:
    """Return the type of a text. Most are plain by their first letter: no detection is needed."""
    start = _start(text[:_HEAD])
    if not start.startswith(("<", "{\\rtf")):
        return _PLAIN
    mimetype = detect("", data).mimetype
    return _HTML if mimetype == _PLAIN and _FRAGMENT.match(start) else mimetype


def _start(text: str) -> str:
    return text.lstrip("\ufeff \t\r\n")


def _null(name: str, found: str) -> RecordError:
    reason = f"{name} is {found}; expected a document, or a query that leaves such rows out"
    return RecordError("null-content", reason)
