"""Documents of rows: in a column, in a file, at a URL, or the row as an HTML page."""

import os
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from lxml import html

from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.record import Content
from feedferry.transforms.net.web_client import LinkedDocument
from feedferry.transforms.sources.database.mapping.columns import ColumnIndex, ColumnReference
from feedferry.transforms.sources.database.mapping.row_mapping import ContentSource, RowMapping
from feedferry.transforms.sources.database.records.content import (
    TypedContent,
    content_getter,
    fetch,
    load_template,
    table_renderer,
    template_renderer,
)
from support.ports import kept_port

INDEX = ColumnIndex(names=("id", "body", "type"), key=("id",))
IN_BODY = ContentSource(column="body")


def content_of(
    content: ContentSource, body: object, kind: object = None, *, max_bytes: int = 1000, **more: Any
) -> TypedContent:
    mapping = RowMapping(connection="sqlite://", content=content, **more)
    return content_getter(mapping, INDEX, max_bytes=max_bytes)((7, body, kind))


def refusal(content: ContentSource, body: object, *, max_bytes: int = 1000) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        content_of(content, body, max_bytes=max_bytes)
    return caught.value.code, caught.value.reason


def in_files(folder: Path) -> ContentSource:
    return ContentSource(path="body", folder=str(folder))


@pytest.mark.parametrize(
    ("body", "keys", "typed"),
    [
        ("né", {}, (b"n\xc3\xa9", "text/plain", "utf-8")),
        (b"%PDF-1.7\r\n\x00\xff", {}, (b"%PDF-1.7\r\n\x00\xff", "application/pdf", None)),
        (b"n\xc3\xa9", {}, (b"n\xc3\xa9", "text/plain", "utf-8")),
        (
            b"n\xe9",
            {"mimetype": "text/plain", "charset": "iso-8859-1"},
            (b"n\xe9", "text/plain", "iso-8859-1"),
        ),
        (b"\x00\x01\x02", {}, (b"\x00\x01\x02", None, None)),
    ],
)
def test_a_text_is_utf_8_and_bytes_are_kept_with_the_detected_type(
    body: object, keys: dict[str, Any], typed: tuple[bytes, str | None, str | None]
) -> None:
    data, mimetype, charset = typed
    assert content_of(IN_BODY, body, **keys) == (Content(data), mimetype, charset)


@pytest.mark.parametrize(
    ("text", "mimetype"),
    [
        ("a < b", "text/plain"),
        ("<!DOCTYPE html><p>a", "text/html"),
        ("\ufeff\n <HTML><body>", "text/html"),
        ("<p>a</p>", "text/html"),
        ("  <h1 class='x'>a", "text/html"),
        ("<!-- a --><b>", "text/html"),
        ("</p>a", "text/html"),
        ("<b>", "text/html"),
        ("<blink>", "text/plain"),
        ("<anna@example.com>", "text/plain"),
        ("<?xml version='1.0'?><a/>", "application/xml"),
        ("{\\rtf1 a}", "application/rtf"),
        ("From: a@example.com\nTo: b@example.com\n\nHello", "text/plain"),
    ],
)
def test_the_mimetype_of_a_text_is_detected(text: str, mimetype: str) -> None:
    assert content_of(IN_BODY, text)[1] == mimetype


def test_a_mimetype_can_be_in_a_column() -> None:
    typed = content_of(IN_BODY, "a", "text/x-log", mimetype=ColumnReference(column="type"))
    assert typed[1] == "text/x-log"


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        (None, "null-content", "body is NULL; expected a document, or a query that leaves such"),
        ("né", "content-too-large", "3 bytes or more; expected at most 2 bytes; raise --max"),
        (7, "bad-value", "body: a value of the type int; expected a document: text or bytes"),
    ],
)
def test_a_value_that_is_no_document_is_rejected(body: object, code: str, reason: str) -> None:
    refused = refusal(IN_BODY, body, max_bytes=2)
    assert refused[0] == code
    assert refused[1].startswith(reason)


