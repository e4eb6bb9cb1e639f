"""The kinds of sections in XML: CDATA, comments and processing instructions."""

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
    "a CDATA section that holds the end of its record, whole records and another CDATA; "
    "expected ']]>' before them, or content that does not read as records",
)
COMMENT = MarkupSection(
    "comment",
    b"<!--",
    b"-->",
    "ambiguous-comment",
    "a comment that holds whole records and ends inside another; "
    "expected '-->' before them, or a comment that ends after a record",
)
INSTRUCTION = MarkupSection(
    "instruction",
    b"<?",
    b"?>",
    "ambiguous-instruction",
    "a processing instruction that holds whole records and ends inside another, or after "
    "another '<?'; expected '?>' before them, or no records in it",
)

SECTIONS = {section.kind: section for section in (CDATA, COMMENT, INSTRUCTION)}

AMBIGUOUS_CODES = frozenset(section.ambiguous_code for section in SECTIONS.values())
"""Codes of rejects after which an unknown number of records may be missing."""
