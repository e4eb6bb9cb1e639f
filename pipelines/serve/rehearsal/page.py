"""The page of a receiver, modelled on the Feeds page of an appliance.

One HTML document without scripts and external resources. All names, reasons and addresses in it
are untrusted and are shown as text.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from jinja2.filters import do_filesizeformat

from pipelines.report.page_text import short_text
from pipelines.serve.rehearsal.index import (
    DatasourceTotal,
    DeliveryStatus,
    DocumentOrigin,
    FeedRow,
    SetAsideBy,
    SetAsideDelivery,
)
from schemas.delivery import Door
from schemas.printable import printable
from schemas.units import format_duration

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src data:; "
    "style-src 'sha256-ecM+gH+Stx9m/obDICAwbM5BqbwRvdFA6w6qVtsnuS4='; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The header of a reply with a page; the digest is that of its only style sheet."""

MAX_ROWS = 100
"""The most datasources, totals and set-aside deliveries on a page; more are counted."""

_CHART_WIDTH, _CHART_HEIGHT = 720, 160
_DOORS = {Door.FEED: "feeds", Door.GROUPS: "groups", Door.DATA: "Thunderstone data"}
_ORIGINS = {DocumentOrigin.FEED: "feeds", DocumentOrigin.DATA: "Thunderstone data"}
_SET_ASIDE_BY = {SetAsideBy.INDEX: "the index", SetAsideBy.GATEWAY: "the gateway"}
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


class BacklogChart(NamedTuple):
    """The backlog over time: a polyline of SVG, its upper bound, its start and a description."""

    line: str
    top: int
    begin: str
    words: str


class DatasourceFeeds(NamedTuple):
    """The last feeds of a datasource that arrived at one endpoint."""

    name: str
    door: str
    feeds: list[FeedRow]


def render(view: PageView) -> bytes:
    """Return the page as UTF-8."""
    text = _template().render(
        view=view,
        chart=_draw_chart(view.history),
        datasources=list(_group_feeds(view.feeds)),
        max_rows=MAX_ROWS,
    )
    # A character that UTF-8 cannot encode becomes a reference that a browser shows as U+FFFD.
    return text.encode("utf-8", "xmlcharrefreplace")


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "ago": lambda moment, now: _format_age((now - moment).total_seconds()),
        "by": _SET_ASIDE_BY.__getitem__,
        "command": shlex.quote,
        "documents_of": lambda total: urlencode({"datasource": total.datasource}, errors="replace"),
        "kind": _ORIGINS.__getitem__,
        "moment": lambda at: datetime.fromisoformat(at).astimezone(UTC),
        "number": "{:,}".format,
        "sign": _STATUS_SIGNS.__getitem__,
        "size": lambda count: do_filesizeformat(count, binary=True),
        "text": lambda text: printable(short_text(text), kept="\n\t"),
    }
    return environment.get_template("feeds.html")


def _group_feeds(feeds: Iterable[FeedRow]) -> Iterator[DatasourceFeeds]:
    """Yield the datasources by name; a name at two endpoints is two datasources."""

    def key(row: FeedRow) -> tuple[str, str]:
        return row.datasource, _DOORS[row.door]

    for (name, door), group in groupby(sorted(feeds, key=key), key=key):
        yield DatasourceFeeds(name, door, list(group))


def _draw_chart(history: Sequence[tuple[float, int]]) -> BacklogChart | None:
    """Return the chart, None if there are too few samples for a line."""
    if not history or history[0][0] <= 0:
        return None
    begin = history[0][0]
    counts = [count for _, count in history]
    highest = max(counts)
    power: int = 10 ** max(len(str(highest)) - 1, 1)
    top = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= highest)
    corners = (
        (_CHART_WIDTH * (1 - age / begin), _CHART_HEIGHT * (1 - count / top))
        for age, count in history
    )
    when = _format_age(next(age for age, count in history if count == highest))
    return BacklogChart(
        line=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners),
        top=top,
        begin=format_duration(int(begin)),
        words=f"{counts[-1]:,} now; highest {highest:,}, {when}; lowest {min(counts):,}.",
    )


def _format_age(seconds: float) -> str:
    return f"{format_duration(int(seconds))} ago" if seconds >= 1 else "just now"
