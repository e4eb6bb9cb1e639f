"""The text of a document: which are text, by which charset, and HTML without markup."""

import pytest

from feedferry.transforms.content_types.document_text import is_text, text_of


@pytest.mark.parametrize(
    ("mimetype", "data", "expected"),
    [
        ("text/plain", b"\xff", True),
        ("text/html; charset=latin1", b"", True),
        ("application/json", b"{}", True),
        ("image/svg+xml", b"<svg/>", True),
        ("application/pdf", b"%PDF", False),
        ("image/png", b"text", False),
        (None, b"Ships.", True),
        (None, b"\x89PNG\r\n\0", False),
        (None, b"\xff\xfe\xfd", False),
        ("", b"", True),
    ],
)
def test_a_document_is_text_by_its_type_or_its_bytes(
    mimetype: str | None, data: bytes, expected: bool
) -> None:
    assert is_text(mimetype, data) is expected


@pytest.mark.parametrize(
    ("data", "mimetype", "charset", "expected"),
    [
        ("Z\u00fcrich".encode(), "text/plain", None, "Z\u00fcrich"),
        ("Z\u00fcrich".encode("latin1"), "text/plain", "ISO-8859-1", "Z\u00fcrich"),
        ("Z\u00fcrich".encode("latin1"), "text/plain; charset='latin1'", None, "Z\u00fcrich"),
        ("Z\u00fcrich".encode("utf-16"), "text/plain", "UTF-8", "Z\u00fcrich"),
        (b"\xef\xbb\xbfquay", "text/plain", None, "quay"),
        (b'<meta charset="latin1"><p>Z\xfcrich', "text/html", None, "Z\u00fcrich"),
        (b"quay", "text/plain", "no-such-charset", "quay"),
        (b"quay", "text/plain", "rot13", "quay"),
    ],
)
def test_the_charset_is_that_which_is_stated(
    data: bytes, mimetype: str, charset: str | None, expected: str
) -> None:
    text = text_of(data, mimetype=mimetype, charset=charset)
    assert (text.body, text.unreadable) == (expected, 0)


def test_bytes_of_another_charset_are_counted() -> None:
    text = text_of(b"Z\xfcrich \xff", mimetype="text/plain", charset=None)
    assert text == ("Z\ufffdrich \ufffd", None, "utf-8", 2)


def test_the_text_of_html_has_a_line_for_each_block_and_nothing_unseen() -> None:
    html = (
        "<html><head><title> The\n quay </title><style>p {}</style></head><body>"
        "<h1>Ships</h1><p>of <b>all</b>&nbsp;ages<script>x()</script></p><!-- no -->"
        "<ul><li>one<li>two</ul><table><tr><td>a<td>b</table>last</body></html>"
    )
    text = text_of(html.encode(), mimetype="text/html", charset=None)
    assert text.title == "The quay"
    assert text.body == "Ships\nof all ages\none\ntwo\na\nb\nlast"


@pytest.mark.parametrize("html", ["", "  ", "<!-- only -->", "<html></html>", "\x00"])
def test_html_without_text_has_an_empty_text(html: str) -> None:
    assert text_of(html.encode(), mimetype="text/html", charset=None).body == ""


def test_all_white_space_of_html_is_one_blank_and_instructions_are_no_text() -> None:
    html = "<p>Z\u00fcrich\u3000quay\u2028\f\vships<?php echo 1 ?>\n\u2003</p>"
    text = text_of(html.encode(), mimetype="text/html", charset=None)
    assert text.body == "Z\u00fcrich quay ships"


@pytest.mark.parametrize(
    "char", ["\x01", "\x1b", "\f", "\ufffe", "\uffff", "&#1;", "&#xfffe;", "\0"]
)
def test_html_with_characters_that_xml_has_not_is_read(char: str) -> None:
    html = f"<title>T{char}</title><p>one {char} two<br>{char}</p>{char}three"
    text = text_of(html.encode(), mimetype="text/html", charset=None)
    assert (text.body, text.title) == ("one two\nthree", "T")
