"""The feeds that the records and groups of one span are read from, and written into."""

from typing import NoReturn, TypeVar

from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.feed import (
    FULL,
    INCREMENTAL,
    METADATA_AND_URL,
    Feed,
    FeedHeader,
    TargetFeed,
    check_header,
)
from feedferry.schemas.membership import Membership
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.record import Provenance, Record
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.batch_writer import CurrentFeed, feed_key
from feedferry.transforms.conversion.conversion_settings import Settings, make_encoder
from feedferry.transforms.conversion.span_account import SpanAccount
from feedferry.transforms.formats import Encoder, find_format, format_of
from feedferry.transforms.rules.adapt import Adapter, Target, adapter

_NO_PROVENANCE = Provenance(source="\0none")  # no record has it
_Item = TypeVar("_Item", Record, Membership)


class FeedTargets:
    """Follows the feeds of a span: `current` of the last record, and `groups` of the last group.

    Each feed is checked, named and noted when its first record comes. If it `withholds`, the target
    can hide the documents of the span.
    """

    def __init__(self, span: Span, settings: Settings, account: SpanAccount) -> None:
        self.format = settings.target_format
        self.has_feeds = self.format.has_document_feeds
        source = find_format(span.format)
        has_documents = source is None or not source.holds_only_memberships
        self.withholds = self.format.withholds and has_documents
        self.current = CurrentFeed(_NO_PROVENANCE, None, _not_entered)
        self.groups = TargetFeed(memberships=True)
        self._groups_provenance = _NO_PROVENANCE
        self._adapters: dict[tuple[str | None, ...], tuple[TargetFeed, Adapter]] = {}
        self._span = span
        self._settings = settings
        self._account = account

    def enter(self, record: Record) -> None:
        """Make the feed of a record the current one."""
        provenance = record.provenance
        key = feed_key(provenance)
        if key not in self._adapters:
            self._enter_header(provenance, memberships=False)
            feed = self._name_feed(provenance)
            is_full = feed is not None and feed.feedtype == FULL
            origin = provenance.source if is_full and not self._settings.target.feedtype else None
            target_feed = TargetFeed(feed=feed, origin=origin)
            self._adapters[key] = (target_feed, self._make_adapter(feed, record))
        target_feed, adapter_of_feed = self._adapters[key]
        target = target_feed if self.has_feeds else None
        self.current = CurrentFeed(provenance, target, adapter_of_feed)

    def enter_groups(self, membership: Membership) -> None:
        """Make the groups feed of a group the current one."""
        now = membership.provenance
        if feed_key(now) != feed_key(self._groups_provenance):
            self._groups_provenance = now
            self._enter_header(now, memberships=True)
            self.groups = self._target_groups(now)

    def take_header(self, header: FeedHeader) -> None:
        """Note a feed that has no records."""
        self._account.full_feeds.enter(header, memberships=header.memberships, has_records=False)
        if header.memberships and not (self._settings.target.feedtype or header.feedtype):
            detail = (
                "a groups feed of which no group was read; it adds nothing, and deletes nothing"
                " either unless --feedtype full makes it a full feed"
            )
            self._account.note(Notice(code="empty-groups", detail=detail, source=header.source))

    def encoder_of(
        self, target_feed: TargetFeed | None, number: int
    ) -> tuple[Feed | None, Encoder]:
        """Return the feed that a chunk states, and its encoder.

        Only the first chunk of a full feed is full: a later one would erase those before it. That
        this is the first chunk of the run is only certain when all spans are converted.
        """
        feed = target_feed.feed if target_feed else None
        is_later = number or self._span.ordinal
        if feed is not None and feed.feedtype == FULL and is_later:
            feed = Feed(datasource=feed.datasource, feedtype=INCREMENTAL)
        memberships = target_feed is not None and target_feed.memberships
        return feed, make_encoder(self._settings, feed, memberships=memberships)

    def _enter_header(self, stated: Provenance, *, memberships: bool) -> None:
        """Check the feed of a record, which may come from an archive, and note a full one."""
        where = f"{stated.source}:{stated.line}" if stated.line else stated.source
        used = self._settings.reading.used_header
        check_header(stated.datasource, stated.feedtype, where=where, used=used)
        self._account.full_feeds.enter(stated, memberships=memberships, has_records=True)

    def _name_feed(self, provenance: Provenance) -> Feed | None:
        target = self._settings.target
        datasource = target.datasource or provenance.datasource
        if datasource is None:
            return None
        feedtype = target.feedtype or provenance.feedtype or INCREMENTAL
        return Feed(datasource=datasource, feedtype=feedtype)

    def _make_adapter(self, feed: Feed | None, record: Record) -> Adapter:
        target = self._settings.target
        if feed is None and self.has_feeds:
            raise ConfigError(
                f"{self._span.source}: no datasource in the source; expected ⟦datasource NAME⟧"
            )
        if self.format.keeps_everything and (target.datasource or target.feedtype):
            adapt = adapter(target)
            return lambda record: adapt(in_feed(target, record))
        feedtype = record.provenance.feedtype
        if self.format.keeps_unlisted and feedtype not in (None, INCREMENTAL, METADATA_AND_URL):
            detail = f"{feedtype}: the target keeps what the feed leaves out; delete that yourself"
            self._account.lose(Loss(field="feedtype", url=record.url, detail=detail))
        if feed is not None:
            target = replace(target, datasource=feed.datasource, feedtype=feed.feedtype)
        return adapter(target)

    def _target_groups(self, provenance: Provenance) -> TargetFeed:
        """Return the groups feed; formats that hold documents too have none."""
        target = self._settings.target
        if self.format.holds.memberships and self.format.holds.actions:
            return TargetFeed(memberships=True)
        datasource = target.datasource or provenance.datasource or ""
        if not datasource and self.has_feeds:
            raise ConfigError(
                f"{self._span.source}: groups without a groupsource; expected ⟦datasource NAME⟧, or"
                " ⟦groups leave-out⟧"
            )
        is_full = (target.feedtype or provenance.feedtype) == FULL
        feed = Feed(datasource=datasource, feedtype=FULL if is_full else INCREMENTAL)
        origin = provenance.source if is_full and not target.feedtype else None
        format_ = format_of(target, memberships=True)
        name = format_.name if format_ and format_ is not self.format else None
        return TargetFeed(feed=feed, origin=origin, memberships=True, format=name)


def in_feed(target: Target, item: _Item) -> _Item:
    """Return a record or a group for an archive, as one of the feed that the user names."""
    provenance = replace(
        item.provenance,
        datasource=target.datasource or item.provenance.datasource,
        feedtype=target.feedtype or item.provenance.feedtype,
    )
    return replace(item, provenance=provenance)


def _not_entered(_record: Record) -> NoReturn:
    raise AssertionError("a record before its feed")
