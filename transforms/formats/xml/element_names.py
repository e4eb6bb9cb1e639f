"""The names by which the documents of a format are cut into units."""

import re

CLOSERS = {"cdata": b"]]>", "comment": b"-->", "instruction": b"?>"}
TAG = re.compile(rb"""<[^<>"'\s]+[^<>"']*(?:(?:"[^"<]*"|'[^'<]*')[^<>"']*)*""")
"""A start tag up to its `>`, which may be missing."""
_BLANKS = r"[ \t\r\n]{0,1000}"
"""What may stand in an end tag; bounded, so that no end tag depends on what is at hand."""

_AFTER = r"(?=[\s/>])"


class ElementNames:
    """The names by which a format's documents are cut.

    `units` are the elements that become records. The end tag of the first closes a stretch of
    unknown start; the others may also stand inside the first. `prefixes` are namespaces that
    documents in the wild use without declaring them.
    """

    def __init__(
        self,
        *,
        root: str,
        units: tuple[str, ...],
        group: str = "(?!)",
        header: str = "(?!)",
        prefixes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.root = root
        self.units = units
        self.prefixes = prefixes
        first, loose = units[0], "|".join(units[1:]) or "(?!)"
        around = f"/?(?:{group}|{root}|{header})"
        skips = r"(?P<cdata>!\[CDATA\[)|(?P<comment>!--)|(?P<instruction>\?)"
        self.top = _tokens(
            rf"(?P<unit>{'|'.join(units)}){_AFTER}|(?P<comment>!--)|(?P<instruction>\?)"
            rf"|(?P<doctype>!DOCTYPE)|(?P<root>{root}){_AFTER}|(?P<end>/{root}{_BLANKS}>)"
            rf"|(?P<group>{group}){_AFTER}|(?P<ungroup>/{group}{_BLANKS}>)|(?P<header>{header}){_AFTER}"
        )
        self.record_end = re.compile(f"</{first}{_BLANKS}>".encode())
        self.next_unit = re.compile(
            rf"[ \t\r\n]*(?:</{group}{_BLANKS}>\s*<{group}{_AFTER}[^<>]*>\s*)?"
            rf"<(?P<unit>{'|'.join(units)}){_AFTER}".encode()
        )
        begun = "|".join((group, header, *units))
        self.header_end = re.compile(rf"</{header}{_BLANKS}>|(?=<(?:{begun}){_AFTER})".encode())
        self.any_unit = re.compile(rf"<(?P<unit>{'|'.join(units)}){_AFTER}".encode())
        self.between = re.compile(
            rf"(?:\s|</?(?:{group}|{root}){_AFTER}[^<>]*>|<{header}{_AFTER}.*?</{header}{_BLANKS}>"
            r"|<\?[^<>]*>|<!DOCTYPE[^<>]*>)*".encode(),
            re.DOTALL,
        )
        self.end_tag = f"</{first}>".encode()
        self.barrier = _tokens(rf"[!?]|{around}{_AFTER}")
        self.special = _tokens(rf"[!?]|(?:{'|'.join((around, *units[1:]))}){_AFTER}")
        self.start = re.compile(rf"[ \t\r\n]*<(?P<unit>{'|'.join(units)}){_AFTER}".encode())
        self.inside = {
            first: _tokens(
                rf"(?P<end>/{first}{_BLANKS}>)|{skips}|(?P<other>(?:{first}|{around}){_AFTER})"
            )
        }
        for name in units[1:]:
            others = f"/?(?:{'|'.join(units)})|{around}"
            self.inside[name] = _tokens(
                rf"(?P<end>/{name}{_BLANKS}>)|{skips}|(?P<other>(?:{others}){_AFTER})"
            )
        self.loose = re.compile(rf"<(?:{loose})(?=\s(?:[^<>]*\s)?url\s*=)".encode())
        # An element that stands alone has a url; inside the first unit it must not have one.
        self.recover = _tokens(
            rf"(?P<end>/{first}{_BLANKS}>)|{skips}|(?P<other>(?:{first}|{around}){_AFTER}"
            rf"|{self.loose.pattern.decode()[1:]})"
            rf"|(?P<opened>(?:{loose}){_AFTER})|(?P<closed>/(?:{loose}){_BLANKS}>)"
        )

    def reads_as_records(self, data: bytes, begin: int, close: int) -> bool:
        """Whether a CDATA section is also the end of a record, whole records and one with CDATA.

        The section stands in `data` from `begin` to its end mark at `close`.
        """
        if data[close - 2 : close] == b"]]":
            return False  # it splits a quoted end mark, so it quotes on purpose
        record_end = self.record_end.search(data, begin, close)
        at = record_end.end() if record_end else close
        while (unit := self.next_unit.match(data, at, close)) is not None:
            end = self._end_of_quoted(data, unit, close)
            if end is None or end == close:
                return end == close
            at = end
        return False

    def swallows_records(
        self, data: bytes, begin: int, close: int, *, kind: str, is_inside: bool
    ) -> bool:
        """Whether a comment or a processing instruction may lack its own end mark.

        That is so if it holds whole records and ends inside another record, whose end mark it then
        took. `is_inside` tells whether it begins inside a record: then it must hold the end of that
        record before them. `data` holds it from `begin` to its end mark at `close`.
        """
        record_end = self.record_end.search(data, begin, close) if is_inside else None
        if is_inside and not record_end:
            return False
        unit = self.any_unit.search(data, record_end.end() if record_end else begin, close)
        if not unit or not self._has_tag(data, unit, close):
            return False
        if record_end and not self.between.fullmatch(data, record_end.end(), unit.start()):
            return False
        at, is_whole = self._end_of_hidden(data, unit, close)
        if not is_whole:
            return False
        while (unit := self.any_unit.search(data, at, close)) is not None:
            at, ends = unit.end(), True
            if self._has_tag(data, unit, close):
                at, ends = self._end_of_hidden(data, unit, close)
            if at == close and not ends:
                return True
        return kind == "instruction" and data.find(b"<?", at, close) >= 0

    @staticmethod
    def _has_tag(data: bytes, unit: re.Match[bytes], close: int) -> bool:
        """Whether the start tag of a unit ends before `close`."""
        tag = TAG.match(data, unit.start("unit") - 1, close)
        return tag is not None and data.startswith(b">", tag.end()) and tag.end() < close

    def _end_of_hidden(self, data: bytes, unit: re.Match[bytes], close: int) -> tuple[int, bool]:
        """Where a unit in a section ends, and whether it is whole.

        It ends at its end tag, where another unit begins, or at `close`.
        """
        tag = TAG.match(data, unit.start("unit") - 1, close)
        at = tag.end() + 1 if tag else unit.end()
        if data.startswith(b"/", at - 2):
            return at, True
        pattern = self.inside[unit["unit"].decode()]
        while (token := pattern.search(data, at, close)) is not None:
            kind = str(token.lastgroup)
            if kind in ("end", "other"):
                return (token.end(), True) if kind == "end" else (token.start(), False)
            at = data.find(CLOSERS[kind], token.end(), close)
            if at < 0:
                break
        return close, False

    def _end_of_quoted(self, data: bytes, unit: re.Match[bytes], close: int) -> int | None:
        """Where a quoted unit ends; `close` if that is the end of a CDATA section inside it."""
        pattern, at = self.inside[unit["unit"].decode()], unit.end()
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


def _tokens(alternatives: str) -> re.Pattern[bytes]:
    """A pattern that begins with one literal byte, which `re` finds at the speed of memchr."""
    return re.compile(f"<(?:{alternatives})".encode())
