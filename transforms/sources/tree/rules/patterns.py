"""Which files of a tree are taken: by patterns, and by their names.

A pattern is a glob for keys, as in a `.gitignore`: `*`, `?` and `[…]` do not match a `/`, `**`
does. A pattern without a `/`, or with a `/` at its end only, matches names in all folders. A
pattern that excludes a folder excludes all files below it; a pattern that ends in `/` matches only
folders. After `re:` comes a regular expression, which is searched for in the keys of files only.
"""

import re
from collections.abc import Callable, Sequence

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.patterns import EXPRESSION, compile_expression, compile_path
from feedferry.transforms.content_types.mimetype_table import is_archive_type, type_of_name
from feedferry.transforms.sources.tree.rules.tree import Tree

SIDECARS = (".meta.json", ".meta.yaml", ".meta.yml", ".metadata.xml")
"""The suffixes of sidecars: each follows the whole name of the file that it describes."""

SIDECAR = "sidecar"
"""The code of sidecars, which are no documents."""

Judge = Callable[[str], str | None]
"""Returns the code of the rule that leaves out a key, or None."""

Match = Callable[[str], bool]

_TEMPORARY_NAMES = (
    r"~\$[^\0]*|\.~lock\.[^\0]*#|\.#[^\0]*|[^\0]*~|[^\0]*\.(?:swp|swo|tmp|crdownload|part)"
    r"|thumbs\.db|desktop\.ini|\.ds_store"
)
_TEMPORARY = re.compile(_TEMPORARY_NAMES, re.IGNORECASE | re.ASCII)
_ANY_TEMPORARY = re.compile(rf"\0(?:{_TEMPORARY_NAMES})(?=\0)", re.IGNORECASE | re.ASCII)
_MAY_BE_TEMPORARY = re.compile(r"\.(?:#|(?:swp|swo|tmp|crdownload|part|db|ini|ds_store)\0)")


def judge(tree: Tree) -> Judge:
    """Return the function that names the rule by which a file or a folder is left out.

    Keys of folders end in `/`; a folder that is left out leaves out all files below it. The code is
    the first that applies of temporary, hidden and excluded. Raise ConfigError for a bad pattern.
    """
    is_included = _any_of("include", tree.include) if tree.include else None
    is_excluded = _any_of("exclude", tree.exclude)
    below = [f"{glob.rstrip('/')}/" for glob in tree.exclude if not glob.startswith(EXPRESSION)]
    is_in_excluded_folder = _any_of("exclude", below)

    def code_of(key: str) -> str | None:
        if _TEMPORARY.fullmatch(key.rpartition("/")[2]):  # the name of a folder is empty here
            return "temporary"
        if not tree.hidden and (key.startswith(".") or "/." in key):
            return "hidden"
        if below and is_in_excluded_folder(key):
            return "excluded"
        if key.endswith("/"):
            return None
        if is_included is not None and not is_included(key):
            name = key.rpartition("/")[2]
            if not (tree.open_archives and is_archive_type(type_of_name(name))):
                return "excluded"  # of an opened archive, the members are judged
        return "excluded" if tree.exclude and is_excluded(key) else None

    return code_of


def takes_all(tree: Tree, folder: str, names: Sequence[str]) -> bool:
    """Return whether it is known that no rule leaves out a file of a folder; no name has a NUL."""
    text = "\0".join(("", *names, ""))
    is_visible = tree.hidden or not ("\0." in text or folder.startswith(".") or "/." in folder)
    has_patterns = tree.include or tree.exclude
    may_be_temporary = "~" in text or _MAY_BE_TEMPORARY.search(text.lower())
    return (
        is_visible and not has_patterns and not (may_be_temporary and _ANY_TEMPORARY.search(text))
    )


def glob(pattern: str) -> Match:
    """Return the function that says whether a pattern matches the key of a file.

    A pattern that ends in `/` matches all files below such folders. Raise ConfigError for a bad
    pattern.
    """
    try:
        if pattern.startswith(EXPRESSION):
            expected = "a regular expression after re:"
            if pattern == EXPRESSION:
                raise ValueError
            search = compile_expression(pattern).search
            return lambda key: search(key) is not None
        expected = "a glob such as '*.pdf' or 'archive/'"
        match = compile_path(pattern).fullmatch
        return lambda key: match(key) is not None
    except (ValueError, re.error, OverflowError, RecursionError) as exc:
        cause = exc.msg if isinstance(exc, re.error) else str(exc)  # without a position
        shown = f"{pattern!r} ({cause})" if cause else repr(pattern)
        raise ConfigError(f"{shown}; expected {expected}") from exc


def described_by(key: str) -> str | None:
    """Return the key of the file that a sidecar describes, by its name; None for other names.

    >>> described_by("a/x.pdf.meta.json")
    'a/x.pdf'
    """
    if not key.endswith(SIDECARS):
        return None
    described = key[: key.rindex(".meta")]
    return described if described and not described.endswith("/") else None


def _any_of(name: str, patterns: Sequence[str]) -> Match:
    """Return the function that says whether any of the patterns matches a key."""
    try:
        matches = [glob(pattern) for pattern in patterns]
    except ConfigError as exc:
        raise ConfigError(f"⟦{name}⟧: {exc.text}") from exc
    return lambda key: bool(matches) and any(match(key) for match in matches)
