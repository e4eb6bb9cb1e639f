"""Progress for a terminal, for a log, and none; the message about defects."""

import io
import itertools
import sys
import threading
from collections.abc import Callable

import pytest

from pipelines.cli.display import (
    DisplayOptions,
    ProgressLine,
    ProgressStyle,
    Snapshot,
    format_clock,
    format_size,
    print_defects,
    progress_text,
    show_progress,
)

HALF = Snapshot(bytes_done=1_048_576, bytes_total=2_097_152, records=41_200, rejects=3)
UNKNOWN = Snapshot(bytes_done=1_048_576, bytes_total=None, records=41_200, rejects=3)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ticking(*seconds: float) -> Callable[[], float]:
    """A clock that shows one time after the other, and then always the last one."""
    times = itertools.chain(seconds, itertools.repeat(seconds[-1]))
    return lambda: next(times)


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, options: DisplayOptions) -> str:
    """Return what a run that ends at once writes on stderr."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress(lambda: UNKNOWN, options):
        pass
    return stream.getvalue()


@pytest.mark.parametrize(
    ("snapshot", "seconds", "text"),
    [
        (
            HALF,
            2.0,
            "1.0 MiB of 2.0 MiB (50%), 41,200 records, 20,600 records/s, 3 rejects, ETA 0:02",
        ),
        (UNKNOWN, 2.0, "1.0 MiB, 41,200 records, 20,600 records/s, 3 rejects, ETA -"),
        (
            Snapshot(bytes_done=0, bytes_total=2_097_152, records=0, rejects=0),
            0.0,
            "0 B of 2.0 MiB (0%), 0 records, 0 records/s, 0 rejects, ETA -",
        ),
        (
            Snapshot(bytes_done=20, bytes_total=10, records=1, rejects=0),
            1.0,
            "20 B of 10 B (100%), 1 records, 1 records/s, 0 rejects, ETA 0:00",
        ),
    ],
    ids=["half", "total unknown", "start", "file has grown"],
)
def test_a_line_has_amount_rate_rejects_and_time(
    snapshot: Snapshot, seconds: float, text: str
) -> None:
    assert progress_text(snapshot, elapsed_seconds=seconds) == text


def test_sizes_and_durations_have_the_units_that_fit() -> None:
    sizes = [format_size(count) for count in (0, 1023, 1024, 943_718_400, 5 << 50)]
    assert sizes == ["0 B", "1023 B", "1.0 KiB", "900.0 MiB", "5120.0 TiB"]
    assert [*map(format_clock, (0, 59.6, 61, 3725))] == ["0:00", "1:00", "1:01", "1:02:05"]


def test_a_bar_is_as_full_as_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    ProgressLine(lambda: HALF, stream, is_bar=True, clock=ticking(0, 2)).draw(is_last=True)
    assert stream.getvalue() == "\r[##########..........] 1.0 Mi\n"


def test_a_shorter_line_covers_the_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    line = ProgressLine(lambda: UNKNOWN, stream, is_bar=True, clock=ticking(0, 1, 10_000))
    line.draw()
    line.draw()
    assert stream.getvalue() == (
        "\r1.0 MiB, 41,200 records, 41,200 records/s, 3 rejects, ETA -"
        "\r1.0 MiB, 41,200 records, 4 records/s, 3 rejects, ETA -     "
    )


@pytest.mark.parametrize(
    ("stream", "options", "begin", "end"),
    [
        (Terminal(), DisplayOptions(), "\r1.0 MiB, ", "ETA -\n"),
        (io.StringIO(), DisplayOptions(), "1.0 MiB, ", "ETA -\n"),
        (Terminal(), DisplayOptions(progress=ProgressStyle.PLAIN), "1.0 MiB, ", "ETA -\n"),
        (Terminal(), DisplayOptions(progress=ProgressStyle.NONE), "", ""),
        (Terminal(), DisplayOptions(verbosity=-1), "", ""),
    ],
    ids=["terminal", "log", "plain lines on a terminal", "none", "quiet"],
)
def test_a_run_ends_with_a_last_line(
    stream: io.StringIO,
    options: DisplayOptions,
    begin: str,
    end: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = shown(stream, monkeypatch, options)
    assert (text[: len(begin)], text[-len(end) :], bool(text)) == (begin, end, bool(end))


def test_lines_are_drawn_during_the_run_and_the_thread_ends_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    is_drawn = threading.Event()

    def snapshot() -> Snapshot:
        is_drawn.set()
        return HALF

    def run() -> None:
        with show_progress(snapshot, DisplayOptions()):
            assert is_drawn.wait(60)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        run()
    assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_the_message_counts_defects_by_type(capsys: pytest.CaptureFixture[str]) -> None:
    print_defects({})
    print_defects({"lxml.etree.XMLSyntaxError": 1, "KeyError": 1200})
    assert capsys.readouterr().err == (
        "feedferry: 1,201 records were rejected because of a defect of feedferry"
        " (KeyError 1,200, lxml.etree.XMLSyntaxError 1). Other records are not affected. Please"
        " report this.\n"
    )


@pytest.mark.parametrize(("no_color", "begin"), [("", "\x1b[31m"), ("1", "feedferry: 1 record")])
def test_a_defect_is_red_on_a_terminal_that_wants_colors(
    monkeypatch: pytest.MonkeyPatch, no_color: str, begin: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    print_defects({"KeyError": 1})
    assert terminal.getvalue().startswith(begin)
