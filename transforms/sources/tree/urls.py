"""The URLs of files and folders, made from their keys, and the lines of a listing.

URLs are a base URL and the path, or a template. Each segment of a path is percent-encoded but for
the unreserved characters of RFC 3986: some servers treat `+`, `;` or `&` as syntax. Different keys
have different URLs, and the part after a base URL, unquoted, is the key.
"""

import re
from collections.abc import Callable
from functools import partial
from urllib.parse import SplitResult, quote, urlsplit

from msgspec.structs import replace

from schemas.errors import ConfigError
from schemas.record import Meta
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.patterns import SIDECAR, judge
from transforms.sources.tree.tree import Tree

_SAFE = {"path": "/", "id": ""}
_FIELD = re.compile(r"\{(path|id)\}")
_FIELDS = "{path} or {id}"
_FOREIGN = re.compile(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]|%(?![0-9A-Fa-f]{2})")
_NO_NAMES = frozenset({"", ".", ".."})
_EXAMPLE_BASE = "https://docs.example.com/"
_EXAMPLE_TEMPLATE = "https://docs.example.com/{path}"


def check_urls(tree: Tree) -> Tree:
    """Return the tree; raise ConfigError unless its options make a URL for every key."""
    if tree.base_url is not None and tree.url_template is not None:
        raise ConfigError("--base-url, --url-template: both given; expected one of them")
    if tree.base_url is not None:
        _check_base(tree.base_url)
    elif tree.url_template is not None:
        _check_template(tree.url_template)
    else:
        raise ConfigError(
            f"--base-url: not given; expected the URL of the folder, such as {_EXAMPLE_BASE},"
            f" or --url-template, such as {_EXAMPLE_TEMPLATE}"
        )
    display_url = tree.display_url
    if display_url is not None:
        flag = "--display-url"
        if not _parsed(flag, _without_fields(flag, display_url)).scheme:
            raise ConfigError(
                f"{flag}: {display_url!r} is not absolute; expected a URL such as"
                f" {_EXAMPLE_TEMPLATE}"
            )
    return tree


def url_of(tree: Tree) -> Callable[[str], str]:
    """Return the function that makes the URL of a file's key; the key itself if there is no rule.

    >>> url_of(Tree(root="/srv", base_url="https://docs.example.com/"))("a b/50%.pdf")
    'https://docs.example.com/a%20b/50%25.pdf'
    """
    if tree.base_url is not None:
        return partial(_under_base, tree.base_url)
    return str if tree.url_template is None else partial(_filled, tree.url_template)


def display_url_of(tree: Tree) -> Callable[[str], str | None]:
    """Return the function that makes the display URL of a key; None without a template."""
    if tree.display_url is None:
        return lambda _key: None
    return partial(_filled, tree.display_url)


def folder_url_of(tree: Tree) -> Callable[[str], str]:
    """Return the function that makes the URL of a folder, which ends in `/` and is no file's URL.

    The final `/` of a key may be missing; the key of the root is empty.
    """
    make_url = url_of(tree)

    def make_folder_url(key: str) -> str:
        url = make_url(key if key.endswith("/") or not key else key + "/")
        return url if url.endswith("/") else url + "/"

    return make_folder_url


def path_metadata(key: str) -> tuple[Meta, ...]:
    """Return metadata of a path: the path, its name, its extension, and each folder above.

    >>> [pair.value for pair in path_metadata("a/b/c.pdf")]
    ['a/b/c.pdf', 'c.pdf', 'pdf', 'a', 'a/b']
    """
    name = key.rpartition("/")[2]
    stem, _, extension = name.rpartition(".")
    folders = (key[: match.start()] for match in re.finditer("/", key))
    pairs = [("path", key), ("name", name), ("extension", extension if stem.strip(".") else "")]
    pairs += [("folder", folder) for folder in folders]
    return tuple(Meta(name, value) for name, value in pairs if value)


