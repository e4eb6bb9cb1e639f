"""Documents of rows: in a column, in a file, or the row as an HTML page."""

import os
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from schemas.errors import ConfigError, RecordError
from schemas.record import Content
from transforms.sources.database.column_index import ColumnIndex, ColumnReference
from transforms.sources.database.content import TypedContent, content_getter
from transforms.sources.database.html import load_template, table_renderer, template_renderer
from transforms.sources.database.mapping import ContentSource, RowMapping

INDEX = ColumnIndex(names=("id", "body", "type"), key=("id",))
IN_BODY = ContentSource(column="body")


def content_of(
    content: ContentSource, body: object, kind: object = None, *, max_bytes: int = 1000, **more: Any
) -> TypedContent:
    mapping = RowMapping(connection="sqlite://", content=content, **more)
    return content_getter(mapping, INDEX, max_bytes=max_bytes)((7, body, kind))


def refusal(content: ContentSource, body: object, *, max_bytes: int = 1000) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        content_of(content, body, max_bytes=max_bytes)
    return caught.value.code, caught.value.reason


def in_files(folder: Path) -> ContentSource:
    return ContentSource(path="body", folder=str(folder))


def test_a_text_is_utf_8() -> None:
    assert content_of(IN_BODY, "né") == (Content(b"n\xc3\xa9"), "text/plain", "utf-8")


def test_bytes_are_not_touched() -> None:
    data = b"%PDF-1.7\r\n\x00\xff"
    assert content_of(IN_BODY, data) == (Content(data), "application/pdf", None)


def test_the_charset_of_bytes_is_detected() -> None:
    assert content_of(IN_BODY, b"n\xc3\xa9") == (Content(b"n\xc3\xa9"), "text/plain", "utf-8")


def test_the_charset_of_bytes_can_be_stated() -> None:
    assert content_of(IN_BODY, b"n\xe9", mimetype="text/plain", charset="iso-8859-1") == (
        Content(b"n\xe9"),
        "text/plain",
        "iso-8859-1",
    )


@pytest.mark.parametrize(
    ("text", "mimetype"),
    [
        ("a < b", "text/plain"),
        ("<!DOCTYPE html><p>a", "text/html"),
        ("\ufeff\n <HTML><body>", "text/html"),
        ("<p>a</p>", "text/html"),
        ("  <h1 class='x'>a", "text/html"),
        ("<!-- a --><b>", "text/html"),
        ("</p>a", "text/html"),
        ("<b>", "text/html"),
        ("<blink>", "text/plain"),
        ("<anna@example.com>", "text/plain"),
        ("<?xml version='1.0'?><a/>", "application/xml"),
        ("{\\rtf1 a}", "application/rtf"),
        ("From: a@example.com\nTo: b@example.com\n\nHello", "text/plain"),
    ],
)
def test_the_mimetype_of_a_text_is_detected(text: str, mimetype: str) -> None:
    assert content_of(IN_BODY, text)[1] == mimetype


def test_a_mimetype_can_be_in_a_column() -> None:
    assert (
        content_of(IN_BODY, "a", "text/x-log", mimetype=ColumnReference(column="type"))[1]
        == "text/x-log"
    )


def test_an_unknown_mimetype_is_not_stated() -> None:
    assert content_of(IN_BODY, b"\x00\x01\x02") == (Content(b"\x00\x01\x02"), None, None)


def test_a_document_of_null_is_rejected() -> None:
    assert refusal(IN_BODY, None) == (
        "null-content",
        "body is NULL; expected a document, or a query that leaves such rows out",
    )


def test_a_larger_document_is_not_cut() -> None:
    assert refusal(IN_BODY, "né", max_bytes=2) == (
        "content-too-large",
        "3 bytes or more; expected at most 2 bytes; raise --max-content-bytes to read it",
    )


