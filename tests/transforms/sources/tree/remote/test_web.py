"""Files of a web server that lists its folders."""

import os
from datetime import UTC, datetime
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from schemas.errors import SourceError
from support import remotes
from support.ports import kept_port
from transforms.sources.listing import Kind, Listed
from transforms.sources.tree.remote.schemes import list_remote, open_remote
from transforms.sources.tree.remote.web import Site
from transforms.sources.tree.tree import Tree

BASE_URL = "https://docs.example.com/"
LARGE = bytes(range(256)) * 16_384  # 4 MiB

NGINX = """<html><head><title>Index of /</title></head><body>
<h1>Index of /</h1><hr><pre><a href="../">../</a>
<a href="a%20b.txt">a b.txt</a>                                 19-Nov-2025 10:22           1234
<a href="long.txt">long.t..&gt;</a>                                01-Jan-2026 00:00    5000000000
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


def listed(root: str) -> list[Listed]:
    return list(list_remote(Tree(root=root, base_url=BASE_URL)))


def told(lines: list[Listed]) -> list[tuple[str, Kind, str]]:
    return [(line.key, line.kind, line.code) for line in lines]


def links_of(folder: Path, links: str) -> list[Listed]:
    """What is listed of a page with these links."""
    with remotes.web_server(folder, remotes.page(f"<html><body>{links}</body></html>")) as server:
        return listed(server.root)


def refusal(root: str) -> str:
    with pytest.raises(SourceError) as caught:
        listed(root)
    return str(caught.value)


def refusal_of(folder: Path, answer: remotes.Answer) -> tuple[str, str]:
    """The root of a server that answers so, and what is said of it."""
    with remotes.web_server(folder, answer) as server:
        return server.root, refusal(server.root)


def trouble_with(folder: Path, answer: remotes.Answer) -> OSError:
    with remotes.web_server(folder, answer) as server:
        return remotes.trouble_of(f"{server.root}/a")


def status(number: int, headers: dict[str, str] | None = None) -> remotes.Answer:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        remotes.send(handler, b"", headers or {}, status=number)
        return True

    return answer


def test_a_file_is_a_line_of_a_listing(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "a/b c.txt")
    os.utime(tmp_path / "a/b c.txt", (1_700_000_000, 1_700_000_000))
    with remotes.web_server(tmp_path) as server:
        assert listed(server.root) == [
            Listed(
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


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", "a b", "a;b", "a&b", "a:b", "ä", "~", "+"])
def test_an_odd_name_is_listed_and_read(tmp_path: Path, name: str) -> None:
    remotes.put_all(tmp_path, name)
    with remotes.web_server(tmp_path) as server:
        (line,) = listed(server.root)
        assert (line.key, remotes.read(line.path)) == (name, name.encode())


def test_a_folder_with_an_odd_name_can_be_the_root(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "a b/c d/e", "f")
    with remotes.web_server(tmp_path) as server:
        assert [line.key for line in listed(f"{server.root}/a%20b")] == ["c d/e"]


def test_a_hidden_folder_is_not_entered(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, ".git/a", "b")
    with remotes.web_server(tmp_path) as server:
        assert told(listed(server.root)) == [
            (".git/", Kind.FILTERED, "hidden"),
            ("b", Kind.FILE, ""),
        ]


def test_a_sidecar_is_with_its_file(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "a.pdf", "a.pdf.meta.json")
    with remotes.web_server(tmp_path) as server:
        first, second = listed(server.root)
        assert first.sidecars == (f"{server.root}/a.pdf.meta.json",)

    assert (second.key, second.code) == ("a.pdf.meta.json", "sidecar")


def test_a_page_of_nginx_tells_sizes_and_times(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path, remotes.page(NGINX)) as server:
        first, second = listed(server.root)
        assert server.asked == ["GET /"]

    assert (first.key, first.size, second.key, second.size) == (
        *("a b.txt", 1234),
        *("long.txt", 5_000_000_000),
    )
    assert first.modified_ns is not None
    assert datetime.fromtimestamp(first.modified_ns / 1e9, UTC) == datetime(
        2025, 11, 19, 10, 22, tzinfo=UTC
    )


@pytest.mark.parametrize("page", [APACHE, LIGHTTPD])
def test_of_pages_that_round_sizes_each_file_is_asked_for(tmp_path: Path, page: str) -> None:
    remotes.put_all(tmp_path, "a.txt")
    with remotes.web_server(tmp_path, remotes.page(page)) as server:
        (line,) = listed(server.root)
        assert server.asked == ["GET /", "HEAD /a.txt"]

    assert (line.key, line.size) == ("a.txt", 5)


def test_files_that_are_left_out_are_not_asked_for(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, ".a")
    with remotes.web_server(tmp_path) as server:
        listed(server.root)
        assert server.asked == ["GET /"]


def test_what_the_server_says_of_a_file_beside_size_and_time_is_around_it(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        if handler.command == "HEAD":
            remotes.send(handler, b"", {"ETag": '"e1"'}, length=7)
        return handler.command == "HEAD"

    remotes.put_all(tmp_path, "a")
    with remotes.web_server(tmp_path, answer) as server:
        (line,) = listed(server.root)

    assert (line.size, line.modified_ns, line.fingerprint) == (7, None, '"e1"')


def test_a_file_of_which_nothing_is_said_has_no_size_and_no_time(tmp_path: Path) -> None:
    (line,) = links_of(tmp_path, '<a href="a.txt">a.txt</a>')

    assert (line.key, line.kind, line.size, line.modified_ns) == ("a.txt", Kind.FILE, 0, None)


@pytest.mark.parametrize(
    "href",
    [
        "../",
        "/",
        "?C=N;O=D",
        "a.txt?C=N",
        "#top",
        "http://elsewhere.example.com/a.txt",
        "//elsewhere.example.com/a.txt",
        "mailto:webmaster@example.com",
        "a/b.txt",
        "",
    ],
)
def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path, href: str) -> None:
    lines = links_of(tmp_path, f'<a href="{href}">there</a><a href="here">here</a>')

    assert [line.key for line in lines] == ["here"]


@pytest.mark.parametrize("href", ["/a.txt", "./a.txt", "a.txt#page=2", " a.txt ", "%61.txt"])
def test_a_link_is_understood_as_browsers_do(tmp_path: Path, href: str) -> None:
    assert [line.key for line in links_of(tmp_path, f'<a href="{href}">a</a>')] == ["a.txt"]


@pytest.mark.parametrize(
    ("href", "key", "shown"),
    [
        ("a%2Fb", "a/b", r"b'a/b'"),
        ("%FF.txt", "\\xff.txt", r"b'\xff.txt'"),
        ("%2e%2e/", "..", "b'..'"),
    ],
)
def test_a_link_to_what_has_no_name_is_rejected(
    tmp_path: Path, href: str, key: str, shown: str
) -> None:
    (line,) = links_of(tmp_path, f'<a href="{href}">a</a>')

    assert (line.key, line.kind, line.code) == (key, Kind.REJECTED, "file-name")
    assert line.reason == f"{shown}; expected a name in UTF-8, without '/'"


def test_a_folder_that_cannot_be_listed_stops_nothing(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        return handler.path == "/a/" and status(403)(handler)

    remotes.put_all(tmp_path, "a/b", "c")
    with remotes.web_server(tmp_path, answer) as server:
        first, second = listed(server.root)

    assert told([first, second]) == [
        ("a/", Kind.REJECTED, "unlistable-folder"),
        ("c", Kind.FILE, ""),
    ]
    assert first.reason == "403 Forbidden; expected a folder that can be listed"


def test_a_root_that_is_not_there_is_told(tmp_path: Path) -> None:
    root, said = refusal_of(tmp_path, status(404))

    assert said == f"{root}/: No such file or directory; expected a page that lists a folder"


def test_a_root_that_stands_elsewhere_is_told_without_its_query(tmp_path: Path) -> None:
    answer = status(302, {"Location": "https://login.example.com/?token=s3same"})
    root, said = refusal_of(tmp_path, answer)

    assert said == (
        f"{root}/: it redirects to 'https://login.example.com/'; "
        "expected a page that lists a folder"
    )


def test_a_root_that_is_no_page_is_told(tmp_path: Path) -> None:
    root, said = refusal_of(tmp_path, remotes.page("%PDF", "application/pdf"))

    assert said == f"{root}/: it is 'application/pdf'; expected a page that lists a folder"


def test_a_page_that_breaks_off_is_not_taken_for_a_folder_of_few_files(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        remotes.send(handler, b'<a href="a">a</a>', {"Content-Type": "text/html"}, length=99)
        return True

    root, said = refusal_of(tmp_path, answer)

    assert said == (f"{root}/: it breaks off; expected a page that lists a folder")


def test_a_page_that_leads_to_nothing_is_no_empty_folder(tmp_path: Path) -> None:
    root, said = refusal_of(tmp_path, remotes.page("<html><body>Log in.</body></html>"))

    assert said == (
        f"{root}/: no link to a file or folder in it; expected a page that lists a folder"
    )


def test_an_empty_page_is_no_empty_folder(tmp_path: Path) -> None:
    root, said = refusal_of(tmp_path, remotes.page(""))

    assert said == f"{root}/: it is not HTML; expected a page that lists a folder"


def test_a_server_that_is_not_there_is_told() -> None:
    with kept_port() as port:
        root = f"http://127.0.0.1:{port}"
        said = refusal(root)

    assert said == f"{root}/: Connection refused; expected a page that lists a folder"


def test_a_single_file_is_found(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "a b")
    with remotes.web_server(tmp_path) as server:
        found = Site(Tree(root=server.root)).find("a b")

    assert found is not None
    assert (found.key, found.path, found.size) == ("a b", f"{server.root}/a%20b", 3)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path) as server:
        assert Site(Tree(root=server.root)).find("a") is None


def test_a_large_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LARGE)
    with remotes.web_server(tmp_path) as server:
        assert remotes.read(f"{server.root}/a") == LARGE


def test_a_file_is_sought_on_a_server_that_gives_no_ranges(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LARGE)
    with remotes.web_server(tmp_path) as server, open_remote(f"{server.root}/a") as stream:
        stream.seek(3_000_003)
        assert stream.read(3) == b"\xc3\xc4\xc5"


def test_a_range_is_asked_for_where_a_file_is_sought(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        if ranged := handler.headers["Range"]:
            asked.append(ranged)
            remotes.send(handler, b"the end", {"Content-Range": "bytes 93-99/100"}, status=206)
        else:
            remotes.send(handler, b"x" * 100, {})
        return True

    asked: list[str] = []
    with remotes.web_server(tmp_path, answer) as server, open_remote(f"{server.root}/a") as stream:
        stream.seek(93)
        assert (stream.read(), asked) == (b"the end", ["bytes=93-"])


def test_a_compressed_file_is_read_as_it_stands_there(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        remotes.send(handler, b"\x1f\x8b not unpacked", {"Content-Encoding": "gzip"})
        return True

    with remotes.web_server(tmp_path, answer) as server:
        assert remotes.read(f"{server.root}/a.gz") == b"\x1f\x8b not unpacked"


def test_a_file_that_vanished_since_it_was_listed_is_gone(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "a")
    with remotes.web_server(tmp_path) as server:
        (line,) = listed(server.root)
        (tmp_path / "a").unlink()
        assert type(remotes.trouble_of(line.path)) is FileNotFoundError


@pytest.mark.parametrize(("number", "words"), [(401, "401 Unauthorized"), (403, "403 Forbidden")])
def test_a_file_that_nobody_may_read_is_told(tmp_path: Path, number: int, words: str) -> None:
    trouble = trouble_with(tmp_path, status(number))

    assert (type(trouble), trouble.strerror) == (PermissionError, words)


def test_a_file_that_the_server_cannot_give_is_told(tmp_path: Path) -> None:
    assert trouble_with(tmp_path, status(500)).strerror == "500 Internal Server Error"


def test_a_connection_that_ends_in_a_file_is_never_its_end(tmp_path: Path) -> None:
    trouble = trouble_with(tmp_path, remotes.break_off)

    assert trouble.strerror == "the connection ended after 1000 of 2000 bytes"


def test_a_connection_that_ends_in_a_file_is_opened_again_once(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path, remotes.break_off) as server:
        remotes.trouble_of(f"{server.root}/a")
        assert server.asked == ["GET /a", "GET /a"]


def test_other_bytes_than_were_asked_for_are_not_taken(tmp_path: Path) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        ranged = handler.headers["Range"]
        headers = {"ETag": '"1"', "Content-Range": "bytes 0-99/200"}
        remotes.send(handler, b"x" * 100, headers, status=206 if ranged else 200, length=200)
        return True

    assert trouble_with(tmp_path, answer).strerror == "other bytes than were asked for"


def test_who_has_to_log_in_has_a_netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        asked.append(handler.headers["Authorization"])
        return False

    asked: list[str] = []
    remotes.put_all(tmp_path, "a")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login feeder password s3same")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with remotes.web_server(tmp_path, answer) as server:
        remotes.read(f"{server.root}/a")

    assert asked == ["Basic ZmVlZGVyOnMzc2FtZQ=="]
