"""What a span tells of full feeds: which it saw, and what is known to be missing from them."""

from collections import Counter
from typing import Protocol

from schemas.account import Account
from schemas.feed import FULL, FullFeed
from schemas.reject import HOLES, Filtered, Reject
from schemas.span import Span
from transforms.adapt import Target
from transforms.formats import find_format

UP_TO_DATE = "up-to-date"
"""The code of a document that a program did not give, as it has not changed."""


class Origin(Protocol):
    """What names the feed of a record or of a FeedHeader."""

    @property
    def source(self) -> str: ...
    @property
    def datasource(self) -> str | None: ...
    @property
    def feedtype(self) -> str | None: ...


class FullFeedLog:
    """Collects the full feeds of one span, its rejects and its holes.

    `lists_documents` says that the source lists its documents, so that each reject is a hole.
    """

    def __init__(self, span: Span, target: Target, *, lists_documents: bool) -> None:
        self._span = span
        self._target = target
        self._lists_documents = lists_documents
        format_ = find_format((span.members or (span,))[0].format)
        self._is_archived = format_ is not None and format_.keeps_everything
        self._has_file_per_record = bool(span.members) or (
            format_ is not None and format_.has_one_record
        )
        self._hole_codes = None if format_ is None else format_.hole_codes
        self._feeds: dict[tuple[str | None, str | None, bool], FullFeed] = {}
        self._rejects: Counter[str] = Counter()
        self._holes: Counter[str] = Counter()

    def enter(self, origin: Origin, *, memberships: bool, has_records: bool) -> None:
        """Note the feed of a record, or one without records, if it is to be full."""
        if (self._target.feedtype or origin.feedtype) != FULL:
            return
        feed = FullFeed(
            datasource=self._target.datasource or origin.datasource or None,
            origin=None if self._target.feedtype else origin.source,
            source=origin.source,
            span=self._span.name,
            memberships=memberships,
            has_records=has_records,
            is_archived=self._is_archived,
        )
        key = feed.datasource, feed.origin, memberships
        if has_records or key not in self._feeds:
            self._feeds[key] = feed

    def reject(self, reject: Reject) -> None:
        """Note a reject under its source."""
        source = "" if self._has_file_per_record else reject.source
        self._rejects[source] += 1
        if self._lists_documents or self._is_hole(reject):
            self._holes[source] += 1

    def _is_hole(self, reject: Reject) -> bool:
        return reject.code in HOLES or (
            reject.stage == "read" and (self._hole_codes is None or reject.code in self._hole_codes)
        )

    def filter(self, filtered: Filtered) -> None:
        """Note a document that is there and was not given."""
        if filtered.code == UP_TO_DATE:
            self._holes[""] += 1

    def close(self, account: Account) -> None:
        """Put what was collected into the account of the span."""
        account.full_feeds = list(self._feeds.values())
        account.rejects_of = dict(sorted(self._rejects.items()))
        account.holes_of = dict(sorted(self._holes.items()))
