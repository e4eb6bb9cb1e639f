"""The command: flags reach the pipeline, errors have messages and exit codes."""

import errno
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from feedferry.pipelines.cli.main import feedferry, main
from feedferry.pipelines.cli.verb import TASKS
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.observer.endings import begun
from feedferry.pipelines.observer.observer import Observer
from feedferry.pipelines.observer.signals import Terminated
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.errors import (
    BalanceError,
    BusyError,
    ConfigError,
    FeedferryError,
    FormatError,
    LossRefusedError,
    TooManyRejectsError,
)
from support.runs import ROOT

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
}
PATIENCE_SECONDS = 300
MAIN = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell script may have it ignored
from feedferry.pipelines.observer.endings import begun
from feedferry.pipelines.cli.main import main
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
"""Connects to the test when it runs; the connection ends with the program."""
PROGRAMS = """\
lister: ["{python}", list.py]
retriever: ["{python}", get.py]
"""
FETCH = (
    *("convert", "programs.yaml", "--from", "adaptor", "--to", "jsonl", "-o", "out"),
    *("--base-url", "http://adaptor.example.com/doc/", "--progress", "none"),
)
CODECS = {
    "apache_beam",
    "fastavro",
    "lxml",
    "feedferry.transforms.formats",
    "feedferry.transforms.sources",
}
MINIMUM = ["convert", "a.xml", "-o", "out", "--to", "avro"]

