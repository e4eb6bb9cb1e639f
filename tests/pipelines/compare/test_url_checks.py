"""Documents are asked for at their URLs; what a server does not say clearly is unknown."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from feedferry.pipelines.cli.main import main
from support.rehearsal import acl, gone, gsa_feed, membership, page, xmlgroups


class _DocumentSite(BaseHTTPRequestHandler):
    """Pages by path: a status, a header, and what a GET returns."""

    pages: ClassVar[dict[str, tuple[int, str, bytes]]] = {}
    requests: ClassVar[list[tuple[str, str]]] = []

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(self.pages.get(self.path, (404, "", b""))[2])

    def _answer(self, body: bytes) -> None:
        self.requests.append((self.command, self.path))
        status, location, _ = self.pages.get(self.path, (404, "", b""))
        if status == 405 and self.command == "GET":
            status = 200
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    _DocumentSite.pages, _DocumentSite.requests = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _DocumentSite)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def counts(text: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(text.splitlines()[-1])["counts"]
    return found


def feed(site: str, *records: str) -> str:
    return gsa_feed(*records).replace("http://www.example.com", site)


def by_change(text: str) -> dict[str, list[tuple[str, str]]]:
    """The paths of the documents that differ and what was found, by change."""
    found: dict[str, list[tuple[str, str]]] = {}
    for row in map(json.loads, text.splitlines()[:-1]):
        status = "".join(field["before"] for field in row["fields"])
        found.setdefault(row["change"], []).append((row["url"].rpartition("/")[2], status))
    return found


def test_each_status_says_whether_a_document_is_there(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _DocumentSite.pages = {
        "/there": (200, "", b"there"),
        "/get-only": (405, "", b"get-only"),
        "/moved": (301, "/there", b""),
        "/elsewhere": (302, "http://localhost:9/login", b""),
        "/loop": (302, "/loop", b""),
        "/secret": (403, "", b""),
        "/removed": (410, "", b""),
        "/back": (200, "", b""),
    }
    names = ["there", "get-only", "moved", "elsewhere", "loop", "secret", "removed", "none"]
    records = [*map(page, names), gone("back"), gone("old"), acl("ann", url="folder/")]
    Path("feed.xml").write_text(feed(site, *records))
    Path("groups.xml").write_text(xmlgroups(membership("staff", "ann")))

    verify = ["verify", "feed.xml", "groups.xml", "--against", "urls", "--format", "json"]
    assert main(verify) == 1

    text = capsys.readouterr().out
    assert by_change(text) == {
        "missing": [("none", ""), ("removed", "")],
        "not deleted": [("back", "")],
        "unknown": [
            ("elsewhere", "redirected to http://localhost:9/login; expected the same host"),
            ("loop", "more than 5 redirects"),
            ("secret", "status 403"),
        ],
    }
    assert (counts(text)["same"], counts(text)["unknown"]) == (3, 3)
    assert ("HEAD", "/folder/") not in _DocumentSite.requests


def test_contents_are_read_and_compared_on_request(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _DocumentSite.pages = {"/a": (200, "", b"as it was"), "/b": (200, "", b"another text")}
    Path("feed.xml").write_text(feed(site, page("a", "as it was"), page("b", "as it was")))
    verify = ["verify", "feed.xml", "--against", "urls", "--format", "json"]

    assert main(verify) == 0
    assert {method for method, _ in _DocumentSite.requests} == {"HEAD"}
    capsys.readouterr()
    assert main([*verify, "--contents", "--emit", "repair", "--to", "gsa-feed"]) == 1
    [(change, [(name, found)])] = by_change(capsys.readouterr().out).items()
    assert (change, name, found[:9]) == ("different", "b", '"12 bytes')
    [chunk] = Path("repair/chunks").iterdir()
    assert chunk.read_text().count("<record ") == 1


def test_a_request_is_repeated_and_a_server_that_answers_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_text(feed("http://127.0.0.1:9", page("a"), page("b")))

    assert (
        main(["verify", "feed.xml", "--against", "urls", "--emit", "repair", "--to", "avro"]) == 4
    )

    output = capsys.readouterr()
    assert "http://127.0.0.1:9/" in output.err
    assert "expected an answer to at least one request" in output.err
    assert output.out == ""
    assert not Path("repair").exists()


def test_a_sample_is_the_same_each_time(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_text(feed(site, *(page(str(number)) for number in range(200))))
    verify = ["verify", "feed.xml", "--against", "urls", "--format", "json"]

    assert main([*verify, "--sample", "20"]) == 1
    first = capsys.readouterr().out
    asked = sorted(_DocumentSite.requests)
    _DocumentSite.requests = []
    assert main([*verify, "--sample", "20"]) == 1
    assert (capsys.readouterr().out, sorted(_DocumentSite.requests)) == (first, asked)
    assert (counts(first)["missing"], counts(first)["not_sampled"]) == (20, 180)

    assert main([*verify, "--sample", "10%"]) == 1
    assert set(asked) & {*_DocumentSite.requests}
    assert 5 <= counts(capsys.readouterr().out)["missing"] <= 40
    assert main(["verify", "feed.xml", "--against", "feed.xml", "--sample", "20"]) == 0
