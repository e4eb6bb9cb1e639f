"""The document of a row: in a column, in a file, behind a url, or the row itself as a page.

Bytes are taken as they are, texts in UTF-8. What is larger than a document may be is set aside,
and never cut. A row whose document is NULL is set aside, too: a record without content would
replace, at the appliance, a document that has some.
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
from transforms.sources.database.column_index import Row, Rows, column_text, text_maker
from transforms.sources.database.html import page_maker, table_maker
from transforms.sources.database.http_fetch import fetch
from transforms.sources.database.mapping import Mapping
from transforms.sources.database.values import bytes_of, check_size
from transforms.sources.tree.mimetype import UNKNOWN, detect

Made = tuple[Content | None, str | None, str | None]
"""A content, its mimetype and its charset."""

_HTML = "text/html"
_JSON = "application/json"
_PLAIN = "text/plain"
_HEAD = 256
_FRAGMENT = re.compile(
    r"<(?:!--|/?(?:a|b|body|br|center|div|em|font|form|h[1-6]|head|hr|i|img|li|link|meta|ol|p|pre"
    r"|script|section|article|span|strong|style|table|tbody|td|th|title|tr|u|ul)[\s/>])",
    re.IGNORECASE,
)


def content_maker(
    mapping: Mapping, rows: Rows, *, max_bytes: int, without: Collection[int] = ()
) -> Callable[[Row], Made]:
    """Return the function that makes the document of a row; raise ConfigError if it cannot be.

    The function raises RecordError where there is none. A plain table is `without` some columns.
    """
    content, stated = mapping.content, _mimetype_maker(mapping, rows)
    if content.is_none:
        return lambda row: (None, stated(row), None)
    if content.column is not None:
        at = rows.at("content: column", content.column)
        return _in_column(at, mapping, stated, max_bytes=max_bytes)
    if content.path is not None:
        at = rows.at("content: path", content.path)
        return _in_file(at, mapping, stated, max_bytes=max_bytes)
    if content.fetch is not None:
        at = rows.at("content: fetch", content.fetch)
        return _behind_url(at, mapping, stated, max_bytes=max_bytes)
    if content.template is not None:
        make = page_maker(Path(content.template), rows, max_bytes=max_bytes)
    else:
        make = table_maker(rows, without=without, title=mapping.title)
    return _as_page(make, stated, max_bytes=max_bytes)


_Stated = Callable[[Row], str | None]


def _mimetype_maker(mapping: Mapping, rows: Rows) -> _Stated:
    fixed = mapping.mimetype
    if mapping.mimetype_column is None:
        return lambda row: fixed
    return text_maker("mimetype", mapping.mimetype_column, rows)


def _in_column(
    at: int, mapping: Mapping, stated: _Stated, *, max_bytes: int
) -> Callable[[Row], Made]:
    name = mapping.content.column or ""

    def make(row: Row) -> Made:
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

    return make


def _bytes(name: str, value: object) -> bytes:
    if value is None:
        raise _null(name)
    try:
        return bytes_of(value)
    except RecordError as exc:
        raise RecordError(exc.code, f"{name}: {exc.reason}") from exc


def _in_file(
    at: int, mapping: Mapping, stated: _Stated, *, max_bytes: int
) -> Callable[[Row], Made]:
    name, folder = mapping.content.path or "", os.path.realpath(mapping.content.folder or ".")

    def make(row: Row) -> Made:
        path = column_text(name, row[at])
        if not path:
            raise _null(name, "NULL or empty")
        data = _read(folder, path, max_bytes=max_bytes)
        return _typed(data, os.path.basename(path), stated(row), mapping.charset)

    return make


def _read(folder: str, path: str, *, max_bytes: int) -> bytes:
    """Return a file below a folder, wherever the links on its way lead."""
    try:
        real = os.path.realpath(os.path.join(folder, path))
        if os.path.commonpath((folder, real)) != folder:
            raise RecordError("path-outside", f"{path!r} leaves {folder!r}; expected a file in it")
        with open(real, "rb", opener=_open) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RecordError("unreadable", f"{path!r} is no file; expected one")
            check_size(status.st_size, max_bytes)
            data = stream.read(max_bytes + 1)
    except OSError as exc:
        raise RecordError("unreadable", f"{path!r}: {exc.strerror}; expected a file") from exc
    except ValueError as exc:  # NUL, or what the file system has no bytes for
        raise RecordError("unreadable", f"{path!r}: no name of a file; expected one") from exc
    check_size(len(data), max_bytes)
    return data


def _open(path: str, flags: int) -> int:
    """Open a file, and not wait for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _behind_url(
    at: int, mapping: Mapping, stated: _Stated, *, max_bytes: int
) -> Callable[[Row], Made]:
    name, seconds = mapping.content.fetch or "", mapping.content.timeout_seconds

    def make(row: Row) -> Made:
        url = (column_text(name, row[at]) or "").strip()
        if not url:
            raise _null(name, "NULL or empty")
        fetched = fetch(url, timeout_seconds=seconds, max_bytes=max_bytes)
        called = os.path.basename(urlsplit(url).path)
        mimetype = stated(row) or fetched.mimetype
        return _typed(fetched.content, called, mimetype, mapping.charset or fetched.charset)

    return make


def _as_page(
    page: Callable[[Row], bytes], stated: _Stated, *, max_bytes: int
) -> Callable[[Row], Made]:
    def make(row: Row) -> Made:
        data = page(row)
        check_size(len(data), max_bytes)
        return Content(data), stated(row) or _HTML, UTF_8

    return make


def _typed(data: bytes, called: str, mimetype: str | None, charset: str | None) -> Made:
    """Bytes with the mimetype that is stated, or else shows; None where nothing tells it."""
    if mimetype is not None:
        return Content(data), mimetype, find_charset(data, mimetype=mimetype, stated=charset)
    found = detect(called, data, charset=charset)
    shown = found.mimetype
    if shown == _PLAIN and not called and _FRAGMENT.match(_start(data[:_HEAD].decode("latin-1"))):
        shown = _HTML
    return Content(data), None if shown == UNKNOWN else shown, found.charset


def _text_type(text: str, data: bytes) -> str:
    """Most texts are seen to be plain by their first letter, which is far quicker than to look."""
    start = _start(text[:_HEAD])
    if not start.startswith(("<", "{\\rtf")):
        return _PLAIN
    mimetype = detect("", data).mimetype
    return _HTML if mimetype == _PLAIN and _FRAGMENT.match(start) else mimetype


def _start(text: str) -> str:
    return text.lstrip("\ufeff \t\r\n")


def _null(name: str, found: str = "NULL") -> RecordError:
    reason = f"{name} is {found}; expected a document, or a query that leaves such rows out"
    return RecordError("null-content", reason)
