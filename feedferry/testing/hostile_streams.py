"""Hypothesis strategies for the input of any reader: streams that are damaged in many ways."""

import re
from functools import cache

from hypothesis import strategies as st

from feedferry.testing.format_kit import FormatKit

BLANKS = (b" ", b"\t", b"\r", b"\n", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0", b"\xc2\xa0")
"""What Python, XML or Unicode takes as white space."""
_BYTES = tuple(bytes([byte]) for byte in b"\0\xff\x80<>&\"'/=,{}[]")
_MARKS = re.compile(rb"(?<=[>\n\0])|(?=<)")
_SHORT = 100


@st.composite
def mutated(draw: st.DrawFn, kit: FormatKit) -> bytes:
    """A golden file of the format, or a stream of many records, with pieces put in or over it."""
    text = draw(st.sampled_from(seeds(kit)))
    for _ in range(draw(st.integers(0, 4))):
        marks = [match.start() for match in _MARKS.finditer(text)]
        at = draw(st.integers(0, len(text)) | st.sampled_from([0, *marks]))
        end = at + draw(st.just(0) | st.integers(0, 20))
        text = text[:at] + draw(pieces(kit)) + text[end:]
    return text


def hostile(kit: FormatKit) -> st.SearchStrategy[bytes]:
    texts = st.lists(pieces(kit) | st.binary(max_size=3), max_size=30).map(b"".join)
    return st.tuples(st.sampled_from(kit.heads()), texts).map(b"".join) | mutated(kit)


@cache
def pieces(kit: FormatKit) -> st.SearchStrategy[bytes]:
    """Markup and text that the format gives a meaning to, and short stretches of its seeds."""
    stretches = {item for text in seeds(kit) for item in _MARKS.split(text)}
    short = sorted(item for item in stretches if len(item) < _SHORT)
    return st.sampled_from((*BLANKS, *_BYTES, *kit.words)) | st.sampled_from(short)


@cache
def seeds(kit: FormatKit) -> list[bytes]:
    return kit.seeds(max_bytes=2000)
