"""Objects of a bucket, on an S3 server."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from feedferry.schemas.errors import SourceError
from feedferry.transforms.sources.listing import ListingEntry
from feedferry.transforms.sources.remote import match_remote, open_remote, version_of
from feedferry.transforms.sources.tree.folders.walk import list_tree
from feedferry.transforms.sources.tree.rules.tree import Tree
from feedferry.transforms.storage.objects.object_stream import FIRST_BYTES, REQUEST_BYTES
from support import remotes
from support.bucket import Bucket, bucket_server

pytestmark = pytest.mark.slow

ODD_NAMES = sorted(["a b", "a#b", "a%20b", "a+b", "a?b=c", "a@b:c", "ä", "\uff5e", "\U00010000"])
DEEP = "s3://documents/deep/**/*.xml"
CHECK = "check the credentials in the environment"
OTHER_REGION = "the bucket is in another region: set AWS_DEFAULT_REGION"
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
        ("a", "empty"),
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
        "there is no such bucket or container; expected a folder that can be listed"
    )


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (403, "AccessDenied", f"403 AccessDenied: {CHECK}"),
        (403, "InvalidAccessKeyId", f"403 InvalidAccessKeyId: {CHECK}"),
        (401, "", f"401 Unauthorized: {CHECK}"),
        (301, "", OTHER_REGION),
        (400, "AuthorizationHeaderMalformed", OTHER_REGION),
        (400, "ExpiredToken", "400 ExpiredToken"),
        (420, "", "420 <unknown status code>"),
        (404, "NoSuchBucket", "there is no such bucket or container"),
    ],
)
def test_the_answer_of_the_server_is_the_reason(
    status: int, answer: str, expected: str, tmp_path: Path
) -> None:
    def refuse(handler: SimpleHTTPRequestHandler) -> bool:
        body = f"<Error><Code>{answer}</Code><Message>secret</Message></Error>" if answer else ""
        remotes.send(handler, body.encode(), {"Content-Type": "application/xml"}, status=status)
        return True

    with remotes.web_server(tmp_path, refuse) as server, remotes.s3_at(server.root):
        assert refusal("s3://documents/a") == f"{expected}; expected a folder that can be listed"
        error = remotes.error_of("s3://documents/a.txt")
    assert error.strerror == expected
    assert isinstance(error, PermissionError) == (status in (401, 403))


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("s3://b/a", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true"),
        (
            "az://b/a",
            "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or"
            " AZURE_SKIP_SIGNATURE=true",
        ),
    ],
)
def test_missing_credentials_end_the_run(
    uri: str, names: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with remotes.web_server(tmp_path) as no_metadata, remotes.s3_at("http://127.0.0.1:9"):
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", no_metadata.root)
        assert refusal(uri) == (
            f"no credentials in the environment: set {names}; expected a folder that can be listed"
        )


def test_a_public_bucket_is_read_without_credentials(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put_object(Bucket=remotes.BUCKET, Key="public/a.txt", Body=b"text", ACL="public-read")
    put(s3, "private/a.txt")
    with remotes.s3_at(s3.meta.endpoint_url):
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
        assert remotes.read("s3://documents/public/a.txt") == b"text"
        assert (
            remotes.error_of("s3://documents/private/a.txt").strerror == f"403 Forbidden: {CHECK}"
        )


def test_http_is_only_used_where_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    with remotes.s3_at("http://127.0.0.1:9"):
        monkeypatch.delenv("AWS_ALLOW_HTTP")
        assert refusal("s3://documents/a") == (
            "http is not allowed: set AWS_ALLOW_HTTP=true; expected a folder that can be listed"
        )


def test_a_server_that_does_not_respond_is_named() -> None:
    with remotes.s3_at("http://127.0.0.1:9"):
        assert refusal("s3://documents/a").startswith(
            "HTTP error: error sending request (http://127.0.0.1:9): check the endpoint in the"
        )


def test_an_object_whose_name_is_no_path_is_named(s3: Any) -> None:
    put(s3, "no-path/a//b.txt", "no-path/c.txt")
    assert refusal("s3://documents/no-path") == (
        'Encountered object with invalid path: Path "no-path/a//b.txt" contained empty path'
        " segment: rename it; expected a folder that can be listed"
    )


@pytest.mark.usefixtures("s3")
def test_an_empty_object_is_read(s3: Any) -> None:
    put(s3, "empty", body=b"")
    with open_remote("s3://documents/empty") as stream:
        assert stream.read() == b""
        signature = version_of(stream)
    assert signature is not None
    assert signature.size == 0


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


def test_any_part_of_an_object_is_read_in_any_order() -> None:
    content = random.Random(1).randbytes(3 * FIRST_BYTES + 7)
    order = random.Random(2)
    with bucket_server(Bucket({"a": content})), open_remote("s3://documents/a") as stream:
        for _ in range(50):
            place = order.choice([0, order.randrange(len(content) + 9), len(content)])
            size = order.choice([1, 100, FIRST_BYTES, 2 * FIRST_BYTES])
            stream.seek(place)
            assert stream.read(size) == content[place : place + size]
            assert stream.read(5) == content[place + size : place + size + 5]
        stream.seek(-7, 2)
        assert stream.read() == content[-7:]


def test_an_object_is_read_by_few_requests_of_growing_size() -> None:
    content = bytes(REQUEST_BYTES + 2 * FIRST_BYTES)
    with bucket_server(Bucket({"a": content})) as bucket:
        assert remotes.read("s3://documents/a") == content
        assert bucket.asked == ["GET a"] * 3
        bucket.asked.clear()
        with open_remote("s3://documents/a", offset=REQUEST_BYTES) as stream:
            assert len(stream.read()) == 2 * FIRST_BYTES
        assert bucket.asked == ["GET a"] * 2


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


def test_a_connection_that_ends_in_an_object_is_never_its_end(tmp_path: Path) -> None:
    def break_off(handler: SimpleHTTPRequestHandler) -> bool:
        headers = {
            "Last-Modified": "Fri, 02 Jan 2026 00:00:00 GMT",
            "ETag": '"1"',
            "Content-Range": "bytes 0-1999/2000",
        }
        remotes.send(handler, b"x" * 1000, headers, status=206, length=2000)
        return True

    with remotes.web_server(tmp_path, break_off) as server, remotes.s3_at(server.root):
        error = remotes.error_of("s3://documents/a.txt")
    assert error.strerror == "HTTP error: request or response body error"


def test_the_files_that_match_the_glob_of_a_uri_are_sorted(s3: Any) -> None:
    put(s3, "feeds/b.xml", "feeds/a.xml", "feeds/notes.txt", "feeds/old/c.xml")
    files = match_remote(f"s3://{remotes.BUCKET}/feeds/*.xml")
    assert list(files) == [f"s3://{remotes.BUCKET}/feeds/{name}.xml" for name in "ab"]


def test_a_glob_finds_files_at_any_depth(s3: Any) -> None:
    put(s3, "deep/2026/a.xml", "deep/2026/b/c.xml", "deep/d.xml")
    assert [uri.removeprefix("s3://documents/deep/") for uri in match_remote(DEEP)] == [
        "2026/a.xml",
        "2026/b/c.xml",
        "d.xml",
    ]
    assert [*match_remote("s3://documents/deep/20*/*.xml")] == ["s3://documents/deep/2026/a.xml"]
    (signature,) = match_remote("s3://documents/deep/[d]*").values()
    assert signature is not None
    assert signature.size == 4
    assert signature.modified_ns


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "abfs"])
def test_every_object_storage_is_listed_and_read(scheme: str) -> None:
    content = bytes(range(256)) * 1000
    with bucket_server(Bucket({"a/b.txt": content, "a/c d/e.txt": b"text", "b.txt": b""})):
        lines = listed("a", root=f"{scheme}://documents/")
        assert [(line.key, line.size, line.fingerprint) for line in lines] == [
            ("b.txt", 256_000, "1"),
            ("c d/e.txt", 4, "1"),
        ]
        assert [remotes.read(line.path) for line in lines] == [content, b"text"]
        assert [*match_remote(f"{scheme}://documents/a/*/*.txt")] == [lines[1].path]
