"""Scalars of YAML files with rules of their own; this module reads no files, as formats do not."""

from collections.abc import Callable
from typing import Annotated, NamedTuple


class Value(NamedTuple):
    """How a scalar is parsed, and the words for a correct value in messages.

    `parse` raises ValueError. If that has a text, it replaces the whole message, so that a value
    that must not be shown is not shown.
    """

    parse: Callable[[object], object]
    expected: str


def parse_text(value: object) -> str:
    """Return a text that is not blank and has no NUL."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value


def text_where(is_right: Callable[[str], object]) -> Callable[[object], str]:
    """Return the parser of texts that meet a condition; it may raise a ValueError of its own."""

    def parse(value: object) -> str:
        text = parse_text(value)
        if not is_right(text):
            raise ValueError
        return text

    return parse


Text = Annotated[str, Value(parse_text, "a text in quotes")]
