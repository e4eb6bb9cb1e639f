"""All readers under the corpus and under some mutated inputs; `python -m fuzz` tries more."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import IO

import pytest

from fuzz.__main__ import Findings, cases, fuzz
from fuzz.mutate import Mutator
from fuzz.properties import Violation, check, shrunk
from fuzz.targets import CORPUS, TARGETS, corpus
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats import Format, ReadOptions, ReadResult, registered

pytestmark = pytest.mark.slow

CASES = 250
"""About five seconds for a reader on a machine with nothing else to do."""
MAX_CORPUS_BYTES = 1_000_000
DOCUMENTS = [(name, path) for name, target in TARGETS.items() for path in corpus(target)]

USUAL = ReadOptions()

BROKEN = TARGETS["native"]._replace(reader="broken")
EVERY_READER = pytest.mark.parametrize("name", TARGETS)


@EVERY_READER
def test_mutated_inputs_are_read_as_promised(name: str) -> None:
    for number, data in islice(cases(TARGETS[name], seed=0), CASES):
        check(TARGETS[name], data, seed=number)


@pytest.mark.parametrize(("name", "path"), DOCUMENTS, ids=lambda value: Path(value).name)
def test_the_corpus_is_read_as_promised(name: str, path: Path) -> None:
    for seed in range(8):  # of options, pieces and spans
        check(TARGETS[name], path.read_bytes(), seed=seed, memory=seed == 0)


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(sizes) < MAX_CORPUS_BYTES


# The suite itself


def test_a_seed_makes_the_same_cases_each_time() -> None:
    first, second = (list(islice(cases(TARGETS["native"], seed=7), 300)) for _ in range(2))
    assert first == second
    assert first != list(islice(cases(TARGETS["native"], seed=8), 300))


def test_a_mutated_document_is_bounded() -> None:
    mutator = Mutator([b"a" * 20_000], [b"word" * 5_000], random=Random(1))
    assert max(len(mutator.case()) for _ in range(200)) == 24 << 10


def test_a_document_is_shrunk_to_what_fails() -> None:
    assert shrunk(b"aaaa<bad>aaaaaaaa", lambda data: b"bad" in data) == b"bad"


def reject(offset: int, length: int, data: bytes = b"", code: str = "bad") -> Reject:
    return Reject(
        code=code, reason="r", stage="read", source="f", offset=offset, length=length, data=data
    )


class Broken:
    """A reader that yields what it is told, and fails where it is told to."""

    def __init__(self, *found: ReadResult, times: int = 1, exc: Exception | None = None) -> None:
        self._found = found
        self._times = times
        self._exc = exc

    def __call__(
        self, stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = USUAL
    ) -> Iterator[ReadResult]:
        for _ in range(self._times):
            yield from self._found
        if self._exc:
            raise self._exc


@pytest.mark.parametrize(
    ("reader", "kind"),
    [
        (Broken(reject(0, 0), times=1_000_000), "no progress"),
        (Broken(reject(0, 1, b"x"), reject(0, 1, b"x")), "rejects overlap"),
        (Broken(reject(2, 1, b"y"), reject(0, 1, b"x")), "rejects overlap"),
        (Broken(reject(0, 9)), "reject outside"),
        (Broken(reject(0, 0), reject(0, 1, b"x")), "empty reject"),
        (Broken(reject(0, 1, b"z")), "reject has other bytes"),
        (Broken(reject(0, 2, b"x")), "reject truncated in silence"),
        (Broken(reject(0, 1, b"x", code="defect")), "defect r"),
        (Broken(exc=KeyError("k")), "raises KeyError in "),
        (Broken(exc=RecursionError()), "raises RecursionError in "),
    ],
)
def test_a_broken_reader_is_found(reader: Broken, kind: str) -> None:
    with registered(broken(reader)), pytest.raises(Violation) as raised:
        check(BROKEN, b"x y", seed=0)
    assert raised.value.name == kind


def broken(reader: Broken) -> Format:
    return Format(name=BROKEN.reader, title="a reader with a defect", read=reader)


class Endless(Broken):
    """A reader that never ends, and yields nothing."""

    def __call__(
        self, stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = USUAL
    ) -> Iterator[ReadResult]:
        while True:
            yield from ()


def test_a_reader_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.properties.CPU_SECONDS", 0.2)
    with registered(broken(Endless())), pytest.raises(Violation, match=r"^hang: "):
        check(BROKEN, b"x", seed=0)


def test_a_finding_is_kept(tmp_path: Path) -> None:
    findings = Findings(tmp_path)

    with registered(broken(Broken(exc=KeyError("k")))):
        assert fuzz(BROKEN, findings, seed=0, most=3, seconds=3600) == 3

    assert findings.kinds == {"broken raises KeyError in ": 3}
    kept = sorted(path.suffix for path in (tmp_path / "broken").iterdir())
    assert kept == ["", ".txt"]
