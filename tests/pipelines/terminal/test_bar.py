"""Progress on a terminal: what fits its width, and its colors."""

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from feedferry.pipelines.observer.progress import Progress, Snapshot
from feedferry.pipelines.terminal.bar import ProgressLine
from feedferry.schemas.run_record import Phase

NOTHING = Snapshot(bytes=0, records=0, rejects=0)
HALF = Snapshot(bytes=1_450_000_000, records=41_200, rejects=3, total=2_900_000_000)
WAITING = replace(HALF, rejects=0, backlog=4203)
UNKNOWN = replace(HALF, total=None)
START = replace(NOTHING, total=300_000)
COMPARING = replace(NOTHING, total=300_000, step="compare 12,000 of 300,000 records")
ROWS = Snapshot(bytes=0, records=41_200, rejects=0, total=80_000, counts_records=True)


def line(snapshot: Snapshot, width: int, *, no_color: bool = True, is_last: bool = False) -> str:
    """Return a line after 20 seconds on a terminal of some columns."""
    progress = Progress(phase=Phase.PUSH, seconds=20, first=NOTHING, now=snapshot, is_last=is_last)
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=True,
        no_color=no_color,
        color_system=None if no_color else "truecolor",
    )
    with console.capture() as capture:
        console.print(ProgressLine(progress))
    return capture.get()


@pytest.mark.parametrize(
    ("snapshot", "width", "text"),
    [
        (HALF, 40, "push ━━━━      50% 3 rejects ETA 0:20"),
        (WAITING, 40, "push ━━━━━━━━━           50% ETA 0:20"),
        (ROWS, 40, "push ━━━━━━━━━           52% ETA 0:19"),
        (HALF, 80, "push ━━━━━━━━━━             50%  41,200 records  2,060/s  3 rejects  ETA 0:20"),
        (
            WAITING,
            80,
            "push ━━━━━━━━           50%  41,200 records  2,060/s  backlog 4,203  ETA 0:20",
        ),
        (ROWS, 80, "push ━━━━━        52%  41,200 of 80,000 records  2,060/s  0 rejects  ETA 0:19"),
        (START, 60, "push                          0% 0 records 0 rejects 0:20"),
        (COMPARING, 60, "push compare 12,000 of 300,000 records 0:20"),
    ],
)
def test_a_line_shows_what_fits(snapshot: Snapshot, width: int, text: str) -> None:
    assert line(snapshot, width) == text


@pytest.mark.parametrize("snapshot", [HALF, WAITING, UNKNOWN, ROWS, COMPARING])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_line_is_never_wrapped(snapshot: Snapshot, is_last: bool) -> None:
    for width in range(8, 200):
        text = line(snapshot, width, is_last=is_last)
        assert (text.count("\n"), len(text) < width) == (0, True), width


def test_a_wide_terminal_shows_everything() -> None:
    text = line(WAITING, 200)
    for part in ("50%", "41,200 records", "1.4 GiB of 2.7 GiB", "2,060/s", "0 rejects", "4,203"):
        assert part in text


def test_the_bar_and_rejects_have_colors_unless_they_are_not_wanted() -> None:
    assert "\x1b[36m━" in line(HALF, 80, no_color=False)
    assert "\x1b[33m3 rejects" in line(HALF, 80, no_color=False)
    assert "\x1b[3" not in line(HALF, 80)
