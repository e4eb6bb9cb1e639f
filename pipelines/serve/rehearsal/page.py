"""The page of a receiver, modelled on the Feeds page of an appliance.

All names, reasons and addresses in it are untrusted and are shown as text.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from feedferry.pipelines.report import pages
from feedferry.pipelines.report.charts.drawing import INTEGER, SECONDS, Axes, Bin, Chart, draw
from feedferry.pipelines.serve.rehearsal.delivery_table import (
    DeliveryStatus,
    FeedRow,
    SetAsideDelivery,
)
from feedferry.pipelines.serve.rehearsal.index import DatasourceTotal
from feedferry.schemas.indexed_document import DocumentOrigin
from feedferry.schemas.units import format_duration
from feedferry.transforms.sinks.push.wire.feedergate import XMLFEED, XMLGROUPS
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA_XML

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src data:; "
    "style-src 'sha256-ecM+gH+Stx9m/obDICAwbM5BqbwRvdFA6w6qVtsnuS4='; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The header of a reply with a page; the digest is that of its only style sheet."""

_KINDS = {
    XMLFEED.name: "feeds",
    XMLGROUPS.name: "groups",
    RECVDATA_XML.name: "Thunderstone data",
}
_ORIGINS = {DocumentOrigin.FEED: "feeds", DocumentOrigin.DATA: "Thunderstone data"}
_STATUS_SIGNS = {
    DeliveryStatus.COMPLETED: ("good", "✓"),
    DeliveryStatus.WITH_ERRORS: ("partly", "!"),
    DeliveryStatus.FAILED: ("bad", "✕"),
    DeliveryStatus.IN_PROGRESS: ("busy", "…"),
    DeliveryStatus.SET_ASIDE: ("bad", "✕"),
    DeliveryStatus.WAITING: ("busy", "…"),
}


class PageView(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a page shows.

    `url` is the address of the receiver, `backlog` the count for clients. `history` has
    pairs of age in seconds and backlog, oldest first. `feeds` are those of all datasources, newest
    first. `notices` are shown at the top: the receiver follows a scenario, or forwards. `spool`
    is the folder in the command that retries `set_aside` deliveries.
    """

    url: str
    now: datetime
    backlog: int = 0
    history: tuple[tuple[float, int], ...] = ()
    feeds: tuple[FeedRow, ...] = ()
    totals: tuple[DatasourceTotal, ...] = ()
    groups: int = 0
    spool_bytes: int = 0
    free_bytes: int = 0
    notices: tuple[str, ...] = ()
    set_aside: tuple[SetAsideDelivery, ...] = ()
    spool: str = ""
    refresh_seconds: int = 10


def render(view: PageView) -> bytes:
    """Return the page as UTF-8."""
    return pages.render(
        "feeds.html",
        view=view,
        chart=_draw_backlog(view.history),
        moment=lambda at: datetime.fromisoformat(at).astimezone(UTC),
        ago=_format_age,
        signs=_STATUS_SIGNS,
        origins=_ORIGINS,
        kinds=_KINDS,
    )


def _draw_backlog(history: Sequence[tuple[float, int]]) -> Chart | None:
    """Return the chart, None if there are too few samples for a line."""
    if not history or history[0][0] <= 0:
        return None
    bins = [Bin(-age, -end, count, "") for (age, count), (end, _) in pairwise(history)]
    counts = [count for _, count in history]
    highest = max(counts)
    when = _format_age(next(age for age, count in history if count == highest))
    words = f"{counts[-1]:,} now; highest {highest:,}, {when}; lowest {min(counts):,}."
    return draw("Backlog", bins, Axes(SECONDS, INTEGER), words=words, is_line=True)


def _format_age(seconds: float) -> str:
    return f"{format_duration(int(seconds))} ago" if seconds >= 1 else "just now"
