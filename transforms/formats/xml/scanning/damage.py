"""Where damage ends, and which context follows it."""

from typing import NamedTuple

from feedferry.schemas.reject import Reject
from feedferry.schemas.span import ElementContext, Span
from feedferry.transforms.formats.xml.scanning.buffer import OVERLAP_BYTES, Token
from feedferry.transforms.formats.xml.scanning.document_state import UNKNOWN, DocumentState
from feedferry.transforms.formats.xml.scanning.markup_search import BadRange, MarkupSearch
from feedferry.transforms.formats.xml.scanning.record_markup import RecordMarkup
from feedferry.transforms.formats.xml.scanning.rejected_ranges import RejectedRange, reject_range
from feedferry.transforms.formats.xml.scanning.sections import CDATA, SECTIONS


class DamageEnd(NamedTuple):
    """The position at which damage ends, and the context after it."""

    position: int
    context: ElementContext


class Damage:
    """Rejects the damage that begins at the first byte that is not consumed."""

    def __init__(
        self, search: MarkupSearch, markup: RecordMarkup, document: DocumentState, span: Span
    ) -> None:
        self.buffer, self.search, self.markup = search.buffer, search, markup
        self.document, self.span = document, span

    def set_aside(self, fault: BadRange, *, is_inside: bool = False) -> Reject:
        """Consume everything up to the next place at which a record can begin.

        `is_inside` says that the fault is in a record.
        """
        buffer, rejected = self.buffer, RejectedRange(self.buffer, self.span, fault)
        at, is_open = fault.end, False
        while True:
            token = buffer.search(self.markup.after_damage, at)
            if token is None:
                rejected.drop(max(at, buffer.end - OVERLAP_BYTES))
                at = buffer.position
                if not buffer.read_on():
                    return rejected.finish(buffer.text_end(buffer.end))
                continue
            kind, at = token.kind, token.end
            near_end = token.end + OVERLAP_BYTES > buffer.end
            if kind == "opened" and near_end and buffer.read_on():
                at = token.begin  # its url may not have been in the buffer
                continue
            if kind == "end" or (kind == "closed" and not is_open):
                return rejected.finish(at)
            if kind == "other":
                return rejected.finish(buffer.text_end(token.begin))
            if kind == "frame":
                is_expected = not is_inside or self._is_after_tag(token)
                end = self.pass_frame(token.begin, is_expected=is_expected)
                reject = rejected.finish(buffer.text_end(end.position))
                self.document.context = end.context
                return reject
            is_open = kind == "opened" or (is_open and kind != "closed")
            if kind in SECTIONS:
                close = self.search.find_section_end(kind, token.begin, token.begin)
                if isinstance(close, BadRange) and close.code == "record-too-large":
                    self._drop_cdata(rejected, at)
                    at = buffer.position
                else:
                    at = at if isinstance(close, BadRange) else close

    def tear(self, name: str, token: Token) -> Reject:
        """Reject an element in which there is a token that it cannot contain."""
        found = token.text.decode("utf-8", "replace")
        reason = f"{found!r} inside <{name}>; expected </{name}> before it"
        fault = BadRange("torn-record", reason, token.begin)
        if token.kind == "frame":
            end = self.pass_frame(token.begin, is_expected=self._is_after_tag(token))
            if end.position > token.begin:
                return self.reject_up_to(end, fault)
        standalone = self.buffer.search(
            self.markup.standalone_with_url, self.buffer.position + 1, token.begin
        )
        if standalone and name == self.markup.main:
            fault = fault._replace(end=standalone.begin)
        return self.reject(fault)

    def reject_up_to(self, end: DamageEnd, fault: BadRange) -> Reject:
        """Reject the bytes before the end of damage, and enter the context after it."""
        reject = self.reject(fault._replace(end=end.position))
        self.document.context = end.context
        return reject

    def reject(self, fault: BadRange) -> Reject:
        """Reject the bytes before the end that a fault states."""
        return reject_range(self.buffer, self.span, fault)

    def pass_frame(self, at: int, *, is_expected: bool) -> DamageEnd:
        """Return where damage ends that has a tag of the frame at `at`, and the context after it.

        It ends at `at`, so that the tag is obeyed, if a tag `is_expected` there, and only markup of
        the frame follows it up to the next record.
        """
        frame, context, after = self.markup.frame, self.document.context, at
        run = last = at  # of the tags without text in between, and the last of these
        while True:
            token = self.search.search(frame.around, after, at)
            if isinstance(token, BadRange) or token.kind in ("end", "begin"):
                break
            after = token.end
            if token.kind in SECTIONS:
                end = self.search.find_section_end(token.kind, token.begin, at)
                after = after if isinstance(end, BadRange) else end
            else:
                run, last = run if self._is_gap(last, token.begin) else token.begin, token.begin
        is_found = not isinstance(token, BadRange)
        if not isinstance(token, BadRange) and token.kind == "end":
            return DamageEnd(token.end, context)
        stop = self.buffer.end if isinstance(token, BadRange) else token.begin
        if not self._is_gap(last, stop):
            return DamageEnd(stop, context)
        if is_expected and run == at:
            return DamageEnd(at, context)
        if not is_found:
            is_end = self.buffer.is_all(frame.end, run, stop)
            return DamageEnd(run if is_end else stop, context)
        return DamageEnd(stop, self._context_after(self.buffer.text(run, stop)))

    def _drop_cdata(self, rejected: RejectedRange, at: int) -> None:
        """Drop a CDATA section that is too large for the buffer, so that it adds no records."""
        buffer, closer = self.buffer, CDATA.closer
        rejected.drop(at)
        while (close := buffer.find(closer, buffer.position)) < 0:
            rejected.drop(max(buffer.position, buffer.end - len(closer) + 1))
            if not buffer.read_on():
                rejected.drop(buffer.end)
                return
        rejected.drop(close + len(closer))

    def _is_after_tag(self, frame: Token) -> bool:
        """Whether an end tag of the frame follows a tag, whole or torn, and not a text."""
        text_end = self.buffer.text_end(frame.begin)
        text = self.buffer.text(self.buffer.position, text_end)
        is_after = text.endswith(b">") or text.rfind(b"<") > text.rfind(b">")
        return is_after and frame.text.startswith(b"</")

    def _is_gap(self, begin: int, end: int) -> bool:
        """Whether a tag of the frame and only markup between records is in a range."""
        return self.buffer.is_all(self.markup.frame.tag_and_gap, begin, end)

    def _context_after(self, frame: bytes) -> ElementContext:
        """Return the context after tags that are either obeyed or the text of a torn record."""
        context, tags = self.document.context, self.markup.frame.tag.findall(frame)
        if len(tags) == 2 and tags[1] == context.group:
            return context
        is_group = all(self.markup.frame.group_tag.match(tag) for tag in tags)
        header = context.header if is_group else UNKNOWN
        return ElementContext(root=context.root, header=header, group=UNKNOWN, depth=1)