def test_a_row_without_a_document_is_a_page(tmp_path: Path) -> None:
    content, mimetype, charset = content_of(ContentSource(), "a", title="body")
    assert content is not None
    assert b"<title>a</title>" in content.data
    assert (mimetype, charset) == ("text/html", "utf-8")
    template = ContentSource(template=str(written(tmp_path, "{{ id }}: {{ body }}")))
    assert content_of(template, "<") == (Content(b"7: &lt;"), "text/html", "utf-8")
    assert refusal(template, "é" * 6, max_bytes=10)[0] == "content-too-large"


def test_a_file_is_read_as_it_is_through_links_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"n\xe9\r\n")
    (tmp_path / "b.txt").symlink_to("a.txt")
    for name in ("a.txt", "b.txt"):
        assert content_of(in_files(tmp_path), name, charset="iso-8859-1") == (
            Content(b"n\xe9\r\n"),
            "text/plain",
            "iso-8859-1",
        )


@pytest.mark.parametrize(
    "path", ["../secret.txt", "sub/../../secret.txt", "/etc/passwd", "link", "../files2/a.txt"]
)
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (tmp_path / "files2").mkdir()
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (files / "link").symlink_to("../secret.txt")
    assert refusal(in_files(files), path) == (
        "path-outside",
        f"{path!r} leaves {str(files)!r}; expected a file in it",
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("none.txt", "'none.txt': No such file or directory; expected a file"),
        ("folder", "'folder': Is a directory; expected a file"),
        ("loop", "'loop': Too many levels of symbolic links; expected a file"),
        ("pipe", "'pipe': not a regular file; expected a file"),
        ("a\0b", "'a\\x00b': not a file name; expected a file"),
        ("\ud800", "'\\ud800': not a file name; expected a file"),
    ],
)
def test_other_paths_are_refused(tmp_path: Path, path: str, expected: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    assert refusal(in_files(tmp_path), path) == ("unreadable", expected)


def test_a_missing_path_and_a_large_file_are_refused(tmp_path: Path) -> None:
    reason = "body is NULL or empty; expected a document, or a query that leaves such rows out"
    assert refusal(in_files(tmp_path), None) == ("null-content", reason)
    assert refusal(in_files(tmp_path), "") == ("null-content", reason)
    (tmp_path / "a.txt").write_bytes(b"abc")
    assert refusal(in_files(tmp_path), "a.txt", max_bytes=2)[0] == "content-too-large"


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        content_of(in_files(tmp_path / "none"), "a.txt")
    expected = f"content: folder: '{tmp_path / 'none'}'; expected an existing folder"
    assert str(caught.value) == expected


PEOPLE = ColumnIndex(names=("id", "full name", "note", "photo"), key=("id",))
ANNA = (7, "Anna", "a & b", b"\xff\x00")


def table(*row: object, title: str | None = None, without: tuple[int, ...] = ()) -> str:
    return table_renderer(PEOPLE, without=without, title=title)(row).decode()


def written(folder: Path, text: str, name: str = "page.html.j2") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def page(folder: Path, text: str, *row: object, max_bytes: int = 1000) -> bytes:
    return template_renderer(written(folder, text), PEOPLE, max_bytes=max_bytes)(row or ANNA)


def test_a_row_is_a_table() -> None:
    expected = """\
<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<title>Anna</title>
</head>
<body>
<table>
<tr><th>id</th><td>7</td></tr>
<tr><th>full name</th><td>Anna</td></tr>
<tr><th>note</th><td>a &amp; b</td></tr>
<tr><th>photo</th><td>2 bytes</td></tr>
</table>
</body>
</html>
"""
    assert table(*ANNA, title="full name") == expected


def test_null_and_some_columns_have_no_line() -> None:
    page = table(7, "Anna", None, None, without=(1,))
    assert "<table>\n<tr><th>id</th><td>7</td></tr>\n</table>" in page


def test_no_value_and_no_name_is_markup() -> None:
    page = html.document_fromstring(table(7, "</td><script>x</script>", None, None))
    assert page.xpath("//td/text()") == ["7", "</td><script>x</script>"]
    render = table_renderer(ColumnIndex(names=("<b>",)), without=(), title=None)
    assert b"<th>&lt;b&gt;</th>" in render((1,))
    assert "<td>a\ufffdb</td>" in table(7, "a\ud800b", None, None)


def test_a_template_has_the_columns_and_the_files_of_its_folder(tmp_path: Path) -> None:
    text = "<h1>{{ row['full name'] }}</h1>{% if note %}{{ note }}{% endif %} {{ id + 1 }}\n"
    assert page(tmp_path, text) == b"<h1>Anna</h1>a &amp; b 8\n"
    written(tmp_path, "<p>{{ id }}</p>", "foot.html")
    assert page(tmp_path, "{% include 'foot.html' %}") == b"<p>7</p>"


def test_a_page_ends_soon_after_its_bound(tmp_path: Path) -> None:
    text = "{% for i in range(100000) %}0123456789{% endfor %}"
    assert len(page(tmp_path, text, max_bytes=1000)) == 1010


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\n\n{{ nmae }}", "3: UndefinedError: 'nmae' is undefined"),
        ("{{ id / 0 }}", "1: ZeroDivisionError"),
        ("{{ note | int + note }}", "1: TypeError"),
        (
            "{{ note.__class__.__mro__ }}",
            "1: SecurityError: access to attribute '__class__' of 'str' object is unsafe.",
        ),
        ("{% include '../secret.txt' %}", "1: TemplateNotFound: ../secret.txt"),
        ("{% for i in range(1000000000) %}x{% endfor %}", "1: OverflowError"),
    ],
)
def test_a_failing_template_names_the_line(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(RecordError) as caught:
        page(tmp_path, text)
    reason = f"page.html.j2:{error}; expected a page for each row"
    assert (caught.value.code, caught.value.reason) == ("template", reason)


def test_a_file_that_is_no_template_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "\n{% if %}")
    (tmp_path / "page.j2").write_bytes(b"\xff")
    errors = {
        path: f"{path}:2: Expected an expression, got 'end of statement block'",
        tmp_path / "none.j2": f"{tmp_path}/none.j2: no such file",
        tmp_path / "page.j2": f"{tmp_path}/page.j2: not UTF-8",
    }
    for file, error in errors.items():
        with pytest.raises(ConfigError) as caught:
            load_template(file)
        assert str(caught.value) == f"content: template: {error}; expected a Jinja2 template"


