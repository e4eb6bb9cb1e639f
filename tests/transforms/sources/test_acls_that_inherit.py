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


@pytest.mark.parametrize(
    "head",
    [
        b"<acl url=",
        b"<acl note='a>b' url=",
        b"<acl%surl=" % (b" " * 5000),
        b"<x:acl\nurl=",
        b'<?xml version="1.0" encoding="UTF-7"?><gsafeed>+ADw-acl url=',
    ],
)
def test_an_acl_alone_is_found_as_any_writer_states_it(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(head + b"'http://a.example.com/'/>")
    assert may_inherit(path)


@pytest.mark.parametrize("name", [b'"alone"', rb'"\u0061lone"'])
def test_an_acl_alone_is_found_in_json_as_any_writer_states_it(name: bytes, tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b'{"url":"http://a.example.com/","acl":{%s:true}}' % name)
    assert may_inherit(path, "jsonl")


@pytest.mark.parametrize(
    "tag",
    [
        *(b"<acl>", b"<acl \n >", b"<acl />", b"<acls x=''>"),
        *(b'<acl inheritance-type="leaf-node">', b"<acl  Inheritance-Type = 'LEAF-NODE' />"),
    ],
)
def test_an_acl_of_a_document_without_a_parent_is_not_related(tag: bytes, tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(b'<?xml version="1.0" encoding="UTF-8"?><gsafeed><record>' + tag)
    assert not may_inherit(path)


@pytest.mark.parametrize(
    "tag",
    [
        b'<acl inheritance-type="leaf-node" url="http://a.example.com/">',
        b'<acl url="http://a.example.com/" inheritance-type="leaf-node">',
        b'<acl inheritance-type="leaf-node" inherit-from="http://a.example.com/">',
        b'<acl inheritance-type="parent-overrides">',
        b'<acl inheritance-type="leaf-node">x</acl><acl inheritance-type="child-overrides">',
    ],
)
def test_a_leaf_with_other_attributes_and_an_acl_of_another_type_are_related(
    tag: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(b'<?xml version="1.0" encoding="UTF-8"?><gsafeed>' + tag)
    assert may_inherit(path)


def test_the_word_is_found_across_the_pieces_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    for blanks in range(-60, 8):
        path.write_bytes(b"<gsafeed>" + b" " * ((1 << 20) - 9 + blanks) + PARENT.encode())
        assert may_inherit(path)


def test_a_leaf_is_not_related_where_its_tag_is_in_two_pieces_that_are_read(tmp_path: Path) -> None:
    path, tag = tmp_path / "feed.xml", b'<acl inheritance-type="leaf-node">'
    for blanks in range(-50, 8):
        path.write_bytes(b"<gsafeed>" + b" " * ((1 << 20) - 9 + blanks) + tag + b"</acl>")
        assert not may_inherit(path)


def test_a_file_that_is_not_text_or_cannot_be_read_may_have_such_an_acl(tmp_path: Path) -> None:
    path = tmp_path / "feed"
    assert may_inherit(path)
    path.write_bytes(PLAIN.encode())
    assert may_inherit(path, "avro")
    (tmp_path / "feed.xml.gz").write_bytes(gzip.compress(PLAIN.encode())[:-9])
    assert may_inherit(tmp_path / "feed.xml.gz")
