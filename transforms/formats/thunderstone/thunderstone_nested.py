"""The documents inside Refs and Errors: `results/result` with a Url and one text each.

**Spec:** Thunderstone dataload API, "Other Details".
"""

from lxml import etree

from transforms.formats.thunderstone.text import (
    BASE64,
    CHARSET,
    DATATYPES,
    base64_element,
    characters,
    decode_base64,
    enclose,
    is_base64,
    is_layout,
    text_element,
    text_of,
    url_element,
    url_of,
)
from transforms.formats.xml.serializer import attributes, shut_parser

REFS = ("Refs", "Ref")
ERRORS = ("Errors", "Reason")

_RESULTS = attributes([("xmlns:dt", DATATYPES)])


def parse_nested(
    child: etree._Element, names: tuple[str, str], *, url: str
) -> tuple[str, ...] | None:
    """Return the texts of a Refs or Errors element, in order; of an empty one, no texts.

    None where it says more than that: another url, other elements, no such document. Raises
    RecordError where its base64 is torn.
    """
    text = characters(child)
    if text is None or not text.strip():
        return None if text is None else ()
    if not is_base64(child):
        return None
    root = _parse(decode_base64(text.encode(), names[0]))
    if root is None or root.tag != "results" or not is_layout(root):
        return None
    texts = tuple(_text(result, names[1], url) for result in root)
    return None if None in texts else tuple(text for text in texts if text is not None)


def nested_element(names: tuple[str, str], texts: tuple[str, ...], *, url: str) -> bytes:
    """Return the element that `parse_nested` reads."""
    if not texts:
        return enclose(names[0], b"", BASE64)
    results = b"".join(_result(names[1], text, url) for text in texts)
    return base64_element(names[0], enclose("results", results, _RESULTS))


def _parse(document: bytes) -> etree._Element | None:
    try:
        root = etree.fromstring(document, shut_parser())
    except (etree.XMLSyntaxError, ValueError):
        return None
    return root if root.getroottree().docinfo.internalDTD is None else None


def _text(result: etree._Element, leaf: str, url: str) -> str | None:
    if result.tag != "result" or not is_layout(result):
        return None
    if [child.tag for child in result] != ["Url", leaf] or url_of(result[0], CHARSET) != url:
        return None
    read = url_of if leaf == REFS[1] else text_of
    return read(result[1], CHARSET)


def _result(leaf: str, text: str, url: str) -> bytes:
    write = url_element if leaf == REFS[1] else text_element
    return enclose("result", url_element("Url", url, CHARSET) + write(leaf, text, CHARSET))
