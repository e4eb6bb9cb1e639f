"""The settings of a run for its spans, and the check of its account.

**Spec** (of the limits of groups): Feeds Protocol Developer's Guide 7.x, "Feeding Groups to the
Search Appliance" (three million members), "Creating a Groups Feed Client" (1 GB).
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from pipelines.cli.convert_checks import docids
from pipelines.cli.convert_options import ConvertOptions
from schemas.account import Account, Chunk, check_balance
from schemas.errors import (
    ConfigError,
    FatalError,
    FeedferryError,
    StoppedError,
    TooManyRejectsError,
)
from schemas.notice import REFUSED
from transforms.adapt import Target
from transforms.convert import Settings
from transforms.formats import Mode, ReadOptions, WriteOptions, by_name
from transforms.sources import SourceConfig

MAX_MEMBERS = 3_000_000
MAX_BYTES = 1_000_000_000
WARNED_PERCENT = 90

_STOPS: dict[int, type[FeedferryError]] = {
    ConfigError.exit_code: ConfigError,
    StoppedError.exit_code: StoppedError,
    FatalError.exit_code: FatalError,
}
_log = logging.getLogger(__name__)


def settings_of(
    options: ConvertOptions,
    known_urls: tuple[str, ...],
    folder: Path,
    sources: dict[str, SourceConfig],
) -> Settings:
    """Return the settings of a run for its spans."""
    target = Target(
        format=options.to_format,
        feedtype=options.feedtype,
        datasource=options.datasource,
        dialect=options.dialect,
        empty_metadata=options.empty_metadata,
        known_urls=known_urls,
        wide_deletes=options.allow_wide_deletes,
        default_mimetype=options.default_mimetype,
        named_fields=options.fields,
        max_content_bytes=options.max_content_bytes,
        content_encoding=options.content_encoding,
    )
    limit = options.max_rejects
    return Settings(
        folder=str(folder.absolute()),
        target=target,
        reading=read_options(options),
        writing=WriteOptions(
            dialect=options.dialect,
            zone=options.zone,
            docids=docids(options),
            delimiter=options.delimiter,
            max_content_bytes=options.max_content_bytes,
        ),
        max_chunk_bytes=options.max_chunk_bytes,
        max_chunk_records=options.max_chunk_records,
        refused=(REFUSED - options.accept_loss) | options.fail_on_loss,
        max_rejects=limit.count if limit is not None else None,
        sources=sources,
        state=options.state and str(Path(options.state).absolute()),
        has_progress=True,
        allow_empty_full=options.allow_empty_full,
        accept_holes=options.accept_holes,
        verify=options.verify,
    )


def read_options(options: ConvertOptions) -> ReadOptions:
    """Return how the formats of the inputs are read."""
    return ReadOptions(
        max_content_bytes=options.max_content_bytes,
        zone=options.zone,
        mode=Mode.STRICT if options.strict else Mode.LENIENT,
        docids=docids(options),
        not_found=options.not_found,
        max_token_bytes=options.max_token_bytes,
    )


def check_account(account: Account) -> None:
    """Raise the error that stopped a span, or BalanceError."""
    if account.stopped is not None:
        raise _STOPS.get(account.exit_code, FeedferryError)(account.stopped)
    check_balance(account)


def check_limits(account: Account, options: ConvertOptions) -> None:
    """Raise StoppedError if the run exceeds a limit for groups or rejects."""
    if by_name(options.to_format).holds_only_memberships:
        check_groups(account.chunks)
    rejects, records = sum(account.rejected.values()), sum(account.read.values())
    limit = options.max_rejects
    if limit is not None and not limit.allows(rejects=rejects, records=records):
        raise TooManyRejectsError(
            f"{rejects} of {records} records rejected; expected at most what --max-rejects allows; "
            "nothing is published"
        )


def check_groups(chunks: Iterable[Chunk]) -> None:
    """Raise StoppedError for more groups than an appliance accepts; warn at 90 % of a limit.

    Only the chunks of this run are counted, in the order in which they are pushed; a full feed
    replaces the earlier chunks of its groupsource. The groups that an appliance already has are
    not known.
    """
    effective: dict[str | None, list[Chunk]] = {}
    last_full: dict[str | None, str] = {}
    for chunk in chunks:
        if chunk.origin is not None and last_full.get(chunk.datasource) != chunk.origin:
            last_full[chunk.datasource] = chunk.origin
            effective.pop(chunk.datasource, None)
        effective.setdefault(chunk.datasource, []).append(chunk)
    kept = [chunk for chunks in effective.values() for chunk in chunks]
    _check_limit("members", sum(chunk.members for chunk in kept), MAX_MEMBERS)
    _check_limit("bytes", sum(chunk.bytes for chunk in kept), MAX_BYTES)


def _check_limit(unit: str, count: int, limit: int) -> None:
    if count > limit:
        raise StoppedError(
            f"groups with {count:,} {unit}; expected at most {limit:,}, the limit of the group"
            " database of an appliance; leave out groups that no ACL names"
        )
    if count * 100 >= limit * WARNED_PERCENT:
        text = f"groups with {count:,} {unit}; an appliance accepts at most {limit:,}"
        _log.warning("%s", text)
