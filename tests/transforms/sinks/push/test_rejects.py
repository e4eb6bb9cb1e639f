from pathlib import Path

import fastavro

from schemas.receipt import Refusal
from support.wires import chunk_of
from transforms.sinks.push.outcome import ChunkOutcome
from transforms.sinks.push.rejects import write_rejects

EXPECTED = "http://gsa.example.com:19900/xmlfeed: 400, 'malformed feed'; expected Success"


def written(root: Path, *outcomes: ChunkOutcome) -> list[tuple[object, ...]]:
    """Url, code and reason of what is written of these outcomes."""
    path = root / "rejects" / "push-gsa.avro"
    assert write_rejects(outcomes, root=root, path=path)
    with path.open("rb") as stream:
        found = list(fastavro.reader(stream))
    return [(one["url"], one["code"], one["reason"]) for one in found if isinstance(one, dict)]


def refused(root: Path, words: str) -> ChunkOutcome:
    """A chunk of two records, the second of which was refused."""
    chunk = chunk_of(root, 1, "ab")
    return ChunkOutcome(
        chunk=chunk, state="partly-accepted", accepted=1, refused=1, refusals=(Refusal(1, words),)
    )


def test_a_word_of_the_appliance_is_told_as_one(tmp_path: Path) -> None:
    assert written(tmp_path, refused(tmp_path, "FAIL")) == [
        (
            "http://www.example.com/b",
            "refused",
            "the appliance responded 'FAIL'; expected it to take the record",
        )
    ]


def test_what_says_itself_what_was_expected_is_told_as_it_is(tmp_path: Path) -> None:
    assert written(tmp_path, refused(tmp_path, EXPECTED)) == [
        ("http://www.example.com/b", "refused", EXPECTED)
    ]


def test_a_chunk_that_was_refused_as_a_whole_is_one_reject(tmp_path: Path) -> None:
    fate = ChunkOutcome(
        chunk=chunk_of(tmp_path, 1, "ab"), state="refused", refused=2, reply=EXPECTED
    )
    assert written(tmp_path, fate) == [("http://www.example.com/a", "refused", EXPECTED)]


def test_a_chunk_without_records_that_was_refused_is_one_reject(tmp_path: Path) -> None:
    fate = ChunkOutcome(chunk=chunk_of(tmp_path, 1, ""), state="refused", reply=EXPECTED)
    assert written(tmp_path, fate) == [(None, "refused", EXPECTED)]


def test_what_is_taken_now_is_no_reject_any_more(tmp_path: Path) -> None:
    fate = refused(tmp_path, "FAIL")
    path = tmp_path / "rejects" / "push-gsa.avro"
    write_rejects([fate], root=tmp_path, path=path)
    taken = ChunkOutcome(chunk=fate.chunk, state="accepted", accepted=2)

    assert write_rejects([taken], root=tmp_path, path=path) == 0
    assert not path.exists()
