"""Files of an SFTP server, and to which servers the program logs in."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from feedferry.schemas.errors import SourceError
from feedferry.transforms.sources.listing import ListingEntry
from feedferry.transforms.sources.remote import match_remote, open_remote
from feedferry.transforms.sources.remote.sftp import PASSWORD
from feedferry.transforms.sources.tree.folders.walk import list_tree
from feedferry.transforms.sources.tree.rules.tree import Tree
from support import remotes
from support.ports import kept_port

pytestmark = [
    pytest.mark.slow,
    # A thread of paramiko that requests blocks ahead ends with its connection.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

BASE_URL = "https://docs.example.com/"


def large() -> bytes:
    """Return 4 MiB; a constant would be kept while other modules run."""
    return bytes(range(256)) * 16_384


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "served"


@pytest.fixture
def server(folder: Path, tmp_path: Path) -> Iterator[remotes.SftpServer]:
    with remotes.sftp_server(folder, tmp_path / "home") as running:
        yield running


def listed(root: str) -> list[ListingEntry]:
    return list(list_tree(Tree(root=root, base_url=BASE_URL)))


def keys(root: str) -> list[str]:
    return [line.key for line in listed(root)]


def refusal(root: str) -> str:
    with pytest.raises(SourceError) as caught:
        listed(root)
    return str(caught.value)


def test_a_file_is_a_line_of_a_listing(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, "a/b c.txt")
    os.utime(folder / "a/b c.txt", (1_700_000_000, 1_700_000_000))
    assert listed(server.root) == [
        ListingEntry(
            key="a/b c.txt",
            path=f"{server.root}/a/b%20c.txt",
            url="https://docs.example.com/a/b%20c.txt",
            size=9,
            modified_ns=1_700_000_000_000_000_000,
        )
    ]


def test_folders_are_listed_in_the_order_of_the_bytes_of_keys(
    server: remotes.SftpServer, folder: Path
) -> None:
    names = ["B", "a.b", "a/b", "a/c.d", "a/c/d", "a0", "\uff5e", "\U00010000"]
    remotes.put_all(folder, *names)
    assert keys(server.root) == names


@pytest.mark.parametrize("root", ["/a%20b", "/~/a%20b"])
def test_a_folder_or_the_home_folder_of_the_user_can_be_the_root(
    server: remotes.SftpServer, folder: Path, root: str
) -> None:
    remotes.put_all(folder, "a b/c.txt", "d.txt")
    assert keys(server.root + root) == ["c.txt"]


def test_odd_names_are_listed_and_read(server: remotes.SftpServer, folder: Path) -> None:
    names = sorted(["a#b", "a?b", "a%20b", "a b", "a;b", "ä", "~", "a\nb"])
    remotes.put_all(folder, *names)
    lines = listed(server.root)
    assert [line.key for line in lines] == names
    assert [remotes.read(line.path).decode() for line in lines] == names


def test_a_folder_that_cannot_be_listed_is_rejected_alone(
    server: remotes.SftpServer, folder: Path
) -> None:
    remotes.put_all(folder, "a", "b/c", os.fsdecode(b"b/\xff.txt"), "closed/d", ".git/a")
    (folder / "link").symlink_to("a")
    os.mkfifo(folder / "pipe")
    server.closed = b"/closed"
    lines = listed(server.root)
    assert [(line.key, line.code) for line in lines] == [
        (".git/", "hidden"),
        ("a", ""),
        ("b/", "unlistable-folder"),
        ("closed/", "unlistable-folder"),
        ("link", "symlink"),
        ("pipe", "no-file"),
    ]
    expected = "expected a folder that can be listed"
    assert [line.reason for line in lines[2:4]] == [
        rf"the name b'\xff.txt' in it is not UTF-8, so rename it; {expected}",
        f"Permission denied; {expected}",
    ]


def test_a_root_that_does_not_exist_ends_the_run(server: remotes.SftpServer) -> None:
    assert refusal(f"{server.root}/none") == (
        f"{server.root}/none: No such file or directory; expected a folder that can be listed"
    )


def test_a_large_file_is_read_completely_and_from_any_offset(
    server: remotes.SftpServer, folder: Path
) -> None:
    (folder / "a").write_bytes(large())
    assert remotes.read(f"{server.root}/a") == large()
    with open_remote(f"{server.root}/a") as stream:
        stream.seek(3_000_003)
        assert stream.read(3) == b"\xc3\xc4\xc5"
    assert server.logins == 1


def test_a_file_that_cannot_be_read_is_reported(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, "a", "b/c")
    server.closed = b"/a"
    denied = remotes.error_of(f"{server.root}/a")
    assert (type(denied), denied.strerror) == (PermissionError, "Permission denied")
    assert type(remotes.error_of(f"{server.root}/none")) is FileNotFoundError
    assert remotes.error_of(f"{server.root}/b").strerror == "Is a directory"


def test_a_file_that_is_truncated_while_it_is_read_raises(
    server: remotes.SftpServer, folder: Path
) -> None:
    (folder / "a").write_bytes(large())
    with open_remote(f"{server.root}/a") as stream:
        stream.read(1)
        os.truncate(folder / "a", 2_000_000)
        with pytest.raises(OSError, match="changed while it was read"):
            stream.read()


@pytest.mark.kind("remote files")
def test_a_connection_that_ends_in_a_file_is_opened_again_once(
    server: remotes.SftpServer, folder: Path
) -> None:
    (folder / "a").write_bytes(large())
    server.cuts = [1_000_000]
    assert remotes.read(f"{server.root}/a") == large()
    server.cuts = [1_500_000, 1_500_000]
    reason = remotes.error_of(f"{server.root}/a").strerror
    assert re.fullmatch(r"the connection ended after \d+ of 4194304 bytes", reason or "")


def test_a_connection_that_ended_between_two_files_or_folders_is_opened_again(
    server: remotes.SftpServer, folder: Path
) -> None:
    remotes.put_all(folder, "a/1", "b/2")
    lines = list_tree(Tree(root=server.root, base_url=BASE_URL))
    next(lines)
    server.drop()
    assert [line.key for line in lines] == ["b/2"]
    server.drop()
    assert remotes.read(f"{server.root}/a/1") == b"a/1"


@pytest.mark.parametrize("is_missing", [True, False])
def test_no_login_at_a_server_whose_host_key_is_unknown_and_no_key_is_added(
    server: remotes.SftpServer, is_missing: bool
) -> None:
    known_hosts = server.home / ".ssh/known_hosts"
    known_hosts.unlink() if is_missing else known_hosts.write_text("")
    assert refusal(server.root) == (
        f"sftp://127.0.0.1:{server.port}: its host key, {server.fingerprint}, is not in "
        "~/.ssh/known_hosts; expected it there: "
        f"`ssh-keyscan -p {server.port} 127.0.0.1 >> ~/.ssh/known_hosts`, "
        "after you have verified the fingerprint"
    )
    assert is_missing or known_hosts.read_text() == ""


def test_no_login_at_a_server_that_has_another_host_key(server: remotes.SftpServer) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    server.know(other)
    assert refusal(server.root) == (
        f"sftp://127.0.0.1:{server.port}: its host key is {server.fingerprint}; expected "
        f"{other.get_fingerprint()}, as in ~/.ssh/known_hosts: this may be another server"
    )


def test_a_login_that_is_refused_is_reported_without_the_password(
    server: remotes.SftpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, "pa55word")
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(
        str(server.home / ".ssh/id_ed25519")
    )
    assert refusal(server.root) == (
        f"sftp://127.0.0.1:{server.port}: login of 'feeder' refused; expected a key that the "
        "server accepts, from the agent, ~/.ssh or ~/.ssh/config, or a password in "
        "FEEDFERRY_SFTP_PASSWORD"
    )


def test_a_password_is_taken_from_the_environment(
    server: remotes.SftpServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remotes.put_all(folder, "a")
    (server.home / ".ssh/id_ed25519").unlink()
    monkeypatch.setenv(PASSWORD, remotes.PASSWORD)
    assert remotes.read(f"{server.root}/a") == b"a"


def test_a_host_is_looked_up_in_the_configuration_of_ssh(
    server: remotes.SftpServer, folder: Path
) -> None:
    remotes.put_all(folder, "a")
    (server.home / ".ssh/id_ed25519").rename(server.home / "key")
    (server.home / ".ssh/config").write_text(
        f"Host files\n HostName 127.0.0.1\n Port {server.port}\n User {remotes.USER}\n"
        " IdentityFile ~/key\n"
    )
    assert remotes.read("sftp://files/a") == b"a"


@pytest.mark.usefixtures("server")
def test_a_server_that_does_not_answer_ends_the_run() -> None:
    with kept_port() as port:
        assert refusal(f"sftp://127.0.0.1:{port}") == (
            f"sftp://127.0.0.1:{port}: Unable to connect to port {port} on 127.0.0.1; "
            "expected an SFTP server"
        )


@pytest.mark.parametrize("root", ["/a%20b", "/~/a%20b"])
def test_a_glob_matches_files_by_their_percent_encoded_uris(
    server: remotes.SftpServer, folder: Path, root: str
) -> None:
    remotes.put_all(folder, "a b/100%25 c.xml", "a b/d.xml", "a b/e.txt", "a b/f/g.xml")
    uris = [*match_remote(f"{server.root}{root}/*.xml")]
    assert uris == [f"{server.root}{root}/100%2525%20c.xml", f"{server.root}{root}/d.xml"]
    assert [open_remote(uri).read() for uri in uris] == [b"a b/100%25 c.xml", b"a b/d.xml"]
