"""Progress for a terminal, for a log, and none; the message about defects."""

import gc
import io
import sys
import threading

import pytest
from msgspec.structs import replace

from feedferry.pipelines.observer.observer import metered
from feedferry.pipelines.observer.progress import Progress, Snapshot, progress_text
from feedferry.pipelines.options.display_options import DisplayOptions, ProgressStyle
from feedferry.pipelines.terminal.display import TerminalObserver, print_defects, show_start
from feedferry.schemas.run_record import Phase
from feedferry.schemas.units import format_clock, format_size

HALF = Snapshot(bytes=1_048_576, total=2_097_152, records=41_200, rejects=3)
UNKNOWN = Snapshot(bytes=1_048_576, records=41_200, rejects=3)
NOTHING = Snapshot(bytes=0, records=0, rejects=0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, options: DisplayOptions) -> str:
    """Return what a run that ends at once writes on stderr."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", stream)
    with metered(TerminalObserver(options), Phase.CONVERT, lambda: UNKNOWN):
        pass
    return stream.getvalue()


def progress(now: Snapshot, seconds: float, *, is_last: bool = False) -> Progress:
    return Progress(phase=Phase.PUSH, seconds=seconds, first=NOTHING, now=now, is_last=is_last)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (
            progress(HALF, 2.0),
            "1.0 MiB of 2.0 MiB (50%), 41,200 records, 20,600 records/s, 3 rejects, ETA 0:02",
        ),
        (
            progress(replace(UNKNOWN, backlog=1203), 2.0),
            "1.0 MiB, 41,200 records, 20,600 records/s, 3 rejects, backlog 1,203, 0:02",
        ),
        (
            progress(replace(NOTHING, total=2_097_152), 0.0),
            "0 B of 2.0 MiB (0%), 0 records, 0 rejects, 0:00",
        ),
        (
            progress(replace(HALF, total=80_000, counts_records=True), 10.0),
            "1.0 MiB, 41,200 of 80,000 records (52%), 4,120 records/s, 3 rejects, ETA 0:09",
        ),
        (
            progress(replace(HALF, total=10), 1.0, is_last=True),
            "1.0 MiB of 1.0 MiB (100%), 41,200 records, 41,200 records/s, 3 rejects, in 0:01",
        ),
        (
            progress(replace(NOTHING, total=10, step="compare 12,000 of 300,000 records"), 34.0),
            "compare 12,000 of 300,000 records, 0:34",
        ),
    ],
    ids=["half", "total unknown", "start", "documents", "file has grown", "step"],
)
def test_a_line_has_amount_rate_rejects_and_time(shown: Progress, text: str) -> None:
    assert progress_text(shown) == text


def test_sizes_and_durations_have_the_units_that_fit() -> None:
    sizes = [format_size(count) for count in (0, 1023, 1024, 943_718_400, 5 << 50)]
    assert sizes == ["0 B", "1023 B", "1.0 KiB", "900.0 MiB", "5120.0 TiB"]
    assert [*map(format_clock, (0, 59.6, 61, 3725))] == ["0:00", "1:00", "1:01", "1:02:05"]


@pytest.mark.parametrize(
    ("stream", "options", "begin", "end"),
    [
        (Terminal(), DisplayOptions(), "\x1b[1mconvert\x1b[0m ", "in 0:00\n"),
        (io.StringIO(), DisplayOptions(), "", ""),
        (Terminal(), DisplayOptions(progress=ProgressStyle.PLAIN), "", ""),
        (Terminal(), DisplayOptions(progress=ProgressStyle.NONE), "", ""),
        (Terminal(), DisplayOptions(verbosity=-1), "", ""),
    ],
    ids=["terminal", "log", "plain lines on a terminal", "none", "quiet"],
)
def test_a_short_run_ends_with_a_last_line_on_a_terminal_only(
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
        with metered(TerminalObserver(DisplayOptions()), Phase.CONVERT, snapshot):
            assert is_drawn.wait(60)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        run()
    assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_the_garbage_collector_ignores_what_was_loaded_at_the_start() -> None:
    gc.unfreeze()  # tests are frozen
    try:
        with show_start({}):
            loaded = [object]
            assert not gc.isenabled()
        assert gc.isenabled()
        assert not any(loaded is known for known in gc.get_objects())
    finally:
        gc.unfreeze()


def test_a_second_command_of_a_process_keeps_no_garbage_of_the_first() -> None:
    gc.unfreeze()
    try:
        with show_start({}):
            pass
        frozen = gc.get_freeze_count()
        garbage: list[object] = []
        garbage.append(garbage)
        with show_start({}):
            pass
        assert gc.get_freeze_count() <= frozen
        assert any(garbage is known for known in gc.get_objects())
    finally:
        gc.unfreeze()


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


def test_plain_lines_come_every_30_seconds_and_at_the_end_of_a_long_phase(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal = TerminalObserver(DisplayOptions(progress=ProgressStyle.PLAIN))
    assert terminal.progress_seconds == 30.0
    for seconds in (0.0, 30.0, 60.0):
        terminal.progress(progress(UNKNOWN, seconds))
    terminal.progress(progress(UNKNOWN, 65.0, is_last=True))
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(", ")[2] for line in lines] == ["0:30", "1:00", "in 1:05"]
    assert {line[:10] for line in lines} == {"push      "}
