"""The full feeds of one span, and their holes."""

from msgspec.structs import replace

from feedferry.schemas.feed import FULL, FeedHeader, FullFeed, Hole
from feedferry.schemas.record import Action, Provenance
from feedferry.schemas.reject import UNREADABLE, Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import find_format
from feedferry.transforms.rules.adapt import Target

DELETIONS = (Action.DELETE.value, Action.DELETE_PATTERN.value)


class FullFeedLog:
    """Collects the full feeds of one span, and their holes: rejects that may be documents."""

    def __init__(self, span: Span, target: Target) -> None:
        self._span, self._target = span, target
        format_ = find_format(span.format)
        self.is_archive = format_ is not None and format_.keeps_everything
        states_feeds = span.format == UNREADABLE or (
            format_ is not None and format_.keeps_feedtypes
        )
        self._unknown = FULL if states_feeds else None
        self.feeds: dict[tuple[str | None, str | None, bool], FullFeed] = {}
        self.holes: dict[tuple[str, str | None], Hole] = {}

    def enter(
        self, origin: Provenance | FeedHeader, *, memberships: bool, has_records: bool
    ) -> None:
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
            is_archived=self.is_archive,
        )
        key = feed.datasource, feed.origin, memberships
        if has_records or key not in self.feeds:
            self.feeds[key] = feed

    def reject(self, reject: Reject, *, is_accepted: bool) -> None:
        """Add a reject that may be of a full feed; accepted ones and deletions are no holes.

        A part of a stream that could not be read may be documents of any feed of its source.
        """
        is_known = reject.stage != "read"
        if (self._target.feedtype or (reject.feedtype if is_known else self._unknown)) != FULL:
            return
        source = "" if self._target.feedtype else reject.source
        datasource = (self._target.datasource or reject.datasource) if is_known else None
        hole = self.holes.get((source, datasource))
        count = not (is_accepted or reject.action in DELETIONS)
        if hole is None or (count and not hole.count):
            name, first = self._span.name, reject.message
            hole = Hole(source=source, span=name, count=0, first=first, datasource=datasource)
        self.holes[source, datasource] = replace(hole, count=hole.count + count)
