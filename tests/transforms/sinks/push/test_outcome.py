"""The outcome of a chunk by its receipts, and the rejects of refused records."""

from pathlib import Path

import fastavro
import pytest
from msgspec.structs import replace

from feedferry.schemas.receipt import ChunkState, Receipt, Refusal, RefusalOf
from feedferry.transforms.sinks.push.outcome import (
    ChunkOutcome,
    PushAccount,
    outcome_of,
    write_rejects,
)
from support.appliance_sockets import chunk
from support.fake_appliance import chunk_of

READY, SENDING, FAILED = ChunkState.READY, ChunkState.SENDING, ChunkState.FAILED
ACCEPTED, REFUSED, SPLIT = ChunkState.ACCEPTED, ChunkState.REFUSED, ChunkState.SPLIT
PARTLY_ACCEPTED = ChunkState.PARTLY_ACCEPTED
ILL_FORMED = "http://gsa.example.com:19900/xmlfeed: 400, 'malformed feed'; expected Success"
CHUNK = chunk(b"", ordinal=1, records={"ADD": 6, "DELETE": 2})


def receipt(state: ChunkState, first: int = 0, count: int = 0, **fields: object) -> Receipt:
    return Receipt(chunk=1, sha256="5994", state=state, first=first, count=count, **fields)  # type: ignore[arg-type]


FIRST_HALF = [receipt(SPLIT), receipt(ACCEPTED, 0, 4)]
ALL_BUT_ONE = [receipt(SPLIT), receipt(ACCEPTED, 0, 7)]


@pytest.mark.parametrize(
    ("receipts", "expected"),
    [
        ([], (READY, 0, 0, 8)),
        ([receipt(SENDING)], (FAILED, 0, 0, 8)),
        ([receipt(FAILED)], (FAILED, 0, 0, 8)),
        ([receipt(SPLIT)], (FAILED, 0, 0, 8)),
        ([receipt(SENDING), receipt(FAILED), receipt(ACCEPTED)], (ACCEPTED, 8, 0, 0)),
        ([receipt(REFUSED)], (REFUSED, 0, 8, 0)),
        (FIRST_HALF, (FAILED, 4, 0, 4)),
        ([*FIRST_HALF, receipt(SPLIT, 4, 4), receipt(ACCEPTED, 4, 4)], (ACCEPTED, 8, 0, 0)),
        ([*ALL_BUT_ONE, receipt(REFUSED, 7, 1)], (PARTLY_ACCEPTED, 7, 1, 0)),
        ([receipt(ACCEPTED, refused=(Refusal(5, ""),))], (PARTLY_ACCEPTED, 7, 1, 0)),
    ],
)
def test_the_last_receipts_decide(
    receipts: list[Receipt], expected: tuple[ChunkState, int, int, int]
) -> None:
    outcome = outcome_of(CHUNK, receipts)

    assert (outcome.state, outcome.accepted, outcome.refused, outcome.left) == expected


def test_attempts_bytes_and_the_last_reply_are_kept() -> None:
    receipts = [
        receipt(SENDING),
        receipt(FAILED, reply="connection closed"),
        receipt(SENDING),
        receipt(ACCEPTED, reply="Success", bytes=90),
    ]
    outcome = outcome_of(CHUNK, receipts)

    assert (outcome.attempts, outcome.bytes, outcome.reply) == (2, 90, "Success")


def test_single_refused_records_are_named_in_order() -> None:
    refused = (Refusal(5, "FAIL"), Refusal(2, "FAIL_UNKNOWNTYPE"))
    receipts = [
        receipt(SPLIT),
        receipt(ACCEPTED, 0, 7, refused=refused),
        receipt(REFUSED, 7, 1, reply=ILL_FORMED),
    ]

    assert outcome_of(CHUNK, receipts).refusals == (
        *refused[::-1],
        Refusal(7, ILL_FORMED, RefusalOf.REQUEST),
    )
    assert outcome_of(CHUNK, [receipt(REFUSED, reply=ILL_FORMED)]).refusals == ()


@pytest.mark.parametrize(
    ("feedtype", "state", "expected"),
    [
        ("full", ACCEPTED, True),
        ("full", PARTLY_ACCEPTED, True),
        *((feedtype, REFUSED, False) for feedtype in ("full", "replace")),
        ("incremental", REFUSED, True),
        (None, REFUSED, True),
        *(("incremental", state, False) for state in (FAILED, READY, SENDING, SPLIT)),
    ],
)
def test_no_chunk_follows_an_open_chunk_or_a_refused_full_part(
    feedtype: str | None, state: ChunkState, expected: bool
) -> None:
    outcome = ChunkOutcome(chunk=replace(CHUNK, feedtype=feedtype), state=state)

    assert outcome.allows_next is expected


# Rejects


def written(root: Path, outcome: ChunkOutcome) -> list[tuple[object, ...]]:
    """Return URL, code and reason of the rejects of an outcome."""
    path = root / "rejects" / "push-gsa.avro"
    write_rejects(PushAccount(target="", outcomes=(outcome,)), root=root, path=path)
    if not path.exists():
        return []
    with path.open("rb") as stream:
        rejects = [reject for reject in fastavro.reader(stream) if isinstance(reject, dict)]
    return [(reject["url"], reject["code"], reject["reason"]) for reject in rejects]


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (
            Refusal(1, "a; expected b"),
            "the appliance responded 'a; expected b'; expected it to take the record",
        ),
        (Refusal(1, ILL_FORMED, RefusalOf.REQUEST), ILL_FORMED),
    ],
)
def test_a_refused_record_is_a_reject_until_it_is_accepted(
    tmp_path: Path, refusal: Refusal, reason: str
) -> None:
    accepted = ChunkOutcome(chunk=chunk_of(tmp_path, 1, "ab"), state=ACCEPTED, accepted=2)
    partly = replace(accepted, state=PARTLY_ACCEPTED, accepted=1, refused=1, refusals=(refusal,))

    assert written(tmp_path, partly) == [("http://www.example.com/b", "refused", reason)]
    assert written(tmp_path, accepted) == []


@pytest.mark.parametrize(("names", "url"), [("ab", "http://www.example.com/a"), ("", None)])
def test_a_chunk_that_was_refused_as_a_whole_is_one_reject(
    tmp_path: Path, names: str, url: str | None
) -> None:
    outcome = ChunkOutcome(
        chunk=chunk_of(tmp_path, 1, names), state=REFUSED, refused=len(names), reply=ILL_FORMED
    )

    assert written(tmp_path, outcome) == [(url, "refused", ILL_FORMED)]
