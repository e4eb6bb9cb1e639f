import pytest
from msgspec.structs import replace

from schemas.account import Chunk
from schemas.receipt import AttemptState, Receipt, Refusal
from transforms.sinks.push.outcome import ChunkOutcome, PushAccount, outcome_of, outcomes_of

CHUNK = Chunk(
    ordinal=1,
    path="chunks/000001.xml",
    bytes=80,
    sha256="5994",
    records={"ADD": 6, "DELETE": 2},
    first_url="a",
    last_url="h",
    source="feed.xml",
    span=0,
)


def receipt(state: AttemptState, first: int = 0, count: int = 0, **more: object) -> Receipt:
    return Receipt(chunk=1, sha256="5994", state=state, first=first, count=count, **more)  # type: ignore[arg-type]  # the fields of Receipt


def counts(found: ChunkOutcome) -> tuple[str, int, int, int]:
    return found.state, found.accepted, found.refused, found.left


def test_a_chunk_without_receipts_is_ready() -> None:
    assert counts(outcome_of(CHUNK, [])) == ("ready", 0, 0, 8)


@pytest.mark.parametrize(
    "state", [AttemptState.SENDING, AttemptState.FAILED, AttemptState.SPLIT], ids=str
)
def test_a_chunk_that_is_not_settled_has_failed_so_far(state: AttemptState) -> None:
    assert counts(outcome_of(CHUNK, [receipt(state)])) == ("failed", 0, 0, 8)


def test_a_chunk_that_was_accepted_as_a_whole_is_accepted() -> None:
    told = [
        receipt(AttemptState.SENDING),
        receipt(AttemptState.FAILED, reply="torn"),
        receipt(AttemptState.SENDING),
        receipt(AttemptState.ACCEPTED, reply="Success", bytes=90),
    ]
    found = outcome_of(CHUNK, told)

    assert counts(found) == ("accepted", 8, 0, 0)
    assert (found.attempts, found.bytes, found.reply) == (2, 90, "Success")


def test_a_chunk_of_which_only_a_half_was_accepted_has_failed_so_far() -> None:
    told = [receipt(AttemptState.SPLIT), receipt(AttemptState.ACCEPTED, 0, 4)]
    assert counts(outcome_of(CHUNK, told)) == ("failed", 4, 0, 4)


def test_a_chunk_whose_halves_are_settled_is_settled() -> None:
    told = [
        receipt(AttemptState.SPLIT),
        receipt(AttemptState.ACCEPTED, 0, 4),
        receipt(AttemptState.SPLIT, 4, 4),
        receipt(AttemptState.ACCEPTED, 4, 3),
        receipt(AttemptState.REFUSED, 7, 1, reply="malformed feed"),
    ]
    found = outcome_of(CHUNK, told)

    assert counts(found) == ("partly-accepted", 7, 1, 0)
    assert found.refusals == (Refusal(7, "malformed feed"),)


def test_records_that_are_named_are_refused_out_of_an_accepted_chunk() -> None:
    refused = (Refusal(5, "FAIL"), Refusal(2, "FAIL_UNKNOWNTYPE"))
    found = outcome_of(CHUNK, [receipt(AttemptState.ACCEPTED, refused=refused)])

    assert counts(found) == ("partly-accepted", 6, 2, 0)
    assert [one.record for one in found.refusals] == [2, 5]


def test_a_chunk_that_was_refused_as_a_whole_names_no_record() -> None:
    found = outcome_of(CHUNK, [receipt(AttemptState.REFUSED, reply="malformed feed")])

    assert counts(found) == ("refused", 0, 8, 0)
    assert (found.refusals, found.reply) == ((), "malformed feed")


def test_each_chunk_has_its_own_receipts() -> None:
    found = outcomes_of(
        [CHUNK],
        [receipt(AttemptState.ACCEPTED), Receipt(chunk=2, sha256="", state=AttemptState.FAILED)],
    )
    assert [one.state for one in found] == ["accepted"]


def passes(feedtype: str | None, state: str) -> bool:
    chunk = Chunk(
        path="",
        bytes=0,
        sha256="",
        records={},
        first_url="",
        last_url="",
        source="",
        span=0,
        feedtype=feedtype,
    )
    return ChunkOutcome(chunk=chunk, state=state).allows_next


@pytest.mark.parametrize(
    ("feedtype", "state", "expected"),
    [
        ("full", "accepted", True),
        ("full", "partly-accepted", True),
        ("full", "refused", False),
        ("incremental", "refused", True),
        (None, "refused", True),
        ("incremental", "failed", False),
        ("incremental", "ready", False),
    ],
)
def test_nothing_passes_what_is_not_settled_nor_a_full_part_that_was_refused(
    feedtype: str | None, state: str, expected: bool
) -> None:
    assert passes(feedtype, state) is expected


def test_a_push_counts_its_chunks_by_state() -> None:
    one = ChunkOutcome(chunk=CHUNK, state="accepted")
    pushed = PushAccount(target="", outcomes=(one, one, ChunkOutcome(chunk=CHUNK, state="ready")))
    assert pushed.count_states() == {"accepted": 2, "ready": 1}


def test_a_chunk_without_records_is_refused_by_its_receipt_alone() -> None:
    empty = replace(CHUNK, records={}, feedtype="full")
    found = outcome_of(empty, [receipt(AttemptState.REFUSED, reply="no")])
    assert (*counts(found), found.allows_next) == ("refused", 0, 0, 0, False)


def test_nothing_passes_groups_that_replace_others_and_were_refused() -> None:
    groups = replace(CHUNK, format="gsa-groups", feedtype="replace")
    assert not outcome_of(groups, [receipt(AttemptState.REFUSED, reply="no")]).allows_next
