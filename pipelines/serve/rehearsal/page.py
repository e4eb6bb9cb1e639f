"""The page of a receiver, as the Feeds page of an appliance: what came in, what became of it.

One document of HTML that needs no script and nothing from elsewhere. All names, reasons and
addresses in it come from outside and are shown as text.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from pipelines.serve.rehearsal.set_aside import By, SetAside
from pipelines.serve.rehearsal.views import Fed, Held, Status, Total
from schemas.delivery import Door

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src data:; "
    "style-src 'sha256-ecM+gH+Stx9m/obDICAwbM5BqbwRvdFA6w6qVtsnuS4='; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the answer that carries a page says of it; the digest is that of its one style sheet."""

MOST_DATASOURCES = 100
MOST_SET_ASIDE = 100
FEEDS_OF_EACH = 5

_CHART_WIDTH, _CHART_HEIGHT = 720, 160
_MOST_POINTS = 360
_MOST_LETTERS = 400
_UNITS = ("KiB", "MiB", "GiB", "TiB")
_SPANS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}
_DOORS = {Door.FEED: "feeds", Door.GROUPS: "groups", Door.DATA: "Thunderstone data"}
_KINDS = {Held.FEED: "feeds", Held.DATA: "Thunderstone data"}
_SET_ASIDE_BY = {By.INDEX: "the index", By.GATEWAY: "the gateway"}
_SIGNS = {
    Status.COMPLETED: ("good", "✓"),
    Status.WITH_ERRORS: ("partly", "!"),
    Status.FAILED: ("bad", "✕"),
    Status.IN_PROGRESS: ("busy", "…"),
    Status.SET_ASIDE: ("bad", "✕"),
    Status.WAITING: ("busy", "…"),
}


class Link(msgspec.Struct, frozen=True):
    """A way to another page of the receiver; `href` is of our own making."""

    text: str
    href: str


