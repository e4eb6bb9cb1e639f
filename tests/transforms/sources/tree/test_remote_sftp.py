"""Files of an SFTP server, and who may talk to it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from schemas.errors import SourceError
from support import remotes
from support.ports import kept_port
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.remote import open_remote
from transforms.sources.tree.sftp import PASSWORD
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.walk import list_tree

pytestmark = [
    pytest.mark.slow,
    # A thread of paramiko that requests blocks ahead ends with its connection.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

BASE_URL = "https://docs.example.com/"
LARGE = bytes(range(256)) * 16_384  # 4 MiB


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "served"


@pytest.fixture
def server(folder: Path, tmp_path: Path) -> Iterator[remotes.SftpServer]:
    with remotes.sftp_server(folder, tmp_path / "home") as running:
        yield running


def listed(root: str, *, follows_links: bool = False) -> list[ListingEntry]:
    tree = Tree(root=root, base_url=BASE_URL, follows_links=follows_links)
    return list(list_tree(tree))


def told(lines: list[ListingEntry]) -> list[tuple[str, EntryKind, str]]:
    return [(line.key, line.kind, line.code) for line in lines]


def refusal(root: str) -> str:
    with pytest.raises(SourceError) as caught:
        listed(root)
    return str(caught.value)


def stranger() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


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
    names = ["B", "a.b", "a/b", "a/c/d", "a/c.d", "a0", "\uff5e", "\U00010000"]
    remotes.put_all(folder, *names)
    keys = [line.key for line in listed(server.root)]

    assert keys == ["B", "a.b", "a/b", "a/c.d", "a/c/d", "a0", "\uff5e", "\U00010000"]


def test_a_folder_below_the_root_can_be_one(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, "a b/c.txt", "d.txt")

    assert [line.key for line in listed(f"{server.root}/a%20b")] == ["c.txt"]


def test_the_home_folder_of_the_user_can_be_one(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, "a/b.txt")

    assert [line.key for line in listed(f"{server.root}/~/a")] == ["b.txt"]


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", "a b", "a;b", "ä", "~", "a\nb"])
def test_an_odd_name_is_listed_and_read(
    server: remotes.SftpServer, folder: Path, name: str
) -> None:
    remotes.put_all(folder, name)
    (line,) = listed(server.root)

    assert (line.key, remotes.read(line.path)) == (name, name.encode())


def test_a_folder_with_a_name_that_is_not_utf_8_is_rejected(
    server: remotes.SftpServer, folder: Path
) -> None:
    remotes.put_all(folder, "a", "b/c", os.fsdecode(b"b/\xff.txt"))
    first, second = listed(server.root)

    assert told([first, second]) == [
        ("a", EntryKind.FILE, ""),
        ("b/", EntryKind.REJECTED, "unlistable-folder"),
    ]
    assert second.reason == (
        r"the name b'\xff.txt' in it is not UTF-8, so rename it; "
        "expected a folder that can be listed"
    )


def test_links_are_left_out(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, "a")
    (folder / "b").symlink_to("a")

    assert told(listed(server.root)) == [
        ("a", EntryKind.FILE, ""),
        ("b", EntryKind.FILTERED, "symlink"),
    ]


def test_what_is_no_file_is_left_out(server: remotes.SftpServer, folder: Path) -> None:
    os.mkfifo(folder / "a")

    assert told(listed(server.root)) == [("a", EntryKind.FILTERED, "no-file")]


def test_a_hidden_folder_is_not_entered(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, ".git/a", "b")

    assert told(listed(server.root)) == [
        (".git/", EntryKind.FILTERED, "hidden"),
        ("b", EntryKind.FILE, ""),
    ]


def test_a_folder_that_cannot_be_listed_stops_nothing(
    server: remotes.SftpServer, folder: Path
) -> None:
    remotes.put_all(folder, "a/b", "c")
    server.closed = b"/a"
    first, second = listed(server.root)

    assert told([first, second]) == [
        ("a/", EntryKind.REJECTED, "unlistable-folder"),
        ("c", EntryKind.FILE, ""),
    ]
    assert first.reason == "Permission denied; expected a folder that can be listed"


def test_a_root_that_is_not_there_is_told(server: remotes.SftpServer) -> None:
    assert refusal(f"{server.root}/none") == (
        f"{server.root}/none: No such file or directory; expected a folder that can be listed"
    )


def test_a_large_file_is_read_whole(server: remotes.SftpServer, folder: Path) -> None:
    (folder / "a").write_bytes(LARGE)

    assert remotes.read(f"{server.root}/a") == LARGE


def test_a_file_is_read_from_where_it_is_sought(server: remotes.SftpServer, folder: Path) -> None:
    (folder / "a").write_bytes(LARGE)
    with open_remote(f"{server.root}/a") as stream:
        stream.seek(3_000_003)
        assert stream.read(3) == b"\xc3\xc4\xc5"


def test_a_file_that_vanished_since_it_was_listed_is_gone(
    server: remotes.SftpServer, folder: Path
) -> None:
    remotes.put_all(folder, "a")
    (line,) = listed(server.root)
    (folder / "a").unlink()

    assert type(remotes.error_of(line.path)) is FileNotFoundError


def test_a_file_that_nobody_may_read_is_told(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, "a")
    server.closed = b"/a"
    error = remotes.error_of(f"{server.root}/a")

    assert (type(error), error.strerror) == (PermissionError, "Permission denied")


def test_a_folder_is_no_file(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, "a/b")

    assert remotes.error_of(f"{server.root}/a").strerror == "Is a directory"


def test_a_file_that_is_cut_while_it_is_read_is_told(
    server: remotes.SftpServer, folder: Path
) -> None:
    (folder / "a").write_bytes(LARGE)
    with open_remote(f"{server.root}/a") as stream:
        stream.read(1)
        os.truncate(folder / "a", 2_000_000)
        with pytest.raises(OSError, match="changed while it was read"):
            stream.read()


def test_a_connection_that_ends_in_a_file_is_opened_again(
    server: remotes.SftpServer, folder: Path
) -> None:
    (folder / "a").write_bytes(LARGE)
    server.cuts = [1_000_000]

    assert remotes.read(f"{server.root}/a") == LARGE


def test_a_connection_that_ends_in_a_file_twice_is_never_its_end(
    server: remotes.SftpServer, folder: Path
) -> None:
    (folder / "a").write_bytes(LARGE)
    server.cuts = [1_500_000, 1_500_000]

    reason = remotes.error_of(f"{server.root}/a").strerror
    assert re.fullmatch(r"the connection ended after 1\d{6} of 4194304 bytes", reason or "")


def test_a_session_is_used_again(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, "a", "b")
    remotes.read(f"{server.root}/a")
    remotes.read(f"{server.root}/b")

    assert server.logins == 1


def test_a_session_that_died_is_opened_again(server: remotes.SftpServer, folder: Path) -> None:
    remotes.put_all(folder, "a")
    remotes.read(f"{server.root}/a")
    server.drop()

    assert remotes.read(f"{server.root}/a") == b"a"


def test_a_session_that_dies_between_two_folders_is_opened_again(
    server: remotes.SftpServer, folder: Path
) -> None:
    remotes.put_all(folder, "a/1", "b/2")
    lines = list_tree(Tree(root=server.root, base_url=BASE_URL))
    next(lines)
    server.drop()

    assert [line.key for line in lines] == ["b/2"]


def test_a_server_whose_host_key_is_unknown_is_not_talked_to(
    server: remotes.SftpServer,
) -> None:
    (server.home / ".ssh/known_hosts").unlink()

    assert refusal(server.root) == (
        f"sftp://127.0.0.1:{server.port}: its host key, {server.fingerprint}, is not in "
        "~/.ssh/known_hosts; expected it there: "
        f"`ssh-keyscan -p {server.port} 127.0.0.1 >> ~/.ssh/known_hosts`, "
        "after you have verified the fingerprint"
    )


def test_no_host_key_is_ever_added(server: remotes.SftpServer) -> None:
    (server.home / ".ssh/known_hosts").write_text("")
    refusal(server.root)

    assert (server.home / ".ssh/known_hosts").read_text() == ""


def test_a_server_that_has_another_host_key_is_not_talked_to(
    server: remotes.SftpServer,
) -> None:
    other = stranger()
    server.know(other)

    assert refusal(server.root) == (
        f"sftp://127.0.0.1:{server.port}: its host key is {server.fingerprint}; expected "
        f"{other.get_fingerprint()}, as in ~/.ssh/known_hosts: this may be another server"
    )


def test_a_user_whose_key_is_not_the_right_one_is_told(server: remotes.SftpServer) -> None:
    stranger().write_private_key(str(server.home / ".ssh/id_ed25519"))

    assert refusal(server.root) == (
        f"sftp://127.0.0.1:{server.port}: login of 'feeder' refused; expected a key that the "
        "server accepts, from the agent, ~/.ssh or ~/.ssh/config, or a password in "
        "FEEDFERRY_SFTP_PASSWORD"
    )


def test_a_password_of_the_environment_lets_in(
    server: remotes.SftpServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remotes.put_all(folder, "a")
    (server.home / ".ssh/id_ed25519").unlink()
    monkeypatch.setenv(PASSWORD, remotes.PASSWORD)

    assert remotes.read(f"{server.root}/a") == b"a"


def test_a_wrong_password_is_not_shown(
    server: remotes.SftpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (server.home / ".ssh/id_ed25519").unlink()
    monkeypatch.setenv(PASSWORD, "pa55word")

    assert "pa55word" not in refusal(server.root)


def test_a_host_is_looked_up_in_the_configuration_of_ssh(
    server: remotes.SftpServer, folder: Path
) -> None:
    remotes.put_all(folder, "a")
    key = server.home / ".ssh/id_ed25519"
    key.rename(server.home / "key")
    (server.home / ".ssh/config").write_text(
        f"Host files\n HostName 127.0.0.1\n Port {server.port}\n User {remotes.USER}\n"
        " IdentityFile ~/key\n"
    )

    assert remotes.read("sftp://files/a") == b"a"


@pytest.mark.usefixtures("server")
def test_a_server_that_is_not_there_is_told() -> None:
    with kept_port() as port:
        said = refusal(f"sftp://127.0.0.1:{port}")

    assert said == (
        f"sftp://127.0.0.1:{port}: Unable to connect to port {port} on 127.0.0.1; "
        "expected an SFTP server"
    )
