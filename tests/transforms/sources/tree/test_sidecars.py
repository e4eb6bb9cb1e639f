"""Sidecars: what they say of a file, and that none is taken by halves."""

from io import BytesIO
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError, SourceError
from schemas.record import Meta
from transforms.sources.tree.file_content import open_local
from transforms.sources.tree.sidecars import MAX_BYTES, SidecarData, read_sidecars

PAIRS = "expected names, each with a text, a number, true, false or a list of these"
MARKUP = (
    "expected <metadata>, or <record> without attributes and with nothing but <metadata> and "
    "<acl> in it"
)
ANNA = Principal(name="anna", scope=Scope.USER, access=Access.PERMIT)
PRINCIPAL = '<principal scope="user" access="permit">anna</principal>'


def said(**texts: str | bytes) -> SidecarData:
    """What the sidecars of a/x.pdf say, by their extensions."""
    files = {
        f"a/x.pdf.{'metadata' if extension == 'xml' else 'meta'}.{extension}": text
        for extension, text in texts.items()
    }

    def open_file(path: str) -> IO[bytes]:
        text = files[path]
        return BytesIO(text if isinstance(text, bytes) else text.encode())

    return read_sidecars(tuple(files), open_file)


def pairs(**texts: str | bytes) -> list[tuple[str, str]]:
    return [(meta.name, meta.value) for meta in said(**texts).metadata]


def reason(**texts: str | bytes) -> str:
    with pytest.raises(RecordError) as caught:
        said(**texts)
    assert caught.value.code == "bad-sidecar"
    return caught.value.reason


def test_without_sidecars_nothing_is_said() -> None:
    assert said() == SidecarData()


def test_json_keeps_its_order_and_its_numbers() -> None:
    text = '{"price": 1.10, "big": 1e400, "page": 007}'.replace("007", "12345678901234567890")

    assert pairs(json=text) == [
        ("price", "1.10"),
        ("big", "1e400"),
        ("page", "12345678901234567890"),
    ]


def test_json_has_words_for_booleans_and_nothing_for_null() -> None:
    assert pairs(json='{"a": true, "b": false, "c": null, "d": ""}') == [
        ("a", "true"),
        ("b", "false"),
        ("d", ""),
    ]


def test_a_list_is_one_pair_for_each_value() -> None:
    text = '{"author": ["Anna", 2, null, true], "none": []}'

    assert pairs(json=text) == [("author", "Anna"), ("author", "2"), ("author", "true")]


def test_names_of_fields_of_a_record_are_metadata_as_all_others() -> None:
    assert pairs(json='{"title": "A", "keywords": "b"}') == [("title", "A"), ("keywords", "b")]


def test_a_byte_order_mark_is_no_part_of_a_sidecar() -> None:
    assert pairs(json=b'\xef\xbb\xbf{"a": "b"}') == [("a", "b")]


def test_yaml_keeps_what_is_written() -> None:
    text = """
        price: 1.10
        date: 2020-01-31
        country: no
        flag: true
        time: 12:30:00
        octal: 0o17
        1: one
    """

    assert pairs(yaml=text) == [
        ("price", "1.10"),
        ("date", "2020-01-31"),
        ("country", "no"),
        ("flag", "true"),
        ("time", "12:30:00"),
        ("octal", "0o17"),
        ("1", "one"),
    ]


def test_yaml_has_nothing_for_null_unless_it_is_quoted() -> None:
    text = 'a: null\nb: ~\nc:\nd: "null"\ne: !!str null\nf: [~, x]\n'

    assert pairs(yaml=text) == [("d", "null"), ("e", "null"), ("f", "x")]


def test_yml_is_yaml() -> None:
    assert pairs(yml="author:\n- Anna\n- Tim\n") == [("author", "Anna"), ("author", "Tim")]


def test_xml_is_what_a_feed_has() -> None:
    text = """<?xml version="1.0"?>
        <!-- by hand -->
        <metadata>
            <meta name="author" content="Ann &amp; Tim"/><meta name="a" content=""/>
        </metadata>
    """

    assert pairs(xml=text) == [("author", "Ann & Tim"), ("a", "")]


def test_xml_has_base64_pairs() -> None:
    text = """<metadata>
        <meta encoding="base64binary" name="YXV0aG9y" content="QW5uYQ=="/>
        <meta encoding="base64binary" name="cmF3" content="/wA="/>
    </metadata>"""

    assert said(xml=text).metadata == (Meta("author", "Anna"), Meta("raw", "", b"\xff\0"))


