"""The markup by which the records of a format are found: patterns made of its element names."""

import re
from functools import cache

from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.xml.scanning.sections import (
    COMMENT,
    INSTRUCTION,
    SECTIONS,
    openers,
)

MAX_BLANKS = 1000
"""Most white space in an end tag. The bound makes a match independent of the data in memory."""

TAG = re.compile(rb"""<[^<>"'\s]+[^<>"']*(?:(?:"[^"<]*"|'[^'<]*')[^<>"']*)*""")
"""A start tag up to its `>`, which may be missing."""

BLANKS = rf"[ \t\r\n]{{0,{MAX_BLANKS}}}"
AFTER_NAME = r"(?=[\s/>])"
_NEVER = "(?!)"
_DECLARATION = "[!?]"
"""What follows the `<` of a section of any kind and of a DOCTYPE."""


class RecordMarkup:
    """The patterns that find the records of a format, and the markup in and between them."""

    def __init__(self, names: ElementNames) -> None:
        root, records = names.root, names.records
        group, header = names.group or _NEVER, names.header or _NEVER
        self.main = main = records[0]
        any_record = "|".join(records)
        standalone = "|".join(records[1:]) or _NEVER
        outer = f"/?(?:{group}|{root}|{header})"
        frame = rf"(?P<frame>{outer}{AFTER_NAME})"
        sections = openers(*SECTIONS.values())
        self.between_records = _tokens(
            rf"(?P<record>{any_record}){AFTER_NAME}|{openers(COMMENT, INSTRUCTION)}"
            rf"|(?P<doctype>!DOCTYPE)|(?P<root>{root}){AFTER_NAME}|(?P<end>/{root}{BLANKS}>)"
            rf"|(?P<group>{group}){AFTER_NAME}|(?P<ungroup>/{group}{BLANKS}>)"
            rf"|(?P<header>{header}){AFTER_NAME}"
        )
        """The markup that is expected between records."""

        self.next_record = re.compile(rf"[ \t\r\n]*<(?P<record>{any_record}){AFTER_NAME}".encode())
        self.main_record = re.compile(f"<{main}{AFTER_NAME}".encode())
        self.end_tag = f"</{main}>".encode()
        self.end_begin = f"</{main}".encode()
        begin = "|".join((group, header, *records))
        self.header_end = re.compile(
            rf"</{header}{BLANKS}>|(?<=<{header}){BLANKS}/>|(?=<(?:{begin}){AFTER_NAME})".encode()
        )
        self.ends_certainty = _tokens(rf"{_DECLARATION}|{outer}{AFTER_NAME}")
        """An end tag before this markup certainly ends a record; one after it may be text."""

        self.in_record = {
            main: _tokens(
                rf"(?P<end>/{main}{BLANKS}>)|{sections}|(?P<other>{main}{AFTER_NAME})|{frame}"
            )
        }
        """For each record element: its end tag, sections, and tags that it cannot contain.

        Those are the tags of records, and those of the frame: root, group and header.
        """

        for name in records[1:]:
            self.in_record[name] = _tokens(
                rf"(?P<end>/{name}{BLANKS}>)|{sections}"
                rf"|(?P<other>/?(?:{any_record}){AFTER_NAME})|{frame}"
            )
        # A standalone element has a url. Inside the main element it has none.
        with_url = rf"(?:{standalone})(?=\s(?:[^<>]*\s)?url\s*=)"
        self.standalone_with_url = re.compile(f"<{with_url}".encode())
        self.frame = FrameMarkup(names, around=rf"(?P<begin>{main}{AFTER_NAME}|{with_url})|{frame}")
        self.after_damage = _tokens(
            rf"(?P<end>/{main}{BLANKS}>)|{sections}|(?P<other>{main}{AFTER_NAME}|{with_url})"
            rf"|{frame}|(?P<opened>(?:{standalone}){AFTER_NAME})"
            rf"|(?P<closed>/(?:{standalone}){BLANKS}>)"
        )
        """The places after damage at which a record can end or the next one can begin."""


class FrameMarkup:
    """The markup between two records: root, groups and header, comments and instructions."""

    def __init__(self, names: ElementNames, *, around: str) -> None:
        group, root, header = names.group or _NEVER, names.root, names.header or _NEVER
        record = rf"</?(?:{'|'.join(names.records)})[\s/>]"
        tag = rf"</?(?:{group}|{root}|{header}){AFTER_NAME}[^<>]*+>"
        self.tag = re.compile(tag.encode())
        self.group_tag = re.compile(rf"</?{group}{AFTER_NAME}".encode())
        self.tag_and_gap = re.compile(
            rf"(?:\s|<{header}{AFTER_NAME}(?:(?!{record}).)*+|{tag}"
            rf"|<\?[^<>]*+>|<!DOCTYPE[^<>]*+>|<!--(?:(?!-->).)*+-->)*+".encode(),
            re.DOTALL,
        )
        """A tag, and only such markup up to the next tag; a header has text."""

        self.end = re.compile(rf"(?:\s|</(?:{group}|{root}){BLANKS}>)*+".encode())
        self.around = _tokens(
            rf"(?P<end>/{names.records[0]}{BLANKS}>)|{openers(*SECTIONS.values())}|{around}"
        )
        """What decides whether a tag in damage is obeyed: the end or the start of a record."""


@cache
def markup_of(names: ElementNames) -> RecordMarkup:
    """Return the patterns of a format; they are compiled once."""
    return RecordMarkup(names)


def _tokens(alternatives: str) -> re.Pattern[bytes]:
    """Return a pattern that begins with one literal byte; `re` finds it at the speed of memchr."""
    return re.compile(f"<(?:{alternatives})".encode())
