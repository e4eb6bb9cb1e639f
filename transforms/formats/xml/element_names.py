"""The element names of an XML format, the sections of XML, and patterns that find records."""

import re
from typing import NamedTuple

MAX_BLANKS = 1000
"""Most white space in an end tag. The bound makes a match independent of the data in memory."""

TAG = re.compile(rb"""<[^<>"'\s]+[^<>"']*(?:(?:"[^"<]*"|'[^'<]*')[^<>"']*)*""")
"""A start tag up to its `>`, which may be missing."""

BLANKS = rf"[ \t\r\n]{{0,{MAX_BLANKS}}}"
AFTER_NAME = r"(?=[\s/>])"
_NEVER = "(?!)"
_DECLARATION = "[!?]"
"""What follows the `<` of a section of any kind and of a DOCTYPE."""


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


class ElementNames:
    """The names of the root, the records, the group and the header of a format.

    `records` are the elements that become records. The first is the main one. The others are
    *standalone*: they may also occur inside the first. `prefixes` are namespace prefixes that
    documents use without declaring them.
    """

    def __init__(
        self,
        *,
        root: str,
        records: tuple[str, ...],
        group: str = _NEVER,
        header: str = _NEVER,
        prefixes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.root, self.records, self.prefixes = root, records, prefixes
        self.group, self.header = group, header
        main, any_record = records[0], "|".join(records)
        standalone = "|".join(records[1:]) or _NEVER
        outer = f"/?(?:{group}|{root}|{header})"
        sections = _openers(*SECTIONS.values())
        self.between_records = _tokens(
            rf"(?P<record>{any_record}){AFTER_NAME}|{_openers(COMMENT, INSTRUCTION)}"
            rf"|(?P<doctype>!DOCTYPE)|(?P<root>{root}){AFTER_NAME}|(?P<end>/{root}{BLANKS}>)"
            rf"|(?P<group>{group}){AFTER_NAME}|(?P<ungroup>/{group}{BLANKS}>)"
            rf"|(?P<header>{header}){AFTER_NAME}"
        )
        """The markup that is expected between records."""

        self.next_record = re.compile(rf"[ \t\r\n]*<(?P<record>{any_record}){AFTER_NAME}".encode())
        self.end_tag = f"</{main}>".encode()
        begin = "|".join((group, header, *records))
        self.header_end = re.compile(rf"</{header}{BLANKS}>|(?=<(?:{begin}){AFTER_NAME})".encode())
        self.ends_certainty = _tokens(rf"{_DECLARATION}|{outer}{AFTER_NAME}")
        """An end tag before this markup certainly ends a record; one after it may be text."""

        self.in_record = {
            main: _tokens(
                rf"(?P<end>/{main}{BLANKS}>)|{sections}"
                rf"|(?P<other>(?:{main}|{outer}){AFTER_NAME})"
            )
        }
        """For each record element: its end tag, sections, and tags that it cannot contain."""

        for name in records[1:]:
            others = f"/?(?:{any_record})|{outer}"
            self.in_record[name] = _tokens(
                rf"(?P<end>/{name}{BLANKS}>)|{sections}|(?P<other>(?:{others}){AFTER_NAME})"
            )
        # A standalone element has a url. Inside the main element it has none.
        with_url = rf"(?:{standalone})(?=\s(?:[^<>]*\s)?url\s*=)"
        self.standalone_with_url = re.compile(f"<{with_url}".encode())
        self.after_damage = _tokens(
            rf"(?P<end>/{main}{BLANKS}>)|{sections}|(?P<other>(?:{main}|{outer}){AFTER_NAME}"
            rf"|{with_url})|(?P<opened>(?:{standalone}){AFTER_NAME})"
            rf"|(?P<closed>/(?:{standalone}){BLANKS}>)"
        )
        """The places after damage at which a record can end or the next one can begin."""


def _openers(*sections: MarkupSection) -> str:
    """Return alternatives that match the openers, without their `<`, in groups named by kind."""
    return "|".join(
        f"(?P<{section.kind}>{re.escape(section.opener.decode().removeprefix('<'))})"
        for section in sections
    )


def _tokens(alternatives: str) -> re.Pattern[bytes]:
    """Return a pattern that begins with one literal byte; `re` finds it at the speed of memchr."""
    return re.compile(f"<(?:{alternatives})".encode())
