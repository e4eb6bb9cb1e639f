"""At no moment of random nights does an index show a document to a stranger of the source.

One seed with more nights, printed as it goes on::

    HISTORIES="4711 10000" pytest -n0 -s -m "" tests/histories -k no_night
"""

import os
from pathlib import Path

import pytest

from support.histories.histories import IS_STRICT, describe, explore, simulated

pytestmark = pytest.mark.slow

NIGHTS = 300
SEED, COUNT = map(int, os.environ.get("HISTORIES", f"37 {NIGHTS}").split())


def test_no_night_shows_a_document_to_a_stranger_and_all_readers_find_it(tmp_path: Path) -> None:
    with simulated(tmp_path, is_strict=IS_STRICT) as simulation:
        history = explore(simulation, SEED, COUNT)
    print(f"seed {SEED}: {history.figures}")  # noqa: T201 - the figures of a long simulation
    assert history.violation is None, describe(history, is_strict=IS_STRICT)
    assert history.figures.kills >= COUNT // 20
    assert history.figures.stops >= COUNT // 60
    assert history.figures.shown >= 5 * COUNT


MUTANTS = ["withholding", "descendants", "new-parents", "groups", "versions", "tightening"]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_of_the_program_is_found(tmp_path: Path, mutant: str) -> None:
    is_strict = mutant == "tightening"
    with simulated(tmp_path, mutant=mutant, is_strict=is_strict) as simulation:
        history = explore(simulation, SEED, NIGHTS)
    assert history.violation is not None
