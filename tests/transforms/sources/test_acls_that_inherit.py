"""Whether an ACL of a source may inherit, which decides whether inputs are read before a run."""

import gzip
from pathlib import Path

import pytest

from feedferry.schemas.span import Span
from feedferry.transforms.sources import source_of

PLAIN = (
    '<gsafeed><record url="http://a.example.com/"><acl><principal scope="user" access="permit">bob'
    "</principal></acl></record></gsafeed>"
)
ALONE = '<gsafeed><acl  url="http://a.example.com/"/></gsafeed>'
PARENT = (
    '<gsafeed><acl url="http://a.example.com/" inherit-from="http://b.example.com/"/></gsafeed>'
)
METADATA = '<gsafeed><meta name="Google:AclInheritFrom" content="x"/></gsafeed>'


def may_inherit(path: Path, format_: str = "gsa-feed") -> bool:
    span = Span(source=str(path), path=str(path), format=format_)
    return source_of(span).may_inherit(span, None)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PLAIN.encode(), False),
        (PARENT.encode(), True),
        (METADATA.encode(), True),
        (PLAIN.encode("utf-16"), True),
    ],
)
@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_feed_is_searched_for_the_word(
    data: bytes, expected: bool, is_compressed: bool, tmp_path: Path
) -> None:
    path = tmp_path / ("feed.xml.gz" if is_compressed else "feed.xml")
    path.write_bytes(gzip.compress(data) if is_compressed else data)
    assert may_inherit(path) == expected


def test_the_word_is_found_across_the_pieces_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    for blanks in range(-60, 8):
        path.write_bytes(b"<gsafeed>" + b" " * ((1 << 20) - 9 + blanks) + PARENT.encode())
        assert may_inherit(path)


def test_a_file_that_is_not_text_or_cannot_be_read_may_have_such_an_acl(tmp_path: Path) -> None:
    path = tmp_path / "feed"
    assert may_inherit(path)
    path.write_bytes(PLAIN.encode())
    assert may_inherit(path, "avro")
    (tmp_path / "feed.xml.gz").write_bytes(gzip.compress(PLAIN.encode())[:-9])
    assert may_inherit(tmp_path / "feed.xml.gz")
