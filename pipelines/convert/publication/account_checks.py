"""The checks of the account of a run, before anything is published.

**Spec** (of the limits of groups): Feeds Protocol Developer's Guide 7.x, "Feeding Groups to the
Search Appliance" (three million members), "Creating a Groups Feed Client" (1 GB).
"""

import logging
from collections.abc import Iterable

from feedferry.pipelines.convert.publication.step_lists import (
    URLS_MERGED,
    URLS_SHARED,
    sees_all_records,
)
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.account import Account, Chunk, add_notice, check_balance
from feedferry.schemas.errors import (
    ConfigError,
    FatalError,
    FeedferryError,
    StoppedError,
    TooManyRejectsError,
)
from feedferry.schemas.notice import Notice
from feedferry.transforms.formats import by_name
from feedferry.transforms.steps import Steps

MAX_MEMBERS = 3_000_000
MAX_BYTES = 1_000_000_000
WARNED_PERCENT = 90

_STOPS: dict[int, type[FeedferryError]] = {
    ConfigError.exit_code: ConfigError,
    StoppedError.exit_code: StoppedError,
    FatalError.exit_code: FatalError,
}
_MERGED = {URLS_MERGED: "correct the rules of the step", URLS_SHARED: "correct the source"}
_log = logging.getLogger(__name__)


def check_account(account: Account) -> None:
    """Raise the error that stopped a span, or BalanceError."""
    if account.stopped is not None:
        raise _STOPS.get(account.exit_code, FeedferryError)(account.stopped)
    check_balance(account)


def check_limits(account: Account, options: ConvertOptions) -> None:
    """Raise StoppedError if the run exceeds a limit for groups or rejects."""
    named = ((chunk, by_name(chunk.format or options.to_format)) for chunk in account.chunks)
    check_groups(chunk for chunk, format_ in named if format_.holds_only_memberships)
    rejects, records = account.new_rejects, sum(account.read.values())
    limit = options.max_rejects
    if limit is not None and not limit.allows(rejects, of=records):
        raise TooManyRejectsError(
            f"{rejects} of {records} records rejected; expected at most what ⟦max_rejects⟧ allows; "
            "nothing is published; feedferry rejects list shows them"
        )


def check_steps(account: Account, steps: Steps) -> None:
    """Add a notice for each step without an effect; raise StoppedError if steps filter all.

    It is raised, too, where documents become or have one URL, if a step refuses that.
    """
    for name, config in zip(steps.names, steps.steps, strict=True):
        if config.urls is not None and not config.urls.rewrite:
            continue
        if config.acl is not None and config.acl.mode == "decision":  # added for the target
            continue
        effects = (account.changed, account.filter_codes)
        if sees_all_records(account) and not any(name in by for by in effects):
            detail = f"step {name!r} changes and filters no record; expected at least one"
            add_notice(account.notices, Notice(code="step-unused", detail=detail))
    for code, cure in _MERGED.items():
        merged = account.notices.get(code)
        if merged is not None and steps.refuses_merged_urls:
            raise StoppedError(
                f"{merged.first.detail}; expected a URL for each, as urls: {{merged: refuse}}"
                f" demands: {cure}"
            )
    filtered = sum(account.filter_codes.get(name, 0) for name in steps.names)
    if filtered and filtered == sum(account.read.values()):
        raise StoppedError(
            f"the steps filter all {filtered:,} records; expected some that are left: correct the"
            " conditions, feedferry plan shows what each step does"
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