def test_xml_is_of_any_encoding_that_it_states() -> None:
    head = '<?xml version="1.0" encoding="ISO-8859-1"?>'
    text = head + '<metadata><meta name="a" content="é"/></metadata>'

    assert pairs(xml=text.encode("latin-1")) == [("a", "é")]


def test_xml_in_a_record_may_have_an_acl() -> None:
    text = f"""<record>
        <acl inheritance-type="leaf-node" inherit-from="http://a.example/">{PRINCIPAL}</acl>
        <metadata overwrite-acls="false"><meta name="a" content="b"/></metadata>
    </record>"""
    acl = Acl(
        inheritance=Inheritance.LEAF_NODE, inherit_from="http://a.example/", principals=(ANNA,)
    )

    assert said(xml=text) == SidecarData((Meta("a", "b"),), acl, overwrite_acls=False)


def test_metadata_that_is_an_acl_in_a_feed_is_one_in_xml() -> None:
    text = '<metadata><meta name="google:aclusers" content="anna"/></metadata>'

    assert said(xml=text) == SidecarData((), Acl(principals=(ANNA,)))


@pytest.mark.parametrize(
    "texts", [{"json": '{"google:aclusers": "anna"}'}, {"yaml": "google:aclusers: anna"}]
)
def test_metadata_that_is_an_acl_in_a_feed_is_one_everywhere(texts: dict[str, str]) -> None:
    assert said(**texts) == SidecarData((), Acl(principals=(ANNA,)))


def test_all_sidecars_of_a_file_are_taken_in_one_order() -> None:
    xml = '<metadata><meta name="d" content="4"/></metadata>'

    assert pairs(xml=xml, yml="c: 3", yaml="b: 2", json='{"a": 1}') == [
        ("a", "1"),
        ("b", "2"),
        ("c", "3"),
        ("d", "4"),
    ]


def test_two_sidecars_may_have_the_same_name() -> None:
    assert pairs(json='{"a": 1}', yaml="a: 1") == [("a", "1"), ("a", "1")]


def test_two_sidecars_may_not_both_have_an_acl() -> None:
    texts = {
        "json": '{"google:aclusers": "anna"}',
        "xml": f"<record><acl>{PRINCIPAL}</acl></record>",
    }

    assert reason(**texts) == "an ACL in two sidecars of one file; expected it in one"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: expecting value; expected JSON"),
        ('{"a": 1,\n}', "line 2: expecting property name enclosed in double quotes; expected JSON"),
        ("[]", f"a list; {PAIRS}"),
        ('"a"', f"one value; {PAIRS}"),
        ("1", f"one value; {PAIRS}"),
        ("null", f"null; {PAIRS}"),
        ('{"a": {"b": 1}}', f"'a': an object in it; {PAIRS}"),
        ('{"a": [["b"]]}', f"'a': a list in it; {PAIRS}"),
        ('{"a": [{}]}', f"'a': an object in it; {PAIRS}"),
        ('{"a": 1, "a": 1}', f"'a' twice; {PAIRS}"),
        ('{"": 1}', f"a value without a name; {PAIRS}"),
        ('{"a": NaN}', "NaN; expected a number"),
        ('{"a": -Infinity}', "-Infinity; expected a number"),
        (r'{"a": "\ud800"}', "'a': half of a surrogate pair; expected text"),
        (r'{"\udc00": 1}', r"'\udc00': half of a surrogate pair; expected text"),
        (b'{"a": "\xff"}', "byte 7: not UTF-8; expected UTF-8"),
        ("[" * 100_000, f"objects or lists in others, too deep; {PAIRS}"),
        ('{"a":' * 100_000, f"objects or lists in others, too deep; {PAIRS}"),
    ],
    ids=range(18),
)
def test_json_that_is_not_understood_is_refused(text: str | bytes, expected: str) -> None:
    assert reason(json=text) == f"x.pdf.meta.json: {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", f"no object; {PAIRS}"),
        ("- a\n", f"no object; {PAIRS}"),
        ("text", f"no object; {PAIRS}"),
        ("a:\n  b: 1\n", f"line 2: an object in another; {PAIRS}"),
        ("a:\n- [b]\n", f"line 2: a list in another, or as a name; {PAIRS}"),
        ("[a]: b\n", f"line 1: a list in another, or as a name; {PAIRS}"),
        ("a: &x 1\nb: *x\n", f"line 2: an alias; {PAIRS}"),
        ("a: 1\nb: !!binary aGk=\n", f"line 2: a value with a tag; {PAIRS}"),
        ("a: !mine 1\n", f"line 1: a value with a tag; {PAIRS}"),
        ("a: 1\na: 2\n", f"'a' twice; {PAIRS}"),
        ("~: 1\n", f"a value without a name; {PAIRS}"),
        ("a: 1\n---\nb: 2\n", "a second document; expected one"),
        ("a: b: c\n", "line 1: mapping values are not allowed in this context; expected YAML"),
        ("a: 1\nb: [2\n", "line 3: did not find expected ',' or ']'; expected YAML"),
        ("a: \x01\n", "a character that YAML does not allow; expected YAML"),
        (b"a: \xff\n", "byte 3: not UTF-8; expected UTF-8"),
        ("a: " + "[" * 1_000_000, f"line 1: a list in another, or as a name; {PAIRS}"),
    ],
    ids=range(17),
)
def test_yaml_that_is_not_understood_is_refused(text: str | bytes, expected: str) -> None:
    assert reason(yaml=text) == f"x.pdf.meta.yaml: {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "Document is empty, line 1, column 1; expected well-formed XML"),
        (
            "<metadata>",
            "Premature end of data in tag metadata line 1, line 1, column 11; "
            "expected well-formed XML",
        ),
        ("<meta/>", f"<meta>; {MARKUP}"),
        ('<record url="a"/>', f"url of <record>; {MARKUP}"),
        ("<record><content>a</content></record>", f"record/content; {MARKUP}"),
        ("<record><title/></record>", f"record/title; {MARKUP}"),
        ('<metadata class="a"/>', f"record/metadata/@class; {MARKUP}"),
        ("<metadata><meta name='a' content='b' c='d'/></metadata>", "record/metadata/meta[0]/@c; "),
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
        ("<!DOCTYPE metadata><metadata/>", f"a DOCTYPE; expected none, and {MARKUP[9:]}"),
        (
            '<!DOCTYPE metadata [<!ENTITY a SYSTEM "/etc/hostname">]><metadata>&a;</metadata>',
            f"a DOCTYPE; expected none, and {MARKUP[9:]}",
        ),
        (
            "<metadata><meta name='a' content='&b;'/></metadata>",
            "Entity 'b' not defined, line 1, column 38; expected well-formed XML",
        ),
    ],
    ids=range(15),
)
def test_xml_that_is_not_understood_is_refused(text: str, expected: str) -> None:
    full = expected + MARKUP if expected.endswith("; ") else expected

    assert reason(xml=text) == f"x.pdf.metadata.xml: {full}"