def response(*headers: str, status: str = "200 OK", body: bytes = b"<p>page</p>") -> bytes:
    length = f"Content-Length: {len(body)}"
    lines = [f"HTTP/1.1 {status}", *headers, length, "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


PAGE = b"<p>page</p>"
RESPONSES = {
    "page": response("Content-Type: Text/HTML; charset=ISO-8859-1"),
    "untold": response(),
    "binary": response("Content-Type: application/octet-stream", body=b"%PDF-1.7"),
    "none": response(status="404 Not Found"),
    "nothing": response(status="204 No Content", body=b""),
    "packed": response("Content-Encoding: gzip"),
    "file": response("Location: file:///etc/passwd", status="302 Found"),
    "user": response("Location: http://tim:secret@192.0.2.1/page", status="302 Found"),
    "torn": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<p>page</p>",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    "silent": b"",
    "dripping": b"HTTP/1.1 200 OK\r\nX: ",
    "slow": b"HTTP/1.1 200 OK\r\n\r\n",
    "endless": b"HTTP/1.1 200 OK\r\n\r\n",
}
ENDLESS = {"silent": b"", "dripping": b"x", "slow": b"x", "endless": b"x" * 4096}
"""What is sent again and again after the response."""


class Site(BaseHTTPRequestHandler):
    """Each path is a kind of response."""

    closed = Event()

    def do_GET(self) -> None:
        name, _, number = self.path.partition("?")[0].strip("/").partition("/")
        data = RESPONSES.get(name.partition(".")[0], b"")
        if name == "hops":
            target = f"/hops/{int(number) - 1}" if int(number) > 1 else "/page"
            data = response(f"Location: {target}", status="302 Found")
        elif name == "agent":
            agent, login = self.headers.get("User-Agent"), self.headers.get("Authorization")
            data = response(body=repr((agent, login, self.path)).encode())
        with suppress(OSError):
            self.wfile.write(data)
            while name in ENDLESS and not self.closed.wait(0.0 if name == "endless" else 0.02):
                self.wfile.write(ENDLESS[name])

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        Site.closed.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def fetched(url: str, *, timeout_seconds: float = 60, max_bytes: int = 100_000) -> LinkedDocument:
    return fetch(url, timeout_seconds=timeout_seconds, max_bytes=max_bytes)


def fetch_error(url: str, **options: Any) -> str:
    with pytest.raises(RecordError) as caught:
        fetched(url, **options)
    assert caught.value.code == "fetch-failed"
    return caught.value.reason


def linked(url: str, **keys: Any) -> TypedContent:
    mapping = RowMapping(connection="sqlite://", content=ContentSource(fetch="link"), **keys)
    return content_getter(mapping, ColumnIndex(names=("link",)), max_bytes=1000)((url,))


def test_a_document_has_the_type_and_charset_of_its_server(site: str) -> None:
    assert fetched(f"{site}/page") == LinkedDocument(PAGE, "page", "text/html", "iso-8859-1")
    assert fetched(f"{site}/binary") == LinkedDocument(b"%PDF-1.7", "binary")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        pytest.param("chunked", b"abcde", id="chunks"),
        pytest.param("hops/5", PAGE, id="five redirects"),
        pytest.param(
            "agent/é b?c=ü&d=%20#e",
            b"('feedferry', None, '/agent/%C3%A9%20b?c=%C3%BC&d=%20')",
            id="user agent and quoted URL",
        ),
    ],
)
def test_a_document_is_fetched(site: str, path: str, data: bytes) -> None:
    assert fetched(f"{site}/{path}").data == data


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("hops/6", "Exceeded maximum allowed redirects."),
        ("none?token=secret", "404 Not Found"),
        ("nothing", "204 No Content"),
        ("packed", "Content-Encoding: gzip"),
        (
            "torn",
            "peer closed connection without sending complete message body (received 11 bytes, "
            "expected 100)",
        ),
    ],
)
def test_another_response_is_no_document(site: str, path: str, problem: str) -> None:
    shown = f"{site}/{path.partition('?')[0]}"
    assert (
        fetch_error(f"{site}/{path}") == f"'{shown}': {problem}; expected a document, with 200 OK"
    )


