"""Runs that are killed, and whose files are damaged then: what is published is always the same."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from feedferry.pipelines.folders.manifest import RUN_LOG
from feedferry.pipelines.report.run_report import CONFIG, REPORT_PAGE
from feedferry.schemas.run_record import RUN_RECORD
from feedferry.schemas.timeline import TIMELINE
from feedferry.transforms.storage.storage import PARTIAL
from support.archives import BROKEN, DELETED, HOST, document, gsa_feed, put
from support.runs import ROOT, chosen, report

pytestmark = pytest.mark.slow

KILLS = chosen(usual=12, full=50)
KILLS_OF_A_RUN = 3
MAIN = "import sys; from feedferry.pipelines.cli.main import main; sys.exit(main(sys.argv[1:]))"
ARGS = (
    *("convert", "a.xml", "b.xml", "-o", "out", "--to", "gsa-feed", "--jobs", "2", "-q"),
    "--accept-holes",
    *("--span-bytes", "48KiB", "--max-chunk-bytes", "64KiB"),
)
STAGES = ("manifest.jsonl", "chunks/000001.xml", "report.json")
"""Files that appear one after another while a run publishes."""

TIMEOUT_SECONDS = 500
"""Longer than any run takes: one that takes as long hangs."""


class Undisturbed(NamedTuple):
    """A run that nothing disturbed: what it published, and of how many spans."""

    published: dict[str, bytes]
    exit_code: int
    spans: int


def records(first: int, last: int) -> Iterator[str]:
    """Documents, and now and then what is rejected, deleted or only crawled."""
    for number in range(first, last):
        yield document(number, text="plan " * 60)
        if number % 400 == 0:
            yield BROKEN
        if number % 500 == 0:
            yield DELETED
            yield f'<record url="{HOST}/{number}.html" mimetype="text/html"/>'


def prepare(folder: Path) -> None:
    """Put two feeds into a folder, always with the same bytes and times."""
    put(folder / "a.xml", gsa_feed(*records(1, 6_000), feedtype="full"))
    put(folder / "b.xml", gsa_feed(*records(6_000, 8_000), datasource="wiki"))


def start(folder: Path) -> "subprocess.Popen[bytes]":
    """Start a run in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *ARGS],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def published(folder: Path) -> dict[str, bytes]:
    """All that a run has published, by path; and `.work`, if something of it is left.

    Its timeline, page, record, log and settings are left out: they have times or paths. So is a
    page that a run was writing when it was killed, after it had published all.
    """
    out = folder / "out"
    names = (TIMELINE, REPORT_PAGE, RUN_RECORD, RUN_LOG, CONFIG)
    pages = set(out.glob(f"{REPORT_PAGE}.*{PARTIAL}"))
    files = (
        path
        for path in out.rglob("*")
        if path.is_file() and path.name not in names and path not in pages
    )
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


def is_over(folder: Path) -> bool:
    """Whether a run has published all, and is not to be resumed."""
    unfinished = [path for path in folder.glob("out/.work/*") if not path.suffix and path.is_dir()]
    return (folder / "out/report.json").exists() and not unfinished


def damage(folder: Path, choice: random.Random) -> None:
    """Remove, truncate or zero some files of an unfinished run."""
    paths = sorted(path for path in (folder / "out").rglob("*") if path.is_file())
    for path in choice.sample(paths, min(len(paths), choice.randint(1, 12))):
        if not path.exists():
            continue
        size = path.stat().st_size
        match choice.choice(("remove", "truncate", "zero")):
            case "remove":
                path.unlink()
            case "truncate":
                os.truncate(path, choice.randint(0, size))
            case "zero":
                with path.open("r+b") as stream:
                    stream.seek(choice.randint(0, size))
                    stream.write(bytes(min(5_000, size - stream.tell())))


def steps(folder: Path, since_ns: int) -> int:
    """Count the steps of a run since a time: accounts written, stages published."""
    try:
        accounts = [*folder.glob("out/.work/*/0*.json")]
    except FileNotFoundError:  # the run is removing its folder
        accounts = []
    stages = (path for pattern in STAGES for path in folder.glob(f"out/{pattern}"))
    return sum(_is_since(path, since_ns) for path in (*accounts, *stages))


def kill(
    folder: Path, process: "subprocess.Popen[bytes]", choice: random.Random, *, spans: int
) -> bool:
    """Kill a run after some of its steps, with its workers or without; False if it had ended."""
    since_ns = time.time_ns()
    whole = folder.glob("out/.work/*/0*.0.json")
    most = max(spans - len(list(whole)), 0) + len(STAGES)
    after, pause = choice.randint(0, most), choice.uniform(0, 0.1)
    only_driver = choice.random() < 0.3
    while process.poll() is None and steps(folder, since_ns) < after:
        time.sleep(0.005)
    if after == 0:  # before anything was made
        pause *= 50
    time.sleep(pause)
    if process.poll() is not None:
        return False
    (os.kill if only_driver else os.killpg)(process.pid, signal.SIGKILL)
    process.wait()
    return True


def _is_since(path: Path, since_ns: int) -> bool:
    try:
        return path.stat().st_mtime_ns >= since_ns
    except FileNotFoundError:
        return False


def end_group(number: int) -> None:
    """End workers that outlived their driver."""
    try:
        os.killpg(number, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    prepare(folder)
    exit_code = start(folder).wait(TIMEOUT_SECONDS)
    spans = report(folder / "out")["account"]["spans"]
    return Undisturbed(published(folder), exit_code, spans)


@pytest.mark.parametrize("seed", range(-(-KILLS // KILLS_OF_A_RUN)))
def test_a_killed_and_damaged_run_publishes_the_same_files(
    undisturbed: Undisturbed, tmp_path: Path, seed: int
) -> None:
    prepare(tmp_path)
    choice = random.Random(seed)
    groups: list[int] = []
    kills = 0
    try:
        while kills < KILLS_OF_A_RUN:
            process = start(tmp_path)
            groups.append(process.pid)
            kills += kill(tmp_path, process, choice, spans=undisturbed.spans)
            if not is_over(tmp_path):
                damage(tmp_path, choice)
            elif kills < KILLS_OF_A_RUN:  # it was too late for this one: another run
                check(tmp_path, undisturbed)
                shutil.rmtree(tmp_path / "out")
        if not is_over(tmp_path):
            process = start(tmp_path)
            groups.append(process.pid)
            assert process.wait(TIMEOUT_SECONDS) == undisturbed.exit_code
    finally:
        for group in groups:
            end_group(group)
    check(tmp_path, undisturbed)


def check(folder: Path, undisturbed: Undisturbed) -> None:
    """Compare what a run has published with what it should be, byte for byte."""
    files = {name: text for name, text in published(folder).items() if ".work" not in name}
    expected = undisturbed.published

    assert files.keys() == expected.keys()
    assert [name for name in files if files[name] != expected[name]] == []
