"""The charset that a text declares, in each of the places that texts have for it."""

import pytest

from feedferry.transforms.content_types.charset import find_charset, is_text, mark_of

HTML = "text/html"
PLAIN = "text/plain"
XML = "application/xml"
MAIL = "message/rfc822"


@pytest.mark.parametrize(
    ("mimetype", "content", "expected"),
    [
        # Byte order marks
        (PLAIN, b"\xef\xbb\xbfplan", "utf-8"),
        (PLAIN, b"\xff\xfep\0l\0", "utf-16"),
        (PLAIN, b"\xfe\xff\0p\0l", "utf-16"),
        (PLAIN, b"\xff\xfe\0\0p\0\0\0", "utf-32"),
        (PLAIN, b"\0\0\xfe\xff\0\0\0p", "utf-32"),
        (XML, b'\xef\xbb\xbf<?xml version="1.0" encoding="iso-8859-1"?><a/>', "utf-8"),
        # XML
        (XML, b'<?xml version="1.0" encoding="ISO-8859-15"?><a>\xe9</a>', "iso-8859-15"),
        (XML, b"<?xml version='1.0' encoding='ISO-8859-15'?><a>\xe9</a>", "iso-8859-15"),
        (XML, b'\r\n<?xml version="1.0"\n encoding = "koi8-r" standalone="yes"?><a/>', "koi8-r"),
        ("image/svg+xml", b'<?xml version="1.0" encoding="koi8-r"?><svg/>', "koi8-r"),
        # HTML
        (HTML, b'<html><meta charset="windows-1252">\x93', "windows-1252"),
        (HTML, b"<html><meta charset=windows-1252>\x93", "windows-1252"),
        (HTML, b"<html><META CHARSET='Windows-1252'/>\x93", "windows-1252"),
        (HTML, b'<html><meta name="x" charset = "windows-1252">\x93', "windows-1252"),
        (HTML, b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
        (HTML, b"<meta content='text/html;charset=koi8-r' http-equiv=content-type>", "koi8-r"),
        (HTML, b"<html>" + b" " * 5000 + b'<meta charset="windows-1252">', "utf-8"),
        (HTML, b'<meta data-charset="koi8-r">', "utf-8"),
        (PLAIN, b'<meta charset="koi8-r">', "utf-8"),
        *(
            (HTML, b"<meta charset=" + name, "utf-8")
            for name in (b"utf-16", b"UTF-16LE", b"utf-32")
        ),
        # Mails
        (MAIL, b"Content-Type: text/plain; charset=iso-8859-2\r\n\r\n\xb1", "iso-8859-2"),
        (MAIL, b'content-type: a; format=flowed; charset="ISO-8859-2"\n\n\xb1', "iso-8859-2"),
        (MAIL, b"A: b\r\nContent-Type: a;\r\n\tcharset=iso-8859-2\r\n\r\n\xb1", "iso-8859-2"),
        (MAIL, b"Subject: plan\n\nContent-Type: text/plain; charset=iso-8859-2\n", None),
        (MAIL, b"Content-Type: text/plain\nX-Was: a; charset=iso-8859-2\n\nplan", None),
        # Nothing declared
        *((PLAIN, content, "utf-8") for content in (b"", b"plan", "Plön".encode())),
        (PLAIN, b"Pl\xf6n", None),
        (PLAIN, "Plö".encode()[:-1], None),
        ("image/png", b"\xef\xbb\xbf", None),
    ],
)
def test_a_charset_is_the_declared_one_else_utf_8(
    mimetype: str, content: bytes, expected: str | None
) -> None:
    assert find_charset(content, mimetype=mimetype) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"Pl\xf6n",
        *(
            b"<meta charset=" + name + b">\xe9"
            for name in (b"x-nobody", b"hex", b"rot13", b"idna", b"unicode_escape", b"..")
        ),
    ],
)
def test_other_bytes_without_a_known_charset_have_the_one_that_the_user_states(
    content: bytes,
) -> None:
    assert find_charset(content, mimetype=HTML, stated="iso-8859-1") == "iso-8859-1"


@pytest.mark.parametrize("flood", [b"<meta ", b"<meta charset", b"<?xml ", b"content-type:;\n "])
@pytest.mark.parametrize("mimetype", [HTML, XML, MAIL])
def test_hostile_texts_take_no_time(flood: bytes, mimetype: str) -> None:
    assert find_charset(flood * 20_000, mimetype=mimetype) in ("utf-8", None)


@pytest.mark.parametrize(
    ("mimetype", "expected"),
    [
        *((kind, True) for kind in ("text/csv", XML, "application/ld+json", "image/svg+xml", MAIL)),
        *((kind, False) for kind in ("application/pdf", "image/png", "application/octet-stream")),
    ],
)
def test_texts_have_charsets(mimetype: str, expected: bool) -> None:
    assert is_text(mimetype) is expected


def test_a_text_without_a_byte_order_mark_has_none() -> None:
    assert mark_of(b"plan") is None
