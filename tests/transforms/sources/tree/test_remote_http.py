"""Files of a web server that lists its folders."""

import gzip
import os
import re
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from schemas.errors import SourceError
from schemas.span import Span
from support import remotes
from support.archives import native
from support.ports import kept_port
from transforms.sources.files import cut_file, open_span
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.remote import REQUEST_BYTES, open_remote
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.walk import list_tree

pytestmark = pytest.mark.slow

LARGE = bytes(range(256)) * (REQUEST_BYTES // 128)  # two requests

NGINX = """<html><head><title>Index of /</title></head><body>
<h1>Index of /</h1><hr><pre><a href="../">../</a>
<a href="a.txt">a.txt</a>                                 19-Nov-2025 10:22           1234
</pre><hr></body></html>"""

APACHE = """<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN"><html><body>
<h1>Index of /</h1>
<pre><img src="/icons/blank.gif" alt="Icon "> <a href="?C=N;O=D">Name</a>
<a href="?C=M;O=A">Last modified</a> <a href="?C=S;O=A">Size</a><hr>
<img src="/icons/back.gif" alt="[PARENTDIR]"> <a href="/">Parent Directory</a>      -
<a href="a.txt"><img src="/icons/text.gif" alt="[TXT]"></a> <a href="a.txt">a.txt</a>
 2025-11-19 10:22  1.2K
</pre></body></html>"""

LIGHTTPD = """<!DOCTYPE html><html><head><title>Index of /</title></head><body>
<table><thead><tr><th><a href="?C=N&O=D">Name</a></th></tr></thead><tbody>
<tr class="d"><td class="n"><a href="../">..</a>/</td><td class="m">&nbsp;</td></tr>
<tr><td class="n"><a href="a.txt">a.txt</a></td><td class="m">2025-Nov-19 10:22:33</td>
<td class="s">1.2K</td><td class="t">text/plain</td></tr></tbody></table></body></html>"""


def listed(root: str) -> list[ListingEntry]:
    return list(list_tree(Tree(root=root, base_url="https://docs.example.com/")))


def links_of(folder: Path, links: str) -> list[ListingEntry]:
    """The lines of a page with these links."""
    with remotes.web_server(folder, remotes.page(f"<html><body>{links}</body></html>")) as server:
        return listed(server.root)


def refusal(root: str) -> str:
    with pytest.raises(SourceError) as caught:
        listed(root)
    return str(caught.value)


def refusal_of(folder: Path, answer: remotes.Answer) -> str:
    """The refusal of a root that is answered so, without the root."""
    with remotes.web_server(folder, answer) as server:
        return refusal(server.root).removeprefix(server.root)


def status(number: int, headers: dict[str, str] | None = None) -> remotes.Answer:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        remotes.send(handler, b"", headers or {}, status=number)
        return True

    return answer


def serve_ranges(handler: SimpleHTTPRequestHandler) -> bool:
    """Answer for a large file with byte ranges."""
    headers = {"ETag": '"1"', "Accept-Ranges": "bytes"}
    if ranged := handler.headers["Range"]:
        begin, _, end = ranged.removeprefix("bytes=").partition("-")
        body = LARGE[int(begin) : int(end) + 1]
        headers["Content-Range"] = f"bytes {begin}-{end}/{len(LARGE)}"
        remotes.send(handler, body, headers, status=206)
    elif handler.command == "HEAD":
        remotes.send(handler, b"", headers, length=len(LARGE))
    else:
        remotes.send(handler, LARGE, headers)
    return True


def test_a_file_is_a_line_of_a_listing(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "a/b c.txt")
    os.utime(tmp_path / "a/b c.txt", (1_700_000_000, 1_700_000_000))
    with remotes.web_server(tmp_path) as server:
        assert listed(server.root) == [
            ListingEntry(
                key="a/b c.txt",
                path=f"{server.root}/a/b%20c.txt",
                url="https://docs.example.com/a/b%20c.txt",
                size=9,
                modified_ns=1_700_000_000_000_000_000,
            )
        ]


def test_folders_are_listed_in_the_order_of_the_bytes_of_keys(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "B", "a.b", "a/b", "a/c/d", "a/c.d", "a0", "\uff5e", "\U00010000")
    with remotes.web_server(tmp_path) as server:
        keys = [line.key for line in listed(server.root)]

    assert keys == ["B", "a.b", "a/b", "a/c.d", "a/c/d", "a0", "\uff5e", "\U00010000"]


def test_odd_names_are_listed_and_read(tmp_path: Path) -> None:
    names = sorted(["a#b", "a?b", "a%20b", "a b", "a;b", "a&b", "a:b", "ä", "~", "+"])
    remotes.put_all(tmp_path, *names)
    with remotes.web_server(tmp_path) as server:
        lines = listed(server.root)
        assert [line.key for line in lines] == names
        assert [remotes.read(line.path) for line in lines] == [name.encode() for name in names]


def test_a_folder_with_an_odd_name_can_be_the_root(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "a b/c d/e", "f")
    with remotes.web_server(tmp_path) as server:
        assert [line.key for line in listed(f"{server.root}/a%20b")] == ["c d/e"]


@pytest.mark.parametrize("text", [NGINX, APACHE, LIGHTTPD])
def test_the_pages_of_common_servers_are_understood(tmp_path: Path, text: str) -> None:
    remotes.put_all(tmp_path, "a.txt")
    with remotes.web_server(tmp_path, remotes.page(text)) as server:
        (line,) = listed(server.root)
        assert server.asked == ["GET /", "HEAD /a.txt"]

    assert (line.key, line.size) == ("a.txt", 5)


def test_files_that_a_rule_leaves_out_are_not_asked_for(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, ".a", ".git/b")
    with remotes.web_server(tmp_path) as server:
        lines = [(line.key, line.code) for line in listed(server.root)]
        assert server.asked == ["GET /"]

    assert lines == [(".a", "hidden"), (".git/", "hidden")]


def test_the_fingerprint_of_a_file_is_its_etag(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        if handler.command == "HEAD":
            remotes.send(handler, b"", {"ETag": '"e1"'}, length=7)
        return handler.command == "HEAD"

    remotes.put_all(tmp_path, "a")
    with remotes.web_server(tmp_path, answer) as server:
        (line,) = listed(server.root)

    assert (line.size, line.modified_ns, line.fingerprint) == (7, None, "e1")


def test_a_file_of_which_the_server_says_nothing_is_listed(tmp_path: Path) -> None:
    (line,) = links_of(tmp_path, '<a href="a.txt">a.txt</a>')

    assert (line.key, line.kind, line.size, line.modified_ns) == ("a.txt", EntryKind.FILE, 0, None)


def test_links_to_other_places_are_not_followed(tmp_path: Path) -> None:
    others = ["../", "/", "?C=N;O=D", "a.txt?C=N", "#top", "http://elsewhere.example.com/a.txt"]
    others += ["mailto:webmaster@example.com", "a/b.txt", "%2e%2e/"]
    links = "".join(f'<a href="{href}">there</a>' for href in others)

    assert [line.key for line in links_of(tmp_path, f'{links}<a href="here">here</a>')] == ["here"]


def test_links_are_decoded_and_two_links_to_one_file_are_one_line(tmp_path: Path) -> None:
    links = '<a href="/a.txt">a</a><a href="%61.txt">a</a><a href="b&amp;c.txt">b</a>'

    assert [line.key for line in links_of(tmp_path, links)] == ["a.txt", "b&c.txt"]


@pytest.mark.parametrize(
    ("href", "key", "shown"),
    [("a%2Fb", "a/b", r"b'a/b'"), ("%FF.txt", "\\xff.txt", r"b'\xff.txt'")],
)
def test_a_link_to_a_name_that_is_no_key_is_rejected(
    tmp_path: Path, href: str, key: str, shown: str
) -> None:
    (line,) = links_of(tmp_path, f'<a href="{href}">a</a>')

    assert (line.key, line.kind, line.code) == (key, EntryKind.REJECTED, "file-name")
    assert line.reason == f"{shown}; expected a name in UTF-8, without '/'"


def test_a_folder_that_cannot_be_listed_is_rejected_alone(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        return handler.path == "/a/" and status(403)(handler)

    remotes.put_all(tmp_path, "a/b", "c")
    with remotes.web_server(tmp_path, answer) as server:
        lines = listed(server.root)

    assert [(line.key, line.code, line.reason) for line in lines] == [
        ("a/", "unlistable-folder", "403 Forbidden; expected a folder that can be listed"),
        ("c", "", ""),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        status(302, {"Location": "https://login.example.com/?token=s3same"}),
        remotes.page("%PDF", "application/pdf"),
        remotes.page("<html><body>Log in.</body></html>"),
        remotes.page(""),
    ],
)
def test_a_root_that_lists_nothing_is_not_an_empty_folder(
    tmp_path: Path, answer: remotes.Answer
) -> None:
    reason = refusal_of(tmp_path, answer)

    assert reason.endswith(
        "/ has no link to a file or folder in it; expected a folder that can be listed"
    )
    assert "s3same" not in reason


def test_a_page_that_breaks_off_is_not_a_folder_with_few_files(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        remotes.send(handler, b'<a href="a">a</a>', {"Content-Type": "text/html"}, length=99)
        return True

    assert refusal_of(tmp_path, answer).startswith(": Response payload is not completed")


def test_a_root_that_does_not_exist_ends_the_run(tmp_path: Path) -> None:
    assert refusal_of(tmp_path, status(404)) == (
        ": No such file or directory; expected a folder that can be listed"
    )
    with kept_port() as port:
        assert "Connect call failed" in refusal(f"http://127.0.0.1:{port}")


def test_a_large_file_is_read_whole_by_one_request_without_ranges(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LARGE)
    with remotes.web_server(tmp_path) as server:
        assert remotes.read(f"{server.root}/a") == LARGE
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
    (tmp_path / "a").write_bytes(LARGE)
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


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (404, FileNotFoundError, "No such file or directory"),
        (401, PermissionError, "401 Unauthorized"),
        (403, PermissionError, "403 Forbidden"),
        (500, OSError, "500 Internal Server Error"),
    ],
)
def test_a_refusal_of_the_server_is_reported(
    tmp_path: Path, number: int, kind: type[OSError], text: str
) -> None:
    with remotes.web_server(tmp_path, status(number)) as server:
        error = remotes.error_of(f"{server.root}/a")

    assert (type(error), error.strerror) == (kind, text)


def test_a_connection_that_ends_in_a_file_is_never_its_end(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path, remotes.break_off) as server:
        error = remotes.error_of(f"{server.root}/a")

    assert re.fullmatch("the connection ended after 1?0+ of 2000 bytes", error.strerror or "")


def test_a_connection_that_ends_in_a_file_is_opened_again_once(tmp_path: Path) -> None:
    def break_once(handler: SimpleHTTPRequestHandler) -> bool:
        if handler.command == "GET" and not handler.headers["Range"]:
            remotes.send(handler, LARGE[:5_000_000], {"ETag": '"1"'}, length=len(LARGE))
            return True
        return serve_ranges(handler)

    with remotes.web_server(tmp_path, break_once) as server:
        assert remotes.read(f"{server.root}/a") == LARGE


def test_a_file_that_changes_while_it_is_read_raises(tmp_path: Path) -> None:
    versions = iter(["1", "2"])

    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        if handler.command == "GET":
            return serve_ranges(handler)
        remotes.send(handler, b"", {"ETag": next(versions)}, length=len(LARGE))
        return True

    with remotes.web_server(tmp_path, answer) as server:
        assert remotes.error_of(f"{server.root}/a").strerror == "changed while it was read"


def test_a_login_is_taken_from_netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_feed_that_is_gone_or_breaks_off_ends_the_run(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path) as server, pytest.raises(SourceError) as caught:
        list(open_span(Span(source=f"{server.root}/feed.xml")).__enter__())
    assert str(caught.value) == (
        f"{server.root}/feed.xml: No such file or directory; expected a file that can be read"
    )

    with (
        remotes.web_server(tmp_path, remotes.break_off) as server,
        pytest.raises(SourceError) as caught,
        open_span(Span(source=f"{server.root}/feed.xml")) as stream,
    ):
        stream.read()
    received = re.findall("after (1?0+) of", str(caught.value))[0]
    assert str(caught.value) == (
        f"{server.root}/feed.xml: the connection ended after {received} of 2000 bytes; "
        "expected a file that can be read"
    )


def test_a_compressed_file_is_decompressed(tmp_path: Path) -> None:
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(LARGE))
    with (
        remotes.web_server(tmp_path) as server,
        open_span(Span(source=f"{server.root}/a.xml.gz")) as stream,
    ):
        assert stream.read() == LARGE


def test_a_long_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(native("http://a.example.com/", "http://b.example.com/"))
    with remotes.web_server(tmp_path) as server:
        whole = Span(source=f"{server.root}/a", format="native")
        assert [span.offset for span in cut_file(whole, span_bytes=48)] == [0, 50]
