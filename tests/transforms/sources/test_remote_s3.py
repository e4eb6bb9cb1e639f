"""Objects of a bucket, on an S3 server."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import SourceError
from support import remotes
from transforms.sources.files import list_remote_files
from transforms.sources.listing import ListingEntry
from transforms.sources.remote import REQUEST_BYTES, open_remote, version_of
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.walk import list_tree

pytestmark = pytest.mark.slow

ODD_NAMES = sorted(["a b", "a#b", "a%20b", "a+b", "a?b=c", "a@b:c", "ä", "\uff5e", "\U00010000"])
ETAG_OF_TEXT = "1cb251ec0d568de6a929b520c4aed8d1"


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:  # boto3 makes its classes when it runs
    with remotes.s3_server() as client:
        yield client


def put(s3: Any, *keys: str, body: bytes = b"text") -> None:
    for key in keys:
        s3.put_object(Bucket=remotes.BUCKET, Key=key, Body=body)


def listed(prefix: str, *, root: str = f"s3://{remotes.BUCKET}/") -> list[ListingEntry]:
    return list(list_tree(Tree(root=root + prefix, base_url="https://docs.example.com/")))


def refusal(root: str) -> str:
    with pytest.raises(SourceError) as caught:
        listed("", root=root)
    return str(caught.value).removeprefix(f"{root}: ")


def test_an_object_is_a_line_of_a_listing(s3: Any) -> None:
    put(s3, "line/a/b.txt", "line-2/c.txt", "line.txt")
    (line,) = listed("line")
    modified = s3.head_object(Bucket=remotes.BUCKET, Key="line/a/b.txt")["LastModified"]
    assert datetime.fromtimestamp((line.modified_ns or 0) // 1_000_000_000, UTC) == modified
    assert line == ListingEntry(
        key="a/b.txt",
        path="s3://documents/line/a/b.txt",
        url="https://docs.example.com/a/b.txt",
        size=4,
        modified_ns=line.modified_ns,
        fingerprint=ETAG_OF_TEXT,
    )


@pytest.mark.usefixtures("s3")
def test_thousands_of_objects_are_listed_page_by_page_in_order() -> None:
    names = sorted(f"{number}.txt" for number in range(2500))
    remotes.fill_bucket(*(f"many/{name}" for name in names))
    assert [line.key for line in listed("many")] == names


def test_a_whole_bucket_is_listed(s3: Any) -> None:
    s3.create_bucket(Bucket="whole")
    for key in ("b/c.txt", "a.txt"):
        s3.put_object(Bucket="whole", Key=key, Body=b"text")
    assert [line.key for line in listed("", root="s3://whole")] == ["a.txt", "b/c.txt"]


def test_objects_with_odd_names_are_listed_in_order_and_read(s3: Any) -> None:
    for name in ODD_NAMES:
        put(s3, f"odd/{name}", body=name.encode())
    lines = listed("odd")
    assert [line.key for line in lines] == ODD_NAMES
    assert [remotes.read(line.path).decode() for line in lines] == ODD_NAMES


def test_an_object_that_represents_a_folder_and_a_sidecar_are_no_documents(s3: Any) -> None:
    put(s3, "marked/", "marked/a/", body=b"")
    put(s3, "marked/a/b.pdf", "marked/a/b.pdf.meta.json")
    lines = listed("marked")
    assert [(line.key, line.code) for line in lines] == [
        ("a/", "no-file"),
        ("a/b.pdf", ""),
        ("a/b.pdf.meta.json", "sidecar"),
    ]
    assert lines[1].sidecars == ("s3://documents/marked/a/b.pdf.meta.json",)


@pytest.mark.usefixtures("s3")
def test_a_prefix_or_bucket_that_does_not_exist_ends_the_run() -> None:
    assert refusal("s3://documents/nothing") == (
        "no object with this prefix; expected a folder that can be listed"
    )
    assert refusal("s3://elsewhere/a") == (
        "An error occurred (NoSuchBucket) when calling the ListObjectsV2 operation: The specified"
        " bucket does not exist; expected a folder that can be listed"
    )


def test_missing_credentials_end_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with remotes.s3_at("http://127.0.0.1:9"):
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        assert refusal("s3://documents/a").startswith("Unable to locate credentials; expected")


def test_a_large_object_is_read_completely_and_from_any_offset(s3: Any) -> None:
    content = bytes(range(256)) * (REQUEST_BYTES // 128)
    put(s3, "large/a", body=content)
    assert remotes.read("s3://documents/large/a") == content
    with open_remote("s3://documents/large/a") as stream:
        signature = version_of(stream)
        stream.seek(2_000_003)
        assert stream.read(3) == b"\x83\x84\x85"
    assert signature is not None
    assert signature.size == len(content)


def test_an_object_that_is_replaced_while_it_is_read_raises(s3: Any) -> None:
    content = bytes(3 * REQUEST_BYTES)
    put(s3, "replaced/a", body=content)
    with open_remote("s3://documents/replaced/a") as stream:
        stream.read(1)
        put(s3, "replaced/a", body=b"x" * len(content))
        with pytest.raises(OSError, match="changed while it was read"):
            stream.read()


@pytest.mark.usefixtures("s3")
def test_an_object_that_vanished_is_not_found() -> None:
    error = remotes.error_of("s3://documents/vanished.txt")
    assert (type(error), error.filename) == (FileNotFoundError, "s3://documents/vanished.txt")


def test_an_object_that_may_not_be_read_is_reported(tmp_path: Path) -> None:
    def forbid(handler: SimpleHTTPRequestHandler) -> bool:
        remotes.send(handler, b"", {"Content-Type": "application/xml"}, status=403)
        return True

    with remotes.web_server(tmp_path, forbid) as server, remotes.s3_at(server.root):
        error = remotes.error_of("s3://documents/a.txt")
    assert (type(error), error.strerror) == (PermissionError, "Forbidden")


def test_a_connection_that_ends_in_an_object_is_never_its_end(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path, remotes.break_off) as server, remotes.s3_at(server.root):
        error = remotes.error_of("s3://documents/a.txt")
    assert re.fullmatch("the connection ended after 1?0+ of 2000 bytes", error.strerror or "")


def test_the_files_that_match_the_glob_of_a_uri_are_sorted(s3: Any) -> None:
    put(s3, "feeds/b.xml", "feeds/a.xml", "feeds/notes.txt", "feeds/old/c.xml")
    files = list_remote_files(f"s3://{remotes.BUCKET}/feeds/*.xml")
    assert files == [f"s3://{remotes.BUCKET}/feeds/{name}.xml" for name in "ab"]