def line_maker(tree: Tree) -> Callable[[ListingEntry], ListingEntry]:
    """Return the function that gives an entry its URL, and the code of the rule that leaves it out.

    A name that cannot be part of a URL is REJECTED. An entry without a path has no URL.
    """
    make_url, make_folder_url, code_of = url_of(tree), folder_url_of(tree), judge(tree)

    def line_of(entry: ListingEntry) -> ListingEntry:
        key = entry.key
        is_folder = not key or key.endswith("/")
        if not is_folder and not _NO_NAMES.isdisjoint(key.split("/")):
            reason = f"{key!r}; expected no '//', '.' or '..' in a path"
            return rejected(key, entry.path, "file-name", reason)
        if not key.isascii() and not is_unicode(key):
            return rejected(key, entry.path, "file-name", f"{key!r}; expected a name in UTF-8")
        url = (make_folder_url if is_folder else make_url)(key) if entry.path else ""
        code = code_of(key) if key and entry.code != SIDECAR else None
        if code is None and entry.kind is not EntryKind.FILTERED:
            return replace(entry, url=url)
        reason = "" if code else entry.reason
        return replace(left_out(key, entry.path, code or entry.code, reason), url=url)

    return line_of


def file_entry(
    key: str, path: str, size: int | None, modified_ns: int | None, fingerprint: str = ""
) -> ListingEntry:
    """Return the entry of a file; a size of None is unknown, a file without bytes is left out."""
    if size == 0:
        return left_out(key, path, "empty")
    return ListingEntry(
        key=key, path=path, size=size or 0, modified_ns=modified_ns, fingerprint=fingerprint
    )


def left_out(key: str, path: str, code: str, reason: str = "") -> ListingEntry:
    """Return an entry that is left out by the rule of a code."""
    return ListingEntry(key=key, kind=EntryKind.FILTERED, path=path, code=code, reason=reason)


def rejected(key: str, path: str, code: str, reason: str) -> ListingEntry:
    """Return an entry that cannot be read."""
    return ListingEntry(key=key, kind=EntryKind.REJECTED, path=path, code=code, reason=reason)


def is_unicode(text: str) -> bool:
    """Whether a name from the file system was UTF-8; other bytes become surrogates in Python."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _under_base(base_url: str, key: str) -> str:
    return base_url + quote(key, safe="/")


def _filled(template: str, key: str) -> str:
    return _FIELD.sub(lambda field: quote(key, safe=_SAFE[field[1]]), template)


def _check_base(base_url: str) -> None:
    flag = "--base-url"
    _check_host(flag, base_url, _parsed(flag, base_url), example=_EXAMPLE_BASE)
    if "?" in base_url or "#" in base_url:
        raise ConfigError(
            f"{flag}: {base_url!r} has a query or a fragment; expected a URL that paths can follow,"
            " or --url-template"
        )
    if not base_url.endswith("/"):
        raise ConfigError(f"{flag}: {base_url!r}; expected a / at its end: {base_url + '/'!r}")


def _check_template(template: str) -> None:
    flag = "--url-template"
    bare = _without_fields(flag, template)
    _check_host(flag, template, _parsed(flag, bare), example=_EXAMPLE_TEMPLATE)
    if "{" in urlsplit(template).netloc or "#" in template or bare == template:
        raise ConfigError(
            f"{flag}: {template!r}; expected {_FIELDS} after the host, as two files would have one"
            " URL, and no fragment"
        )


def _without_fields(flag: str, template: str) -> str:
    """Return a template without its fields; raise ConfigError for an unknown field."""
    bare = _FIELD.sub("", template)
    if brace := re.search("[{}]", bare):
        raise ConfigError(f"{flag}: {brace[0]!r} in {template!r}; expected {_FIELDS}")
    return bare


def _parsed(flag: str, url: str) -> SplitResult:
    """Return the parts of a URL; raise ConfigError for a character that a URL cannot have."""
    if foreign := _FOREIGN.search(url):
        raise ConfigError(
            f"{flag}: {foreign[0]!r} in {url!r}; expected it percent-encoded: {quote(foreign[0])!r}"
        )
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as exc:
        raise ConfigError(f"{flag}: {url!r} ({exc}); expected a URL") from exc
    if parts.username is not None:
        raise ConfigError(f"{flag}: a URL with a user in it; expected none, as reports show URLs")
    return parts


def _check_host(flag: str, url: str, parts: SplitResult, *, example: str) -> None:
    host = parts.hostname or ""
    if not parts.scheme or not host:
        raise ConfigError(f"{flag}: {url!r} is not absolute; expected a URL such as {example}")
    if not {".", ":"} & set(host.strip(".")):
        raise ConfigError(
            f"{flag}: {url!r} has the host {host!r}; expected a fully qualified one, such as"
            f" {host.strip('.') + '.example.com'!r}"
        )
