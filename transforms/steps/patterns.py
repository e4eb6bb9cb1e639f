r"""Patterns of texts, and rules that rewrite them.

A pattern is a glob, in which `*` matches any text and `?` any character, or `re:` and a regular
expression. In a rewritten text, `*` is replaced by the text of the `*` at the same place of the
glob, and `\1` by the first group of the expression.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated

from feedferry.schemas.patterns import EXPRESSION, compile_text
from feedferry.transforms.config.yaml_structs import (
    Value,
    mapping_of,
    parse_text,
    several,
    text_where,
)
from feedferry.transforms.formats.fast_path.columns.holes import inspected

_WILDCARD = re.compile(r"[*?]")


def any_pattern(texts: Sequence[str], used: set[str] | None = None) -> Callable[[str], bool]:
    """Return a function that says whether a text matches one of several patterns.

    The first pattern that matches is added to `used`.
    """
    patterns = [(text, compile_text(text)) for text in texts]
    matched: set[str] = set() if used is None else used

    def matches(text: str) -> bool:
        for name, pattern in patterns:
            if pattern.fullmatch(inspected(text)):
                matched.add(name)
                return True
        return False

    return matches


class Rewriter:
    r"""Rewrites texts by the first rule that matches.

    >>> Rewriter([("ACME\\\\*", "*@acme.example.com")])("ACME\\\\bob")
    'bob@acme.example.com'
    >>> Rewriter([("http://old/", "https://new/")], is_prefix=True)("http://old/a?b")
    'https://new/a?b'
    """

    def __init__(self, rules: Sequence[tuple[str, str]], *, is_prefix: bool = False) -> None:
        """With `is_prefix`, an old text that is no expression is the beginning of texts.

        `used` are the old texts that have matched.
        """
        self._rules = [(old, _rule(old, new, is_prefix=is_prefix)) for old, new in rules]
        self.used: set[str] = set()

    def __call__(self, text: str) -> str | None:
        """Return the new text, None if no rule matches."""
        for old, rule in self._rules:
            if (rewritten := rule(text)) is not None:
                self.used.add(old)
                return rewritten
        return None


def _rule(old: str, new: str, *, is_prefix: bool) -> Callable[[str], str | None]:
    if is_prefix and not old.startswith(EXPRESSION):
        size = len(old)
        return lambda text: new + text[size:] if text.startswith(old) else None
    pattern = compile_text(old)
    fullmatch, fill = pattern.fullmatch, _form(old, pattern, new).format

    def rewrite(text: str) -> str | None:
        match = fullmatch(text)
        return None if match is None else fill(text, *match.groups(""))

    return rewrite


def _form(old: str, pattern: re.Pattern[str], new: str) -> str:
    """Return a new text with fields for the groups of its pattern, `{0}` for the whole text.

    `Match.expand` would parse the text for each match.
    """
    escaped = new.replace("{", "{{").replace("}", "}}")
    whole, *fields = (f"{{{number}}}" for number in range(pattern.groups + 1))
    if not old.startswith(EXPRESSION):
        following = iter(fields)
        return _WILDCARD.sub(lambda _: next(following, ""), escaped)
    names = {number: f"?P<{name}>" for name, number in pattern.groupindex.items()}
    groups = [f"({names.get(at, '')}{re.escape(each)})" for at, each in enumerate(fields, 1)]
    stub = f"{re.escape(whole)}(?={''.join(groups)})"
    [match] = re.finditer(stub, "".join([whole, *fields]))
    try:
        return match.expand(escaped)
    except (re.error, IndexError) as exc:
        raise ValueError(f"{new!r}: {exc}; expected references to groups of {old!r}") from exc


_parse_pattern = text_where(compile_text)


def _parse_rules(value: object) -> tuple[tuple[str, str], ...]:
    pairs = [*value.items()] if isinstance(value, dict) else value
    if not isinstance(pairs, list) or not pairs:
        raise ValueError
    rules = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], str):
            raise ValueError
        rules.append((_parse_pattern(pair[0]), pair[1]))
        _rule(*rules[-1], is_prefix=False)  # refuses references to groups that are not there
    if len({old for old, _ in rules}) < len(rules):
        raise ValueError("a pattern twice; expected each once")
    return tuple(rules)


_parse_patterns = several(_parse_pattern)
Pairs = Annotated[dict[str, str], Value(mapping_of(parse_text), "a mapping of names to texts")]
NamedPatterns = Annotated[
    dict[str, tuple[str, ...]], Value(mapping_of(_parse_patterns), "a mapping of names to patterns")
]
Patterns = Annotated[tuple[str, ...], Value(_parse_patterns, "a pattern, or a list of patterns")]
Rules = Annotated[
    tuple[tuple[str, str], ...], Value(_parse_rules, "a list of pairs [OLD, NEW], or a mapping")
]