@pytest.mark.parametrize(("path", "max_bytes"), [("page", 10), ("endless", 10_000)])
def test_a_document_that_is_too_large_is_not_read_to_its_end(
    site: str, path: str, max_bytes: int
) -> None:
    with pytest.raises(RecordError) as caught:
        fetched(f"{site}/{path}", max_bytes=max_bytes)
    assert caught.value.code == "content-too-large"


@pytest.mark.parametrize("path", ["silent", "dripping", "slow"])
def test_a_slow_server_is_a_timeout(site: str, path: str) -> None:
    reason = fetch_error(f"{site}/{path}", timeout_seconds=0.2)
    assert reason.startswith(f"'{site}/{path}': not complete within 0.2 s; expected")


def test_a_missing_server_is_an_error() -> None:
    with kept_port() as port:
        assert "Connection refused" in fetch_error(f"http://127.0.0.1:{port}/page")


def test_redirects_to_files_and_with_passwords_are_not_followed(site: str) -> None:
    assert "not an http or https URL" in fetch_error(f"{site}/file")
    reason = fetch_error(f"{site}/user")
    assert "a user in the URL, which others may see" in reason
    assert "secret" not in reason


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file:///etc/passwd", "not an http or https URL"),
        ("/page", "not an http or https URL"),
        ("http:///page", "not an http or https URL"),
        ("http://[::1/page", "a URL that cannot be parsed"),
        ("http://h:secret/", "a URL that cannot be parsed"),
        ("http://tim:secret@x.example.com/a", "'http://x.example.com/a': a user in the URL, which"),
    ],
)
def test_other_urls_are_refused(url: str, problem: str) -> None:
    reason = fetch_error(url)
    assert problem in reason
    assert "secret" not in reason


def test_the_type_is_that_of_the_mapping_the_server_or_the_name(site: str) -> None:
    assert linked(f" {site}/page ", mimetype="text/plain", charset="utf-16") == (
        Content(PAGE),
        "text/plain",
        "utf-8",
    )
    assert linked(f"{site}/page.txt")[1] == "text/html"
    assert linked(f"{site}/untold.css?a=b.pdf")[1] == "text/css"