def test_entities_of_entities_are_not_expanded() -> None:
    rounds = "".join(f"<!ENTITY e{n + 1} '{f'&e{n};' * 10}'>" for n in range(9))
    head = f"<!DOCTYPE metadata [<!ENTITY e0 'ha'>{rounds}]>"
    text = head + "<metadata><meta name='a' content='&e9;'/></metadata>"

    assert reason(xml=text).startswith("x.pdf.metadata.xml: ")


def test_a_sidecar_that_is_too_large_is_refused() -> None:
    text = '{"a": "' + "b" * MAX_BYTES + '"}'

    expected = "x.pdf.meta.json: more than 1048576 bytes; expected at most that"
    assert reason(json=text) == expected


def test_a_sidecar_that_cannot_be_opened_is_refused(tmp_path: object) -> None:
    def gone(path: str) -> IO[bytes]:
        return open(f"{tmp_path}/{path}", "rb")

    with pytest.raises(RecordError) as caught:
        read_sidecars(("x.meta.yml",), gone)
    assert caught.value.reason == (
        "x.meta.yml: No such file or directory; expected a file that can be read"
    )


def test_a_sidecar_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.meta.yml").symlink_to("elsewhere")
    with pytest.raises(RecordError) as caught:
        read_sidecars((f"{tmp_path}/x.meta.yml",), open_local)
    assert caught.value.reason == (
        "x.meta.yml: a symbolic link; expected a file, or --follow-links"
    )


def test_a_sidecar_that_no_server_gives_is_refused() -> None:
    def broken(path: str) -> IO[bytes]:
        raise SourceError(f"{path}: access denied")

    with pytest.raises(RecordError) as caught:
        read_sidecars(("s3://bucket/x.meta.yml",), broken)
    assert caught.value.reason == (
        "x.meta.yml: s3://bucket/x.meta.yml: access denied; expected a file that can be read"
    )


@pytest.mark.parametrize("extension", ["json", "yaml", "xml"])
@given(text=st.binary(max_size=200))
def test_any_bytes_are_understood_or_refused(extension: str, text: bytes) -> None:
    try:
        said(**{extension: text})
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
def test_a_torn_sidecar_is_refused(extension: str, whole: bytes, end: int) -> None:
    assert reason(**{extension: whole[:end]})
