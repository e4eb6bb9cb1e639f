"""Which files of a tree are taken: by patterns, and by their names and sizes.

A pattern is a glob for keys, as in a `.gitignore`: `*`, `?` and `[…]` do not match a `/`, `**`
does. A pattern without a `/`, or with a `/` at its end only, matches names in all folders. A
pattern that excludes a folder excludes all files below it; a pattern that ends in `/` matches only
folders. After `re:` comes a regular expression, which is searched for in the keys of files only.
"""

import re
from collections.abc import Callable, Iterable

from schemas.errors import ConfigError
from transforms.mimetype_table import is_archive_type, type_of_name
from transforms.sources.tree.tree import Tree

SIDECARS = (".meta.json", ".meta.yaml", ".meta.yml", ".metadata.xml")
"""The suffixes of sidecars: each follows the whole name of the file that it describes."""

Judge = Callable[[str, int | None], str | None]
"""Returns the code of the rule that leaves out a key, given the size of its file, or None."""

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
    """Return the function that names the rule by which a file or a folder is left out.

    Keys of folders end in `/`; a folder that is left out leaves out all files below it. The code is
    the first that applies of temporary, hidden, excluded and empty. Raise ConfigError for a bad
    pattern.
    """
    includes = _compile_all("--include", tree.include, glob)
    excludes = _compile_all("--exclude", tree.exclude, glob)
    folder_globs = [pattern for pattern in tree.exclude if not pattern.startswith(_REGEX)]
    excluded_folders = _compile_all("--exclude", folder_globs, _folder_glob)

    def code_of(key: str, size: int | None) -> str | None:
        if code := _by_name(key, tree):
            return code
        if key.endswith("/"):
            return "excluded" if _any(excluded_folders, key) else None
        is_included = not includes or _any(includes, key) or _is_opened(key, tree)
        if not is_included or _any(excluded_folders, key) or _any(excludes, key):
            return "excluded"
        return "empty" if size == 0 else None

    return code_of


def check_patterns(tree: Tree) -> Tree:
    """Return the tree; raise ConfigError for a bad pattern."""
    judge(tree)
    return tree


def glob(pattern: str) -> Match:
    """Return the function that tells whether a pattern matches the key of a file.

    A pattern that ends in `/` matches all files below such folders. Raise ConfigError for a bad
    pattern.
    """
    if pattern.startswith(_REGEX):
        expected = "a regular expression after re:"
        search = _compiled(pattern, pattern.removeprefix(_REGEX), expected).search
        return lambda key: search(key) is not None
    match = _compiled(pattern, _regex_of(pattern), _A_GLOB).fullmatch
    return lambda key: match(key) is not None


def described_by(key: str) -> str | None:
    """Return the key of the file that a sidecar describes, by its name; None for other names.

    >>> described_by("a/x.pdf.meta.json")
    'a/x.pdf'
    """
    for suffix in SIDECARS:
        described = key.removesuffix(suffix)
        if described != key and described and not described.endswith("/"):
            return described
    return None


def _by_name(key: str, tree: Tree) -> str | None:
    if _TEMPORARY.fullmatch(key.rpartition("/")[2]):  # the name of a folder is empty here
        return "temporary"
    is_hidden = key.startswith(".") or "/." in key
    return "hidden" if is_hidden and not tree.takes_hidden else None


def _is_opened(key: str, tree: Tree) -> bool:
    """Whether it is an opened archive: `--include` then applies to its members."""
    return tree.opens_archives and is_archive_type(type_of_name(key.rpartition("/")[2]))


def _any(matches: list[Match], key: str) -> bool:
    return any(match(key) for match in matches)


def _compile_all(
    flag: str, patterns: Iterable[str], compile_one: Callable[[str], Match]
) -> list[Match]:
    try:
        return [compile_one(pattern) for pattern in patterns]
    except ConfigError as exc:
        raise ConfigError(f"{flag}: {exc}") from exc


def _folder_glob(pattern: str) -> Match:
    """Return whether a key is a folder that a glob matches, or below such a folder."""
    match = _compiled(pattern, _regex_of(pattern.rstrip("/") + "/"), _A_GLOB).fullmatch
    return lambda key: match(key) is not None


def _compiled(pattern: str, regex: str, expected: str) -> re.Pattern[str]:
    if not regex:
        raise ConfigError(f"{pattern!r}; expected {expected}")
    try:
        return re.compile(regex, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as exc:
        cause = exc.msg if isinstance(exc, re.error) else str(exc)  # without a position
        raise ConfigError(f"{pattern!r} ({cause}); expected {expected}") from exc


def _regex_of(pattern: str) -> str:
    """Return the regular expression of a glob, for whole keys; empty for a glob without a name."""
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