Run = Callable[[ConvertOptions], int]
Install = Callable[[Run], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Replace the pipeline by a function, so that Beam is not loaded."""

    def put(run: Run) -> None:
        def convert(job: Job, _observer: Observer) -> SimpleNamespace:
            return SimpleNamespace(exit_code=run(job.convert))

        module = ModuleType("feedferry.pipelines.job.run.engine")
        module.__dict__["convert"] = convert
        monkeypatch.setitem(sys.modules, "feedferry.pipelines.job.run.engine", module)

    return put


def raising(exc: BaseException) -> Run:
    def run(options: ConvertOptions) -> int:
        raise exc

    return run


def received(install: Install, args: list[str]) -> ConvertOptions:
    """Return the options that the pipeline gets for this command line."""
    given: list[ConvertOptions] = []

    def run(options: ConvertOptions) -> int:
        given.append(options)
        return 0

    install(run)
    main(args)
    return given[0]


def test_flags_and_the_words_for_beam_reach_the_pipeline(install: Install) -> None:
    args = "convert a --to avro b -o out --jobs 2 --no-verify -vv --format json c -- --par=4 -x"
    assert received(install, args.split()) == ConvertOptions(
        inputs=("a", "b", "c"),
        output="out",
        to_format="avro",
        jobs=2,
        verify=False,
        beam_flags=("--par=4", "-x"),
    )


def test_the_exit_code_is_that_of_the_run_and_nothing_is_printed(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(lambda options: 3)
    assert (main(MINIMUM), capsys.readouterr()) == (3, ("", ""))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            [*MINIMUM, "--jobs", "0"],
            "feedferry: --jobs: '0'; expected a number of processes, 1 or more\n",
        ),
        ([*MINIMUM, "--job", "2"], "feedferry: No such option"),
        (["transmogrify"], "feedferry: No such command 'transmogrify'. See feedferry --help.\n"),
        ([], "Usage: feedferry [OPTIONS] COMMAND [ARGS]..."),
    ],
    ids=["value", "flag", "verb", "nothing"],
)
def test_an_unusable_command_line_ends_with_2(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(args)
    assert (code, capsys.readouterr().err[: len(message)]) == (2, message)


@pytest.mark.parametrize(
    ("exc", "ending"),
    [
        (ConfigError("known.txt: not there"), (2, "known.txt: not there")),
        (TooManyRejectsError("11 rejects; expected at most 10"), (3, "11 rejects; expected")),
        (LossRefusedError("acl"), (3, "acl")),
        (FormatError("a.xml:1: 'PK'; expected a gsafeed"), (4, "a.xml:1: 'PK'; expected")),
        (BalanceError("read 2, written 1"), (5, "read 2, written 1")),
        (
            OSError(errno.ENOSPC, "No space left on device", "out/chunks/x"),
            (4, "out/chunks/x: No space left on device\n"),
        ),
        (
            TypeError("no len()"),
            (5, "a defect of feedferry: TypeError: no len(); -v shows where\n"),
        ),
        (Terminated(), (143, "terminated\n")),
        (KeyboardInterrupt(), (130, "interrupted\n")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_its_exit_code_and_message_and_no_traceback(
    install: Install,
    exc: BaseException,
    ending: tuple[int, str],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    install(raising(exc))
    code, message = ending
    assert main(MINIMUM) == code
    assert capsys.readouterr().err.lstrip("\n").startswith(f"feedferry: {message}")
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("flags", "exc", "command"),
    [
        ((), FormatError("x"), "feedferry convert 'an input.xml' -o out --to avro"),
        (("-q",), BusyError("x"), "feedferry convert 'an input.xml' -o out --to avro -q"),
        (("--fresh",), BusyError("x"), "feedferry convert 'an input.xml' -o out --to avro --fresh"),
        (("http://me:hunter2@h/a.xml",), FormatError("x"), "the same command"),
        ((), ConfigError("x"), None),
    ],
)
def test_a_command_that_can_be_resumed_ends_with_the_command_that_does_it(
    install: Install,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    exc: FeedferryError,
    command: str | None,
) -> None:
    install(raising(exc))
    words = ["convert", "an input.xml", *MINIMUM[2:], *flags]
    assert main(words) == exc.exit_code
    last = [] if command is None else [f"feedferry: start again: {command}"]
    assert capsys.readouterr().err.splitlines() == ["feedferry: x", *last]


def test_a_run_that_has_begun_is_resumed_without_fresh(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(options: ConvertOptions) -> int:
        with begun():
            raise FormatError("x")

    for run in (fail, lambda options: 75):
        install(run)
        main([*MINIMUM, "--fresh"])
        assert capsys.readouterr().err.endswith(
            "start again: feedferry " + " ".join(MINIMUM) + "\n"
        )


def test_v_shows_the_traceback_of_a_defect(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install(raising(TypeError("no len()")))
    main([*MINIMUM, "-v"])
    assert "Traceback" in caplog.text
    assert "\nTypeError: no len()\n" in caplog.text


@pytest.mark.parametrize(
    ("cause", "code", "message"),
    [(KeyboardInterrupt, 130, "interrupted"), (Terminated, 143, "terminated")],
)
def test_a_signal_is_recognised_in_an_error_of_beam(
    install: Install,
    capsys: pytest.CaptureFixture[str],
    cause: type[BaseException],
    code: int,
    message: str,
) -> None:
    def run(options: ConvertOptions) -> int:
        try:
            raise cause
        except BaseException:
            raise RuntimeError("[while running 'Convert']")  # noqa: B904  # as Beam does

    install(run)
    assert (main(MINIMUM), capsys.readouterr().err) == (code, f"feedferry: {message}\n")


@contextmanager
def started(folder: Path, *args: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the command in a process of its own, which does not outlive the block."""
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
    ("sent", "code", "message"),
    [
        (signal.SIGINT, 130, b"feedferry: interrupted\n"),
        (signal.SIGTERM, 143, b"feedferry: terminated\n"),
    ],
)
def test_a_signal_ends_a_run_and_its_programs(
    here: Path, sent: int, code: int, message: bytes
) -> None:
    (here / "list.py").write_text(LISTER)
    (here / "get.py").write_text(RETRIEVER)
    (here / "programs.yaml").write_text(PROGRAMS.format(python=sys.executable))
    with socket.socket(socket.AF_UNIX) as listening, started(here, *FETCH) as process:
        listening.bind("line")  # the whole path may be too long for a socket
        listening.listen()
        listening.settimeout(PATIENCE_SECONDS)
        line, _ = listening.accept()
        with line:
            process.send_signal(sent)
            _, err = process.communicate(timeout=PATIENCE_SECONDS)
            line.settimeout(PATIENCE_SECONDS)
            assert (process.returncode, err, line.recv(1)) == (code, message, b"")


