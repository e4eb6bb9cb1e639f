"""Makes urls of doc ids, and doc ids of these urls again.

**Spec:** GSA adaptor library, DocIdCodec, for ids under a base url; RFC 3986, 2.3, for a template.

**Keeps:** every id of Unicode text: the deployed rule can be undone as it is, quirks and all. It
takes `index`, any character and `htm` or `html` for an index page, and what stands before a line
break at the very end for the end.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from urllib.parse import quote, unquote

from schemas.errors import ConfigError, RecordError
from transforms.formats.base import Docids
from transforms.formats.command_stream.java_uri import OTHER, PATH, is_uri

_MARK = "{id}"
_BASE = re.compile(
    r"https?://(?:[^/?#@]*@)?(?:\[[^/?#]*\]|[^/?#@:]+)(?::[0-9]*)?/(?:[^?#]*/)?", re.IGNORECASE
)
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.*", re.DOTALL)
_EXAMPLE_BASE = "http://adaptor.example.com/doc/"
_EXAMPLE_TEMPLATE = "https://docs.example.com/view?id={id}"

_QUOTED = re.compile(f"[^{PATH}{OTHER}]")
_STEP = rf"(?!\.|_*index)[{PATH.replace('/', '')}{OTHER}]+"
_PLAIN = re.compile(f"{_STEP}(?:/{_STEP})*/?")
_BREAKS = "\n\r\x85\u2028\u2029"
_END = rf"(?:\r\n|[{_BREAKS}])?\Z"
_START = "(?<![^/])"
_DOTS = re.compile(rf"{_START}(?:\.+(?=/|{_END})|(?<!:/)(?=/))")
_MORE_DOTS = re.compile(rf"{_START}\.\.\.(?=\.*(?:/|{_END}))")
_INDEX = re.compile(rf"{_START}(?=_*index[^{_BREAKS}]html?{_END})")
_MORE_INDEX = re.compile(rf"{_START}_(?=_*index[^{_BREAKS}]html?{_END})")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_ASCII = bytes(range(128))


def check_docids(docids: Docids) -> Docids:
    """Return the rule; raise ConfigError if it makes no urls, or urls that cannot be undone."""
    if docids.base_url is not None and docids.template is not None:
        raise ConfigError(
            f"a base url {docids.base_url!r} and a template {docids.template!r}; "
            "expected one rule for doc ids"
        )
    if docids.base_url is not None:
        _check_base(docids.base_url)
    if docids.template is not None:
        _check_template(docids.template)
    return docids


def url_maker(docids: Docids) -> Callable[[str], str]:
    """Return the function that makes the url of a doc id; raise as check_docids does.

    >>> url_maker(Docids(base_url="http://adaptor.example.com/doc/"))("a//b c/index.html")
    'http://adaptor.example.com/doc/a/.../b%20c/_index.html'
    """
    check_docids(docids)
    if docids.base_url is not None:
        return partial(_under_base, docids.base_url)
    if docids.template is not None:
        return partial(_in_template, *docids.template.split(_MARK))
    return str


def id_maker(docids: Docids) -> Callable[[str], str]:
    """Return the function that makes the doc id of a url; raise as check_docids does.

    The function raises RecordError at a url that the rule does not make, but takes characters
    beyond ASCII in either form, and either case of percent-encoding.
    """
    check_docids(docids)
    if docids.base_url is not None:
        return partial(_from_base, docids.base_url)
    if docids.template is not None:
        return partial(_from_template, *docids.template.split(_MARK))
    return str


def _check_base(base_url: str) -> None:
    if not (_BASE.fullmatch(base_url) and is_uri(base_url)):
        raise ConfigError(
            f"base url {base_url!r}; expected an absolute http or https url with a host that ends "
            f"in /, such as {_EXAMPLE_BASE}"
        )


def _check_template(template: str) -> None:
    if template.count(_MARK) != 1 or not _ABSOLUTE.fullmatch(template):
        raise ConfigError(
            f"template {template!r}; expected an absolute url with one {_MARK}, "
            f"such as {_EXAMPLE_TEMPLATE}"
        )


def _under_base(base_url: str, docid: str) -> str:
    return base_url + (docid if _PLAIN.fullmatch(docid) else _path(docid))


def _path(docid: str) -> str:
    """The path of an id, which no client shortens, and no appliance takes for that of a folder.

    Three dots more protect a segment of dots alone, and an empty one, but for the last, and for one
    that follows a colon and a slash.
    """
    path, rooted = docid, "/" + docid
    if "//" in rooted or "/." in rooted:
        path = _DOTS.sub(r"...\g<0>", path)
    if "index" in path:
        path = _INDEX.sub("_", path)
    return _QUOTED.sub(lambda match: _escape(match[0]), path)


@cache
def _escape(char: str) -> str:
    """There are about a hundred such characters, so the cache stays small."""
    return quote(char, safe="")


def _in_template(before: str, after: str, docid: str) -> str:
    return before + _quote(docid) + after


def _quote(docid: str) -> str:
    return quote(docid, safe="", errors="surrogatepass")


def _from_base(base_url: str, url: str) -> str:
    path = url.removeprefix(base_url)
    if len(path) < len(url) and _PLAIN.fullmatch(path):
        return path
    docid = _docid(path)
    if not _is_same(url, _under_base(base_url, docid)):
        raise RecordError(
            "foreign-url", f"{url!r}; expected a url that the base url {base_url!r} makes of an id"
        )
    return docid


def _docid(path: str) -> str:
    docid = _unquote(path) if "%" in path else path
    if "..." in docid:
        docid = _MORE_DOTS.sub("", docid)
    return _MORE_INDEX.sub("", docid) if "_index" in docid else docid


def _from_template(before: str, after: str, url: str) -> str:
    docid = _unquote(url[len(before) : len(url) - len(after)])
    if not _is_same(url, _in_template(before, after, docid)):
        template = before + _MARK + after
        raise RecordError(
            "foreign-url", f"{url!r}; expected a url that the template {template!r} makes of an id"
        )
    return docid


def _unquote(text: str) -> str:
    """What is no UTF-8 comes back as it stands, of which no rule makes this url."""
    try:
        return unquote(text, errors="surrogatepass")
    except UnicodeDecodeError:
        return text


def _is_same(url: str, made: str) -> bool:
    return url == made or _in_ascii(url) == _in_ascii(made)


def _in_ascii(url: str) -> str:
    quoted = quote(url, safe=_ASCII, errors="surrogatepass")
    return _ESCAPE.sub(_upper_match, quoted)


def _upper_match(match: re.Match[str]) -> str:
    return match[0].upper()
