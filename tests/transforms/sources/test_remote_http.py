"""Files of a web server: read completely, or reported."""

import gzip
import os
import re
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from feedferry.schemas.errors import SourceError
from feedferry.schemas.span import Span
from feedferry.transforms.sources.files import cut_file, open_span
from feedferry.transforms.sources.remote import open_remote
from feedferry.transforms.sources.remote.remote_file import REQUEST_BYTES
from support import remotes
from support.archives import jsonl

pytestmark = pytest.mark.slow

LARGE_BYTES = 2 * REQUEST_BYTES


def large() -> bytes:
    """Return a file of two requests; a constant would be kept while other modules run."""
    return bytes(range(256)) * (LARGE_BYTES // 256)


def status(number: int) -> remotes.Answer:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        remotes.send(handler, b"", {}, status=number)
        return True

    return answer


def serve_ranges(handler: SimpleHTTPRequestHandler) -> bool:
    """Answer for a large file with byte ranges."""
    headers = {"ETag": '"1"', "Accept-Ranges": "bytes"}
    if ranged := handler.headers["Range"]:
        begin, _, end = ranged.removeprefix("bytes=").partition("-")
        body = large()[int(begin) : int(end) + 1]
        headers["Content-Range"] = f"bytes {begin}-{end}/{LARGE_BYTES}"
        remotes.send(handler, body, headers, status=206)
    elif handler.command == "HEAD":
        remotes.send(handler, b"", headers, length=LARGE_BYTES)
    else:
        remotes.send(handler, large(), headers)
    return True


def error_of_feed(root: str) -> str:
    """Return the error of a feed, without its URI."""
    uri = f"{root}/feed.xml"
    with pytest.raises(SourceError) as caught, open_span(Span(source=uri)) as stream:
        stream.read()
    return str(caught.value).removeprefix(f"{uri}: ")


def test_a_large_file_is_read_completely_by_one_request_without_ranges(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(large())
    with remotes.web_server(tmp_path) as server:
        assert remotes.read(f"{server.root}/a") == large()
        assert server.asked == ["HEAD /a", "GET /a", "HEAD /a"]


def test_a_file_is_read_from_an_offset_by_ranges(tmp_path: Path) -> None:
    with (
        remotes.web_server(tmp_path, serve_ranges) as server,
        open_remote(f"{server.root}/a") as stream,
    ):
        stream.seek(3_000_003)
        assert stream.read(3) == b"\xc3\xc4\xc5"
        stream.seek(-3, os.SEEK_END)
        assert stream.read() == b"\xfd\xfe\xff"


def test_a_server_without_ranges_is_reported_where_they_are_needed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(large())
    with remotes.web_server(tmp_path) as server, open_remote(f"{server.root}/a") as stream:
        stream.seek(6_000_000)
        with pytest.raises(OSError, match="ended after 6000000 of 8388608 bytes") as caught:
            stream.read()
    assert "support range requests" in str(caught.value.__cause__)


def test_a_compressed_file_is_read_as_it_is_stored(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        remotes.send(handler, b"\x1f\x8b not unpacked", {"Content-Encoding": "gzip"})
        return True

    with remotes.web_server(tmp_path, answer) as server:
        assert remotes.read(f"{server.root}/a.gz") == b"\x1f\x8b not unpacked"
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(large()))
    with (
        remotes.web_server(tmp_path) as server,
        open_span(Span(source=f"{server.root}/a.xml.gz")) as stream,
    ):
        assert stream.read() == large()


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (404, FileNotFoundError, "No such file or directory"),
        (401, PermissionError, "401 Unauthorized"),
        (403, PermissionError, "403 Forbidden"),
        (500, OSError, "500 Internal Server Error"),
    ],
)
def test_an_error_of_the_server_is_reported(
    tmp_path: Path, number: int, kind: type[OSError], text: str
) -> None:
    with remotes.web_server(tmp_path, status(number)) as server:
        error = remotes.error_of(f"{server.root}/a")
    assert (type(error), error.strerror) == (kind, text)


def test_a_connection_that_ends_in_a_file_is_opened_again_once(tmp_path: Path) -> None:
    def break_once(handler: SimpleHTTPRequestHandler) -> bool:
        if handler.command == "GET" and not handler.headers["Range"]:
            remotes.send(handler, large()[:5_000_000], {"ETag": '"1"'}, length=LARGE_BYTES)
            return True
        return serve_ranges(handler)

    with remotes.web_server(tmp_path, break_once) as server:
        assert remotes.read(f"{server.root}/a") == large()


def test_a_file_that_changes_while_it_is_read_raises(tmp_path: Path) -> None:
    versions = iter(["1", "2"])

    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        if handler.command == "GET":
            return serve_ranges(handler)
        remotes.send(handler, b"", {"ETag": next(versions)}, length=LARGE_BYTES)
        return True

    with remotes.web_server(tmp_path, answer) as server:
        assert remotes.error_of(f"{server.root}/a").strerror == "changed while it was read"


def test_user_and_password_are_taken_from_netrc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        logins.append(handler.headers["Authorization"])
        return False

    logins: list[str] = []
    remotes.put_all(tmp_path, "a")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login feeder password s3same")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with remotes.web_server(tmp_path, answer) as server:
        remotes.read(f"{server.root}/a")
    assert set(logins) == {"Basic ZmVlZGVyOnMzc2FtZQ=="}


def test_a_feed_that_is_gone_or_ends_early_ends_the_run(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path) as server:
        assert error_of_feed(server.root) == (
            "No such file or directory; expected a file that can be read"
        )
    with remotes.web_server(tmp_path, remotes.break_off) as server:
        error = error_of_feed(server.root)
    assert re.fullmatch(
        "the connection ended after 1?0+ of 2000 bytes; expected a file that can be read", error
    )


def test_a_long_file_is_split(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(jsonl("http://a.example.com/", "http://b.example.com/"))
    with remotes.web_server(tmp_path) as server:
        whole = Span(source=f"{server.root}/a", format="jsonl")
        assert [span.offset for span in cut_file(whole, span_bytes=48)] == [0, 50]
