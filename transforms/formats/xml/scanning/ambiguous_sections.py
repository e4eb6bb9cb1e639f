"""The rule for sections that also read as records, because they may have lost their end mark.

Text of a document must never become a record, and no record may be lost without a Reject. Both are
at risk if the end mark of a section is damaged. The section then runs up to the next end mark,
which may be in a later record. The document stays well-formed: the records in between disappear, or
the content of one gets the URL and the ACL of another. The bytes do not show which reading is
meant, so the whole range becomes one Reject:

- A section in a record that holds more ends of records than starts, and after them the start of a
  record, with a URL if that is an attribute. It does not matter what closes it. A document that
  quotes whole records is not meant: these begin before they end.
- A comment or processing instruction between records that holds whole records and ends inside
  another one, and an instruction that holds whole records and another `<?` after them.

docs/decisions/ambiguous-sections.md has the reasons and the cost.
"""

import re

from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.text.byte_scans import find
from feedferry.transforms.formats.xml.scanning.record_markup import (
    AFTER_NAME,
    BLANKS,
    TAG,
    RecordMarkup,
    markup_of,
)
from feedferry.transforms.formats.xml.scanning.sections import CDATA, INSTRUCTION, SECTIONS

_URL = re.compile(rb"""\surl\s*=\s*["'][^"'<>]|<Url>[^"'<>]""")

ENDED = -1
"""The depth of a section after the end of the record that it is in."""

CROSSES = -2
"""The depth of a section that runs from one record into another."""

_OPENERS = re.compile(
    "|".join(
        rf"(?P<{section.kind}>{re.escape(section.opener.decode())})"
        for section in SECTIONS.values()
    ).encode()
)


def find_certain_end(data: bytes, begin: int, markup: RecordMarkup, *, searched: int = 0) -> int:
    """Return where the text of a CDATA section certainly ends, which begins at `begin`, or -1.

    A section in the main element that holds an end tag of it may run into another record. There is
    no end mark before `searched`.
    """
    close = find(data, CDATA.closer, max(begin, searched))
    is_certain = close >= 0 and find(data, markup.end_begin, begin, close) < 0
    return close if is_certain else -1


class AmbiguityRule:
    """Decides for the sections of a format whether they also read as records."""

    def __init__(self, names: ElementNames) -> None:
        self._in_record = markup_of(names).in_record
        any_record, main = "|".join(names.records), names.records[0]
        self._has_urls = len(names.records) > 1  # standalone elements need an attribute for it
        self._any_record = re.compile(rf"<(?P<record>{any_record}){AFTER_NAME}".encode())
        self._tags = {
            name: re.compile(
                rf"</(?:{main}|{name}){BLANKS}>|<(?P<start>{main}|{name}){AFTER_NAME}".encode()
            )
            for name in names.records
        }

    def depth_after(self, name: str, data: bytes, begin: int, close: int, *, depth: int = 0) -> int:
        """Return how many quoted records are open after `data[begin:close]`, ENDED or CROSSES.

        The range is the text of a section in an element `name`. `depth` is that after the section
        before it, if no markup is in between: both are one text.
        """
        if depth == CROSSES:
            return CROSSES
        for tag in self._tags[name].finditer(data, begin, close):
            if not tag["start"]:
                depth = max(depth - 1, ENDED)
            elif depth == ENDED:
                has_url = not self._has_urls or _URL.search(data, tag.start(), close)
                return CROSSES if has_url else ENDED
            elif not _is_empty(data, tag, close):
                depth += 1
        return depth

    def open_section(self, data: bytes, begin: int, close: int) -> str:
        """Return the kind of the section that is open at `close` if the one at `begin` is none.

        It is "" if none is open, or one that ends there too.
        """
        at = begin
        while (opener := _OPENERS.search(data, at, close)) is not None:
            kind = str(opener.lastgroup)
            closer = SECTIONS[kind].closer
            end = data.find(closer, opener.end(), close + len(closer))
            if end < 0 or end >= close:
                return "" if end == close else kind
            at = end + len(closer)
        return ""

    def swallows_records(self, data: bytes, begin: int, close: int, *, kind: str) -> bool:
        """Whether a section between records may have lost its own end mark.

        That is possible if it contains whole records and ends inside another one: it may have
        taken the end mark of that record's text. A processing instruction may also have taken the
        end mark of another one: then `<?` follows the records. The section is `data[begin:close]`.
        """
        record = self._any_record.search(data, begin, close)
        if not record or not _has_whole_tag(data, record, close):
            return False
        at, is_whole = self._end_of_hidden_record(data, record, close)
        if not is_whole:
            return False
        while (record := self._any_record.search(data, at, close)) is not None:
            at, is_whole = record.end(), True
            if _has_whole_tag(data, record, close):
                at, is_whole = self._end_of_hidden_record(data, record, close)
            if at == close and not is_whole:
                return True
        return kind == INSTRUCTION.kind and data.find(b"<?", at, close) >= 0

    def _end_of_hidden_record(
        self, data: bytes, record: re.Match[bytes], close: int
    ) -> tuple[int, bool]:
        """Return where a record in a section ends, and whether it has its end tag."""
        tag = TAG.match(data, record.start("record") - 1, close)
        at = tag.end() + 1 if tag else record.end()
        if data.startswith(b"/", at - 2):
            return at, True
        pattern = self._in_record[record["record"].decode()]
        while (token := pattern.search(data, at, close)) is not None:
            kind = str(token.lastgroup)
            if kind not in SECTIONS:
                return (token.end(), True) if kind == "end" else (token.start(), False)
            at = data.find(SECTIONS[kind].closer, token.end(), close)
            if at < 0:
                break
        return close, False


def _has_whole_tag(data: bytes, record: re.Match[bytes], close: int) -> bool:
    tag = TAG.match(data, record.start("record") - 1, close)
    return tag is not None and data.startswith(b">", tag.end()) and tag.end() < close


def _is_empty(data: bytes, start: re.Match[bytes], close: int) -> bool:
    tag = TAG.match(data, start.start(), close)
    return tag is not None and data.startswith(b"/>", tag.end() - 1)
