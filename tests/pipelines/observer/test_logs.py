"""The log: its files, its form, and what is shown where."""

import logging
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.cli.results.result_observer import observer_of
from feedferry.pipelines.observer.logs import (
    LogSettings,
    OutputFormat,
    configure_logging,
    log_to,
)
from feedferry.schemas.printable import printable
from support.archives import documents, gsa_feed, put
from support.runs import ROOT, keep_levels

MAIN = "import sys; from feedferry.pipelines.cli.main import main; sys.exit(main())"
FIELDS = ("time", "level", "job", "run", "message")
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ")
_own = logging.getLogger("feedferry.pipelines.test")
_library = logging.getLogger("sqlalchemy.test")


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    with keep_levels():
        yield
        configure_logging(LogSettings())


def without_times(path: Path) -> list[str]:
    """Return the lines of a log, each without its time."""
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if not TIME.match(line)] == []
    return [TIME.sub("", line).lstrip() for line in lines]


def test_a_line_has_time_level_job_run_and_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogSettings(files=(str(tmp_path / "all.log"),)))
    _own.info("before\nthe job")
    with log_to(tmp_path / "run.log", job="people", run="20261122T020000Z-ab12"):
        _own.info("in the run")
        _library.warning("in a library")
        _own.debug("in detail")
    _own.warning("after it")

    text = (tmp_path / "all.log").read_text("utf-8")
    assert TIME.sub("TIME", text) == (
        "TIME INFO - - before\n  the job\n"
        "TIME INFO people 20261122T020000Z-ab12 in the run\n"
        "TIME WARNING - - after it\n"
    )
    assert without_times(tmp_path / "run.log") == ["INFO people 20261122T020000Z-ab12 in the run"]
    shown = capsys.readouterr().err
    assert TIME.sub("TIME", shown) == "TIME WARNING - - after it\n"


def test_a_line_in_json_has_all_fields_and_the_traceback_of_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log"
    configure_logging(LogSettings(files=(str(path),), format=OutputFormat.JSON, job="a", run="b"))
    _own.info("line\nbreak")
    try:
        raise KeyError("x")
    except KeyError:
        _own.exception("a defect")

    first, second = map(msgspec.json.decode, path.read_bytes().splitlines())
    assert (tuple(first), first["message"]) == (FIELDS, "line\nbreak")
    assert (tuple(second), second["level"]) == ((*FIELDS, "traceback"), "ERROR")
    assert second["traceback"].endswith("KeyError: 'x'")


def test_a_terminal_does_not_act_on_the_name_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogSettings(verbosity=2, files=(str(tmp_path / "log"),)))
    name = "\x1b[2J\u202e\rä.xml"
    shown = r"\x1b[2J\u202e\rä.xml"
    _own.info("%s: opened", name)
    observer_of({}).notice(f"feedferry: {name}")

    lines = [f"INFO - - {shown}: opened", f"INFO - - {shown}"]
    assert without_times(tmp_path / "log") == lines
    assert printable("\udcff") == r"\udcff"
    assert capsys.readouterr().err.splitlines()[-1] == f"feedferry: {shown}"


def test_what_is_printed_is_logged_in_files_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogSettings(verbosity=2, files=(str(tmp_path / "log"),)))
    observer_of({}).notice("feedferry: the push pauses")
    observer_of({"verbosity": -1}).notice("in the file only")

    assert capsys.readouterr().err == "feedferry: the push pauses\n"
    assert without_times(tmp_path / "log") == [
        "INFO - - the push pauses",
        "INFO - - in the file only",
    ]


@pytest.mark.parametrize(
    ("verbosity", "shown"),
    [
        (-1, ["ERROR - - fault"]),
        (0, ["INFO - - delivery", "WARNING - - doubt", "ERROR - - fault"]),
        (1, ["INFO - - delivery", "INFO - - span", "WARNING - - doubt", "ERROR - - fault"]),
    ],
)
def test_the_progress_of_a_service_is_shown_unless_it_is_quiet(
    verbosity: int, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogSettings(verbosity=verbosity, service="feedferry.pipelines.test"))
    _own.info("delivery")
    logging.getLogger("feedferry.transforms.test").info("span")
    _own.warning("doubt")
    _own.error("fault")

    lines = capsys.readouterr().err.splitlines()
    assert [TIME.sub("", line).lstrip() for line in lines] == shown


def test_threads_never_share_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    configure_logging(LogSettings(files=(str(path), str(path))))

    def log(letter: str) -> None:
        for _ in range(200):
            _own.info(letter * 300)

    threads = [threading.Thread(target=log, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [f"INFO - - {letter * 300}" for letter in "abcd" for _ in range(400)]
    assert sorted(without_times(path)) == expected


def test_a_log_that_cannot_be_opened_is_an_error_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "missing" / "log"
    assert main(["convert", "a.xml", "-o", "out", "--to", "avro", "--log-file", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"feedferry: log file {path}: No such file or directory; expected a file to write\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_logs_each_span_and_chunk_once_also_of_other_processes(
    tmp_path: Path, jobs: str
) -> None:
    for number in (1, 2):
        put(tmp_path / f"{number}.xml", gsa_feed(*documents(number * 10, number * 10 + 2)))
    words = ["1.xml", "2.xml", "-o", "out", "--to", "gsa-feed", "--jobs", jobs, "-v"]
    log = ["--log-file", "log", "--log-format", "json", "--progress", "none"]
    process = subprocess.run(
        [sys.executable, "-c", MAIN, "convert", *words, *log],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )

    lines: list[Any] = [
        msgspec.json.decode(line) for line in (tmp_path / "log").read_bytes().splitlines()
    ]
    messages = [line["message"] for line in lines]
    spans = [f"span 0000{number}-00000 of {number + 1}.xml" for number in (0, 1)]
    counts = "3 read, 3 written, 0 rejected, 0 filtered, 1 chunks"
    for text in (
        "feedferry convert: begun",
        "conversion to out: begun; inputs: 2",
        "convert: begun",
        *(f"{span}: begun" for span in spans),
        *(f"{span}: ended; {counts}" for span in spans),
        "feedferry convert: ended with exit code 0",
    ):
        assert messages.count(text) == 1, (text, messages)
    assert sum("published" in message for message in messages) == 2
    shown = [msgspec.json.decode(line) for line in process.stderr.splitlines()]
    logged = [line for line in lines if not line["message"].startswith("attempt ended")]
    assert sorted(map(str, shown)) == sorted(map(str, logged))


def test_logging_can_close_all_that_is_left_of_a_log_file_that_cannot_be_opened() -> None:
    program = "from feedferry.pipelines.observer.logs import LogFile\nLogFile('none/run.log')"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.stderr.splitlines()[-1].startswith("FileNotFoundError")
    assert "AttributeError" not in ended.stderr
