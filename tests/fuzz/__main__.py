"""`python -m fuzz`, run from tests/: fuzz readers for a time, or for a number of cases.

Of each kind of failure the first input is shrunk and written to a folder; the exit code is then 1.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

from fuzz.mutate import Mutator
from fuzz.properties import Violation, check, shrunk
from fuzz.targets import TARGETS, Target, seeds

MEMORY_EVERY = 50
"""How often the memory of a case is measured, which takes several times as long."""


def cases(target: Target, seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield a number and a document for each case, the seeds first."""
    documents = seeds(target)
    random = Random(f"{target.reader} {seed}")
    yield from enumerate(documents)
    mutator = Mutator(documents, target.words, random=random)
    number = len(documents)
    while True:
        yield number, mutator.case()
        number += 1


def violation(target: Target, number: int, data: bytes) -> Violation | None:
    """Return how a case fails, None if it does not."""
    try:
        check(target, data, seed=number, memory=number % MEMORY_EVERY == 0)
    except Violation as exc:
        return exc
    return None


class Findings:
    """Failing inputs, one for each kind of failure, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds: dict[str, int] = {}

    def add(self, target: Target, number: int, data: bytes, exc: Violation) -> None:
        kind = f"{target.reader} {exc.name}"
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if self.kinds[kind] > 1:
            return

        def fails(smaller: bytes) -> bool:
            found = violation(target, number, smaller)
            return found is not None and found.name == exc.name

        smaller = data if exc.name == "hang" else shrunk(data, fails)
        name = hashlib.sha256(smaller).hexdigest()[:8]
        path = self.folder / target.reader / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(smaller)
        last = violation(target, number, smaller) or exc
        path.with_suffix(".txt").write_text(f"{exc.name}\nseed {number}\n{last}\n", "utf-8")
        _say(f"{target.reader}: {exc.name}: {path} ({len(smaller)} bytes)\n  {str(last)[:600]}")


def fuzz(target: Target, findings: Findings, *, seed: int, most: int, seconds: float) -> int:
    """Try cases until the time is over or their number is reached; return how many there were."""
    end = time.monotonic() + seconds
    current = findings.folder / f"{target.reader}.current"
    done = 0
    for number, data in islice(cases(target, seed), most or None):
        if time.monotonic() > end:
            break
        current.write_bytes(data)  # is left if the process is killed
        found = violation(target, number, data)
        done += 1
        if found is not None:
            findings.add(target, number, data, found)
    current.unlink(missing_ok=True)
    return done


def main() -> int:
    """Fuzz the readers that the command line names."""
    told = _arguments()
    told.findings.mkdir(parents=True, exist_ok=True)
    findings = Findings(told.findings)
    seconds = 60 * told.minutes if told.minutes else float("inf")
    for name in [told.reader] if told.reader else TARGETS:
        done = fuzz(TARGETS[name], findings, seed=told.seed, most=told.cases, seconds=seconds)
        _say(f"{name}: {done} cases")
    for kind, count in findings.kinds.items():
        _say(f"{kind}: {count} times")
    return 1 if findings.kinds else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--reader", choices=TARGETS, help="the reader to fuzz; default: all")
    parser.add_argument("--minutes", type=float, default=0, help="time for each reader")
    parser.add_argument("--cases", type=int, default=0, help="number of cases for each reader")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other cases")
    parser.add_argument("--findings", type=Path, default=Path("findings"), help="where to write")
    told = parser.parse_args()
    if not (told.minutes or told.cases):
        parser.error("--minutes or --cases is needed")
    return told


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
