"""The rule for sections that also read as records, because they may have lost their end mark.

Text of a document must never become a record, and no record may be lost without a Reject. Both are
at risk if the end mark of a section is damaged. The section then runs up to the next end mark,
which may be in the text of a later record, and swallows the records before it. The bytes do not
show which reading is meant, so the whole range becomes one Reject:

- A CDATA section that holds the end of its record and directly after it records. All are whole but
  the last, whose own CDATA section takes the end mark. It is either damaged or a quoted feed.
- A comment or processing instruction that holds whole records and ends inside another one. If it
  begins in a record, the end of that record must come first, directly before a whole record.
- A processing instruction that holds whole records in the same way, and another `<?` after them.

docs/decisions/ambiguous-sections.md has the reasons and the cost.
"""

import re

from transforms.formats.xml.element_names import (
    AFTER_NAME,
    BLANKS,
    CDATA,
    INSTRUCTION,
    SECTIONS,
    TAG,
    ElementNames,
)


class AmbiguityRule:
    """Decides for the sections of a format whether they also read as records."""

    def __init__(self, names: ElementNames) -> None:
        self._in_record = names.in_record
        any_record, group = "|".join(names.records), names.group
        self._record_end = re.compile(f"</{names.records[0]}{BLANKS}>".encode())
        self._any_record = re.compile(rf"<(?P<record>{any_record}){AFTER_NAME}".encode())
        self._next_record = re.compile(
            rf"[ \t\r\n]*(?:</{group}{BLANKS}>\s*<{group}{AFTER_NAME}[^<>]*>\s*)?"
            rf"<(?P<record>{any_record}){AFTER_NAME}".encode()
        )
        self._between = re.compile(
            rf"(?:\s|</?(?:{group}|{names.root}){AFTER_NAME}[^<>]*>"
            rf"|<{names.header}{AFTER_NAME}.*?</{names.header}{BLANKS}>"
            rf"|<\?[^<>]*>|<!DOCTYPE[^<>]*>)*".encode(),
            re.DOTALL,
        )

    def reads_as_records(self, data: bytes, begin: int, close: int) -> bool:
        """Whether a CDATA section holds the end of a record, and records up to another CDATA.

        The section is `data[begin:close]`; its end mark is at `close`.
        """
        if data[close - 2 : close] == b"]]":
            return False  # the content quotes an end mark by splitting it, so it quotes on purpose
        record_end = self._record_end.search(data, begin, close)
        at = record_end.end() if record_end else close
        while (record := self._next_record.match(data, at, close)) is not None:
            end = self._end_of_quoted_record(data, record, close)
            if end is None or end == close:
                return end == close
            at = end
        return False

    def swallows_records(
        self, data: bytes, begin: int, close: int, *, kind: str, is_inside: bool
    ) -> bool:
        """Whether a comment or processing instruction may have lost its own end mark.

        That is possible if it contains whole records and ends inside another one: it may have
        taken the end mark of that record's text. A processing instruction may also have taken the
        end mark of another one: then `<?` follows the records. `is_inside` states that the section
        begins inside a record. Then the end of that record must come first, and only markup that
        is expected between records may follow it, up to a whole record. The section is
        `data[begin:close]`.
        """
        record_end = self._record_end.search(data, begin, close) if is_inside else None
        if is_inside and not record_end:
            return False
        record = self._any_record.search(data, record_end.end() if record_end else begin, close)
        if not record or not _has_whole_tag(data, record, close):
            return False
        if record_end and not self._between.fullmatch(data, record_end.end(), record.start()):
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
            if kind in ("end", "other"):
                return (token.end(), True) if kind == "end" else (token.start(), False)
            at = data.find(SECTIONS[kind].closer, token.end(), close)
            if at < 0:
                break
        return close, False

    def _end_of_quoted_record(self, data: bytes, record: re.Match[bytes], close: int) -> int | None:
        """Return where a quoted record ends; `close` if its own CDATA section ends there."""
        pattern, at = self._in_record[record["record"].decode()], record.end()
        while (token := pattern.search(data, at, close)) is not None:
            kind = str(token.lastgroup)
            if kind == "end":
                return token.end()
            if kind == "other":
                return None
            at = data.find(SECTIONS[kind].closer, token.end(), close + len(CDATA.closer))
            if at < 0 or at >= close:
                return close if kind == CDATA.kind and at == close else None
        return None


def _has_whole_tag(data: bytes, record: re.Match[bytes], close: int) -> bool:
    tag = TAG.match(data, record.start("record") - 1, close)
    return tag is not None and data.startswith(b">", tag.end()) and tag.end() < close
