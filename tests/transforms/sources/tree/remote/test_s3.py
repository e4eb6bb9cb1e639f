"""Objects of a bucket, on an S3 server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import SourceError
from support import remotes
from transforms.sources.listing import Kind, Listed
from transforms.sources.tree.remote.listing import Remote
from transforms.sources.tree.remote.s3 import Bucket
from transforms.sources.tree.remote.schemes import list_remote, open_remote
from transforms.sources.tree.tree import Tree

BASE_URL = "https://docs.example.com/"
ODD_NAMES = ["a b.txt", "a#b.txt", "a%20b.txt", "a+b.txt", "a?b=c.txt", "a@b:c.txt", "ä.txt"]


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:  # boto3 makes its classes when it runs
    with remotes.s3_server() as client:
        yield client


def put(s3: Any, *keys: str, body: bytes = b"text") -> None:
    for key in keys:
        s3.put_object(Bucket=remotes.BUCKET, Key=key, Body=body)


def tree(prefix: str) -> Tree:
    return Tree(root=f"s3://{remotes.BUCKET}/{prefix}", base_url=BASE_URL)


def listed(prefix: str) -> list[Listed]:
    return list(list_remote(tree(prefix)))


def keys(prefix: str) -> list[str]:
    return [line.key for line in listed(prefix)]


def test_an_object_is_a_line_of_a_listing(s3: Any) -> None:
    put(s3, "line/a/b.txt")
    (line,) = listed("line")

    assert line.modified_ns is not None
    assert line == Listed(
        key="a/b.txt",
        path="s3://documents/line/a/b.txt",
        url="https://docs.example.com/a/b.txt",
        size=4,
        modified_ns=line.modified_ns,
        fingerprint="1cb251ec0d568de6a929b520c4aed8d1",
    )


def test_an_object_has_the_time_that_s3_tells(s3: Any) -> None:
    put(s3, "time/a.txt")
    told = s3.head_object(Bucket=remotes.BUCKET, Key="time/a.txt")["LastModified"]
    (line,) = listed("time")

    assert line.modified_ns is not None
    assert datetime.fromtimestamp(line.modified_ns // 1_000_000_000, UTC) == told


def test_an_object_that_was_written_again_has_something_else_around_it(s3: Any) -> None:
    put(s3, "again/a.txt", body=b"one")
    (before,) = listed("again")
    put(s3, "again/a.txt", body=b"two")
    (after,) = listed("again")

    assert (before.size, before.fingerprint != after.fingerprint) == (after.size, True)


@pytest.mark.usefixtures("s3")
def test_thousands_of_objects_are_listed_page_by_page_in_their_order() -> None:
    names = sorted(f"{number}.txt" for number in range(2500))
    remotes.fill_bucket(*(f"many/{name}" for name in names))

    assert keys("many") == names


def test_a_whole_bucket_is_listed(s3: Any) -> None:
    s3.create_bucket(Bucket="whole")
    s3.put_object(Bucket="whole", Key="b/c.txt", Body=b"text")
    s3.put_object(Bucket="whole", Key="a.txt", Body=b"text")
    lines = list_remote(Tree(root="s3://whole", base_url=BASE_URL))

    assert [line.key for line in lines] == ["a.txt", "b/c.txt"]


def test_what_only_begins_like_the_prefix_is_not_below_it(s3: Any) -> None:
    put(s3, "year/a.txt", "year-2/b.txt", "year.txt")

    assert keys("year") == ["a.txt"]


def test_names_stand_in_the_order_of_their_bytes(s3: Any) -> None:
    put(s3, "order/\U00010000", "order/\uff5e", "order/a/b", "order/a.b", "order/B")

    assert keys("order") == ["B", "a.b", "a/b", "\uff5e", "\U00010000"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_odd_name_is_listed_and_read(s3: Any, name: str) -> None:
    put(s3, f"odd-{ODD_NAMES.index(name)}/{name}", body=name.encode())
    (line,) = listed(f"odd-{ODD_NAMES.index(name)}")

    assert (line.key, remotes.read(line.path)) == (name, name.encode())


def test_a_marker_of_a_folder_is_no_file(s3: Any) -> None:
    put(s3, "marked/", "marked/a/", body=b"")
    put(s3, "marked/a/b.txt")
    lines = [(line.key, line.kind, line.code) for line in listed("marked")]

    assert lines == [("a/", Kind.FILTERED, "no-file"), ("a/b.txt", Kind.FILE, "")]


def test_a_sidecar_is_with_its_object(s3: Any) -> None:
    put(s3, "beside/a.pdf", "beside/a.pdf.meta.json")
    first, second = listed("beside")

    assert first.sidecars == ("s3://documents/beside/a.pdf.meta.json",)
    assert (second.key, second.code) == ("a.pdf.meta.json", "sidecar")


def test_a_single_object_is_found(s3: Any) -> None:
    put(s3, "single/a.txt")
    found = Bucket(tree("single")).find("a.txt")

    assert isinstance(found, Remote)
    assert (found.key, found.size, found.fingerprint) == (
        "a.txt",
        4,
        "1cb251ec0d568de6a929b520c4aed8d1",
    )


def test_an_object_that_is_not_there_is_not_found(s3: Any) -> None:
    put(s3, "none/a.txt")

    assert Bucket(tree("none")).find("b.txt") is None


@pytest.mark.usefixtures("s3")
def test_a_prefix_of_nothing_is_told() -> None:
    with pytest.raises(SourceError) as caught:
        listed("nothing")

    assert str(caught.value) == (
        "s3://documents/nothing: no object; expected some below this prefix"
    )


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_is_not_there_is_told() -> None:
    with pytest.raises(SourceError) as caught:
        list(list_remote(Tree(root="s3://elsewhere/a", base_url=BASE_URL)))

    assert str(caught.value) == (
        "s3://elsewhere/a: NoSuchBucket: The specified bucket does not exist; "
        "expected a bucket that can be listed"
    )


def test_missing_credentials_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with remotes.s3_at("http://127.0.0.1:9"):
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        with pytest.raises(SourceError) as caught:
            listed("a")

    assert str(caught.value) == (
        "s3://documents/a: Unable to locate credentials; expected a bucket that can be listed"
    )


def test_a_large_object_is_read_from_where_it_is_sought(s3: Any) -> None:
    put(s3, "large/a", body=bytes(range(256)) * 10_000)
    with open_remote("s3://documents/large/a") as stream:
        stream.seek(2_000_003)
        assert stream.read(3) == b"\x83\x84\x85"


def test_an_object_that_vanished_since_it_was_listed_is_gone(s3: Any) -> None:
    put(s3, "vanishing/a.txt")
    (line,) = listed("vanishing")
    s3.delete_object(Bucket=remotes.BUCKET, Key="vanishing/a.txt")

    trouble = remotes.trouble_of(line.path)
    assert (type(trouble), trouble.filename) == (
        FileNotFoundError,
        "s3://documents/vanishing/a.txt",
    )


def answers(status: int, text: str) -> remotes.Answer:
    def answer(handler: SimpleHTTPRequestHandler) -> bool:
        remotes.send(handler, text.encode(), {"Content-Type": "application/xml"}, status=status)
        return True

    return answer


def ignores_ranges(handler: SimpleHTTPRequestHandler) -> bool:
    """Promise twice as many bytes as are sent, always the first ones."""
    remotes.send(handler, b"x" * 1000, {"ETag": '"1"'}, length=2000)
    return True


def test_an_object_that_nobody_may_read_is_told(tmp_path: Path) -> None:
    refusal = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    with remotes.web_server(tmp_path, answers(403, refusal)) as server, remotes.s3_at(server.root):
        trouble = remotes.trouble_of("s3://documents/a.txt")

    assert (type(trouble), trouble.strerror) == (PermissionError, "Permission denied")


def test_an_object_in_an_archive_is_told(tmp_path: Path) -> None:
    state = "<Error><Code>InvalidObjectState</Code><Message>It is archived</Message></Error>"
    with remotes.web_server(tmp_path, answers(403, state)) as server, remotes.s3_at(server.root):
        trouble = remotes.trouble_of("s3://documents/a.txt")

    assert trouble.strerror == "InvalidObjectState: It is archived"


def test_a_connection_that_ends_in_an_object_is_never_its_end(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path, remotes.break_off) as server, remotes.s3_at(server.root):
        trouble = remotes.trouble_of("s3://documents/a.txt")

    assert trouble.strerror == "the connection ended after 1000 of 2000 bytes"


def test_a_connection_that_ends_in_an_object_is_opened_again_once(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path, remotes.break_off) as server, remotes.s3_at(server.root):
        remotes.trouble_of("s3://documents/a.txt")

        assert server.asked == ["GET /documents/a.txt"] * 2


def test_the_first_bytes_of_an_object_are_not_taken_for_its_last(tmp_path: Path) -> None:
    with remotes.web_server(tmp_path, ignores_ranges) as server, remotes.s3_at(server.root):
        trouble = remotes.trouble_of("s3://documents/a.txt")

    assert trouble.strerror == "other bytes than were asked for"


def test_a_server_that_is_not_there_is_told() -> None:
    with remotes.s3_at("http://127.0.0.1:9"):
        trouble = remotes.trouble_of("s3://documents/a.txt")

    assert trouble.strerror == (
        'Could not connect to the endpoint URL: "http://127.0.0.1:9/documents/a.txt"'
    )


def test_directory_buckets_which_keep_no_order_are_sorted(tmp_path: Path) -> None:
    objects = "".join(
        f"<Contents><Key>{key}</Key><Size>1</Size>"
        "<LastModified>2026-01-02T03:04:05Z</LastModified></Contents>"
        for key in ("b", "a")
    )
    session = (
        "<Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>b</SecretAccessKey>"
        "<SessionToken>c</SessionToken><Expiration>2099-01-02T03:04:05Z</Expiration></Credentials>"
    )
    page = f"<R>{session}<KeyCount>2</KeyCount>{objects}</R>"
    with remotes.web_server(tmp_path, answers(200, page)) as server, remotes.s3_at(server.root):
        bucket = Bucket(Tree(root="s3://documents--use1-az4--x-s3"))
        assert [found.key for found in bucket.list()] == ["a", "b"]
