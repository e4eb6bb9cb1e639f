"""The urls of files and folders, made of their keys, and what else a path says.

A base url or a template is given; each segment of a path is percent-encoded but for the characters
that RFC 3986 leaves unreserved: some servers take a `+`, a `;` or an `&` for more than a letter.
Different keys so have different urls, and unquoting what stands behind a base url gives the key.
"""

import re
from collections.abc import Callable
from functools import partial
from urllib.parse import SplitResult, quote, urlsplit

from schemas.errors import ConfigError
from schemas.record import Meta
from transforms.sources.listing import Kind, Listed
from transforms.sources.tree.patterns import judge
from transforms.sources.tree.tree import Tree

ListFile = Callable[[str, str, int | None, int | None, tuple[str, ...]], Listed]
"""Makes the line of a file from key, path, size, time of change, and the paths of its sidecars."""

_FIELD = re.compile(r"\{([^{}]*)\}")
_KNOWN_FIELDS = "{path}, {id}, {name}, {stem} or {extension}"
_WHOLE = re.compile(r"\{(?:path|id)\}")
_FOREIGN = re.compile(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]|%(?![0-9A-Fa-f]{2})")
_SEGMENTS = frozenset({".", ".."})
_EXAMPLE_BASE = "https://docs.example.com/"
_EXAMPLE_TEMPLATE = "https://docs.example.com/{path}"


def check_urls(tree: Tree) -> Tree:
    """Return the tree; raise ConfigError unless urls can be made of all its keys."""
    if tree.base_url is not None and tree.url_template is not None:
        raise ConfigError("--base-url, --url-template: both given; expected one of them")
    if tree.base_url is not None:
        _check_base(tree.base_url)
    elif tree.url_template is not None:
        _check_template(tree.url_template)
    else:
        raise ConfigError(
            f"--base-url: not given; expected the url of the folder, such as {_EXAMPLE_BASE},"
            f" or --url-template, such as {_EXAMPLE_TEMPLATE}"
        )
    if tree.display_url is not None:
        _check_display(tree.display_url)
    return tree


def url_of(tree: Tree) -> Callable[[str], str]:
    """Return the function that makes the url of a file's key; the key itself if there is no rule.

    >>> url_of(Tree(root="/srv", base_url="https://docs.example.com/"))("a b/50%.pdf")
    'https://docs.example.com/a%20b/50%25.pdf'
    """
    if tree.base_url is not None:
        return partial(_under_base, tree.base_url)
    return str if tree.url_template is None else partial(_filled, tree.url_template)


def display_url_of(tree: Tree) -> Callable[[str], str | None]:
    """Return the function that makes the display url of a file's key: None if none is asked for."""
    if tree.display_url is None:
        return _nothing
    return partial(_filled, tree.display_url)


def folder_url_of(tree: Tree) -> Callable[[str], str]:
    """Return the function that makes the url of a folder, which ends in `/`; no file has it.

    Keys of folders end in `/`, or do not; that of the root is empty.
    """
    return partial(_of_folder, url_of(tree))


def path_metadata(key: str) -> tuple[Meta, ...]:
    """Return what the path of a file says: whole, its name, extension, and each folder above.

    >>> [pair.value for pair in path_metadata("a/b/c.pdf")]
    ['a/b/c.pdf', 'c.pdf', 'pdf', 'a', 'a/b']
    """
    name, _, extension = _split(key)
    folders = (key[: match.start()] for match in re.finditer("/", key))
    pairs = [("path", key), ("name", name), ("extension", extension)]
    pairs += [("folder", folder) for folder in folders]
    return tuple(Meta(name, value) for name, value in pairs if value)


def listed_file(tree: Tree) -> ListFile:
    """Return the function that makes the line of a file: FILE, or FILTERED with its code.

    A name that cannot be part of a URL is REJECTED.
    """
    make_url, code_of = url_of(tree), judge(tree)

    def line_of(
        key: str, path: str, size: int | None, modified_ns: int | None, sidecars: tuple[str, ...]
    ) -> Listed:
        if not _SEGMENTS.isdisjoint(key.split("/")):
            reason = f"{key!r}; expected no '.' and no '..' in a path"
            return Listed(key=key, kind=Kind.REJECTED, path=path, code="file-name", reason=reason)
        url = make_url(key)
        if code := code_of(key, size):
            return Listed(key=key, kind=Kind.FILTERED, path=path, url=url, code=code)
        return Listed(
            key=key, path=path, url=url, size=size or 0, modified_ns=modified_ns, sidecars=sidecars
        )

    return line_of


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
    return _FIELD.sub(lambda field: _FILL[field[1]](key), template)


