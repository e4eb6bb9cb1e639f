"""Documents fetched over HTTP, from a server on loopback with many kinds of responses."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.record import Content
from support.ports import kept_port
from transforms.sources.database.column_index import ColumnIndex
from transforms.sources.database.content import TypedContent, content_getter
from transforms.sources.database.http_fetch import FetchedDocument, fetch
from transforms.sources.database.mapping import ContentSource, RowMapping

PAGE = b"<p>page</p>"


class Site(BaseHTTPRequestHandler):
    """Each path is a kind of response."""

    protocol_version = "HTTP/1.1"
    closed = Event()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].strip("/")
        getattr(self, f"answer_{path.partition('/')[0].partition('.')[0]}", self.answer_no)()

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def say(self, *headers: tuple[str, str], status: int = 200, body: bytes = PAGE) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def answer_page(self) -> None:
        self.say(("Content-Type", "Text/HTML; charset=ISO-8859-1"))

    def answer_untold(self) -> None:
        self.say()

    def answer_binary(self) -> None:
        self.say(("Content-Type", "application/octet-stream"), body=b"%PDF-1.7")

    def answer_agent(self) -> None:
        request = (self.headers.get("User-Agent"), self.headers.get("Authorization"), self.path)
        self.say(body=repr(request).encode())

    def answer_no(self) -> None:
        self.say(status=404)

    def answer_busy(self) -> None:
        self.say(status=503)

    def answer_nothing(self) -> None:
        self.say(status=204, body=b"")

    def answer_packed(self) -> None:
        self.say(("Content-Encoding", "gzip"))

    def answer_moved(self) -> None:
        self.say(("Location", "/page"), status=301)

    def answer_file(self) -> None:
        self.say(("Location", "file:///etc/passwd"), status=302)

    def answer_ftp(self) -> None:
        self.say(("Location", "ftp://tim:secret@192.0.2.1/"), status=302)

    def answer_user(self) -> None:
        self.say(("Location", f"http://tim:secret@{self.headers['Host']}/page"), status=302)

    def answer_hops(self) -> None:
        left = int(self.path.rpartition("/")[2])
        self.say(("Location", f"/hops/{left - 1}" if left > 1 else "/page"), status=302)

    def answer_torn(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(PAGE)
        self.close_connection = True

    def answer_endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):
            while not self.closed.is_set():
                self.wfile.write(b"x" * 4096)

    def answer_chunked(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")

    def answer_silent(self) -> None:
        self.closed.wait(60)
        self.close_connection = True

    def answer_dripping(self) -> None:
        """A header that never ends, a letter at a time."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        self.drip()

    def answer_slow(self) -> None:
        """A content without a length that never ends, a letter at a time."""
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        self.drip()

    def drip(self) -> None:
        with suppress(OSError):
            while not self.closed.wait(0.02):
                self.wfile.write(b"x")


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


@contextmanager
def refused(expected: str, code: str = "fetch-failed") -> Iterator[None]:
    with pytest.raises(RecordError) as caught:
        yield
    assert (caught.value.code, caught.value.reason) == (code, expected)


def fetched(url: str, *, timeout_seconds: float = 60, max_bytes: int = 100_000) -> FetchedDocument:
    return fetch(url, timeout_seconds=timeout_seconds, max_bytes=max_bytes)


def content_of(url: str, **more: Any) -> TypedContent:
    mapping = RowMapping(connection="sqlite://", content=ContentSource(fetch="link"), **more)
    return content_getter(mapping, ColumnIndex(names=("link",)), max_bytes=1000)((url,))


def test_a_document_has_the_type_and_charset_of_its_server(site: str) -> None:
    assert fetched(f"{site}/page") == FetchedDocument(PAGE, "text/html", "iso-8859-1")


def test_octet_stream_is_no_type(site: str) -> None:
    assert fetched(f"{site}/binary") == FetchedDocument(b"%PDF-1.7", None, None)


def test_a_chunked_document_is_complete(site: str) -> None:
    assert fetched(f"{site}/chunked").content == b"abcde"


def test_a_request_has_a_user_agent_and_a_quoted_url(site: str) -> None:
    assert fetched(f"{site}/agent/é b?c=ü&d=%20#e").content == (
        b"('feedferry', None, '/agent/%C3%A9%20b?c=%C3%BC&d=%20')"
    )


def test_five_redirects_are_followed(site: str) -> None:
    assert fetched(f"{site}/hops/5").content == PAGE


