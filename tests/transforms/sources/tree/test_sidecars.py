"""Sidecars: what they state of a file, and that none is read in part."""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import RecordError, SourceError
from feedferry.schemas.record import Meta
from feedferry.transforms.sources.files import open_file
from feedferry.transforms.sources.tree.documents.sidecars import (
    MAX_BYTES,
    SidecarData,
    read_sidecars,
)

PAIRS = "expected an object of names, each with a text, a number, true, false or a list of these"
MARKUP = (
    "expected <metadata>, or <record> without attributes and with nothing but <metadata> and "
    "<acl> in it"
)
ANNA = Principal(name="anna", scope=Scope.USER, access=Access.PERMIT)
PRINCIPAL = '<principal scope="user" access="permit">anna</principal>'
LEGACY = '<metadata><meta name="google:aclusers" content="anna"/></metadata>'


def parsed(**texts: str | bytes) -> SidecarData:
    """Return the data of the sidecars of a/x.pdf, by their extensions."""
    files = {
        f"a/x.pdf.{'metadata' if extension == 'xml' else 'meta'}.{extension}": text
        for extension, text in texts.items()
    }

    def open_file(path: str) -> IO[bytes]:
        text = files[path]
        return BytesIO(text if isinstance(text, bytes) else text.encode())

    return read_sidecars(tuple(files), open_file)


def pairs(**texts: str | bytes) -> list[tuple[str, str]]:
    return [(meta.name, meta.value) for meta in parsed(**texts).metadata]


def reason(**texts: str | bytes) -> str:
    return refusal(lambda: parsed(**texts))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RecordError) as caught:
        call()
    assert caught.value.code == "bad-sidecar"
    return caught.value.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"price": 1.10, "big": 1e400, "page": 12345678901234567890}',
            [("price", "1.10"), ("big", "1e400"), ("page", "12345678901234567890")],
        ),
        ('{"a": true, "b": false, "c": null, "d": ""}', [("a", "true"), ("b", "false"), ("d", "")]),
        (
            '{"author": ["Anna", 2, null, true], "none": []}',
            [("author", "Anna"), ("author", "2"), ("author", "true")],
        ),
        ('{"title": "\\ud83d\\ude00", "keywords": "b"}', [("title", "😀"), ("keywords", "b")]),
        (b'\xef\xbb\xbf{"a": "b"}', [("a", "b")]),
    ],
)
def test_json_keeps_order_and_texts(text: str | bytes, expected: list[tuple[str, str]]) -> None:
    assert pairs(json=text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '<?xml version="1.0"?><!-- by hand --><metadata>\n'
            '<meta name="author" content="Ann &amp; Tim"/><meta name="a" content=""/></metadata>',
            (Meta("author", "Ann & Tim"), Meta("a", "")),
        ),
        (
            '<metadata><meta encoding="base64binary" name="YXV0aG9y" content="QW5uYQ=="/>'
            '<meta encoding="base64binary" name="cmF3" content="/wA="/></metadata>',
            (Meta("author", "Anna"), Meta("raw", "", b"\xff\0")),
        ),
        (
            b'<?xml version="1.0" encoding="ISO-8859-1"?>'
            b'<metadata><meta name="a" content="\xe9"/></metadata>',
            (Meta("a", "é"),),
        ),
    ],
)
def test_xml_is_read_as_in_a_feed(text: str | bytes, expected: tuple[Meta, ...]) -> None:
    assert parsed(xml=text).metadata == expected


def test_xml_in_a_record_may_have_an_acl() -> None:
    text = f"""<record>
        <acl inheritance-type="leaf-node" inherit-from="http://a.example/">{PRINCIPAL}</acl>
        <metadata overwrite-acls="false"><meta name="a" content="b"/></metadata>
    </record>"""
    acl = Acl(
        inheritance=Inheritance.LEAF_NODE, inherit_from="http://a.example/", principals=(ANNA,)
    )
    assert parsed(xml=text) == SidecarData((Meta("a", "b"),), acl, overwrite_acls=False)