def _of_folder(make_url: Callable[[str], str], key: str) -> str:
    url = make_url(key if key.endswith("/") or not key else key + "/")
    return url if url.endswith("/") else url + "/"


def _nothing(_key: str) -> None:
    return None


def _split(key: str) -> tuple[str, str, str]:
    """The name in a key, what stands before its last dot, and what behind; `.a` has no dot."""
    name = key.removesuffix("/").rpartition("/")[2]
    stem, _, extension = name.rpartition(".")
    return (name, stem, extension) if stem.strip(".") else (name, name, "")


def _name(key: str) -> str:
    return quote(_split(key)[0], safe="")


def _stem(key: str) -> str:
    return quote(_split(key)[1], safe="")


def _extension(key: str) -> str:
    return quote(_split(key)[2], safe="")


_FILL: dict[str, Callable[[str], str]] = {
    "path": partial(quote, safe="/"),
    "id": partial(quote, safe=""),
    "name": _name,
    "stem": _stem,
    "extension": _extension,
}


def _check_base(base_url: str) -> None:
    flag = "--base-url"
    _check_host(flag, base_url, _parsed(flag, base_url), example=_EXAMPLE_BASE)
    if "?" in base_url or "#" in base_url:
        raise ConfigError(
            f"{flag}: {base_url!r} has a query or a fragment; expected a url that paths can follow,"
            " or --url-template"
        )
    if not base_url.endswith("/"):
        raise ConfigError(f"{flag}: {base_url!r}; expected a / at its end: {base_url + '/'!r}")


def _check_template(template: str) -> None:
    flag = "--url-template"
    bare = _without_fields(flag, template)
    _check_host(flag, template, _parsed(flag, bare), example=_EXAMPLE_TEMPLATE)
    if "{" in urlsplit(template).netloc:
        raise ConfigError(
            f"{flag}: {template!r} has a host with a {{…}}; expected the same for all"
        )
    if "#" in template:
        raise ConfigError(
            f"{flag}: {template!r} has a fragment; expected none, as it is no part of what a url"
            " stands for"
        )
    if not _WHOLE.search(template):
        raise ConfigError(
            f"{flag}: {template!r}; expected {{path}} or {{id}} in it, as two files would have one"
            " url"
        )


def _check_display(template: str) -> None:
    flag = "--display-url"
    if not _parsed(flag, _without_fields(flag, template)).scheme:
        raise ConfigError(
            f"{flag}: {template!r} is not absolute; expected a url such as {_EXAMPLE_TEMPLATE}"
        )


def _without_fields(flag: str, template: str) -> str:
    """Return a template with nothing in the places of its fields."""
    for match in _FIELD.finditer(template):
        if match[1] not in _FILL:
            raise ConfigError(f"{flag}: {match[0]!r} in {template!r}; expected {_KNOWN_FIELDS}")
    bare = _FIELD.sub("", template)
    if brace := re.search("[{}]", bare):
        raise ConfigError(
            f"{flag}: a single {brace[0]!r} in {template!r}; expected {_KNOWN_FIELDS}"
        )
    return bare


def _parsed(flag: str, url: str) -> SplitResult:
    """Return the parts of a url, of which all have the characters that a url may have."""
    if foreign := _FOREIGN.search(url):
        raise ConfigError(
            f"{flag}: {foreign[0]!r} in {url!r}; expected it percent-encoded: {quote(foreign[0])!r}"
        )
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as exc:
        raise ConfigError(f"{flag}: {url!r} ({exc}); expected a url") from exc
    if parts.username is not None:
        raise ConfigError(f"{flag}: a url with a user in it; expected none, as all see the urls")
    return parts


def _check_host(flag: str, url: str, parts: SplitResult, *, example: str) -> None:
    host = parts.hostname or ""
    if not parts.scheme or not host:
        raise ConfigError(f"{flag}: {url!r} is not absolute; expected a url such as {example}")
    if not {".", ":"} & set(host.strip(".")):
        raise ConfigError(
            f"{flag}: {url!r} has the host {host!r}; expected a fully qualified one, such as"
            f" {host.strip('.') + '.example.com'!r}"
        )
