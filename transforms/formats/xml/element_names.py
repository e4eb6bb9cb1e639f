"""The element names of an XML format, and the patterns that find records by them."""

import re

CLOSERS = {"cdata": b"]]>", "comment": b"-->", "instruction": b"?>"}
"""The end mark of each kind of section."""

TAG = re.compile(rb"""<[^<>"'\s]+[^<>"']*(?:(?:"[^"<]*"|'[^'<]*')[^<>"']*)*""")
"""A start tag up to its `>`, which may be missing."""

_BLANKS = r"[ \t\r\n]{0,1000}"
"""White space in an end tag. The bound makes a match independent of how much data is in memory."""

_NEVER = "(?!)"
_AFTER_NAME = r"(?=[\s/>])"


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
        main, any_record = records[0], "|".join(records)
        standalone = "|".join(records[1:]) or _NEVER
        outer = f"/?(?:{group}|{root}|{header})"
        sections = r"(?P<cdata>!\[CDATA\[)|(?P<comment>!--)|(?P<instruction>\?)"
        self.top = _tokens(
            rf"(?P<record>{any_record}){_AFTER_NAME}|(?P<comment>!--)|(?P<instruction>\?)"
            rf"|(?P<doctype>!DOCTYPE)|(?P<root>{root}){_AFTER_NAME}|(?P<end>/{root}{_BLANKS}>)"
            rf"|(?P<group>{group}){_AFTER_NAME}|(?P<ungroup>/{group}{_BLANKS}>)"
            rf"|(?P<header>{header}){_AFTER_NAME}"
        )
        """The markup that is expected between records."""

        self.start = re.compile(rf"[ \t\r\n]*<(?P<record>{any_record}){_AFTER_NAME}".encode())
        self.end_tag = f"</{main}>".encode()
        begin = "|".join((group, header, *records))
        self.header_end = re.compile(
            rf"</{header}{_BLANKS}>|(?=<(?:{begin}){_AFTER_NAME})".encode()
        )
        self.special = _tokens(rf"[!?]|(?:{'|'.join((outer, *records[1:]))}){_AFTER_NAME}")
        """Markup that a run of main records without sections does not have."""

        self.barrier = _tokens(rf"[!?]|{outer}{_AFTER_NAME}")
        """Markup after which an end tag of a record is no longer known to be one."""

        self.inside = {
            main: _tokens(
                rf"(?P<end>/{main}{_BLANKS}>)|{sections}"
                rf"|(?P<other>(?:{main}|{outer}){_AFTER_NAME})"
            )
        }
        """For each record element: its end tag, sections, and tags that it cannot contain."""

        for name in records[1:]:
            others = f"/?(?:{any_record})|{outer}"
            self.inside[name] = _tokens(
                rf"(?P<end>/{name}{_BLANKS}>)|{sections}|(?P<other>(?:{others}){_AFTER_NAME})"
            )
        # A standalone element has a url. Inside the main element it has none.
        with_url = rf"(?:{standalone})(?=\s(?:[^<>]*\s)?url\s*=)"
        self.standalone = re.compile(f"<{with_url}".encode())
        self.recover = _tokens(
            rf"(?P<end>/{main}{_BLANKS}>)|{sections}|(?P<other>(?:{main}|{outer}){_AFTER_NAME}"
            rf"|{with_url})|(?P<opened>(?:{standalone}){_AFTER_NAME})"
            rf"|(?P<closed>/(?:{standalone}){_BLANKS}>)"
        )
        """The places after damage at which a record can end or the next one can begin."""

        self._record_end = re.compile(f"</{main}{_BLANKS}>".encode())
        self._any_record = re.compile(rf"<(?P<record>{any_record}){_AFTER_NAME}".encode())
        self._next_record = re.compile(
            rf"[ \t\r\n]*(?:</{group}{_BLANKS}>\s*<{group}{_AFTER_NAME}[^<>]*>\s*)?"
            rf"<(?P<record>{any_record}){_AFTER_NAME}".encode()
        )
        self._between = re.compile(
            rf"(?:\s|</?(?:{group}|{root}){_AFTER_NAME}[^<>]*>"
            rf"|<{header}{_AFTER_NAME}.*?</{header}{_BLANKS}>|<\?[^<>]*>|<!DOCTYPE[^<>]*>)*".encode(),
            re.DOTALL,
        )

    def reads_as_records(self, data: bytes, begin: int, close: int) -> bool:
        """Whether a CDATA section also reads as: end of a record, whole records, another CDATA.

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

        That is possible if it contains whole records and ends inside another record: it may have
        taken the end mark of that record's text. `is_inside` states that the section begins inside
        a record; then the end of that record must come first. The section is `data[begin:close]`.
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
        return kind == "instruction" and data.find(b"<?", at, close) >= 0

    def _end_of_hidden_record(
        self, data: bytes, record: re.Match[bytes], close: int
    ) -> tuple[int, bool]:
        """Return where a record in a section ends, and whether it has its end tag."""
        tag = TAG.match(data, record.start("record") - 1, close)
        at = tag.end() + 1 if tag else record.end()
        if data.startswith(b"/", at - 2):
            return at, True
        pattern = self.inside[record["record"].decode()]
        while (token := pattern.search(data, at, close)) is not None:
            kind = str(token.lastgroup)
            if kind in ("end", "other"):
                return (token.end(), True) if kind == "end" else (token.start(), False)
            at = data.find(CLOSERS[kind], token.end(), close)
            if at < 0:
                break
        return close, False

    def _end_of_quoted_record(self, data: bytes, record: re.Match[bytes], close: int) -> int | None:
        """Return where a quoted record ends; `close` if its own CDATA section ends there."""
        pattern, at = self.inside[record["record"].decode()], record.end()
        while (token := pattern.search(data, at, close)) is not None:
            kind = str(token.lastgroup)
            if kind == "end":
                return token.end()
            if kind == "other":
                return None
            at = data.find(CLOSERS[kind], token.end(), close + len(CLOSERS["cdata"]))
            if at < 0 or at >= close:
                return close if kind == "cdata" and at == close else None
        return None


def _has_whole_tag(data: bytes, record: re.Match[bytes], close: int) -> bool:
    tag = TAG.match(data, record.start("record") - 1, close)
    return tag is not None and data.startswith(b">", tag.end()) and tag.end() < close


def _tokens(alternatives: str) -> re.Pattern[bytes]:
    """Return a pattern that begins with one literal byte; `re` finds it at the speed of memchr."""
    return re.compile(f"<(?:{alternatives})".encode())
