"""Which files of a tree are taken: by the patterns of its user, and by their names and sizes.

A pattern is a glob of keys, as in a `.gitignore`: `*`, `?` and `[…]` do not go over a `/`, `**`
does; without a `/`, or with one at its end only, it stands for names in all folders. One that
excludes a folder excludes all below it; one that ends in `/` is about folders alone. Behind `re:`
stands a regular expression, which is searched for in the keys of files, not in those of folders.
"""

import re
from collections.abc import Callable, Iterable

from schemas.errors import ConfigError
from transforms.mimetype_table import is_archive_type, type_of_name
from transforms.sources.tree.tree import Tree

SIDECARS = (".meta.json", ".meta.yaml", ".meta.yml", ".metadata.xml")
"""What stands behind a file's name in those of the files that describe it."""

Judge = Callable[[str, int | None], str | None]
"""The code by which a key is left out, given the size of its file; None if it is taken."""

Match = Callable[[str], bool]

_REGEX = "re:"
_A_GLOB = "a glob such as '*.pdf' or 'archive/'"
_TEMPORARY = re.compile(
    r"~\$.*|\.~lock\..*#|\.#.*|.*~|.*\.(?:swp|swo|tmp|crdownload|part)"
    r"|thumbs\.db|desktop\.ini|\.ds_store",
    re.IGNORECASE | re.DOTALL,
)
_TOKEN = re.compile(
    r"(?P<folders>(?:^|(?<=/))\*\*/)|(?P<all>\*\*+)|(?P<some>\*)|(?P<one>\?)"
    r"|\[(?P<negated>[!^]?)(?P<chars>\]?[^\]]+|\])\]|\\(?P<escaped>.)|(?P<char>.)",
    re.DOTALL,
)
_RANGE = re.compile(r"(.)-(.)|(.)", re.DOTALL)
_ANY_FOLDERS = "(?:.*/)?"


def judge(tree: Tree) -> Judge:
    """Return the function that tells by which rule a file or a folder is left out.

    Keys of folders end in `/`; a file below a folder that is left out is left out as well. The
    codes are temporary, hidden, excluded and empty, of which the first that is true is told. Raise
    ConfigError where a pattern is none.
    """
    includes = _each("--include", tree.include, glob)
    excludes = _each("--exclude", tree.exclude, glob)
    shuts = _each("--exclude", [one for one in tree.exclude if not _is_regex(one)], _shutting)

    def code_of(key: str, size: int | None) -> str | None:
        if code := _by_name(key, tree):
            return code
        if key.endswith("/"):
            return "excluded" if _any(shuts, key) else None
        is_asked = not includes or _any(includes, key) or _is_opened(key, tree)
        if not is_asked or _any(shuts, key) or _any(excludes, key):
            return "excluded"
        return "empty" if size == 0 else None

    return code_of


def check_patterns(tree: Tree) -> Tree:
    """Return the tree; raise ConfigError where a pattern is none."""
    judge(tree)
    return tree


def glob(pattern: str) -> Match:
    """Return the function that tells whether a pattern stands for the key of a file.

    One that ends in `/` stands for all files below such folders. Raise ConfigError where it is
    none.
    """
    if _is_regex(pattern):
        expected = "a regular expression behind re:"
        search = _compiled(pattern, pattern.removeprefix(_REGEX), expected).search
        return lambda key: search(key) is not None
    match = _compiled(pattern, _regex_of(pattern), _A_GLOB).fullmatch
    return lambda key: match(key) is not None


def described_by(key: str) -> str | None:
    """Return the key of the file that a sidecar of this name describes; None if it is no such name.

    >>> described_by("a/x.pdf.meta.json")
    'a/x.pdf'
    """
    for suffix in SIDECARS:
        described = key.removesuffix(suffix)
        if described != key and described and not described.endswith("/"):
            return described
    return None


def _by_name(key: str, tree: Tree) -> str | None:
    if _TEMPORARY.fullmatch(key.rpartition("/")[2]):  # of a folder that is nothing
        return "temporary"
    is_hidden = key.startswith(".") or "/." in key
    return "hidden" if is_hidden and not tree.takes_hidden else None


def _is_opened(key: str, tree: Tree) -> bool:
    """Whether it is an archive, of whose members `--include` tells rather than of itself."""
    return tree.opens_archives and is_archive_type(type_of_name(key.rpartition("/")[2]))


def _any(matches: list[Match], key: str) -> bool:
    return any(match(key) for match in matches)


def _each(flag: str, patterns: Iterable[str], make: Callable[[str], Match]) -> list[Match]:
    try:
        return [make(pattern) for pattern in patterns]
    except ConfigError as exc:
        raise ConfigError(f"{flag}: {exc}") from exc


def _shutting(pattern: str) -> Match:
    """Whether a glob stands for a folder, or for anything below one."""
    match = _compiled(pattern, _regex_of(pattern.rstrip("/") + "/"), _A_GLOB).fullmatch
    return lambda key: match(key) is not None


def _is_regex(pattern: str) -> bool:
    return pattern.startswith(_REGEX)


def _compiled(pattern: str, regex: str, expected: str) -> re.Pattern[str]:
    if not regex:
        raise ConfigError(f"{pattern!r}; expected {expected}")
    try:
        return re.compile(regex, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as exc:
        cause = exc.msg if isinstance(exc, re.error) else str(exc)  # its place is that of the regex
        raise ConfigError(f"{pattern!r} ({cause}); expected {expected}") from exc


def _regex_of(pattern: str) -> str:
    """What a glob says, to be matched by whole keys; nothing where it is none."""
    bare = pattern.rstrip("/")
    path = bare.lstrip("/")
    if not path:
        return ""
    anywhere = "" if "/" in bare else _ANY_FOLDERS
    below = "/.*" if pattern.endswith("/") else ""
    return anywhere + _TOKEN.sub(_translate, path) + below


def _translate(token: re.Match[str]) -> str:
    match token.lastgroup:
        case "folders":
            return _ANY_FOLDERS
        case "all":
            return ".*"
        case "some":
            return "[^/]*"
        case "one":
            return "[^/]"
        case "chars":
            negation = "^" if token["negated"] else ""
            return f"(?!/)[{negation}{_RANGE.sub(_translate_range, token['chars'])}]"
    return re.escape(token["escaped"] or token["char"])


def _translate_range(part: re.Match[str]) -> str:
    if part[3]:
        return re.escape(part[3])
    return f"{re.escape(part[1])}-{re.escape(part[2])}"
