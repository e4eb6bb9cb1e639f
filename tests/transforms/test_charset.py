"""What a text says of its own charset, in all the places where texts say it."""

import pytest

from transforms.charset import find_charset, is_text, is_utf_8, mark_of

HTML = "text/html"
PLAIN = "text/plain"
XML = "application/xml"
MAIL = "message/rfc822"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfplan", "utf-8"),
        (b"\xff\xfep\0l\0", "utf-16"),
        (b"\xfe\xff\0p\0l", "utf-16"),
        (b"\xff\xfe\0\0p\0\0\0", "utf-32"),
        (b"\0\0\xfe\xff\0\0\0p", "utf-32"),
    ],
)
def test_a_byte_order_mark_tells(content: bytes, expected: str) -> None:
    assert find_charset(content, mimetype=PLAIN) == expected


def test_a_byte_order_mark_is_stronger_than_a_declaration() -> None:
    content = b'\xef\xbb\xbf<?xml version="1.0" encoding="iso-8859-1"?><a/>'
    assert find_charset(content, mimetype=XML) == "utf-8"


@pytest.mark.parametrize(
    "declaration",
    [
        b'<?xml version="1.0" encoding="ISO-8859-15"?>',
        b"<?xml version='1.0' encoding='ISO-8859-15'?>",
        b'<?xml version="1.0"\n encoding = "ISO-8859-15" standalone="yes"?>',
        b'\r\n<?xml version="1.0" encoding="ISO-8859-15"?>',
    ],
)
def test_the_declaration_of_xml_tells(declaration: bytes) -> None:
    assert find_charset(declaration + b"<a>\xe9</a>", mimetype=XML) == "iso-8859-15"


def test_xml_of_another_type_has_a_declaration_as_well() -> None:
    content = b'<?xml version="1.0" encoding="koi8-r"?><svg/>'
    assert find_charset(content, mimetype="image/svg+xml") == "koi8-r"


@pytest.mark.parametrize(
    "meta",
    [
        b'<meta charset="windows-1252">',
        b"<meta charset=windows-1252>",
        b"<META CHARSET='Windows-1252'/>",
        b'<meta name="x" charset = "windows-1252">',
        b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1252">',
        b"<meta content='text/html;charset=windows-1252' http-equiv=content-type>",
    ],
)
def test_a_page_tells_in_a_meta_element_of_either_form(meta: bytes) -> None:
    content = b"<html><head>" + meta + b"</head>\x93quoted\x94</html>"
    assert find_charset(content, mimetype=HTML) == "windows-1252"


def test_a_meta_element_far_below_is_not_looked_for() -> None:
    content = b"<html>" + b" " * 5000 + b'<meta charset="windows-1252">'
    assert find_charset(content, mimetype=HTML) == "utf-8"


def test_a_plain_text_about_pages_declares_nothing() -> None:
    assert find_charset(b'<meta charset="koi8-r">', mimetype=PLAIN) == "utf-8"


def test_an_attribute_that_only_ends_like_charset_declares_nothing() -> None:
    assert find_charset(b'<meta data-charset="koi8-r">', mimetype=HTML) == "utf-8"


@pytest.mark.parametrize("name", [b"utf-16", b"UTF-16LE", b"utf-32"])
def test_wide_units_declared_in_narrow_ones_are_no_evidence(name: bytes) -> None:
    assert find_charset(b"<meta charset=" + name + b">", mimetype=HTML) == "utf-8"


@pytest.mark.parametrize("name", [b"x-nobody", b"hex", b"rot13", b"idna", b"unicode_escape", b".."])
def test_what_is_no_charset_is_no_evidence(name: bytes) -> None:
    content = b"<meta charset=" + name + b">\xe9"
    assert find_charset(content, mimetype=HTML, stated="iso-8859-1") == "iso-8859-1"


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Type: text/plain; charset=iso-8859-2\r\n",
        b'content-type: text/plain; format=flowed; charset="ISO-8859-2"\r\n',
        b"Content-Type: text/plain;\r\n\tcharset=iso-8859-2\r\n",
    ],
)
def test_the_header_of_a_mail_tells(header: bytes) -> None:
    content = b"Subject: plan\r\n" + header + b"\r\n\xb1\r\n"
    assert find_charset(content, mimetype=MAIL) == "iso-8859-2"


def test_the_parts_of_a_mail_do_not_tell_for_all_of_it() -> None:
    content = b"Subject: plan\n\nContent-Type: text/plain; charset=iso-8859-2\n"
    assert find_charset(content, mimetype=MAIL) is None


def test_another_header_of_a_mail_does_not_tell() -> None:
    content = b"Content-Type: text/plain\nX-Was: a; charset=iso-8859-2\n\nplan"
    assert find_charset(content, mimetype=MAIL) is None


@pytest.mark.parametrize("content", [b"", b"plan", "Plön".encode()])
def test_ascii_and_utf_8_are_utf_8(content: bytes) -> None:
    assert find_charset(content, mimetype=PLAIN, stated="koi8-r") == "utf-8"


def test_for_other_bytes_the_user_has_the_last_word() -> None:
    assert find_charset(b"Pl\xf6n", mimetype=PLAIN, stated="iso-8859-1") == "iso-8859-1"


def test_nothing_is_guessed() -> None:
    assert find_charset(b"Pl\xf6n", mimetype=PLAIN) is None


def test_what_is_no_text_has_no_charset() -> None:
    assert find_charset(b"\xef\xbb\xbf", mimetype="image/png", stated="utf-8") is None


@pytest.mark.parametrize("flood", [b"<meta ", b"<meta charset", b"<?xml ", b"content-type:;\n "])
@pytest.mark.parametrize("mimetype", [HTML, XML, MAIL])
def test_hostile_texts_cost_no_time(flood: bytes, mimetype: str) -> None:
    assert find_charset(flood * 20_000, mimetype=mimetype) in ("utf-8", None)


@pytest.mark.parametrize(
    "mimetype", ["text/csv", "application/xml", "application/ld+json", "image/svg+xml", MAIL]
)
def test_these_are_texts(mimetype: str) -> None:
    assert is_text(mimetype)


@pytest.mark.parametrize("mimetype", ["application/pdf", "image/png", "application/octet-stream"])
def test_these_are_not(mimetype: str) -> None:
    assert not is_text(mimetype)


def test_a_text_without_a_mark_has_none() -> None:
    assert mark_of(b"plan") is None


def test_a_letter_that_is_cut_off_is_not_utf_8() -> None:
    assert not is_utf_8("Plö".encode()[:-1])