def test_six_redirects_are_not_followed(site: str) -> None:
    expected = f"'{site}/page': more than 5 redirects; expected 200 OK"
    with refused(expected):
        fetched(f"{site}/hops/6")


def test_a_redirect_to_a_file_is_not_followed(site: str) -> None:
    expected = "a URL that cannot be parsed: not an http or https URL; expected one"
    with refused(expected):
        fetched(f"{site}/file")


def test_a_redirect_to_another_protocol_is_not_followed(site: str) -> None:
    with refused("'ftp://192.0.2.1/': not an http or https URL; expected one"):
        fetched(f"{site}/ftp")


def test_a_redirect_with_a_password_is_not_followed_and_not_shown(site: str) -> None:
    with refused(f"'{site}/page': a user in the URL; expected none, as others may see it"):
        fetched(f"{site}/user")


@pytest.mark.parametrize(
    ("path", "found"),
    [("none", "404 Not Found"), ("busy", "503 Service Unavailable"), ("nothing", "204 No Content")],
)
def test_another_status_is_no_document(site: str, path: str, found: str) -> None:
    with refused(f"'{site}/{path}': {found}; expected 200 OK"):
        fetched(f"{site}/{path}")


def test_a_query_is_not_shown(site: str) -> None:
    with refused(f"'{site}/none': 404 Not Found; expected 200 OK"):
        fetched(f"{site}/none?token=secret")


def test_a_document_that_is_packed_is_refused(site: str) -> None:
    with refused(f"'{site}/packed': Content-Encoding: gzip; expected none"):
        fetched(f"{site}/packed")


def test_a_document_that_breaks_off_is_refused(site: str) -> None:
    expected = (
        f"'{site}/torn': peer closed connection without sending complete message body (received "
        "11 bytes, expected 100); expected 200 OK"
    )
    with refused(expected):
        fetched(f"{site}/torn")


def test_a_document_with_a_large_content_length_is_not_read(site: str) -> None:
    expected = "11 bytes or more; expected at most 10 bytes; raise --max-content-bytes to read it"
    with refused(expected, "content-too-large"):
        fetched(f"{site}/page", max_bytes=10)


def test_an_endless_document_is_not_read_to_its_end(site: str) -> None:
    with pytest.raises(RecordError) as caught:
        fetched(f"{site}/endless", max_bytes=10_000)

    assert caught.value.code == "content-too-large"


@pytest.mark.parametrize("path", ["silent", "dripping", "slow"])
def test_a_slow_server_is_a_timeout(site: str, path: str) -> None:
    expected = f"'{site}/{path}': not complete within 0.2 s; expected 200 OK"
    with refused(expected):
        fetched(f"{site}/{path}", timeout_seconds=0.2)


def test_a_missing_server_is_an_error() -> None:
    with kept_port() as port:
        url = f"http://127.0.0.1:{port}/page"
        with refused(f"'{url}': Connection refused; expected 200 OK"):
            fetched(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "file:///etc/passwd",
            "a URL that cannot be parsed: not an http or https URL; expected one",
        ),
        ("/page", "a URL that cannot be parsed: not an http or https URL; expected one"),
        ("http:///page", "a URL that cannot be parsed: not an http or https URL; expected one"),
        ("http://[::1/page", "a URL that cannot be parsed: not an http or https URL; expected one"),
        ("http://h:secret/", "a URL that cannot be parsed: not an http or https URL; expected one"),
        (
            "ftp://x.example.com/a",
            "'ftp://x.example.com/a': not an http or https URL; expected one",
        ),
        (
            "http://tim:secret@x.example.com/a",
            "'http://x.example.com/a': a user in the URL; expected none, as others may see it",
        ),
    ],
)
def test_other_urls_are_refused(url: str, expected: str) -> None:
    with refused(expected):
        fetched(url)


def test_the_mapping_goes_before_the_server(site: str) -> None:
    assert content_of(f" {site}/page ", mimetype="text/plain", charset="utf-16") == (
        Content(PAGE),
        "text/plain",
        "utf-8",
    )


def test_the_server_goes_before_the_name(site: str) -> None:
    assert content_of(f"{site}/page.txt")[1] == "text/html"


def test_the_name_gives_the_type_if_the_server_does_not(site: str) -> None:
    assert content_of(f"{site}/untold.css?a=b.pdf")[1] == "text/css"
