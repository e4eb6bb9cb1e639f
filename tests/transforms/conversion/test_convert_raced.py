"""Two processes that convert one span at a time: one of them wins, and both say the same."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.archives import BROKEN, documents, gsa_feed, put
from support.runs import ROOT, chosen

pytestmark = pytest.mark.slow

DELAYS_MS = chosen(usual=range(0, 1001, 250), full=range(0, 1001, 25))
CONVERT = """
import sys
import msgspec
from feedferry.schemas.span import Span
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.formats import ReadOptions, WriteOptions

span = Span(source=sys.argv[1], format="gsa-feed")
print("ready", flush=True)
for line in sys.stdin:
    settings = Settings(
        folder=line.strip(),
        target=Target(format="gsa-feed"),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 20,
    )
    print(msgspec.json.encode(convert(span, settings)).decode(), flush=True)
"""

Process = subprocess.Popen[str]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A feed that takes about a second."""
    records = [*documents(1, 24_000, text="plan " * 40), BROKEN]
    return put(tmp_path_factory.mktemp("source") / "feed.xml", gsa_feed(*records, feedtype="full"))


@pytest.fixture(scope="module")
def racers(source: str) -> Iterator[tuple[Process, Process]]:
    """Two processes that convert the feed into the folders named on their stdin."""
    command = [sys.executable, "-c", CONVERT, source]
    with ExitStack() as stack:
        both = [_start(command, stack) for _ in range(2)]
        yield both[0], both[1]


@pytest.fixture(scope="module")
def expected(racers: tuple[Process, Process], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The files of the span where nothing disturbs it."""
    folder = tmp_path_factory.mktemp("alone")
    ask(racers[0], folder)
    return files_of(folder, answer(racers[0]))


def ask(process: Process, folder: Path) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{folder}\n")
    process.stdin.flush()


def answer(process: Process) -> Any:
    """The account that a process has returned."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def files_of(folder: Path, account: Any) -> list[tuple[str, bytes]]:
    """Name and bytes of all files of an account."""
    paths = [folder / file["path"] for file in account["files"]]
    return [(path.name, path.read_bytes()) for path in paths]


def _start(command: list[str], stack: ExitStack) -> Process:
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    stack.enter_context(process)
    stack.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("delay_ms", DELAYS_MS)
def test_two_attempts_at_one_span_make_what_one_makes(
    racers: tuple[Process, Process], expected: Any, tmp_path: Path, delay_ms: int
) -> None:
    first, second = racers
    ask(first, tmp_path)
    time.sleep(delay_ms / 1000)
    ask(second, tmp_path)
    account, other = answer(first), answer(second)

    assert account == other
    assert files_of(tmp_path, account) == expected
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(left) == sorted(["00000-00000.0.json", *(name for name, _ in expected)])
