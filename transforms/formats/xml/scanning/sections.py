"""The sections of XML: CDATA, comments and processing instructions."""

import re
from typing import NamedTuple


class MarkupSection(NamedTuple):
    """A kind of section, and the Reject of a section that also reads as records.

    `kind` is also the name of the group of each pattern that finds the opener.
    """

    kind: str
    opener: bytes
    closer: bytes
    ambiguous_code: str
    ambiguous_reason: str


CDATA = MarkupSection(
    "cdata",
    b"<![CDATA[",
    b"]]>",
    "ambiguous-cdata",
    "a CDATA section that holds the end of its record and the start of another; "
    "expected ']]>' before them, or content whose records begin before they end",
)
COMMENT = MarkupSection(
    "comment",
    b"<!--",
    b"-->",
    "ambiguous-comment",
    "a comment that holds a part of a record; "
    "expected '-->' before it, or a comment that holds whole records",
)
INSTRUCTION = MarkupSection(
    "instruction",
    b"<?",
    b"?>",
    "ambiguous-instruction",
    "a processing instruction that holds a part of a record; "
    "expected '?>' before it, or no records in it",
)

SECTIONS = {section.kind: section for section in (CDATA, COMMENT, INSTRUCTION)}


def openers(*sections: MarkupSection) -> str:
    """Return alternatives that match the openers, without their `<`, in groups named by kind."""
    return "|".join(
        f"(?P<{section.kind}>{re.escape(section.opener.decode().removeprefix('<'))})"
        for section in sections
    )
