"""Documents of rows: in a column, in a file, or the row as a page."""

import os
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError, RecordError
from schemas.record import Content
from transforms.sources.database.column_index import Rows
from transforms.sources.database.content import Made, content_maker
from transforms.sources.database.mapping import ContentFrom, Mapping

ROWS = Rows(names=("id", "body", "type"), key=("id",))
IN_BODY = ContentFrom(column="body")


def made(
    content: ContentFrom, body: object, kind: object = None, *, max_bytes: int = 1000, **more: Any
) -> Made:
    mapping = Mapping(connection="sqlite://", content=content, **more)
    return content_maker(mapping, ROWS, max_bytes=max_bytes)((7, body, kind))


def refusal(content: ContentFrom, body: object, *, max_bytes: int = 1000) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        made(content, body, max_bytes=max_bytes)
    return caught.value.code, caught.value.reason


def in_files(folder: Path) -> ContentFrom:
    return ContentFrom(path="body", folder=str(folder))


def test_a_text_is_utf_8() -> None:
    assert made(IN_BODY, "né") == (Content(b"n\xc3\xa9"), "text/plain", "utf-8")


def test_bytes_are_not_touched() -> None:
    data = b"%PDF-1.7\r\n\x00\xff"
    assert made(IN_BODY, data) == (Content(data), "application/pdf", None)


def test_bytes_of_text_have_the_charset_that_they_show() -> None:
    assert made(IN_BODY, b"n\xc3\xa9") == (Content(b"n\xc3\xa9"), "text/plain", "utf-8")


def test_bytes_of_text_have_the_charset_that_is_said() -> None:
    assert made(IN_BODY, b"n\xe9", mimetype="text/plain", charset="iso-8859-1") == (
        Content(b"n\xe9"),
        "text/plain",
        "iso-8859-1",
    )


def test_the_charset_that_is_said_is_not_that_of_a_text() -> None:
    assert made(IN_BODY, "né", charset="iso-8859-1") == (
        Content(b"n\xc3\xa9"),
        "text/plain",
        "utf-8",
    )


def test_json_is_a_document() -> None:
    assert made(IN_BODY, {"a": 1}) == (Content(b'{"a":1}'), "application/json", "utf-8")


def test_an_empty_text_is_a_document() -> None:
    assert made(IN_BODY, "") == (Content(b""), "text/plain", "utf-8")


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
def test_the_mimetype_of_a_text_is_seen(text: str, mimetype: str) -> None:
    assert made(IN_BODY, text)[1] == mimetype


def test_bytes_may_be_a_piece_of_a_page() -> None:
    assert made(IN_BODY, b"\n<div>a</div>")[1] == "text/html"


def test_a_mimetype_that_is_said_is_taken() -> None:
    assert made(IN_BODY, "<p>a", mimetype="text/markdown")[1] == "text/markdown"


def test_a_mimetype_may_stand_in_a_column() -> None:
    assert made(IN_BODY, "a", "text/x-log", mimetype_column="type")[1] == "text/x-log"


def test_a_mimetype_that_is_null_is_seen() -> None:
    assert made(IN_BODY, "<p>a", None, mimetype_column="type")[1] == "text/html"


def test_a_mimetype_that_nothing_tells_is_not_stated() -> None:
    assert made(IN_BODY, b"\x00\x01\x02") == (Content(b"\x00\x01\x02"), None, None)


def test_a_document_that_is_null_is_none() -> None:
    assert refusal(IN_BODY, None) == (
        "null-content",
        "body is NULL; expected a document, or a query that leaves such rows out",
    )


def test_a_number_is_no_document() -> None:
    assert refusal(IN_BODY, 7) == (
        "bad-value",
        "body: a value of the type int; expected text, bytes or JSON, as only these are documents",
    )


def test_a_document_of_the_most_bytes_is_taken() -> None:
    assert made(IN_BODY, "né", max_bytes=3)[0] == Content(b"n\xc3\xa9")


def test_a_larger_document_is_not_cut() -> None:
    assert refusal(IN_BODY, "né", max_bytes=2) == (
        "content-too-large",
        "3 bytes or more; expected at most 2 bytes; raise --max-content-bytes to read it",
    )


def test_without_content_there_is_none() -> None:
    assert made(ContentFrom(is_none=True), None, mimetype="text/html") == (None, "text/html", None)


def test_a_row_is_a_page_unless_its_document_is_elsewhere() -> None:
    content, mimetype, charset = made(ContentFrom(), "a", title="body")
    assert content is not None
    assert b"<title>a</title>" in content.data
    assert (mimetype, charset) == ("text/html", "utf-8")


def test_a_page_that_is_too_large_is_refused() -> None:
    code, _ = refusal(ContentFrom(), "a" * 1000)
    assert code == "content-too-large"


def test_a_row_is_a_page_by_a_template(tmp_path: Path) -> None:
    (tmp_path / "page.txt.j2").write_text("{{ id }}: {{ body }}")
    content = ContentFrom(template=str(tmp_path / "page.txt.j2"))
    assert made(content, "<") == (Content(b"7: &lt;"), "text/html", "utf-8")


def test_a_page_by_a_template_may_have_another_mimetype(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("{{ id }}")
    content = ContentFrom(template=str(tmp_path / "page.j2"))
    assert made(content, "", mimetype="text/plain")[1] == "text/plain"


def test_a_page_by_a_template_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("é" * 6)
    content = ContentFrom(template=str(tmp_path / "page.j2"))
    code, _ = refusal(content, "", max_bytes=10)
    assert code == "content-too-large"


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"n\xe9\r\n")
    assert made(in_files(tmp_path), "a.txt", charset="iso-8859-1") == (
        Content(b"n\xe9\r\n"),
        "text/plain",
        "iso-8859-1",
    )


def test_a_path_may_begin_at_the_root_if_it_leads_into_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a")
    assert made(in_files(tmp_path), str(tmp_path / "a.txt"))[0] == Content(b"a")


def test_a_link_may_lead_elsewhere_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a")
    (tmp_path / "b.txt").symlink_to("a.txt")
    assert made(in_files(tmp_path), "b.txt")[0] == Content(b"a")


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_bytes(b"a")
    (tmp_path / "link").symlink_to("files")
    assert made(in_files(tmp_path / "link"), "a.txt")[0] == Content(b"a")


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


def test_a_folder_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
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
        ("pipe", "'pipe' is no file; expected one"),
        ("a\0b", "'a\\x00b': no name of a file; expected one"),
        ("\ud800", "'\\ud800': no name of a file; expected one"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path: Path, path: str, expected: str) -> None:
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


def test_a_url_that_is_missing_is_refused() -> None:
    assert refusal(ContentFrom(fetch="body"), None) == (
        "null-content",
        "body is NULL or empty; expected a document, or a query that leaves such rows out",
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (ContentFrom(column="bdy"), "content: column: 'bdy'; expected a column: id, body, type"),
        (ContentFrom(path="bdy"), "content: path: 'bdy'; expected a column: id, body, type"),
        (ContentFrom(fetch="bdy"), "content: fetch: 'bdy'; expected a column: id, body, type"),
    ],
)
def test_a_column_that_is_not_there_is_refused(content: ContentFrom, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(content, "a")

    assert str(caught.value) == f"{expected}; did you mean 'body'?"
