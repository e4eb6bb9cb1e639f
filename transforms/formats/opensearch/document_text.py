"""The text of a document: decoded by its charset, and HTML without its markup."""

import codecs
import re
from typing import NamedTuple

import lxml.html
from lxml import etree

_HTML = ("text/html", "application/xhtml+xml")
_TEXTS = ("application/json", "application/xml", "application/javascript", "message/rfc822")
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([^\s\"';]+)", re.I)
_META_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.I)
_HEAD_BYTES = 2048
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SPACE = re.compile(r"[ \t\r\f\v\xa0]+")
_LINES = re.compile(r" ?\n[ \n]*")
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "br",
        "dd",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "ul",
    ]
)
_UNSEEN = ("script", "style", "noscript", "template", "head")


class DocumentText(NamedTuple):
    """The text of a document; `unreadable` counts the bytes that are not of its `charset`."""

    body: str
    title: str | None
    charset: str
    unreadable: int = 0


def is_text(mimetype: str | None, data: bytes) -> bool:
    """Whether a document is text: by its type, or without one, by its first bytes."""
    kind = (mimetype or "").partition(";")[0].strip().lower()
    if not kind:
        return b"\0" not in data[:_HEAD_BYTES] and _decoded(data, "utf-8")[1] == 0
    return kind.startswith("text/") or kind in (*_HTML, *_TEXTS) or kind.endswith(("+xml", "+json"))


def text_of(data: bytes, *, mimetype: str | None, charset: str | None) -> DocumentText:
    """Return the text of a document that is text."""
    kind = (mimetype or "").partition(";")[0].strip().lower()
    name = _charset_of(data, mimetype, charset, is_html=kind in _HTML)
    text, unreadable = _decoded(data, name)
    if kind not in _HTML:
        return DocumentText(text, None, name, unreadable)
    body, title = _without_markup(text)
    return DocumentText(body, title, name, unreadable)


def _charset_of(data: bytes, mimetype: str | None, charset: str | None, *, is_html: bool) -> str:
    """Return the charset that is stated: by its first bytes, next to it, or in the document."""
    for begin, name in _BOMS:
        if data.startswith(begin):
            return name
    in_type = _CHARSET.search(mimetype or "")
    in_text = _META_CHARSET.search(data[:_HEAD_BYTES]) if is_html else None
    for stated in (charset, in_type and in_type[1], in_text and in_text[1].decode("ascii")):
        if stated:
            try:
                return codecs.lookup(stated.strip()).name
            except (LookupError, ValueError):
                continue
    return "utf-8"


def _decoded(data: bytes, charset: str) -> tuple[str, int]:
    """Return a text, and the number of bytes that were replaced."""
    try:
        return data.decode(charset).removeprefix("\ufeff"), 0
    except (UnicodeDecodeError, LookupError):  # a codec of bytes is no charset
        text = data.decode("utf-8" if charset not in _ASCII_LIKE else charset, "replace")
        return text.removeprefix("\ufeff"), text.count("\ufffd")


_ASCII_LIKE = ("utf-8", "ascii", "utf-16", "cp1252", "iso8859-1")


def _without_markup(text: str) -> tuple[str, str | None]:
    """Return the text and the title of an HTML document; a line for each block."""
    text = text.replace("\0", "")
    if not text.strip():
        return "", None
    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True)
    try:
        root = lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError:  # nothing but comments
        return "", None
    title = root.findtext(".//title")
    etree.strip_elements(root, *_UNSEEN, etree.Comment, with_tail=False)
    for element in root.iter(*_BLOCKS):
        element.text = "\n" + (element.text or "")
        element.tail = "\n" + (element.tail or "")
    lines = _LINES.sub("\n", _SPACE.sub(" ", "".join(root.itertext()))).strip()
    return lines, (" ".join(title.split()) or None) if title else None
