"""Contents in the encoding that their user chose."""

import pybase64

from schemas.content import decode
from schemas.record import Action, Arrival, Content, Encoding, Record
from schemas.reject import Reject
from transforms.adapt import Target, adapt

PAGE = b"<p>rope, " * 200
NOISE = bytes(range(256))


def record(content: Content | None) -> Record:
    return Record(
        url="http://www.example.com/",
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=content,
        mimetype="text/html",
    )


def encoded(content: Content, target: Target) -> Content | None:
    (outcome,), losses = adapt(record(content), target)
    assert losses == ()
    assert isinstance(outcome, Record)
    return outcome.content


FEED = Target(format="gsa-feed", datasource="pages", feedtype="incremental")
ZLIB = Target(format="gsa-feed", datasource="pages", content_encoding="zlib")
BASE64 = Target(format="gsa-feed", datasource="pages", content_encoding="base64")


def test_a_content_stays_as_it_came_unless_told() -> None:
    assert encoded(Content(PAGE), FEED) == Content(PAGE)


def test_a_content_is_compressed_where_that_is_shorter() -> None:
    content = encoded(Content(PAGE), ZLIB)
    assert content is not None
    assert content.encoding is Encoding.ZLIB_BASE64
    assert len(content.data) < 100
    assert decode(content) == PAGE


def test_a_content_that_compression_makes_longer_stays() -> None:
    assert encoded(Content(NOISE), ZLIB) == Content(NOISE)


def test_base64_is_opened_to_be_compressed() -> None:
    content = encoded(Content(pybase64.b64encode(PAGE), Encoding.BASE64), ZLIB)
    assert content is not None
    assert content.encoding is Encoding.ZLIB_BASE64


def test_what_is_compressed_is_not_compressed_again() -> None:
    content = encoded(Content(PAGE), ZLIB)
    assert content is not None
    assert encoded(content, ZLIB) is content


def test_text_is_base64_if_its_user_wants() -> None:
    assert encoded(Content(b"rope"), BASE64) == Content(b"cm9wZQ==", Encoding.BASE64)


def test_what_is_compressed_stays_where_base64_is_wanted() -> None:
    compressed = encoded(Content(PAGE), ZLIB)
    assert compressed is not None
    assert encoded(compressed, BASE64) is compressed


def test_a_record_without_content_is_untouched() -> None:
    target = Target(format="avro", content_encoding="zlib")
    assert adapt(record(None), target) == ((record(None),), ())


def test_archives_are_encoded_as_well() -> None:
    target = Target(format="native", content_encoding="base64")
    assert encoded(Content(b"rope"), target) == Content(b"cm9wZQ==", Encoding.BASE64)


def test_a_content_beyond_the_limit_is_rejected() -> None:
    target = Target(format="avro", content_encoding="zlib", max_content_bytes=10)
    (outcome,), _ = adapt(record(Content(PAGE)), target)
    assert isinstance(outcome, Reject)
    assert (outcome.code, outcome.reason) == (
        "content-too-large",
        "1800 bytes; expected at most 10 bytes; raise --max-content-bytes to read it",
    )
