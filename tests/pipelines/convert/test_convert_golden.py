"""Each direction, there and back: `golden/convert/<direction>/` holds what comes and what becomes.

A run has a folder of its own there, with its chunks, its manifest, and what it printed. `pytest
--accept` writes what is made; read the difference before it is committed.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from support.runs import ROOT, convert

pytestmark = pytest.mark.slow

GOLDEN = ROOT / "tests" / "golden" / "convert"
LOSING = ("--accept-loss", "acl")


class Direction(NamedTuple):
    """A folder of golden files, and what the runs there and back are told."""

    name: str
    there: tuple[str, ...]
    back: tuple[str, ...]


DIRECTIONS = [
    Direction(
        "gsa-feed-thunderstone-gsa-feed",
        ("thunderstone", *LOSING),
        ("gsa-feed", "--datasource", "intranet"),
    ),
    Direction("gsa-feed-avro-gsa-feed", ("avro", "--accept-holes"), ("gsa-feed",)),
    Direction("thunderstone-avro-thunderstone", ("avro",), ("thunderstone",)),
]


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.name)
def test_a_direction_there_and_back_is_as_expected(
    direction: Direction, here: Path, accept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = GOLDEN / direction.name
    shutil.copyfile(golden / "input.xml", "input.xml")
    convert("input.xml", "-o", "there", "--to", *direction.there)
    Path("there/printed.txt").write_text(capsys.readouterr().out)
    convert("there/chunks", "-o", "back", "--to", *direction.back)
    Path("back/printed.txt").write_text(capsys.readouterr().out)

    if accept:
        write(here, golden)
    assert kept(here) == kept(golden)


def kept(folder: Path) -> dict[str, bytes]:
    """The files of both runs, except the reports, which name their folder."""
    patterns = ("*/chunks/*", "*/manifest.jsonl", "*/printed.txt", "*/urls.txt", "*/rejects/*")
    paths = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write(folder: Path, golden: Path) -> None:
    """Replace what was expected."""
    shutil.rmtree(golden / "there", ignore_errors=True)
    shutil.rmtree(golden / "back", ignore_errors=True)
    for name, text in kept(folder).items():
        path = golden / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
