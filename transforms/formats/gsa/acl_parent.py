"""The parent of an ACL as one URL: that of a document, with the fragment as its query.

**Spec:** GSA adaptor library, GsaFeedFileMaker and DocumentHandler. An appliance strips fragments
from URLs, so the library writes the fragment of a named resource as the query of its URL.
"""

import re
from functools import cache, lru_cache
from urllib.parse import quote, unquote

from transforms.formats.command_stream.java_uri import OTHER, PATH

_QUOTED = re.compile(rf"[^?\[\]{PATH}{OTHER}]")
_OF_A_QUERY = re.compile("[=&?#]")


def join_parent(url: str | None, fragment: str | None) -> str | None:
    """Return the URL that an ACL inherits from, with its fragment; None if the URL has a query.

    The library replaces a query that the URL already has, which names another resource.

    >>> join_parent("http://adaptor.example.com/doc/share/", "allFoldersAcl")
    'http://adaptor.example.com/doc/share/?allFoldersAcl'
    """
    if fragment is None:
        return url
    if url is None or "?" in url or "#" in url:
        return None
    return f"{url}?{_QUOTED.sub(lambda match: _escape(match[0]), fragment)}"


@lru_cache(maxsize=4096)
def split_parent(text: str) -> tuple[str, str | None]:
    """Return the URL and the fragment of an ACL's parent; `join_parent` joins them again.

    A query without `=` and `&` is a fragment. Any other query is part of the URL.

    >>> split_parent("http://connector.example.com/doc?docid=folder")
    ('http://connector.example.com/doc?docid=folder', None)
    """
    url, mark, query = text.partition("?")
    if not mark or not url or "#" in url or _OF_A_QUERY.search(query):
        return text, None
    try:
        fragment = unquote(query, errors="strict")
    except UnicodeDecodeError:
        return text, None
    return (url, fragment) if join_parent(url, fragment) == text else (text, None)


@cache
def _escape(char: str) -> str:
    """Percent-encode a character; there are about a hundred of them, so the cache stays small."""
    return quote(char, safe="")
