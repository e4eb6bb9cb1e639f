"""The command: what reaches the pipeline, and what the shell and the eyes get back."""

import errno
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.display_options import ReportFormat
from pipelines.cli.main import main
from pipelines.cli.signals import Terminated
from schemas.errors import (
    BalanceError,
    ConfigError,
    FormatError,
    LossRefusedError,
    TooManyRejectsError,
)

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
}
PATIENCE_SECONDS = 60
MAIN = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been ignored above us
from pipelines.cli.main import main
raise SystemExit(main())
"""
LISTER = r"""
print("GSA Adaptor Data Version 1 [\n]\nid-list\na\nb\n", end="")
"""
RETRIEVER = """
import signal, socket
line = socket.socket(socket.AF_UNIX)
line.connect("line")
signal.pause()
"""
"""Tells that it runs, and by the end of the line that it does no more."""
PROGRAMS = """\
lister: ["{python}", list.py]
retriever: ["{python}", get.py]
"""
FETCH = (
    *("convert", "programs.yaml", "--from", "command", "--to", "native", "-o", "out"),
    *("--base-url", "http://adaptor.example.com/doc/", "--progress", "none"),
)
MINIMUM = ["convert", "a.xml", "-o", "out", "--to", "avro"]


class Report(msgspec.Struct):
    exit_code: int


Run = Callable[[ConvertOptions], Report]
Install = Callable[[Run], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a function in the place of the pipeline."""

    def put(run: Run) -> None:
        module = ModuleType("pipelines.convert.run_and_push")
        module.__dict__["run"] = lambda options, _appliance: run(options).exit_code
        monkeypatch.setitem(sys.modules, "pipelines.convert.run_and_push", module)

    return put


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Gives the loggers their levels back."""
    loggers = [logging.getLogger(name) for name in ("", "pipelines", "schemas", "transforms")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def raising(exc: BaseException) -> Run:
    def run(options: ConvertOptions) -> Report:
        raise exc

    return run


def answering(exit_code: int) -> Run:
    return lambda options: Report(exit_code)


def received(install: Install, args: list[str]) -> ConvertOptions:
    """What the pipeline is given for this command line."""
    given: list[ConvertOptions] = []

    def run(options: ConvertOptions) -> Report:
        given.append(options)
        return Report(0)

    install(run)
    main(args)
    return given[0]


def test_three_words_reach_the_pipeline(install: Install) -> None:
    assert received(install, MINIMUM) == ConvertOptions(
        inputs=("a.xml",), output="out", to_format="avro"
    )


def test_flags_and_the_words_for_beam_reach_the_pipeline(install: Install) -> None:
    args = "convert a --to avro b -o out --jobs 2 --no-verify -vv --format json c -- --par=4 -x"
    assert received(install, args.split()) == ConvertOptions(
        inputs=("a", "b", "c"),
        output="out",
        to_format="avro",
        jobs=2,
        verify=False,
        report_format=ReportFormat.JSON,
        verbosity=2,
        beam_flags=("--par=4", "-x"),
    )


def test_quiet_is_the_least_verbosity(install: Install) -> None:
    assert received(install, [*MINIMUM, "-q"]).verbosity == -1


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_report_has_the_exit_code(install: Install, code: int) -> None:
    install(answering(code))
    assert main(MINIMUM) == code


def test_a_run_that_is_done_says_nothing_of_its_own(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(answering(0))
    main(MINIMUM)
    assert capsys.readouterr() == ("", "")


def test_options_that_cannot_be_used_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*MINIMUM, "--jobs", "0"])
    message = "feedferry: --jobs: '0'; expected a number of processes, 1 or more\n"
    assert (code, capsys.readouterr().err) == (2, message)


def test_a_flag_that_is_not_known_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*MINIMUM, "--job", "2"])
    found = capsys.readouterr().err
    assert (code, found.startswith("feedferry: No such option '--job'.")) == (2, True)


def test_a_verb_that_is_not_known_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["transmogrify"])
    found = capsys.readouterr().err
    assert (code, found) == (
        2,
        "feedferry: No such command 'transmogrify'. See feedferry --help.\n",
    )


def test_no_verb_at_all_shows_the_help_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([])
    found = capsys.readouterr().err
    assert (code, found.startswith("Usage: feedferry [OPTIONS] COMMAND [ARGS]...")) == (2, True)


@pytest.mark.parametrize(
    ("exc", "code"),
    [
        (ConfigError("known.txt: not there"), 2),
        (TooManyRejectsError("11 rejects; expected at most 10"), 3),
        (LossRefusedError("acl"), 3),
        (FormatError("a.xml:1: a torn end"), 4),
        (BalanceError("read 2, written 1"), 5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_ends_a_run_has_its_exit_code(install: Install, exc: Exception, code: int) -> None:
    install(raising(exc))
    assert main(MINIMUM) == code


def test_what_ends_a_run_is_said_in_its_own_words(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(raising(FormatError("a.xml:1: 'PK'; expected a gsafeed")))
    main(MINIMUM)
    assert capsys.readouterr().err == "feedferry: a.xml:1: 'PK'; expected a gsafeed\n"


def test_a_full_disk_ends_with_4(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install(raising(OSError(errno.ENOSPC, "No space left on device", "out/chunks/x")))
    code = main(MINIMUM)
    message = "feedferry: out/chunks/x: No space left on device\n"
    assert (code, capsys.readouterr().err) == (4, message)


def test_a_defect_ends_with_5_and_without_its_traceback(
    install: Install, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    install(raising(TypeError("no len()")))
    code = main(MINIMUM)
    message = "feedferry: a defect of feedferry: TypeError: no len(); -v shows where\n"
    assert (code, capsys.readouterr().err, caplog.text) == (5, message, "")


def test_v_shows_the_traceback_of_a_defect(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install(raising(TypeError("no len()")))
    main([*MINIMUM, "-v"])
    assert caplog.text.rstrip().endswith("TypeError: no len()")


def test_ctrl_c_ends_with_130(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install(raising(KeyboardInterrupt()))
    code = main(MINIMUM)
    assert (code, capsys.readouterr().err) == (130, "\nfeedferry: interrupted\n")


def test_sigterm_ends_with_143(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    def run(options: ConvertOptions) -> Report:
        signal.raise_signal(signal.SIGTERM)
        return Report(0)

    install(run)
    code = main(MINIMUM)
    assert (code, capsys.readouterr().err) == (143, "feedferry: terminated\n")


def test_what_sigterm_did_before_it_does_after(install: Install) -> None:
    before = signal.getsignal(signal.SIGTERM)
    install(answering(0))
    main(MINIMUM)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("cause", "code", "said"),
    [(KeyboardInterrupt, 130, "interrupted"), (Terminated, 143, "terminated")],
)
def test_a_signal_that_beam_wraps_is_a_signal(
    install: Install,
    capsys: pytest.CaptureFixture[str],
    cause: type[BaseException],
    code: int,
    said: str,
) -> None:
    def run(options: ConvertOptions) -> Report:
        try:
            raise cause
        except BaseException:
            raise RuntimeError("[while running 'Convert']")  # noqa: B904  # as Beam does

    install(run)
    assert (main(MINIMUM), capsys.readouterr().err) == (code, f"feedferry: {said}\n")


@contextmanager
def started(folder: Path, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process of its own, which does not outlive the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *args],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        (signal.SIGINT, 130, b"feedferry: interrupted\n"),
        (signal.SIGTERM, 143, b"feedferry: terminated\n"),
    ],
)
def test_a_signal_ends_a_run_and_its_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: int, code: int, said: bytes
) -> None:
    (tmp_path / "list.py").write_text(LISTER)
    (tmp_path / "get.py").write_text(RETRIEVER)
    (tmp_path / "programs.yaml").write_text(PROGRAMS.format(python=sys.executable))
    monkeypatch.chdir(tmp_path)  # the whole path may be too long for a socket
    with socket.socket(socket.AF_UNIX) as listening, started(tmp_path, *FETCH) as process:
        listening.bind("line")
        listening.listen()
        listening.settimeout(PATIENCE_SECONDS)
        line, _ = listening.accept()
        with line:
            process.send_signal(sent)
            _, err = process.communicate(timeout=PATIENCE_SECONDS)
            line.settimeout(PATIENCE_SECONDS)
            assert (process.returncode, err, line.recv(1)) == (code, said, b"")


@pytest.mark.parametrize(
    ("flags", "ours", "beams"),
    [
        (["-q"], logging.ERROR, logging.ERROR),
        ([], logging.WARNING, logging.ERROR),
        (["-v"], logging.INFO, logging.ERROR),
        (["-vv"], logging.DEBUG, logging.WARNING),
        (["-vvvv"], logging.DEBUG, logging.WARNING),
    ],
)
def test_beam_is_quieter_than_we_are(
    install: Install, flags: list[str], ours: int, beams: int
) -> None:
    install(answering(0))
    main([*MINIMUM, *flags])
    levels = (logging.getLogger("pipelines.x").getEffectiveLevel(), logging.getLogger().level)
    assert levels == (ours, beams)


def run_for_real(monkeypatch: pytest.MonkeyPatch, folder: Path, *args: str) -> tuple[int, bool]:
    """The exit code of a conversion, and whether it left anything."""
    monkeypatch.chdir(folder)
    code = main(["convert", *args, "-o", "out", "--progress", "none"])
    return code, Path("out").exists()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Nosuch", "'Nosuch'"),
        ("json.Nosuch", "'json.Nosuch'"),
        ("nosuch.Runner", "'nosuch.Runner' (No module named 'nosuch')"),
        ("collections.Counter", "'collections.Counter'"),
        (".Runner", "'.Runner'"),
    ],
)
def test_a_runner_that_is_none_is_refused_before_anything_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    found: str,
) -> None:
    (tmp_path / "a.xml").write_bytes(b"<gsafeed/>")
    ended = run_for_real(monkeypatch, tmp_path, "a.xml", "--to", "native", "--runner", name)
    assert (ended, capsys.readouterr().err) == (
        (2, False),
        f"feedferry: --runner: {found}; expected one of Beam's, such as DirectRunner, "
        "FlinkRunner or PortableRunner, or the full name of a class\n",
    )


def test_programs_that_cannot_be_used_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "programs.yaml").write_text("listr: [a]\n")
    ended = run_for_real(
        monkeypatch, tmp_path, "programs.yaml", "--from", "command", "--to", "native"
    )
    assert ended == (2, False)


@pytest.mark.parametrize("given", [b"bad\xff.xml", b"."])
def test_a_name_that_is_no_utf_8_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: bytes,
) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.xml")).write_bytes(b"<gsafeed/>")
    ended = run_for_real(monkeypatch, tmp_path, os.fsdecode(given), "--to", "native")
    message = "feedferry: INPUT: 'bad\\udcff.xml'; expected a name in UTF-8\n"
    assert (ended, capsys.readouterr().err) == ((2, False), message)


def test_formats_are_listed_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    main(["formats"])
    assert capsys.readouterr() == (
        "files              read        files of any kind: a folder or a uri, each a document\n"
        "database           read        rows of a database, each a document (a YAML file)\n"
        "spool              read        what feedferry serve has taken: a folder of feeds\n"
        "command            read        GSA adaptor programs that speak command streams "
        "(a YAML file)\n"
        "gsa-feed           read/write  Google Search Appliance feeds, protocol 7.x and 5.0 (XML)\n"
        "thunderstone       read/write  Thunderstone Search Appliance dataload (XML)\n"
        "lister-stream      read/write  GSA adaptor command streams: ids, and when they changed\n"
        "retriever-stream   read/write  GSA adaptor command streams: a document each\n"
        "authorizer-stream  read/write  GSA adaptor command streams: who may see what\n"
        "gsa-groups         read/write  Google Search Appliance groups feeds (XML)\n"
        "groups-csv         read        groups as CSV: group,member,scope[,namespace]\n"
        "avro               read/write  canonical records in an Avro container: "
        "lossless, for archives\n"
        "native             read/write  canonical records as JSON lines: "
        "lossless, for eyes and diffs\n",
        "",
    )


def test_help_is_asked_for_and_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["convert", "--help"])
    usage = "Usage: feedferry convert [OPTIONS] INPUT... [-- BEAM FLAGS]\n"
    assert (code, capsys.readouterr().out.startswith(usage)) == (0, True)


def python(code: str) -> str:
    """What a fresh interpreter prints for `code`."""
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=ENVIRONMENT
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "absent"),
    [
        (["--help"], {"apache_beam", "fastavro", "lxml", "msgspec", "schemas", "transforms"}),
        (["convert", "--help"], {"apache_beam"}),
        (["convert", "a", "-o", "b", "--to", "c"], {"apache_beam"}),
    ],
)
def test_help_and_refusals_load_little(args: list[str], absent: set[str]) -> None:
    loaded = python(
        f"import sys; from pipelines.cli.main import main; main({args})\n"
        f"print(sorted({absent} & set(sys.modules)))"
    )
    assert loaded.splitlines()[-1] == "[]"