LINKS = (
    Link("Documents as JSON", "/documents"),
    Link("Groups as JSON", "/groups"),
    Link("Set aside as JSON", "/set-aside"),
)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a page shows.

    `url` is where the receiver is reached. `backlog` is what it answers to who asks for it.
    `history` has what the backlog was, by how many seconds ago; the last count holds until now.
    `feeds` are those of all datasources, in any order. `notices` stand above all else: that the
    receiver misbehaves as it was told, or that it forwards. `set_aside` are the deliveries that
    need attention, `spool` the folder that a command for them names. A page that is not to load
    itself again has 0 as `refresh_seconds`.
    """

    title: str
    url: str
    now: datetime
    backlog: int = 0
    history: tuple[tuple[float, int], ...] = ()
    feeds: tuple[Fed, ...] = ()
    totals: tuple[Total, ...] = ()
    groups: int = 0
    spool_bytes: int = 0
    free_bytes: int = 0
    notices: tuple[str, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    spool: str = ""
    links: tuple[Link, ...] = LINKS
    refresh_seconds: int = 10


class Chart(msgspec.Struct, frozen=True):
    """A line of counts over time, as points of SVG, and what it says in words."""

    line: str
    top: int
    begin: str
    words: str


class Datasource(msgspec.Struct, frozen=True):
    """The last feeds of a datasource that came in by the same door."""

    name: str
    door: str
    feeds: tuple[Fed, ...]


def render(view: View) -> bytes:
    datasources = list(_datasources(view.feeds))
    shown = _template().render(
        view=view,
        chart=_chart(view.history),
        datasources=datasources[:MOST_DATASOURCES],
        hidden=max(len(datasources) - MOST_DATASOURCES, 0),
        totals=view.totals[:MOST_DATASOURCES],
        set_aside=view.set_aside[:MOST_SET_ASIDE],
        hidden_set_aside=max(len(view.set_aside) - MOST_SET_ASIDE, 0),
        hidden_totals=max(len(view.totals) - MOST_DATASOURCES, 0),
        documents=sum(total.documents for total in view.totals),
        content_bytes=sum(total.bytes for total in view.totals),
    )
    # What UTF-8 cannot hold becomes a reference that a browser shows as U+FFFD.
    return shown.encode("utf-8", "xmlcharrefreplace")


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
        "ago": _ago,
        "by": _SET_ASIDE_BY.__getitem__,
        "command": shlex.quote,
        "door": _DOORS.__getitem__,
        "documents_of": _documents_of,
        "kind": _KINDS.__getitem__,
        "moment": _moment,
        "number": _number,
        "shown": _shown,
        "sign": _SIGNS.__getitem__,
        "size": _size,
    }
    return environment.get_template("feeds.html")


def _datasources(feeds: Iterable[Fed]) -> Iterator[Datasource]:
    """Yield them by name; a door of its own is a datasource of its own."""

    def place(fed: Fed) -> tuple[str, str]:
        return fed.datasource, _DOORS[fed.door]

    for (name, door), same in groupby(sorted(feeds, key=place), key=place):
        newest = sorted(same, key=lambda fed: fed.ordinal, reverse=True)
        yield Datasource(name, door, tuple(newest[:FEEDS_OF_EACH]))


def _chart(history: Sequence[tuple[float, int]]) -> Chart | None:
    """Return None where there are too few counts for a line."""
    counts = _until_now(_thinned(sorted(history, reverse=True)))
    begin = counts[0][0] if counts else 0
    if begin <= 0:
        return None
    highest = max(count for _, count in counts)
    top = _round_up(highest)
    corners = ((_x(ago, begin), _y(count, top)) for ago, count in counts)
    when = next(ago for ago, count in counts if count == highest)
    words = (
        f"{_number(counts[-1][1])} at last; at most {_number(highest)}, {_since(when)}; "
        f"at least {_number(min(count for _, count in counts))}."
    )
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return Chart(line, top, _span(begin), words)


def _thinned(counts: Sequence[tuple[float, int]]) -> Sequence[tuple[float, int]]:
    """Return the highest of each run, and the last, so that no peak is lost."""
    run = -(-len(counts) // _MOST_POINTS)
    if run <= 1:
        return counts
    runs = (counts[at : at + run] for at in range(0, len(counts), run))
    return [*(max(some, key=lambda one: one[1]) for some in runs), counts[-1]]


def _until_now(counts: Sequence[tuple[float, int]]) -> Sequence[tuple[float, int]]:
    return [*counts, (0, counts[-1][1])] if counts and counts[-1][0] > 0 else counts


def _x(ago: float, begin: float) -> float:
    return _CHART_WIDTH * (1 - ago / begin)


def _y(count: int, top: int) -> float:
    return _CHART_HEIGHT * (1 - count / top)


def _round_up(highest: int) -> int:
    """Return the next of 10, 20, 50, 100, 200, …."""
    power: int = 10 ** max(len(str(highest)) - 1, 1)
    return next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= highest)


def _documents_of(total: Total) -> str:
    return "/documents?" + urlencode({"datasource": total.datasource}, errors="replace")


def _shown(text: str) -> str:
    """Return a text from outside with its control characters to be seen, and not without end."""
    cut = text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]} …"
    return cut.translate(_PICTURES)


def _number(count: int) -> str:
    return f"{count:,}"


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    power = min((count.bit_length() - 1) // 10, len(_UNITS))
    return f"{count / 1024**power:,.1f} {_UNITS[power - 1]}"


def _moment(at: str | datetime) -> datetime:
    moment = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    return moment.astimezone(UTC)


def _ago(moment: datetime, now: datetime) -> str:
    return _since((now - moment).total_seconds())


def _since(seconds: float) -> str:
    return f"{_span(seconds)} ago" if seconds >= 1 else "just now"


def _span(seconds: float) -> str:
    """Return a length of time in its largest unit that it is one of."""
    length, name = next((one for one in _SPANS if one[0] <= seconds), _SPANS[-1])
    count = int(seconds // length)
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
