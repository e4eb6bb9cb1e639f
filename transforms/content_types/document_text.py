"""The text of a document: decoded by its charset, and HTML without its markup."""

import re
from typing import NamedTuple

from lxml import etree

from feedferry.transforms.content_types import charset as charsets
from feedferry.transforms.content_types.charset import UTF_8, find_charset, is_charset

_HTML = ("text/html", "application/xhtml+xml")
_PARAMETER = re.compile(r";\s*charset\s*=\s*[\"']?([^\s\"';]+)", re.I)
_HEAD_BYTES = 4096
_CONTROLS = frozenset(range(0x20)) - frozenset(b"\t\n\r") | {0xFFFE, 0xFFFF}
"""Characters that lxml takes from a document and refuses as the text of an element."""

_CONTROLS_AS_BLANKS = bytes(0x20 if code in _CONTROLS else code for code in range(256))
_REFERENCE = re.compile(rb"&#(?:x0*([0-9a-f]{1,6})|0*([0-9]{1,7}));?", re.I)
_BLOCKS = (
    *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset"),
    *("figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header"),
    *("hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "td", "th", "tr", "ul"),
)
_UNSEEN = ("script", "style", "noscript", "template", "head")


class DocumentText(NamedTuple):
    """The text of a document; `unreadable` counts the bytes that are not of its `charset`."""

    body: str
    title: str | None
    charset: str
    unreadable: int = 0


def is_text(mimetype: str | None, data: bytes) -> bool:
    """Whether a document is text: by its type, or without one, by its bytes."""
    if kind := _kind_of(mimetype):
        return charsets.is_text(kind)
    return b"\0" not in data[:_HEAD_BYTES] and _decoded(data, UTF_8)[1] == 0


def is_plain_text(mimetype: str | None) -> bool:
    """Whether a document of a type is its own text, if it is UTF-8 and states no charset itself."""
    kind = _kind_of(mimetype)
    return charsets.has_one_charset(kind) and "html" not in kind


def text_of(data: bytes, *, mimetype: str | None, charset: str | None) -> DocumentText:
    """Return the text of a document that is text."""
    kind = _kind_of(mimetype)
    parameter = _PARAMETER.search(mimetype or "")
    stated = charset or (parameter and parameter[1])
    name = find_charset(data, mimetype=kind or "text/plain", stated=stated)
    if name is None or not is_charset(name):
        name = UTF_8
    text, unreadable = _decoded(data, name)
    if kind not in _HTML:
        return DocumentText(text, None, name, unreadable)
    body, title = _without_markup(text)
    return DocumentText(body, title, name, unreadable)


def _kind_of(mimetype: str | None) -> str:
    return (mimetype or "").partition(";")[0].strip().lower()


def _decoded(data: bytes, charset: str) -> tuple[str, int]:
    """Return a text, and the number of bytes that were replaced."""
    try:
        return data.decode(charset).removeprefix("\ufeff"), 0
    except UnicodeDecodeError:
        text = data.decode(charset, "replace").removeprefix("\ufeff")
        return text, text.count("\ufffd")


def _without_markup(text: str) -> tuple[str, str | None]:
    """Return the text and the title of an HTML document; a line for each block."""
    data = text.encode("utf-8", "replace").translate(_CONTROLS_AS_BLANKS, b"\0")
    data = data.replace(b"\xef\xbf\xbe", b" ").replace(b"\xef\xbf\xbf", b" ")
    if b"&#" in data:
        data = _REFERENCE.sub(_without_control, data)
    if not data.strip():
        return "", None
    parser = etree.HTMLParser(
        encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True
    )
    root = etree.fromstring(data, parser)
    if root is None:  # nothing but comments
        return "", None
    title = root.findtext(".//title")
    etree.strip_elements(root, *_UNSEEN, with_tail=False)
    for element in root.iter(*_BLOCKS):
        element.text = "\n" + (element.text or "")
        element.tail = "\n" + (element.tail or "")
    text = etree.tostring(root, method="text", encoding="unicode")
    lines = [" ".join(line.split()) for line in text.split("\n")]
    body = "\n".join(filter(None, lines))
    return body, (" ".join(title.split()) or None) if title else None


def _without_control(match: re.Match[bytes]) -> bytes:
    """Return a reference to a character, or a blank in place of one to a control character."""
    hexadecimal, decimal = match.groups()
    code = int(hexadecimal, 16) if hexadecimal else int(decimal)
    return b" " if code in _CONTROLS else match[0]
