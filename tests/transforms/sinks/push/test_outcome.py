import pytest
from msgspec.structs import replace

from schemas.account import Chunk
from schemas.receipt import Receipt, Refusal, Settled
from transforms.sinks.push.outcome import Fate, Pushed, fate, fates

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


def receipt(state: Settled, first: int = 0, count: int = 0, **more: object) -> Receipt:
    return Receipt(chunk=1, sha256="5994", state=state, first=first, count=count, **more)  # type: ignore[arg-type]  # the fields of Receipt


def counts(found: Fate) -> tuple[str, int, int, int]:
    return found.state, found.accepted, found.refused, found.left


def test_a_chunk_without_receipts_is_ready() -> None:
    assert counts(fate(CHUNK, [])) == ("ready", 0, 0, 8)


@pytest.mark.parametrize("state", [Settled.SENDING, Settled.FAILED, Settled.SPLIT], ids=str)
def test_a_chunk_that_is_not_settled_has_failed_so_far(state: Settled) -> None:
    assert counts(fate(CHUNK, [receipt(state)])) == ("failed", 0, 0, 8)


def test_a_chunk_that_was_accepted_as_a_whole_is_accepted() -> None:
    told = [
        receipt(Settled.SENDING),
        receipt(Settled.FAILED, reply="torn"),
        receipt(Settled.SENDING),
        receipt(Settled.ACCEPTED, reply="Success", bytes=90),
    ]
    found = fate(CHUNK, told)

    assert counts(found) == ("accepted", 8, 0, 0)
    assert (found.attempts, found.bytes, found.reply) == (2, 90, "Success")


def test_a_chunk_of_which_only_a_half_was_accepted_has_failed_so_far() -> None:
    told = [receipt(Settled.SPLIT), receipt(Settled.ACCEPTED, 0, 4)]
    assert counts(fate(CHUNK, told)) == ("failed", 4, 0, 4)


def test_a_chunk_whose_halves_are_settled_is_settled() -> None:
    told = [
        receipt(Settled.SPLIT),
        receipt(Settled.ACCEPTED, 0, 4),
        receipt(Settled.SPLIT, 4, 4),
        receipt(Settled.ACCEPTED, 4, 3),
        receipt(Settled.REFUSED, 7, 1, reply="malformed feed"),
    ]
    found = fate(CHUNK, told)

    assert counts(found) == ("partly-accepted", 7, 1, 0)
    assert found.refusals == (Refusal(7, "malformed feed"),)


def test_records_that_are_named_are_refused_out_of_an_accepted_chunk() -> None:
    refused = (Refusal(5, "FAIL"), Refusal(2, "FAIL_UNKNOWNTYPE"))
    found = fate(CHUNK, [receipt(Settled.ACCEPTED, refused=refused)])

    assert counts(found) == ("partly-accepted", 6, 2, 0)
    assert [one.record for one in found.refusals] == [2, 5]


def test_a_chunk_that_was_refused_as_a_whole_names_no_record() -> None:
    found = fate(CHUNK, [receipt(Settled.REFUSED, reply="malformed feed")])

    assert counts(found) == ("refused", 0, 8, 0)
    assert (found.refusals, found.reply) == ((), "malformed feed")


def test_each_chunk_has_its_own_receipts() -> None:
    found = fates(
        [CHUNK], [receipt(Settled.ACCEPTED), Receipt(chunk=2, sha256="", state=Settled.FAILED)]
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
    return Fate(chunk=chunk, state=state).lets_pass


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
    one = Fate(chunk=CHUNK, state="accepted")
    pushed = Pushed(target="", fates=(one, one, Fate(chunk=CHUNK, state="ready")))
    assert pushed.chunks() == {"accepted": 2, "ready": 1}


def test_a_chunk_without_records_is_refused_by_its_receipt_alone() -> None:
    empty = replace(CHUNK, records={}, feedtype="full")
    found = fate(empty, [receipt(Settled.REFUSED, reply="no")])
    assert (*counts(found), found.lets_pass) == ("refused", 0, 0, 0, False)


def test_nothing_passes_groups_that_replace_others_and_were_refused() -> None:
    groups = replace(CHUNK, format="gsa-groups", feedtype="replace")
    assert not fate(groups, [receipt(Settled.REFUSED, reply="no")]).lets_pass
