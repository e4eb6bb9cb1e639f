"""All readers on the corpus and on mutated inputs.

The environment variables FUZZ_CASES and FUZZ_SEED state how many inputs are tried for each reader,
and which; a failure shows the input.
"""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import IO

import pytest
from msgspec.structs import replace

from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.testing import FormatKit, FormatProperties
from feedferry.testing.mutations import Mutator
from feedferry.testing.reader_properties import Violation, check, check_memory
from feedferry.transforms.formats import Format, ReadOptions, ReadResult
from kits import KITS, Kit
from support.containment import check_containment, damaged_documents
from support.fast_path import PROPERTIES

pytestmark = pytest.mark.slow

CASES = int(os.environ.get("FUZZ_CASES", "250"))
"""By default about five seconds for a reader on a machine with nothing else to do."""
SEED = os.environ.get("FUZZ_SEED", "0")
MEMORY_EVERY = 50
"""How often the memory of a case is measured, which takes several times as long."""
CORPUS = Path(__file__).parent / "fuzz" / "corpus"
MAX_CORPUS_BYTES = 1_000_000
DOCUMENTS = [(name, path) for name in KITS for path in sorted((CORPUS / name).glob("*"))]

USUAL = ReadOptions()


class TestProperties(FormatProperties):
    kits = tuple(KITS.values())
    properties = PROPERTIES
    cases = CASES
    seed = SEED
    memory_every = MEMORY_EVERY if CASES > 250 else 0

    def seeds(self, kit: FormatKit) -> list[bytes]:
        corpus = [path.read_bytes() for name, path in DOCUMENTS if name == kit.name]
        return [*super().seeds(kit), *corpus]


@pytest.mark.parametrize("name", [name for name, kit in KITS.items() if kit.frame])
def test_damage_that_crosses_records_neither_merges_nor_loses_them(name: str) -> None:
    documents = damaged_documents(KITS[name], Random(f"{name} {SEED}"))
    for number, document in enumerate(islice(documents, 4 * CASES)):
        try:
            check_containment(KITS[name], document)
        except Violation as exc:
            raise AssertionError(f"case {number} of seed {SEED}: {document!r}") from exc


@pytest.mark.parametrize(("name", "path"), DOCUMENTS, ids=lambda value: Path(value).name)
def test_all_properties_hold_for_the_corpus(name: str, path: Path) -> None:
    for seed in range(8):  # of options, pieces and spans
        more = (*PROPERTIES, check_memory) if seed == 0 else PROPERTIES
        check(KITS[name], path.read_bytes(), seed=seed, more=more)


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(sizes) < MAX_CORPUS_BYTES


# The suite itself


def test_a_seed_has_the_same_bounded_cases_each_time() -> None:
    seeds = KITS["jsonl"].seeds(max_bytes=1 << 14)
    first, second, other = (
        [*islice(Mutator(seeds, KITS["jsonl"].words, random=Random(seed)).cases(), 300)]
        for seed in ("7", "7", "8")
    )
    assert first == second
    assert first != other
    mutator = Mutator([b"a" * 20_000], [b"word" * 5_000], random=Random(1))
    assert max(map(len, islice(mutator.cases(), 200))) == 24 << 10


def reject(offset: int, length: int, data: bytes = b"", code: str = "bad") -> Reject:
    return Reject(
        code=code, reason="r", stage="read", source="f", offset=offset, length=length, data=data
    )


class Broken:
    """A reader that yields the given results, and raises at the end."""

    def __init__(self, *results: ReadResult, times: int = 1, exc: Exception | None = None) -> None:
        self._results = results
        self._times = times
        self._exc = exc

    def __call__(
        self, stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = USUAL
    ) -> Iterator[ReadResult]:
        for _ in range(self._times):
            yield from self._results
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
    with pytest.raises(Violation) as raised:
        check(broken(reader), b"x y", seed=0)
    assert raised.value.name == kind


def broken(reader: Broken) -> Kit:
    return replace(KITS["jsonl"], format=Format(name="broken", title="defective", read=reader))


class Endless(Broken):
    """A reader that never ends, and yields nothing."""

    def __call__(
        self, stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = USUAL
    ) -> Iterator[ReadResult]:
        while True:
            yield from ()


def test_a_reader_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feedferry.testing.reader_properties.CPU_SECONDS", 0.2)
    with pytest.raises(Violation, match=r"^hang: "):
        check(broken(Endless()), b"x", seed=0)
