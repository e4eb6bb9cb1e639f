"""Progress, drawn for a terminal, for a log, and not at all."""

import io
import itertools
import threading
from collections.abc import Callable

import pytest

from pipelines.cli import progress
from pipelines.cli.convert_options import ProgressStyle
from pipelines.cli.progress import Reporter, Snapshot, bar, duration, plain, resolve, size

HALF = Snapshot(bytes_done=1_048_576, bytes_total=2_097_152, records=41_200, rejects=3)
UNKNOWN = Snapshot(bytes_done=1_048_576, bytes_total=None, records=41_200, rejects=3)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing before the end, be the machine as slow as it may."""
    monkeypatch.setattr(progress, "BAR_SECONDS", 3600.0)
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 3600.0)


def ticking(*seconds: float) -> Callable[[], float]:
    """A clock that says one time after the other, and the last for ever."""
    times = itertools.chain(seconds, itertools.repeat(seconds[-1]))
    return lambda: next(times)


def test_a_line_tells_how_much_how_fast_and_how_long() -> None:
    assert plain(HALF, elapsed_seconds=2.0) == (
        "1.0 MiB of 2.0 MiB (50%), 41,200 records, 20,600 records/s, 3 rejects, ETA 0:02"
    )


def test_without_a_total_there_is_no_share_and_no_end() -> None:
    assert plain(UNKNOWN, elapsed_seconds=2.0) == (
        "1.0 MiB, 41,200 records, 20,600 records/s, 3 rejects, ETA -"
    )


def test_at_the_beginning_no_rate_is_known() -> None:
    nothing = Snapshot(bytes_done=0, bytes_total=2_097_152, records=0, rejects=0)
    assert plain(nothing, elapsed_seconds=0.0) == (
        "0 B of 2.0 MiB (0%), 0 records, 0 records/s, 0 rejects, ETA -"
    )


def test_an_input_that_grew_is_done_at_100_percent() -> None:
    grown = Snapshot(bytes_done=20, bytes_total=10, records=1, rejects=0)
    assert plain(grown, elapsed_seconds=1.0) == (
        "20 B of 10 B (100%), 1 records, 1 records/s, 0 rejects, ETA 0:00"
    )


def test_a_bar_is_as_full_as_the_share() -> None:
    assert bar(HALF, elapsed_seconds=2.0) == (
        "[##########..........] 1.0 MiB of 2.0 MiB (50%), 41,200 records, 20,600 records/s, "
        "3 rejects, ETA 0:02"
    )


def test_there_is_no_bar_without_a_total() -> None:
    assert bar(UNKNOWN, elapsed_seconds=2.0) == (
        "1.0 MiB, 41,200 records, 20,600 records/s, 3 rejects, ETA -"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (943_718_400, "900.0 MiB"),
        (2_147_483_648, "2.0 GiB"),
        (5_629_499_534_213_120, "5120.0 TiB"),
    ],
)
def test_a_size_has_the_unit_that_fits(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3725, "1:02:05")]
)
def test_a_duration_has_hours_only_if_it_takes_one(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_terminal_gets_a_bar() -> None:
    assert resolve(ProgressStyle.AUTO, terminal=True) is ProgressStyle.BAR


def test_a_log_gets_lines() -> None:
    assert resolve(ProgressStyle.AUTO, terminal=False) is ProgressStyle.PLAIN


def test_who_asks_for_no_progress_gets_none_on_a_terminal() -> None:
    assert resolve(ProgressStyle.NONE, terminal=True) is ProgressStyle.NONE


@pytest.mark.usefixtures("seldom")
def test_the_last_line_on_a_terminal_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    with Reporter(lambda: UNKNOWN, style=ProgressStyle.AUTO, stream=stream, clock=ticking(0, 0, 2)):
        pass
    assert stream.getvalue() == "\r1.0 MiB, 41,200 records, 20,600 records/s, 3 rejects, ETA -\n"


@pytest.mark.usefixtures("seldom")
def test_a_line_is_cut_where_the_terminal_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    stream = Terminal()
    with Reporter(lambda: UNKNOWN, style=ProgressStyle.BAR, stream=stream, clock=ticking(0, 0, 2)):
        pass
    assert stream.getvalue() == "\r1.0 MiB, 41,200 records\n"


def test_a_shorter_line_covers_the_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    clock = ticking(0, 1, 10_000)
    reporter = Reporter(lambda: UNKNOWN, style=ProgressStyle.BAR, stream=stream, clock=clock)
    reporter.draw()
    reporter.draw()
    assert stream.getvalue() == (
        "\r1.0 MiB, 41,200 records, 41,200 records/s, 3 rejects, ETA -"
        "\r1.0 MiB, 41,200 records, 4 records/s, 3 rejects, ETA -     "
    )


@pytest.mark.usefixtures("seldom")
def test_a_log_gets_a_last_line() -> None:
    stream = io.StringIO()
    with Reporter(lambda: UNKNOWN, style=ProgressStyle.AUTO, stream=stream, clock=ticking(0, 0, 2)):
        pass
    assert stream.getvalue() == "1.0 MiB, 41,200 records, 20,600 records/s, 3 rejects, ETA -\n"


def test_none_writes_nothing() -> None:
    stream = Terminal()
    with Reporter(lambda: HALF, style=ProgressStyle.NONE, stream=stream):
        pass
    assert stream.getvalue() == ""


def test_lines_come_while_the_run_goes_on() -> None:
    drawn = threading.Event()

    def snapshot() -> Snapshot:
        drawn.set()
        return HALF

    with Reporter(snapshot, style=ProgressStyle.BAR, stream=Terminal()):
        came = drawn.wait(60)
    assert came


def test_no_thread_is_left_behind() -> None:
    with Reporter(lambda: HALF, style=ProgressStyle.BAR, stream=Terminal()):
        pass
    assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_a_run_that_fails_ends_its_progress() -> None:
    reporter = Reporter(lambda: HALF, style=ProgressStyle.BAR, stream=Terminal())
    with pytest.raises(RuntimeError), reporter:
        raise RuntimeError
    assert "progress" not in {thread.name for thread in threading.enumerate()}