@pytest.mark.parametrize("texts", [{"json": '{"google:aclusers": "anna"}'}, {"xml": LEGACY}])
def test_metadata_that_is_an_acl_in_a_feed_is_an_acl_in_a_sidecar(texts: dict[str, str]) -> None:
    assert parsed(**texts) == SidecarData((), Acl(principals=(ANNA,)))


def test_the_metadata_of_several_sidecars_are_joined() -> None:
    xml = '<metadata><meta name="a" content="1"/></metadata>'
    assert pairs(json='{"a": 1}', xml=xml) == [("a", "1"), ("a", "1")]
    assert parsed() == SidecarData()


def test_two_sidecars_may_not_both_have_an_acl() -> None:
    assert reason(json='{"google:aclusers": "anna"}', xml=LEGACY) == (
        "an ACL in two sidecars of one file; expected it in one"
    )


@pytest.mark.parametrize("extension", ["json", "yaml"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "no object"),
        ('{"a": {"b": 1}}', "'a': an object or a list in it"),
        ('{"a": [["b"]]}', "'a': an object or a list in it"),
        ('{"a": [{}]}', "'a': an object or a list in it"),
        ('{"a": 1, "a": 1}', "'a' twice"),
        ('{"": 1}', "a value without a name"),
        ("[" * 100_000, "objects or lists in others, too deep"),
    ],
    ids=range(7),
)
def test_other_contents_than_names_with_values_are_refused(
    extension: str, text: str, expected: str
) -> None:
    assert reason(**{extension: text}) == f"x.pdf.meta.{extension}: {expected}; {PAIRS}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: expecting value; expected JSON"),
        (
            '{"a": 1,\n2}',
            "line 2: expecting property name enclosed in double quotes; expected JSON",
        ),
        ("null", f"no object; {PAIRS}"),
        ('{"a": NaN}', "NaN; expected a number"),
        ('{"a": -Infinity}', "-Infinity; expected a number"),
        (r'{"a": "\ud800"}', "'a': half of a surrogate pair; expected text"),
        (r'{"\udc00": 1}', r"'\udc00': half of a surrogate pair; expected text"),
        (b'{"a": "\xff"}', "byte 7: not UTF-8; expected UTF-8"),
        ('{"a": "' + "b" * MAX_BYTES + '"}', "more than 1048576 bytes; expected at most that"),
    ],
    ids=range(9),
)
def test_json_that_is_not_understood_is_refused(text: str | bytes, expected: str) -> None:
    assert reason(json=text) == f"x.pdf.meta.json: {expected}"


@pytest.mark.parametrize("extension", ["yaml", "yml"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("title: A report\nkeywords: [b, 1.10, ~, 2026-01-31]\n", "A report b 1.10 2026-01-31"),
        ("a: Yes\nb: 0x10\nc: null\nd: ''\ne:\n", "Yes 0x10 "),
        ("# nothing else\n{x: &x 1, y: *x}", "1 1"),
    ],
)
def test_yaml_keeps_order_and_texts(extension: str, text: str, expected: str) -> None:
    assert " ".join(value for _, value in pairs(**{extension: text})) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", f"no object; {PAIRS}"),
        ("a", f"no object; {PAIRS}"),
        ("? [a]\n: 1", f"a value without a name; {PAIRS}"),
        ("~: 1", f"a value without a name; {PAIRS}"),
        (
            "a: 1\nb: [",
            "line 2: expected the node content, but found '<stream end>'; expected YAML",
        ),
        ("a: \x07", "special characters are not allowed; expected YAML"),
        ("a: *b", "line 1: found undefined alias 'b'; expected YAML"),
        ("a: 1\n---\nb: 2", "line 2: but found another document; expected YAML"),
    ],
)
def test_yaml_that_is_not_understood_is_refused(text: str, expected: str) -> None:
    assert reason(yaml=text) == f"x.pdf.meta.yaml: {expected}"


