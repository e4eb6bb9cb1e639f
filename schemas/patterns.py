"""Patterns of texts, as regular expressions: the only compiler, for all dialects.

- Deletions: `*` matches any text, `?` any character, and all else itself. The Thunderstone dataload
  API has only the example `/dir/*`. The page of the appliance that lists URLs has both wildcards,
  and refuses a deletion for a blank or `*` pattern.
- Texts, in steps: the same; the text that each wildcard matches is a group.
- Paths, in trees: as in a `.gitignore`. `*`, `?` and `[…]` do not match a `/`, `**` does.
- Rules of a robots.txt: `*` matches any text, and `$` the end (RFC 9309).

Texts and paths may also be `re:` and a regular expression.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

EXPRESSION = "re:"
"""The beginning of a pattern that is a regular expression."""

_GROUPS = {"*": "(.*)", "?": "(.)"}
_PATH_TOKEN = re.compile(
    r"(?P<folders>(?:^|(?<=/))\*\*/)|(?P<all>\*\*+)|(?P<some>\*)|(?P<one>\?)"
    r"|\[(?P<negated>[!^]?)(?P<chars>\]?[^\]]+|\])\]|\\(?P<escaped>.)|(?P<char>.)",
    re.DOTALL,
)
_PATH_WILDCARDS = {"folders": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}
_RANGE = re.compile(r"(.)-(.)|(.)", re.DOTALL)
# No part of a path before the first or after the last wildcard: one, several or all hosts.
_WIDE_PATTERN = re.compile(r"(?:[^/]*//)?[^/]*(?:/[*?]*)*")


def is_wide(pattern: str) -> bool:
    """Return whether a pattern is blank or matches a whole host."""
    pattern = pattern.strip()
    if not pattern:
        return True
    return ("*" in pattern or "?" in pattern) and _WIDE_PATTERN.fullmatch(pattern) is not None


@lru_cache(maxsize=16)
def compile_deletion(pattern: str) -> re.Pattern[str]:
    """Return the expression that matches the whole URLs of a deletion by pattern.

    >>> bool(compile_deletion("http://h/a?[1]*").fullmatch("http://h/a-[1]/b"))
    True
    """
    texts = pattern.strip().split("*")
    return _any_between(".".join(map(re.escape, text.split("?"))) for text in texts)


def compile_robots_rule(path: str) -> re.Pattern[str]:
    """Return the expression that matches the whole paths of a rule in a robots.txt."""
    whole = path[:-1] if path.endswith("$") else f"{path}*"
    return _any_between(map(re.escape, whole.split("*")))


def compile_text(pattern: str) -> re.Pattern[str]:
    """Return the expression that matches whole texts; raise ValueError if there is none.

    >>> bool(compile_text("http://a.example.com/*").fullmatch("http://a.example.com/b/c"))
    True
    """
    if pattern.startswith(EXPRESSION):
        try:
            return compile_expression(pattern)
        except re.error as exc:
            raise ValueError(f"{pattern!r}: {exc}; expected a regular expression") from exc
    parts = (_GROUPS.get(part, re.escape(part)) for part in re.split(r"([*?])", pattern))
    return re.compile("".join(parts), re.DOTALL)


def compile_path(pattern: str) -> re.Pattern[str]:
    """Return the expression that matches the whole keys of a glob; raise ValueError or re.error.

    A pattern without a `/`, or with a `/` at its end only, matches names in all folders. A pattern
    that ends in `/` matches all files below such folders.
    """
    path = pattern.strip("/")
    if not path:
        raise ValueError
    anywhere = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    below = "/.*" if pattern.endswith("/") else ""
    return re.compile(anywhere + _PATH_TOKEN.sub(_translate, path) + below, re.DOTALL)


def compile_expression(pattern: str) -> re.Pattern[str]:
    """Return the expression after `re:`; raise re.error if it is none."""
    return re.compile(pattern.removeprefix(EXPRESSION), re.DOTALL)


def _any_between(expressions: Iterable[str]) -> re.Pattern[str]:
    """Return an expression of several that follow one another, with any text between them."""
    first, *others = expressions
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    found = "".join(f"(?>.*?{part})" for part in middle)  # no way back, which would take long
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def _translate(token: re.Match[str]) -> str:
    if token.lastgroup in _PATH_WILDCARDS:
        return _PATH_WILDCARDS[token.lastgroup]
    if token.lastgroup == "chars":
        negation = "^" if token["negated"] else ""
        return f"(?!/)[{negation}{_RANGE.sub(_translate_range, token['chars'])}]"
    return re.escape(token["escaped"] or token["char"])


def _translate_range(part: re.Match[str]) -> str:
    return "-".join(map(re.escape, part.group(1, 2))) if part[1] else re.escape(part[3])


def sqlite_glob(pattern: str) -> str:
    """Return the operand of GLOB, in SQLite, that matches the same URLs."""
    return pattern.strip().replace("[", "[[]")


def prefix_of(pattern: str) -> str:
    """Return the text before the first wildcard, with which all its URLs begin."""
    return re.split(r"[*?]", pattern.strip(), maxsplit=1)[0]
