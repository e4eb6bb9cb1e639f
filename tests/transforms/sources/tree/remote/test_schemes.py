"""Trees that are not local, by the schemes of their uris."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.errors import ConfigError, SourceError
from schemas.span import Span
from support import remotes
from transforms.sources.files import open_span
from transforms.sources.tree.remote import schemes
from transforms.sources.tree.remote.schemes import (
    LISTED,
    check_remote,
    list_remote,
    open_remote,
    scheme_of,
)
from transforms.sources.tree.tree import Tree, TreeAcl

SECRET = "s3same"
HIDDEN = ": not shown, as there may be a secret in it; expected "
IN_S3 = "s3://BUCKET/PREFIX, and credentials where boto3 finds them"
BY_SFTP = "sftp://USER@HOST:PORT/PATH, and a password only in FEEDFERRY_SFTP_PASSWORD"
ON_THE_WEB = "http://HOST:PORT/PATH, and who has to log in in ~/.netrc"


def refusal(call: Callable[[str], object], uri: str) -> str:
    with pytest.raises(ConfigError) as caught:
        call(uri)
    return str(caught.value)


def list_all(root: str) -> list[object]:
    return list(list_remote(Tree(root=root)))


@pytest.mark.parametrize(
    ("uri", "scheme"),
    [
        ("s3://bucket/a", "s3"),
        ("SFTP://host/a", "sftp"),
        ("/srv/a", ""),
        ("C:/a", ""),
        ("a://", "a"),
        ("s3://bucket/a\nb", "s3"),
    ],
)
def test_a_uri_has_a_scheme(uri: str, scheme: str) -> None:
    assert scheme_of(uri) == scheme


def test_these_are_listed_without_beam() -> None:
    assert sorted(LISTED) == ["http", "https", "s3", "scp", "sftp", "ssh"]


@pytest.mark.parametrize(
    "root",
    [
        "s3://bucket",
        "s3://bucket/mail@example.com/a:b?c#d",
        "sftp://host/a",
        "sftp://user@host/a@b:c",
        "sftp://user@host:2222/~/a?b#c",
        "sftp://[::1]:22/a",
        "http://host/a",
        "https://host:8443/a%20b",
    ],
)
def test_a_uri_without_a_secret_is_good(root: str) -> None:
    check_remote(root)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"s3://key:{SECRET}@bucket/a", f"s3://…{HIDDEN}{IN_S3}"),
        (f"s3://key:{SECRET}/rest@bucket/a", f"s3://…{HIDDEN}{IN_S3}"),
        (f"s3://{SECRET}@bucket/a", f"s3://…{HIDDEN}{IN_S3}"),
        (f"sftp://user:{SECRET}@host/a", f"sftp://…{HIDDEN}{BY_SFTP}"),
        (f"sftp://user:{SECRET}/rest@host/a", f"sftp://…{HIDDEN}{BY_SFTP}"),
        (f"sftp://user:{SECRET}#rest@host/a", f"sftp://…{HIDDEN}{BY_SFTP}"),
        (f"sftp://user:{SECRET}@rest@host/a", f"sftp://…{HIDDEN}{BY_SFTP}"),
        (f"ssh://user:{SECRET}@host/a", f"ssh://…{HIDDEN}{BY_SFTP}"),
        (f"http://user:{SECRET}@host/a", f"http://…{HIDDEN}{ON_THE_WEB}"),
        (f"https://{SECRET}@host/a", f"https://…{HIDDEN}{ON_THE_WEB}"),
        ("s3:///a", f"s3://…{HIDDEN}{IN_S3}"),
        ("sftp:///a", f"sftp://…{HIDDEN}{BY_SFTP}"),
    ],
)
@pytest.mark.parametrize("call", [check_remote, list_all, open_remote])
def test_a_uri_with_a_secret_is_refused_and_not_shown(
    call: Callable[[str], object], uri: str, expected: str
) -> None:
    assert refusal(call, uri) == expected


@pytest.mark.parametrize("behind", [f"?token={SECRET}", f"#{SECRET}", f"/a?{SECRET}"])
def test_a_root_with_a_query_is_refused_and_the_query_not_shown(behind: str) -> None:
    shown = "http://host/a" if behind.startswith("/a") else "http://host"

    assert refusal(check_remote, f"http://host{behind}") == (
        f"{shown}: a query or a fragment behind it; expected the uri of a folder"
    )


def test_a_scheme_that_nobody_knows_is_told() -> None:
    assert refusal(check_remote, "gopher://host/a") == (
        "'gopher' is no scheme that is known; "
        "expected one of s3, sftp, ssh, scp, http, https, gs, azfs, hdfs"
    )


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (
            "gs://bucket/a",
            "gs: google.cloud.storage is not installed; "
            "expected it: pip install 'apache-beam[gcp]'",
        ),
        (
            "azfs://account/container",
            "azfs: azure.storage.blob is not installed; "
            "expected it: pip install 'apache-beam[azure]'",
        ),
        ("hdfs://host/a", "hdfs: hdfs is not installed; expected it: pip install 'hdfs'"),
        (
            "s3://bucket/a",
            "s3: boto3 is not installed; expected it: pip install 'smart-open[s3]'",
        ),
    ],
)
def test_a_package_that_is_missing_is_told(
    root: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemes, "_is_installed", lambda _: False)

    assert refusal(check_remote, root) == expected


@pytest.mark.parametrize(("name", "is_there"), [("json", True), ("none.at.all", False)])
def test_a_package_is_looked_for(name: str, is_there: bool) -> None:
    assert schemes._is_installed(name) is is_there


def test_acls_of_posix_are_refused_where_nobody_tells_owners() -> None:
    tree = Tree(root="s3://bucket/a", acl=TreeAcl())

    with pytest.raises(ConfigError) as caught:
        list_remote(tree)

    assert str(caught.value) == (
        "s3://bucket/a: nobody tells the owners of its files; expected a table of ACLs"
    )


def test_files_of_feeds_are_opened_the_same_way(tmp_path: Path) -> None:
    remotes.put_all(tmp_path / "served", "feed.xml")
    with (
        remotes.sftp_server(tmp_path / "served", tmp_path / "home") as server,
        open_span(Span(source=f"{server.root}/feed.xml", offset=5)) as stream,
    ):
        assert stream.read() == b"xml"


def test_a_feed_that_is_gone_is_told(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path) as server, pytest.raises(SourceError) as caught:
        list(open_span(Span(source=f"{server.root}/feed.xml")).__enter__())

    assert str(caught.value) == (
        f"{server.root}/feed.xml: No such file or directory; expected a file that can be read"
    )


def test_a_feed_that_breaks_off_is_told(tmp_path: Path) -> None:
    with (
        remotes.web_server(tmp_path, remotes.break_off) as server,
        pytest.raises(SourceError) as caught,
        open_span(Span(source=f"{server.root}/feed.xml")) as stream,
    ):
        stream.read()

    assert str(caught.value) == (
        f"{server.root}/feed.xml: the connection ended after 1000 of 2000 bytes; "
        "expected a file that can be read"
    )


def test_what_a_scheme_needs_is_loaded_when_it_is_met() -> None:
    loaded = (
        "import sys, transforms.sources.files, transforms.sources.tree.read, "
        "transforms.sources.tree.walk; "
        "print([name for name in ('boto3', 'paramiko', 'requests', 'smart_open')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", loaded], check=True, capture_output=True, text=True
    )

    assert done.stdout == "[]\n"
