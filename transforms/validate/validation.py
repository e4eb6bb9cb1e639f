"""The findings of an input, in one pass over its records."""

from collections.abc import Iterable, Iterator

from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.membership import Membership
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.formats.holding.values import notices as value_notices
from feedferry.transforms.rules.normalize import normalize
from feedferry.transforms.validate.cross_checks import CrossChecks
from feedferry.transforms.validate.record_checks import OF_GROUPS, OF_HEADERS, OF_RECORDS
from feedferry.transforms.validate.rules import Finding, Severity, all_rules

_OWN_NOTICES = frozenset({"url-doubtful"})
"""Notices about records that a rule reports."""


class Validation:
    """Checks the results of an input; `cross` collects what concerns several records."""

    def __init__(self, cross: CrossChecks) -> None:
        self._cross = cross
        self._has_header = False
        self._headers: set[tuple[str, str | None, str | None]] = set()

    def findings(self, results: Iterable[ReadResult], *, has_header: bool) -> Iterator[Finding]:
        """Yield the findings of results, in their order; their format may have a header."""
        self._has_header = has_header
        items: Iterator[ReadResult] = singly(results)
        for item in items:
            yield from self._of(item)

    def _of(self, item: ReadResult) -> Iterator[Finding]:
        if isinstance(item, Reject):
            yield _reject_finding(item)
        elif isinstance(item, Notice):
            yield _notice_finding(item)
        elif isinstance(item, FeedHeader):
            yield from self._header(item)
        elif isinstance(item, Record):
            yield from self._header(item)
            yield from self._record(item)
        elif isinstance(item, Membership):
            for code, check in OF_GROUPS.items():
                for detail in check(item):
                    yield _finding(code, detail, item)
            self._cross.add(item)

    def _record(self, record: Record) -> Iterator[Finding]:
        for code, check in OF_RECORDS.items():
            for detail in check(record):
                yield _finding(code, detail, record)
        for notice in value_notices(normalize(record)):
            if notice.code not in _OWN_NOTICES:
                yield _notice_finding(notice, record)
        self._cross.add(record)

    def _header(self, item: Record | FeedHeader) -> Iterator[Finding]:
        at = item if isinstance(item, FeedHeader) else item.provenance
        header = at.source, at.datasource, at.feedtype
        if header in self._headers or not self._has_header:
            return
        self._headers.add(header)
        line = 0 if isinstance(item, FeedHeader) else item.provenance.line
        for code, check in OF_HEADERS.items():
            for detail in check(at.datasource, at.feedtype):
                yield all_rules()[code].finding(detail, source=at.source, line=line)


def _finding(code: str, detail: str, item: Record | Membership) -> Finding:
    at = item.provenance
    return all_rules()[code].finding(
        detail, source=at.source, line=at.line, offset=at.offset, url=item.url
    )


def _reject_finding(reject: Reject) -> Finding:
    return Finding(
        code=reject.code,
        severity=Severity.ERROR,
        detail=reject.reason,
        source=reject.source,
        line=reject.line,
        offset=reject.offset,
        url=reject.url,
    )


def _notice_finding(notice: Notice, record: Record | None = None) -> Finding:
    return Finding(
        code=notice.code,
        severity=Severity.WARNING,
        detail=notice.detail,
        source=notice.source,
        line=0 if record is None else record.provenance.line,
        offset=notice.offset,
        url=None if record is None else record.url,
    )
