"""Convert doc ids to URLs, and these URLs back to doc ids.

**Spec:** GSA adaptor library, DocIdCodec, for ids under a base URL; RFC 3986, 2.3, for a template.

**Keeps:** every id of Unicode text. The deployed rule can be undone, including a quirk: an index
page is `index`, any character and `htm` or `html`. Only for an id that ends with a line break, the
URL may be another than that of the deployed adaptor.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from urllib.parse import quote, unquote

from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.transforms.formats.command_stream.stream_formats import Docids
from feedferry.transforms.formats.text.java_uri import OTHER, PATH, is_uri

_MARK = "{id}"
_BASE = re.compile(
    r"https?://(?:[^/?#@]*@)?(?:\[[^/?#]*\]|[^/?#@:]+)(?::[0-9]*)?/(?:[^?#]*/)?", re.IGNORECASE
)
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.*", re.DOTALL)
_EXAMPLE_BASE = "http://adaptor.example.com/doc/"
_EXAMPLE_TEMPLATE = "https://docs.example.com/view?id={id}"

_QUOTED = re.compile(f"[^{PATH}{OTHER}]")
_STEP = rf"(?!\.|_*index)[{PATH.replace('/', '')}{OTHER}]+"
_PLAIN = rf"{_STEP}(?:/{_STEP})*/?"
"""A path that is the same as its id: most ids are."""
_ALL_PLAIN = {root: re.compile(rf'(?:{root}{_PLAIN}")+') for root in ("", "/")}
_START = "(?<![^/])"
_DOTS = re.compile(rf"{_START}(?:\.+(?=/|\Z)|(?<!:/)(?=/))")
_MORE_DOTS = re.compile(rf"{_START}\.\.\.(?=\.*(?:/|\Z))")
_INDEX = re.compile(rf"{_START}(?=_*index.html?\Z)")
_MORE_INDEX = re.compile(rf"{_START}_(?=_*index.html?\Z)")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_ASCII = bytes(range(128))
_PLAIN_CHARS = re.sub(f"[^{PATH}{OTHER}]", "", _ASCII.decode()).encode() + b'"'
_RARE = {"": ('""', '"/', '".', "/.", "//", "index"), "/": ('"/"', "/.", "//", "index")}
"""What makes a step of a path one that may not be plain, after a root."""


def check_docids(docids: Docids) -> Docids:
    """Return the rule; raise ConfigError if it makes no URLs, or URLs that cannot be undone."""
    base_url, template = docids.base_url, docids.template
    if base_url is not None and template is not None:
        raise ConfigError(
            f"a base url {base_url!r} and a template {template!r}; expected one rule for doc ids"
        )
    if base_url is not None and not (_BASE.fullmatch(base_url) and is_uri(base_url)):
        raise ConfigError(
            f"base url {base_url!r}; expected an absolute http or https url with a host that ends "
            f"in /, such as {_EXAMPLE_BASE}"
        )
    if template is not None and (template.count(_MARK) != 1 or not _ABSOLUTE.fullmatch(template)):
        raise ConfigError(
            f"template {template!r}; expected an absolute url with one {_MARK}, "
            f"such as {_EXAMPLE_TEMPLATE}"
        )
    return docids


def url_maker(docids: Docids) -> Callable[[str], str]:
    """Return the function that makes the URL of a doc id; raise as check_docids does.

    >>> url_maker(Docids(base_url="http://adaptor.example.com/doc/"))("a//b c/index.html")
    'http://adaptor.example.com/doc/a/.../b%20c/_index.html'
    """
    check_docids(docids)
    if docids.base_url is not None:
        return partial(_under_base, docids.base_url)
    if docids.template is not None:
        return partial(_in_template, *docids.template.split(_MARK))
    return str


def urls_maker(docids: Docids) -> Callable[[Sequence[str]], Sequence[str]]:
    """Return the function that makes the URLs of many doc ids; raise as check_docids does."""
    url_of = url_maker(docids)
    if docids.base_url is not None:
        return partial(_all_under_base, docids.base_url)
    return list if url_of is str else lambda ids: [url_of(docid) for docid in ids]


def id_maker(docids: Docids) -> Callable[[str], str]:
    """Return the function that makes the doc id of a URL; raise as check_docids does.

    The function raises RecordError for a URL that the rule does not make. It accepts characters
    beyond ASCII with and without percent-encoding, and percent-encoding in either case.
    """
    check_docids(docids)
    if docids.base_url is not None:
        return partial(_from_base, docids.base_url)
    if docids.template is not None:
        return partial(_from_template, *docids.template.split(_MARK))
    return str


def _under_base(base_url: str, docid: str) -> str:
    return base_url + (docid if _are_plain([docid]) else _path(docid))


def _all_under_base(base_url: str, docids: Sequence[str]) -> list[str]:
    for root in ("", "/"):
        if _are_plain(docids, root):
            begin = base_url + _path(root).removesuffix(root)
            return [begin + docid for docid in docids]
    return [_under_base(base_url, docid) for docid in docids]


def _are_plain(docids: Sequence[str], root: str = "") -> bool:
    """Whether all are plain after a root. The text between them is one that no plain id has."""
    text = '"'.join((*docids, ""))
    if text.count('"') != len(docids):
        return False
    return _has_plain_steps(f'"{text}', len(docids), root) or (
        _ALL_PLAIN[root].fullmatch(text) is not None
    )


def _has_plain_steps(text: str, count: int, root: str) -> bool:
    """Whether ids between quotes are plain, as most are: found by a few fast passes."""
    return (
        text.isascii()
        and not text.encode().translate(None, _PLAIN_CHARS)
        and text.count(f'"{root}') - (not root) == count
        and not any(rare in text for rare in _RARE[root])
    )


def _path(docid: str) -> str:
    """Return the path of an id, which clients do not shorten and which is not an index page.

    A segment that is empty or has only dots gets three more dots. The last segment may be empty,
    and so may one after a colon and a slash.
    """
    path, rooted = docid, "/" + docid
    if "//" in rooted or "/." in rooted:
        path = _DOTS.sub(r"...\g<0>", path)
    if "index" in path:
        path = _INDEX.sub("_", path)
    return _QUOTED.sub(lambda match: _escape(match[0]), path)


@cache  # of about a hundred characters
def _escape(char: str) -> str:
    return quote(char, safe="")


def _from_base(base_url: str, url: str) -> str:
    path = url.removeprefix(base_url)
    if len(path) < len(url) and _are_plain([path]):
        return path
    docid = _unquote(path)
    if "..." in docid:
        docid = _MORE_DOTS.sub("", docid)
    if "_index" in docid:
        docid = _MORE_INDEX.sub("", docid)
    if not _is_same(url, _under_base(base_url, docid)):
        raise _foreign(url, f"the base url {base_url!r}")
    return docid


def _in_template(before: str, after: str, docid: str) -> str:
    return before + quote(docid, safe="", errors="surrogatepass") + after


def _from_template(before: str, after: str, url: str) -> str:
    docid = _unquote(url[len(before) : len(url) - len(after)])
    if not _is_same(url, _in_template(before, after, docid)):
        raise _foreign(url, f"the template {before + _MARK + after!r}")
    return docid


def _foreign(url: str, rule: str) -> RecordError:
    return RecordError("foreign-url", f"{url!r}; expected a url that {rule} makes of an id")


def _unquote(text: str) -> str:
    """Decode percent-encoding; bytes that are not UTF-8 stay encoded, and no rule makes them."""
    if "%" not in text:
        return text
    try:
        return unquote(text, errors="surrogatepass")
    except UnicodeDecodeError:
        return text


def _is_same(url: str, other: str) -> bool:
    return url == other or _in_ascii(url) == _in_ascii(other)


def _in_ascii(url: str) -> str:
    quoted = quote(url, safe=_ASCII, errors="surrogatepass")
    return _ESCAPE.sub(lambda match: match[0].upper(), quoted)
