"""The full feeds of one span: which ones it read, and the documents known to be missing."""

from collections import Counter
from typing import Protocol

from schemas.account import Account
from schemas.feed import FULL, FullFeed
from schemas.reject import HOLES, Filtered, Reject
from schemas.span import Span
from transforms.adapt import Target
from transforms.formats import find_format

UP_TO_DATE = "up-to-date"
"""The code of a document that a program did not give, because it has not changed."""


class FeedOrigin(Protocol):
    """Names the feed of a record or of a FeedHeader."""

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
        self._has_file_per_record = format_ is not None and format_.has_one_record
        self._hole_codes = None if format_ is None else format_.hole_codes
        self._feeds: dict[tuple[str | None, str | None, bool], FullFeed] = {}
        self._rejects: Counter[str] = Counter()
        self._holes: Counter[str] = Counter()

    def enter(self, origin: FeedOrigin, *, memberships: bool, has_records: bool) -> None:
        """Add the feed of a record, or a feed without records, if it is to be full."""
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
        """Count a reject by its source."""
        source = "" if self._has_file_per_record else reject.source
        self._rejects[source] += 1
        if self._lists_documents or self._is_hole(reject):
            self._holes[source] += 1

    def filter(self, filtered: Filtered) -> None:
        """Count a document that exists and was not given."""
        if filtered.code == UP_TO_DATE:
            self._holes[""] += 1

    def close(self, account: Account) -> None:
        """Store the full feeds, rejects and holes in the account of the span."""
        account.full_feeds = list(self._feeds.values())
        account.rejects_of = dict(sorted(self._rejects.items()))
        account.holes_of = dict(sorted(self._holes.items()))

    def _is_hole(self, reject: Reject) -> bool:
        if reject.code in HOLES:
            return True
        is_unknown = self._hole_codes is None or reject.code in self._hole_codes
        return is_unknown and reject.stage == "read"