def test_a_row_without_a_document_is_a_page() -> None:
    content, mimetype, charset = content_of(ContentSource(), "a", title="body")
    assert content is not None
    assert b"<title>a</title>" in content.data
    assert (mimetype, charset) == ("text/html", "utf-8")


def test_a_row_is_a_page_by_a_template(tmp_path: Path) -> None:
    (tmp_path / "page.txt.j2").write_text("{{ id }}: {{ body }}")
    content = ContentSource(template=str(tmp_path / "page.txt.j2"))
    assert content_of(content, "<") == (Content(b"7: &lt;"), "text/html", "utf-8")


def test_a_page_by_a_template_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("é" * 6)
    content = ContentSource(template=str(tmp_path / "page.j2"))
    code, _ = refusal(content, "", max_bytes=10)
    assert code == "content-too-large"


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"n\xe9\r\n")
    assert content_of(in_files(tmp_path), "a.txt", charset="iso-8859-1") == (
        Content(b"n\xe9\r\n"),
        "text/plain",
        "iso-8859-1",
    )


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a")
    (tmp_path / "b.txt").symlink_to("a.txt")
    assert content_of(in_files(tmp_path), "b.txt")[0] == Content(b"a")


@pytest.mark.parametrize("path", ["../secret.txt", "sub/../../secret.txt", "/etc/passwd", "link"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (files / "link").symlink_to("../secret.txt")
    assert refusal(in_files(files), path) == (
        "path-outside",
        f"{path!r} leaves {str(files)!r}; expected a file in it",
    )


def test_a_folder_with_the_same_prefix_is_outside(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files2").mkdir()
    code, _ = refusal(in_files(tmp_path / "files"), "../files2/a.txt")
    assert code == "path-outside"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("none.txt", "'none.txt': No such file or directory; expected a file"),
        ("folder", "'folder': Is a directory; expected a file"),
        ("loop", "'loop': Too many levels of symbolic links; expected a file"),
        ("pipe", "'pipe': not a regular file; expected a file"),
        ("a\0b", "'a\\x00b': not a file name; expected a file"),
        ("\ud800", "'\\ud800': not a file name; expected a file"),
    ],
)
def test_other_paths_are_refused(tmp_path: Path, path: str, expected: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    assert refusal(in_files(tmp_path), path) == ("unreadable", expected)


@pytest.mark.parametrize("path", [None, ""])
def test_a_path_that_is_missing_is_refused(tmp_path: Path, path: str | None) -> None:
    assert refusal(in_files(tmp_path), path) == (
        "null-content",
        "body is NULL or empty; expected a document, or a query that leaves such rows out",
    )


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc")
    assert refusal(in_files(tmp_path), "a.txt", max_bytes=2) == (
        "content-too-large",
        "3 bytes or more; expected at most 2 bytes; raise --max-content-bytes to read it",
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (ContentSource(column="bdy"), "content: column: 'bdy'; expected a column: id, body, type"),
        (ContentSource(path="bdy"), "content: path: 'bdy'; expected a column: id, body, type"),
        (ContentSource(fetch="bdy"), "content: fetch: 'bdy'; expected a column: id, body, type"),
    ],
)
def test_a_missing_column_is_refused(content: ContentSource, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        content_of(content, "a")

    assert str(caught.value) == f"{expected}; did you mean 'body'?"


PEOPLE = ColumnIndex(names=("id", "full name", "note", "photo"), key=("id",))
ANNA = (7, "Anna", "a & b", b"\xff\x00")


def table(*row: object, title: str | None = None, without: tuple[int, ...] = ()) -> str:
    return table_renderer(PEOPLE, without=without, title=title)(row).decode()


def written(folder: Path, text: str, name: str = "page.html.j2") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def page(folder: Path, text: str, *row: object, max_bytes: int = 1000) -> bytes:
    return template_renderer(written(folder, text), PEOPLE, max_bytes=max_bytes)(row or ANNA)


def render_error(folder: Path, text: str) -> str:
    """The reason of the reject of a row by a template."""
    with pytest.raises(RecordError) as caught:
        page(folder, text)
    assert caught.value.code == "template"
    return caught.value.reason


def load_error(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_template(path)
    return str(caught.value)


def test_a_row_is_a_table() -> None:
    expected = """\
<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<title>Anna</title>
</head>
<body>
<table>
<tr><th>id</th><td>7</td></tr>
<tr><th>full name</th><td>Anna</td></tr>
<tr><th>note</th><td>a &amp; b</td></tr>
<tr><th>photo</th><td>2 bytes</td></tr>
</table>
</body>
</html>
"""
    assert table(*ANNA, title="full name") == expected


def test_null_and_some_columns_have_no_line() -> None:
    expected = """\
<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
</head>
<body>
<table>
<tr><th>id</th><td>7</td></tr>
</table>
</body>
</html>
"""
    assert table(7, "Anna", None, None, without=(1,)) == expected


def test_no_value_is_markup() -> None:
    found = html.document_fromstring(table(7, "</td><script>x</script>", None, None))
    assert found.xpath("//td/text()") == ["7", "</td><script>x</script>"]


def test_no_name_of_a_column_is_markup() -> None:
    make = table_renderer(ColumnIndex(names=("<b>",)), without=(), title=None)
    assert b"<th>&lt;b&gt;</th>" in make((1,))


def test_a_lone_surrogate_is_replaced() -> None:
    assert "<td>a\ufffdb</td>" in table(7, "a\ud800b", None, None)


def test_a_template_has_the_columns(tmp_path: Path) -> None:
    text = "<h1>{{ row['full name'] }}</h1>{% if note %}{{ note }}{% endif %} {{ id + 1 }}\n"
    assert page(tmp_path, text) == b"<h1>Anna</h1>a &amp; b 8\n"


def test_a_template_can_include_files_of_its_folder(tmp_path: Path) -> None:
    written(tmp_path, "<p>{{ id }}</p>", "foot.html")
    assert page(tmp_path, "{% include 'foot.html' %}") == b"<p>7</p>"


def test_a_page_ends_soon_after_its_bound(tmp_path: Path) -> None:
    text = "{% for i in range(100000) %}0123456789{% endfor %}"
    assert len(page(tmp_path, text, max_bytes=1000)) == 1010


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "\n\n{{ nmae }}",
            "page.html.j2:3: UndefinedError: 'nmae' is undefined; expected a page for each row",
        ),
        ("{{ id / 0 }}", "page.html.j2:1: ZeroDivisionError; expected a page for each row"),
        ("{{ note | int + note }}", "page.html.j2:1: TypeError; expected a page for each row"),
        (
            "{{ note.__class__.__mro__ }}",
            "page.html.j2:1: SecurityError: access to attribute '__class__' of 'str' object is "
            "unsafe.; expected a page for each row",
        ),
        (
            "{% include '../secret.txt' %}",
            "page.html.j2:1: TemplateNotFound: ../secret.txt; expected a page for each row",
        ),
        (
            "{% for i in range(1000000000) %}x{% endfor %}",
            "page.html.j2:1: OverflowError; expected a page for each row",
        ),
    ],
)
def test_a_failing_template_names_the_line(tmp_path: Path, text: str, expected: str) -> None:
    assert render_error(tmp_path, text) == expected


def test_an_invalid_template_names_the_line(tmp_path: Path) -> None:
    path = written(tmp_path, "\n{% if %}")
    expected = f"{path}:2: Expected an expression, got 'end of statement block'"
    assert load_error(path) == f"{expected}; expected a Jinja2 template"


def test_a_missing_template_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "none.j2"
    assert load_error(path) == f"{path}: no such file; expected a Jinja2 template"


def test_a_template_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "page.j2"
    path.write_bytes(b"\xff")
    assert load_error(path) == f"{path}: not UTF-8; expected a Jinja2 template"
