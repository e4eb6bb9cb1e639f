"""URIs of remote files and trees: which are accepted, and what a refusal shows."""

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime

import pytest

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sources.remote import (
    check_remote,
    match_remote,
    open_remote,
    scheme_of,
    translate_errors,
    uris,
)
from feedferry.transforms.sources.remote.file_systems import read_info

SECRET = "s3same"
HIDDEN = ": not shown, because it may contain a secret; expected "
CREDENTIALS = ", and credentials as in docs/formats/files.md, Remote trees"


def refusal(call: Callable[[str], object], uri: str) -> str:
    with pytest.raises(ConfigError) as caught:
        call(uri)
    return str(caught.value)


@pytest.mark.parametrize(
    ("uri", "scheme"),
    [
        ("s3://bucket/a", "s3"),
        ("SFTP://host/a", "sftp"),
        ("/srv/a", ""),
        ("C:/a", ""),
        ("s3://bucket/a\nb", "s3"),
    ],
)
def test_a_uri_has_a_scheme(uri: str, scheme: str) -> None:
    assert scheme_of(uri) == scheme


@pytest.mark.parametrize(
    "root",
    [
        "s3://bucket",
        "s3://bucket/mail@example.com/a:b?c#d",
        "sftp://user@host/a@b:c",
        "sftp://user@host:2222/~/a?b#c",
        "sftp://[::1]:22/a",
    ],
)
def test_a_uri_without_a_secret_is_accepted(root: str) -> None:
    check_remote(root)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"s3://key:{SECRET}@bucket/a", "s3://BUCKET/PREFIX"),
        (f"s3://key:{SECRET}/more@bucket/a", "s3://BUCKET/PREFIX"),
        (f"sftp://user:{SECRET}@host/a", "sftp://USER@HOST:PORT/PATH"),
        (f"sftp://user:{SECRET}/more@host/a", "sftp://USER@HOST:PORT/PATH"),
        (f"sftp://user:{SECRET}@more@host/a", "sftp://USER@HOST:PORT/PATH"),
        (f"ssh://user:{SECRET}@host/a", "ssh://USER@HOST:PORT/PATH"),
        (f"https://{SECRET}@host/a", "https://HOST:PORT/PATH"),
        ("s3:///a", "s3://BUCKET/PREFIX"),
    ],
)
@pytest.mark.parametrize("call", [check_remote, open_remote])
def test_a_uri_with_a_secret_is_refused_and_not_shown(
    call: Callable[[str], object], uri: str, expected: str
) -> None:
    scheme = uri.partition(":")[0]
    assert refusal(call, uri) == f"{scheme}://…{HIDDEN}{expected}{CREDENTIALS}"


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (
            "gopher://host/a",
            "unknown scheme 'gopher'; expected one of s3, gs, az, abfs, sftp, ssh, http, https",
        ),
        (
            f"http://host/a?token={SECRET}",
            "http: folders of web servers are not listed; expected a local copy, as by"
            " wget --mirror, or a feed of URLs that the appliance crawls",
        ),
    ],
)
def test_a_root_that_cannot_be_listed_is_refused(root: str, expected: str) -> None:
    assert refusal(check_remote, root) == expected
    assert refusal(match_remote, f"{root}/*.xml") == expected


@pytest.mark.parametrize(
    ("root", "package", "extra"),
    [("sftp://host/a", "paramiko", "sftp"), ("https://host/a", "aiohttp", "http")],
)
def test_a_missing_package_is_named_with_its_extra(
    root: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uris, "find_spec", lambda _: None)
    assert refusal(open_remote, root) == (
        f"{scheme_of(root)}: {package} is not installed; expected it:"
        f" pip install 'feedferry[{extra}]'"
    )


class LibraryError(Exception):
    """An error of a library that is no OSError."""


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (LibraryError("no credentials"), OSError, "no credentials"),
        (TimeoutError(), OSError, "TimeoutError"),
        (OSError(28, "disk full"), OSError, "disk full"),
        (PermissionError("Access Denied"), PermissionError, "Access Denied"),
        (FileNotFoundError("sftp://a"), FileNotFoundError, "No such file or directory"),
    ],
)
def test_every_error_of_a_library_becomes_an_oserror(
    error: Exception, kind: type[OSError], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught, translate_errors("sftp://a"):
        raise error
    assert (type(caught.value), caught.value.filename) == (kind, "sftp://a")


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (
            {"size": 7, "mtime": datetime(2026, 1, 2, 0, 0, 0, 5)},
            (7, 1_767_312_000_000_005_000, ""),
        ),
        (
            {"Last-Modified": "Fri, 02 Jan 2026 00:00:00 GMT", "ETag": '"e1"'},
            (None, 1_767_312_000_000_000_000, "e1"),
        ),
        ({"size": None, "Last-Modified": "yesterday"}, (None, None, "")),
        ({}, (None, None, "")),
    ],
)
def test_every_file_system_names_size_time_and_version_in_its_own_way(
    info: dict[str, object], expected: tuple[int | None, int | None, str]
) -> None:
    found = read_info(info)
    assert (found.size, found.modified_ns, found.version) == expected


@pytest.mark.slow
def test_libraries_are_loaded_at_the_first_uri_of_their_scheme() -> None:
    names = ("aiohttp", "fsspec", "obstore", "paramiko", "smart_open")
    code = (
        "import sys, feedferry.transforms.sources.files, "
        "feedferry.transforms.sources.tree.documents.read, "
        "feedferry.transforms.sources.tree.folders.walk; "
        f"print([name for name in {names} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