def test_an_acl_in_yaml_is_read() -> None:
    assert parsed(yaml="google:aclusers: anna").acl == Acl(principals=(ANNA,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "Document is empty, line 1, column 1; expected well-formed XML"),
        ("<meta/>", f"<meta>; {MARKUP}"),
        ('<record url="a"/>', f"url of <record>; {MARKUP}"),
        ("<record><content>a</content></record>", f"record/content; {MARKUP}"),
        ("<record><title/></record>", f"record/title; {MARKUP}"),
        ('<metadata class="a"/>', f"record/metadata/@class; {MARKUP}"),
        (
            "<metadata><meta name='a' content='b' c='d'/></metadata>",
            f"record/metadata/meta[0]/@c; {MARKUP}",
        ),
        (
            "<metadata><meta name='a'/></metadata>",
            "a meta with name only; expected name and content",
        ),
        ("<metadata>text</metadata>", "text inside <metadata>; expected elements only"),
        (
            "<record><acl><principal>a</principal></acl></record>",
            "no scope of a principal; expected user or group",
        ),
        (f'<record><acl url="a">{PRINCIPAL}</acl></record>', f"record/acl/@url; {MARKUP}"),
        (
            '<!DOCTYPE metadata [<!ENTITY a SYSTEM "/etc/hostname">]><metadata>&a;</metadata>',
            f"a DOCTYPE; expected none, and {MARKUP[9:]}",
        ),
        (
            "<metadata><meta name='a' content='&b;'/></metadata>",
            "Entity 'b' not defined, line 1, column 38; expected well-formed XML",
        ),
    ],
    ids=range(13),
)
def test_xml_that_is_not_understood_is_refused(text: str, expected: str) -> None:
    assert reason(xml=text) == f"x.pdf.metadata.xml: {expected}"


def test_entities_of_entities_are_not_expanded() -> None:
    rounds = "".join(f"<!ENTITY e{n + 1} '{f'&e{n};' * 10}'>" for n in range(9))
    head = f"<!DOCTYPE metadata [<!ENTITY e0 'ha'>{rounds}]>"
    text = head + "<metadata><meta name='a' content='&e9;'/></metadata>"
    assert reason(xml=text).startswith("x.pdf.metadata.xml: ")


def test_a_sidecar_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    def broken(path: str) -> IO[bytes]:
        raise SourceError(f"{path}: access denied")

    (tmp_path / "x.meta.json").symlink_to("elsewhere")
    open_local = partial(open_file, follows_links=False)
    assert refusal(lambda: read_sidecars((f"{tmp_path}/y.meta.json",), open_local)) == (
        "y.meta.json: No such file or directory; expected a file that can be read"
    )
    assert refusal(lambda: read_sidecars((f"{tmp_path}/x.meta.json",), open_local)) == (
        "x.meta.json: a symbolic link; expected a file, or --follow-links"
    )
    assert refusal(lambda: read_sidecars(("s3://b/x.meta.json",), broken)) == (
        "x.meta.json: s3://b/x.meta.json: access denied; expected a file that can be read"
    )


@pytest.mark.parametrize("extension", ["json", "xml"])
@given(text=st.binary(max_size=200))
def test_any_bytes_are_understood_or_refused(extension: str, text: bytes) -> None:
    try:
        parsed(**{extension: text})
    except RecordError as exc:
        assert exc.code == "bad-sidecar"  # noqa: PT017 - either is well


@pytest.mark.parametrize(
    ("extension", "whole"),
    [
        ("json", b'{"google:aclusers": "anna"}'),
        ("xml", f"<record><acl>{PRINCIPAL}</acl></record>".encode()),
    ],
)
@given(end=st.integers(min_value=0, max_value=26))
def test_a_sidecar_that_is_cut_off_is_refused(extension: str, whole: bytes, end: int) -> None:
    assert reason(**{extension: whole[:end]})
