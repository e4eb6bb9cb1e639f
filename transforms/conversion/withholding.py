"""Rejected documents that the target shows to no user until their next good version."""

from collections.abc import Iterator

from msgspec.structs import replace

from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.record import Provenance, Record, withheld
from feedferry.schemas.reject import Reject, is_until_acl
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.feed_targets import FeedTargets
from feedferry.transforms.conversion.span_account import SpanAccount
from feedferry.transforms.steps import AppliedSteps


class Withholding:
    """Makes an ACL that permits nobody for each URL that a reject may have.

    The target may have an earlier version, which may be shown to users whom this one denies. A
    reject that states no datasource waits for the first record of its source. What is not withheld
    is counted.
    """

    def __init__(
        self, settings: Settings, feeds: FeedTargets, account: SpanAccount, steps: AppliedSteps
    ) -> None:
        self._datasource = settings.target.datasource
        self._is_on = settings.withhold
        self._feeds = feeds
        self._account = account
        self._steps = steps
        self._waiting: list[Reject] = []

    def of_reject(self, reject: Reject, origin: Record | None = None) -> Iterator[Record]:
        """Yield the ACLs of a reject, or keep it until its feed begins.

        `origin` is the record that was set aside, None for what was not read.
        """
        if not self._feeds.withholds:
            return
        current = self._feeds.current.provenance
        if reject.datasource is None and current.source != reject.source:
            self._waiting.append(replace(reject, data=b""))
        else:
            yield from self._make(current, reject, origin)

    def of_feed(self, feed: Provenance | FeedHeader) -> Iterator[Record]:
        """Yield the ACLs of the rejects that wait for a feed."""
        if not self._waiting:
            return
        placed = [reject for reject in self._waiting if reject.source == feed.source]
        self._waiting = [reject for reject in self._waiting if reject.source != feed.source]
        for reject in placed:
            yield from self._make(feed, reject)

    def at_end(self) -> Iterator[Record]:
        """Yield the ACLs of the rejects whose feed has no record and no header."""
        for reject in self._waiting:
            yield from self._make(Provenance(source=reject.source), reject)

    def _make(
        self, feed: Provenance | FeedHeader, reject: Reject, origin: Record | None = None
    ) -> Iterator[Record]:
        datasource = reject.datasource or feed.datasource
        has_no_datasources = not self._feeds.has_feeds
        is_known = has_no_datasources or datasource is not None or self._datasource is not None
        provenance = Provenance(
            source=reject.source,
            span=reject.span,
            datasource=datasource,
            feedtype=reject.feedtype or feed.feedtype,
        )
        if not reject.url and reject.action is None:
            self._account.leave_unknown(reject)
        for url in self._steps.urls_of(reject):
            if not (self._is_on and is_known):
                self._account.leave_shown(url, reject)
                continue
            record = withheld(url, provenance, until_acl=is_until_acl(reject, origin))
            self._feeds.enter(record)
            self._account.withhold(record, reject)
            yield record
