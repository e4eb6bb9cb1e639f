"""A writer knows the run and its generation, which are the same in each attempt of the run."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

from feedferry.pipelines.cli.main import main
from feedferry.schemas.errors import FatalError
from feedferry.schemas.record import Record
from feedferry.transforms.formats import WriteOptions, registered
from support.jobs import HOST, TreeJob
from support.toy_format import TOY, ToyEncoder

pytestmark = pytest.mark.slow


class StampingEncoder(ToyEncoder):
    """Writes the run and the generation with each URL; a full disk ends it at some URLs."""

    ends_at: ClassVar[set[str]] = set()

    def __init__(self, options: WriteOptions) -> None:
        self.stamp = f"{options.run or '-'} {options.generation}"

    def encode(self, record: Record) -> bytes:
        if record.url in self.ends_at:
            raise FatalError("the disk is full")
        return f"{record.url} {self.stamp}\n".encode()


STAMPED = replace(TOY, name="stamped", encoder=StampingEncoder, matches=lambda _head: False)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registered(STAMPED):
        yield
    StampingEncoder.ends_at.clear()


@pytest.fixture
def job(here: Path) -> TreeJob:
    job = TreeJob(here, "", documents=2)
    path = here / "people.yaml"
    path.write_text(path.read_text().split("target:")[0] + "target: {type: stamped}\n")
    return job


def run(*flags: str) -> int:
    return main(["run", "people.yaml", "--progress", "none", *flags])


def written(folder: Path) -> list[str]:
    """Return the lines of the chunks of a run."""
    chunks = sorted((folder / "chunks").iterdir())
    return [line for chunk in chunks for line in chunk.read_text().splitlines()]


def test_the_generation_grows_from_run_to_run(job: TreeJob) -> None:
    assert run() == 0
    job.write("0000.txt", "changed")
    assert run() == 0
    first, second = job.records()
    assert written(job.home / first.id) == [
        f"{HOST}0000.txt {first.id} 1",
        f"{HOST}0001.txt {first.id} 1",
    ]
    assert written(job.home / second.id) == [f"{HOST}0000.txt {second.id} 2"]


def test_a_resumed_run_has_its_generation(job: TreeJob) -> None:
    spans = ("--set", "source.span_bytes=1")
    StampingEncoder.ends_at.add(f"{HOST}0001.txt")
    assert run(*spans) == 4
    StampingEncoder.ends_at.clear()
    assert run(*spans, "--only-resume") == 0
    (record,) = job.records()
    assert record.attempts == 2
    assert written(job.home / record.id) == [
        f"{HOST}0000.txt {record.id} 1",
        f"{HOST}0001.txt {record.id} 1",
    ]


def test_a_conversion_without_a_job_writes_the_same_in_any_folder(job: TreeJob, here: Path) -> None:
    for folder in ("monday", "tuesday"):
        tree = ("--from", "files", "--base-url", HOST)
        assert main(["convert", "docs", "-o", folder, "--to", "stamped", *tree]) == 0
        assert written(here / folder) == [f"{HOST}0000.txt - 0", f"{HOST}0001.txt - 0"]