@pytest.mark.parametrize(
    ("flags", "own", "others"),
    [
        (["-q"], logging.ERROR, logging.ERROR),
        ([], logging.WARNING, logging.ERROR),
        (["-vv"], logging.DEBUG, logging.WARNING),
    ],
)
def test_libraries_log_less_than_feedferry(
    install: Install, flags: list[str], own: int, others: int
) -> None:
    install(lambda options: 0)
    main([*MINIMUM, *flags])
    levels = (
        logging.getLogger("feedferry.pipelines.x").getEffectiveLevel(),
        logging.getLogger().level,
    )
    assert levels == (own, others)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("Nosuch", "'Nosuch'"),
        ("nosuch.Runner", "'nosuch.Runner' (No module named 'nosuch')"),
        ("collections.Counter", "'collections.Counter'"),
    ],
)
def test_an_unknown_runner_is_refused_before_anything_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, finding: str
) -> None:
    (here / "a.xml").write_bytes(b"<gsafeed/>")
    code = main([*MINIMUM, "--runner", name])
    assert (code, Path("out").exists(), capsys.readouterr().err) == (
        2,
        False,
        f"feedferry: --runner: {finding}; expected DaskRunner, DataflowRunner, "
        "BundleBasedDirectRunner, DirectRunner, SwitchingDirectRunner, InteractiveRunner, "
        "FlinkRunner, FnApiRunner, KafkaStreamsRunner, PortableRunner, PrismRunner, SparkRunner, "
        "or the full name of a class\n",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "finding"),
    [
        (
            ("--runner", "dataflow"),
            "--runner dataflow: needs packages that are not installed; install them with: pip"
            " install 'apache-beam[gcp]'",
        ),
        (("--cluster", "tcp://a:1"), "--cluster: without a runner; expected --runner NAME with it"),
        (
            ("--runner", "FnApiRunner", "--cluster", "tcp://a:1"),
            "--cluster tcp://a:1: not for this runner; expected flags of Beam after --, or one of"
            " DaskRunner, FlinkRunner, PortableRunner, PrismRunner, SparkRunner",
        ),
        (("--parallelism", "4"), "--parallelism: without a runner; expected --runner NAME with it"),
        (
            ("--runner", "DaskRunner", "--workers-per-node", "2"),
            "--workers-per-node 2: not for this runner; expected flags of Beam after --, or one of"
            " FlinkRunner, PortableRunner, SparkRunner",
        ),
    ],
)
def test_a_runner_without_its_packages_or_a_cluster_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], finding: str
) -> None:
    (here / "a.xml").write_bytes(b"<gsafeed/>")
    code = main([*MINIMUM, *words])
    assert (code, Path("out").exists(), capsys.readouterr().err) == (
        2,
        False,
        f"feedferry: {finding}\n",
    )


CONVERT = ["convert", "a.xml", "--to", "avro"]


@pytest.mark.parametrize("output", ["-", "", "s3://bucket/feeds"])
@pytest.mark.parametrize(
    "args",
    [
        [*CONVERT, "-o", "out", "--log-file"],
        ["push", "a.xml", "--to", "http://127.0.0.1:9", "-o"],
        ["serve", "--spool"],
        ["rejects", "export", ".", "-o"],
        ["rejects", "accept", ".", "-o"],
        ["run", "job.yaml", "--set", "runs={}"],
        ["run", "job.yaml", "--set", "metrics_file={}"],
    ],
)
def test_what_is_written_is_written_to_this_machine_and_not_to_stdout(
    args: list[str], output: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "a.xml").write_bytes(b"<gsafeed/>")
    source = "source: {type: gsa-feed, path: [a.xml]}"
    (here / "job.yaml").write_text(f"version: 1\njob: a\n{source}\ntarget: {{type: avro}}\n")
    (here / "report.json").write_text("{}")
    files = sorted(here.iterdir())

    words = [*args[:-1], args[-1].format(output)] if "{}" in args[-1] else [*args, output]
    assert main(words) == 2
    assert f"{output!r}; expected a folder or file of this machine" in capsys.readouterr().err
    assert sorted(here.iterdir()) == files


@pytest.mark.parametrize("output", ["-", "", "sftp://host/feeds", "hdfs://host/feeds"])
def test_a_run_is_written_to_a_folder_or_to_object_storage(
    output: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "a.xml").write_bytes(b"<gsafeed/>")
    assert main([*CONVERT, "-o", output]) == 2
    assert "; expected a folder" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["a.xml"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "absent"),
    [
        (["--help"], {"msgspec", "feedferry.schemas", "feedferry.transforms"}),
        *(([verb, "--help"], CODECS) for verb in ("convert", "push", "serve", "plan", "inspect")),
        (["convert", "a", "-o", "b", "--to", "c"], {"apache_beam"}),
    ],
)
def test_help_and_refusals_load_little(args: list[str], absent: set[str]) -> None:
    code = (
        f"import sys; from feedferry.pipelines.cli.main import main; main({args})\n"
        f"print(sorted({absent} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
    assert run.stdout.splitlines()[-1] == "[]"


def test_the_help_lists_each_command_under_one_task() -> None:
    listed = [name for names in TASKS.values() for name in names]
    assert sorted(listed) == sorted(feedferry.commands)


@pytest.mark.parametrize("verb", ["convert", "push", "plan", "compact"])
def test_the_help_shows_usual_flags_and_help_all_shows_every_flag(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for flag in ("--help", "--help-all"):
        assert main([verb, flag]) == 0
        texts.append(re.findall(r"^  (-[^ ,]+)", capsys.readouterr().out, re.MULTILINE))
    usual, every = texts
    assert len(usual) <= 32
    assert len(every) >= len(usual) + 10
    assert {*usual} < {*every}


def test_help_all_is_the_help_where_all_flags_are_usual(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = []
    for flag in ("--help", "--help-all"):
        assert main(["run", flag]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_run_has_few_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    flags = re.findall(r"^  (-[^ ,]+)", capsys.readouterr().out, re.MULTILINE)
    assert len(flags) <= 20
