"""Files in object storage as inputs: few requests, many at once, and the order of the arguments."""

import gzip
from pathlib import Path

import pytest

from feedferry.pipelines.convert.inputs.input_files import REQUESTS, list_spans
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.errors import FeedferryError, SourceError
from feedferry.schemas.span import FileSignature, Span
from feedferry.transforms.conversion.file_spans import begin
from feedferry.transforms.formats import ReadOptions
from feedferry.transforms.sources import sniff_format
from support.archives import document, gsa_feed, put
from support.bucket import Bucket, bucket_server

FEED = gsa_feed(document(1))
KEYS = [f"feeds/{number:03}.xml" for number in range(200)]
DENIED = "403 Forbidden: check the credentials in the environment"
GLOB = "s3://documents/feeds/*.xml"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def spans(*inputs: str, from_format: str | None = None) -> list[Span]:
    options = ConvertOptions(
        inputs=inputs, output="out", to_format="jsonl", from_format=from_format
    )
    return list_spans(options, stdin_copy=Path("spool"))


def uri(key: str) -> str:
    return f"s3://documents/{key}"


def test_each_file_is_requested_once_and_many_at_once() -> None:
    with bucket_server(Bucket(dict.fromkeys(KEYS, FEED), lambda key: 0.02)) as bucket:
        listed = spans(GLOB)
    assert [span.source for span in listed] == [uri(key) for key in KEYS]
    assert [span.source_ordinal for span in listed] == [*range(200)]
    assert {span.format for span in listed} == {"gsa-feed"}
    assert sorted(bucket.asked) == ["GET", *(f"GET {key}" for key in KEYS)]
    assert REQUESTS // 4 < bucket.most <= REQUESTS


def test_a_list_has_the_sizes_so_small_files_are_not_opened_to_be_cut() -> None:
    with bucket_server(Bucket({KEYS[0]: FEED, "feeds/old/a.xml": b""})) as bucket:
        (span,) = spans(GLOB, from_format="gsa-feed")
        whole = begin(span, span_bytes=1 << 20, options=ReadOptions())
    assert whole == [span]
    assert span.signature == FileSignature(size=len(FEED), modified_ns=1_767_323_045_000_000_000)
    assert bucket.asked == ["GET"]


def test_an_object_that_changed_after_it_was_listed_is_refused() -> None:
    objects = {KEYS[0]: FEED}
    with bucket_server(Bucket(objects)):
        (span,) = spans(GLOB, from_format="gsa-feed")
        objects[KEYS[0]] += b" "
        with pytest.raises(SourceError, match="changed while it was converted: it had "):
            sniff_format(span)


def test_a_compressed_file_is_recognised_by_one_request_too() -> None:
    with bucket_server(Bucket({"feeds/a.xml.gz": gzip.compress(FEED)})) as bucket:
        (span,) = spans("s3://documents/feeds/*")
    assert span.format == "gsa-feed"
    assert bucket.asked == ["GET", "GET feeds/a.xml.gz"]


def seconds_of(key: str) -> float:
    return 0.2 if key == KEYS[3] else 0.0


def test_the_first_error_in_the_order_of_the_files_is_raised() -> None:
    bucket = Bucket(dict.fromkeys(KEYS, FEED), seconds_of)
    bucket.denied = {KEYS[3], KEYS[4], KEYS[150]}
    with bucket_server(bucket), pytest.raises(SourceError) as caught:
        spans(GLOB)
    assert str(caught.value) == f"{uri(KEYS[3])}: {DENIED}; expected a file that can be read"


@pytest.mark.parametrize(
    "inputs",
    [
        (uri(KEYS[3]), "missing.xml"),
        (uri(KEYS[3]), "s3://documents/none/*.xml"),
        ("a.xml", uri(KEYS[3]), "gopher://a/*"),
    ],
)
def test_an_error_of_an_argument_comes_after_those_before_it(inputs: tuple[str, ...]) -> None:
    put(Path("a.xml"), FEED)
    bucket = Bucket({KEYS[3]: FEED}, seconds_of)
    with bucket_server(bucket), pytest.raises(FeedferryError) as without_denial:
        spans(*inputs)
    assert KEYS[3] not in str(without_denial.value)
    bucket.denied = {KEYS[3]}
    with bucket_server(bucket), pytest.raises(SourceError) as caught:
        spans(*inputs)
    assert str(caught.value).startswith(f"{uri(KEYS[3])}: 403 Forbidden")


def test_local_files_and_objects_keep_the_order_of_the_arguments() -> None:
    put(Path("a.xml"), FEED)
    put(Path("b.xml"), FEED)
    with bucket_server(Bucket(dict.fromkeys(KEYS[:5], FEED), seconds_of)):
        listed = spans("b.xml", GLOB, "a.xml")
    assert [span.source for span in listed] == ["b.xml", *map(uri, KEYS[:5]), "a.xml"]


def test_an_object_of_no_known_format_is_rejected_among_others() -> None:
    with bucket_server(Bucket({KEYS[0]: b"%PDF-1.4", KEYS[1]: FEED, KEYS[2]: b""})):
        listed = spans(GLOB)
    assert [span.format for span in listed] == ["unreadable", "gsa-feed", "unreadable"]
