"""The full feeds of a run.

A full feed deletes everything that it leaves out, and an empty one all of its datasource. An empty
full feed and a full feed with holes are published only where the settings accept that.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from feedferry.schemas.account import Account, Chunk, add_loss, place_of
from feedferry.schemas.errors import ConfigError, LossRefusedError, StoppedError
from feedferry.schemas.feed import FULL, Feed, FullFeed, Hole
from feedferry.schemas.notice import Loss
from feedferry.schemas.record import Action
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.chunk import write_chunk
from feedferry.transforms.conversion.conversion_settings import UP_TO_DATE, Settings, make_encoder
from feedferry.transforms.formats import format_of

_FeedKey = tuple[str | None, str | None, bool, bool]


def settle_full_feeds(account: Account, settings: Settings) -> None:
    """Add the chunks of empty full feeds to the account of a whole run.

    A target without full feeds gets no chunk, and the account a loss of `feedtype`. Raise
    StoppedError for a full feed without a document unless `settings.allow_empty_full`, and for a
    full feed with holes unless `settings.accept_holes`. A feed that is empty only because of its
    holes never gets a chunk.
    """
    format_ = settings.target_format
    for number, feed in enumerate(_full_feeds(account, settings)):
        holes = [hole for hole in account.holes if _is_in(hole, feed)]
        missing = sum(hole.count for hole in holes)
        if feed.origin is None:
            missing += account.filter_codes.get(UP_TO_DATE, 0)
        written = _actions_written(feed, account.chunks, settings)
        if not written:
            missing = max(missing, len(holes))  # accepted ones, too: they must not empty it
        if missing and format_.keeps_feedtypes and not settings.accept_holes:
            raise _with_holes(feed, missing, holes)
        if written - {Action.DELETE.value} or (missing and not written):
            continue
        if not format_.has_feedtypes:
            _lose(feed, account, settings)
        elif not settings.allow_empty_full:
            raise _empty(feed)
        elif not written:
            empty = _write_empty(feed, settings, number)
            account.chunks = sorted((*account.chunks, empty), key=place_of)


def _full_feeds(account: Account, settings: Settings) -> Iterable[FullFeed]:
    """Return each full feed once; with --feedtype full there is one, whatever was read."""
    feeds: dict[_FeedKey, FullFeed] = {}
    format_ = settings.target_format
    is_groups = format_.holds_only_memberships
    for feed in account.full_feeds:
        if format_.has_feedtypes and not format_of(settings.target, memberships=feed.memberships):
            continue  # the target does not hold its records
        key = feed.datasource, feed.origin, feed.memberships, feed.is_archived
        if feed.has_records or key not in feeds:
            feeds[key] = feed
    if settings.target.feedtype == FULL and all(
        feed.memberships != is_groups for feed in feeds.values()
    ):
        feeds[None, None, is_groups, False] = FullFeed(
            datasource=settings.target.datasource,
            origin=None,
            source="the input",
            span=Span().name,
            memberships=is_groups,
        )
    return feeds.values()


def _actions_written(feed: FullFeed, chunks: Iterable[Chunk], settings: Settings) -> set[str]:
    """Return the actions of the records of a feed in the chunks."""
    if not settings.target_format.has_feedtypes:
        return {Action.ADD.value} if feed.has_records else set()
    key = FULL, feed.datasource, feed.origin, _format_name(feed, settings)
    return {
        action
        for chunk in chunks
        if (chunk.requested_feedtype, chunk.datasource, chunk.origin, chunk.format) == key
        for action in chunk.records
    }


def _format_name(feed: FullFeed, settings: Settings) -> str | None:
    """Return the format in the chunks of a feed, None if it is that of the target."""
    format_ = format_of(settings.target, memberships=feed.memberships)
    return None if format_ is None or format_.name == settings.target.format else format_.name


def _is_in(hole: Hole, feed: FullFeed) -> bool:
    """Whether rejects may be documents of a feed.

    The feed of an archive may be in any file of the run, and also in one that cannot be read.
    """
    is_anywhere = feed.origin is None or (feed.is_archived and hole.datasource is None)
    is_there = is_anywhere or hole.source == feed.origin
    return is_there and hole.datasource in (None, feed.datasource)


def _write_empty(feed: FullFeed, settings: Settings, number: int) -> Chunk:
    if feed.datasource is None and not feed.memberships:
        raise ConfigError(f"{feed.source}: no datasource in the source; expected ⟦datasource NAME⟧")
    stated = Feed(datasource=feed.datasource or "", feedtype=FULL)
    encoder = make_encoder(settings, stated, memberships=feed.memberships)
    name = f"{feed.span}-empty-{number}.{encoder.extension}"
    return replace(
        write_chunk(settings.storage, name, encoder.prolog() + encoder.epilog()),
        source=feed.source,
        format=_format_name(feed, settings),
        datasource=feed.datasource,
        feedtype=FULL,
        requested_feedtype=FULL,
        origin=feed.origin,
    )


def _lose(feed: FullFeed, account: Account, settings: Settings) -> None:
    detail = "full, without records: the target cannot say so; delete its documents there yourself"
    if "feedtype" in settings.refused:
        raise LossRefusedError(f"{feed.source}: feedtype: {detail}")
    add_loss(account.losses, Loss(field="feedtype", url=feed.source, detail=detail))


def _describe(feed: FullFeed) -> str:
    kind = "full groups feed" if feed.memberships else "full feed"
    return f"a {kind} of {feed.datasource!r}" if feed.datasource else f"a {kind}"


def _empty(feed: FullFeed) -> StoppedError:
    every = "group" if feed.memberships else "document"
    of = "groupsource" if feed.memberships else "datasource"
    return StoppedError(
        f"{feed.source}: {_describe(feed)} without a {every} to write; expected at least one, as an"
        f" empty full feed deletes every {every} of its {of}; ⟦allow_empty_full⟧ writes it"
    )


def _with_holes(feed: FullFeed, missing: int, holes: list[Hole]) -> StoppedError:
    parts = "1 document or part" if missing == 1 else f"{missing:,} documents or parts"
    first = min(holes, key=lambda hole: not hole.count, default=None)
    example = f", as {first.first}" if first else ": up to date, so not given"
    return StoppedError(
        f"{feed.source}: {_describe(feed)} without {parts} of the input{example}; expected all, as"
        " it deletes what it leaves out; ⟦accept_holes⟧ goes on without them,"
        " ⟦feedtype incremental⟧ deletes nothing; feedferry rejects accept and ⟦accepted_rejects⟧"
        " go on without these only"
    )
