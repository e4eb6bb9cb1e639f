import hashlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from schemas.account import Chunk
from schemas.errors import BusyError, ConfigError, SourceError
from schemas.receipt import AttemptState
from support.wires import GSA, ILL_FORMED, SUCCESS, THUNDERSTONE, Sent, chunk_of, items_of, wired
from transforms.sinks.push.model import ApplianceResponse
from transforms.sinks.push.outcome import PushAccount
from transforms.sinks.push.progress import PushProgress
from transforms.sinks.push.pusher import DRAINED, PushPaths, push
from transforms.sinks.push.receipts import Receipts, read_receipts
from transforms.sinks.push.settings import GroupsMode, OnRefusal, PushSettings
from transforms.sinks.push.throttle.backoff import Backoff
from transforms.sinks.push.throttle.gate import StopSignal
from transforms.sinks.push.update_index import write_update

AT_ONCE = Backoff(attempts=3, chance=lambda: 0.0)
TO_GSA = PushSettings(appliance=GSA, backoff=AT_ONCE)
TO_THUNDERSTONE = PushSettings(appliance=THUNDERSTONE, backoff=AT_ONCE)
TORN = ApplianceResponse(
    fault="http://gsa.example.com:19900/xmlfeed: the connection was torn", sent_bytes=9
)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def pushing(tmp_path: Path, told: list[str]) -> Callable[..., PushAccount]:
    def run(
        chunks: Sequence[Chunk], settings: PushSettings = TO_GSA, stop: StopSignal | None = None
    ) -> PushAccount:
        places = PushPaths(root=tmp_path, folder=tmp_path / "push" / "gsa")
        return push(
            chunks, places, settings, stop=stop or StopSignal(), watch=PushProgress(told.append)
        )

    return run


Pushing = Callable[..., PushAccount]


def accept(_sent: Sent) -> ApplianceResponse:
    return SUCCESS


def saying(*answers: ApplianceResponse) -> Callable[[Sent], ApplianceResponse]:
    """One answer after the other, the last of them for ever."""
    left = list(answers)

    def answer(_sent: Sent) -> ApplianceResponse:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def refusing(*names: str) -> Callable[[Sent], ApplianceResponse]:
    """Refuses whatever holds one of these."""

    def answer(sent: Sent) -> ApplianceResponse:
        return ILL_FORMED if set(names) & set(sent.names) else SUCCESS

    return answer


def results(*statuses: str) -> ApplianceResponse:
    """The answer of a Thunderstone appliance, with a status for each Item."""
    told = "".join(f"<ItemResult><Status>{status}</Status></ItemResult>" for status in statuses)
    body = (
        f"<ThunderstoneReplicationResult>{told}<Rows>{len(statuses)}</Rows>"
        "</ThunderstoneReplicationResult>"
    )
    return ApplianceResponse(status=200, content_type="text/xml", body=body.encode(), sent_bytes=10)


def states(pushed: PushAccount) -> list[str]:
    return [fate.state for fate in pushed.outcomes]


# Order, and once each


def test_chunks_are_sent_in_their_order(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, accept)
    pushed = pushing([chunk_of(tmp_path, 2, "cd"), chunk_of(tmp_path, 1, "ab")])

    assert wire.sent == [Sent(1, "incremental", ("a", "b")), Sent(2, "incremental", ("c", "d"))]
    assert states(pushed) == ["accepted", "accepted"]
    assert (pushed.stopped, pushed.exit_code) == (None, 0)


def test_what_was_accepted_is_not_sent_again(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [chunk_of(tmp_path, 1, "ab")]
    wire = wired(monkeypatch, accept)
    pushing(chunks)
    pushed = pushing(chunks)

    assert len(wire.sent) == 1
    assert states(pushed) == ["accepted"]


def test_an_attempt_has_a_receipt_before_it_begins_and_one_when_it_is_over(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "push" / "gsa"
    seen: list[AttemptState] = []

    def look(_sent: Sent) -> ApplianceResponse:
        seen.extend(receipt.state for receipt in read_receipts(folder))
        return SUCCESS

    wired(monkeypatch, look)
    pushing([chunk_of(tmp_path, 1, "a")])

    found = [(one.state, one.attempt, one.status, one.reply) for one in read_receipts(folder)]
    assert seen == [AttemptState.SENDING]
    assert found == [
        (AttemptState.SENDING, 1, None, ""),
        (AttemptState.ACCEPTED, 1, 200, "Success"),
    ]


def test_the_chunk_whose_answer_was_not_seen_is_sent_again(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [chunk_of(tmp_path, 1, "a"), chunk_of(tmp_path, 2, "b")]

    def killed(_sent: Sent) -> ApplianceResponse:
        raise RuntimeError("killed")

    wired(monkeypatch, killed)
    with pytest.raises(RuntimeError, match=r"^killed$"):
        pushing(chunks)
    wire = wired(monkeypatch, accept)
    pushed = pushing(chunks)

    assert [sent.chunk for sent in wire.sent] == [1, 2]
    assert pushed.outcomes[0].attempts == 2


def test_datasources_are_pushed_side_by_side_each_in_its_order(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=60)

    def meet(_sent: Sent) -> ApplianceResponse:
        both.wait()
        return SUCCESS

    wire = wired(monkeypatch, meet)
    chunks = [
        chunk_of(tmp_path, number, str(number), datasource=f"lane{number % 2}")
        for number in range(1, 7)
    ]
    pushed = pushing(chunks, replace(TO_GSA, jobs=2))

    sent = [one.chunk for one in wire.sent]
    assert [number for number in sent if number % 2] == [1, 3, 5]
    assert [number for number in sent if not number % 2] == [2, 4, 6]
    assert states(pushed) == ["accepted"] * 6


# What goes wrong


def test_a_torn_connection_is_tried_again(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    wire = wired(monkeypatch, saying(TORN, SUCCESS))
    pushed = pushing([chunk_of(tmp_path, 1, "a")])

    assert len(wire.sent) == 2
    assert states(pushed) == ["accepted"]
    assert told == [
        "chunks/000001.xml: http://gsa.example.com:19900/xmlfeed: the connection was torn; tried"
        " again in 0 s"
    ]


def test_a_chunk_that_cannot_be_sent_ends_the_push_and_holds_back_what_is_behind_it(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, saying(TORN))
    pushed = pushing([chunk_of(tmp_path, 1, "a"), chunk_of(tmp_path, 2, "b")])

    assert [sent.chunk for sent in wire.sent] == [1, 1, 1]
    assert states(pushed) == ["failed", "ready"]
    assert pushed.exit_code == 4
    assert pushed.stopped == (
        "chunks/000001.xml: http://gsa.example.com:19900/xmlfeed: the connection was torn"
    )


def test_a_push_that_was_ended_goes_on_where_it_was(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [chunk_of(tmp_path, number, str(number)) for number in (1, 2, 3)]
    wired(monkeypatch, saying(SUCCESS, TORN))
    pushing(chunks)
    wire = wired(monkeypatch, accept)
    pushed = pushing(chunks)

    assert [sent.chunk for sent in wire.sent] == [2, 3]
    assert states(pushed) == ["accepted"] * 3


def test_an_appliance_that_does_not_trust_us_ends_the_push_at_once(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(
        monkeypatch, saying(ApplianceResponse(status=200, body=b"Error - Unauthorized Request"))
    )
    pushed = pushing([chunk_of(tmp_path, 1, "a"), chunk_of(tmp_path, 2, "b", datasource="other")])

    assert len(wire.sent) == 1
    assert pushed.exit_code == 4
    assert "List of Trusted IP Addresses" in (pushed.stopped or "")


def test_a_full_disk_is_waited_for_beyond_the_attempts(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = ApplianceResponse(
        status=200,
        body=b"Feed not accepted due to insufficient disk space. Contact Google for Work Support.",
    )
    wire = wired(monkeypatch, saying(full, full, full, full, full, SUCCESS))
    nothing = Backoff(attempts=3, base_seconds=0.001, chance=lambda: 0.0)
    backlog = replace(TO_GSA.backlog, interval_seconds=0.001)
    pushed = pushing(
        [chunk_of(tmp_path, 1, "a")], replace(TO_GSA, backoff=nothing, backlog=backlog)
    )

    assert len(wire.sent) == 6
    assert states(pushed) == ["accepted"]


# What is refused


def test_a_refused_chunk_is_halved_until_its_bad_records_stand_alone(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, refusing("c"))
    pushed = pushing([chunk_of(tmp_path, 1, "abcdefgh"), chunk_of(tmp_path, 2, "z")])

    taken = [name for sent in wire.sent for name in sent.names if "c" not in sent.names]
    [fate, behind] = pushed.outcomes
    assert taken == ["a", "b", "d", "e", "f", "g", "h", "z"]
    assert (fate.state, fate.accepted, fate.refused) == ("partly-accepted", 7, 1)
    assert [refusal.record for refusal in fate.refusals] == [2]
    assert behind.state == "accepted"
    assert (pushed.stopped, pushed.exit_code) == (None, 1)


def test_only_the_first_part_of_a_halved_full_chunk_is_full(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, refusing("a"))
    chunks = [chunk_of(tmp_path, 1, "abcd", feedtype="full"), chunk_of(tmp_path, 2, "z")]
    pushing(chunks)

    assert wire.sent == [
        Sent(1, "full", ("a", "b", "c", "d")),
        Sent(1, "full", ("a", "b")),
        Sent(1, "full", ("a",)),
        Sent(1, "full", ("b",)),
        Sent(1, "incremental", ("c", "d")),
        Sent(2, "incremental", ("z",)),
    ]


def test_nothing_is_sent_behind_a_full_part_of_which_nothing_was_taken(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, refusing("a"))
    chunks = [chunk_of(tmp_path, 1, "a", feedtype="full"), chunk_of(tmp_path, 2, "z")]
    pushed = pushing(chunks)

    assert [sent.chunk for sent in wire.sent] == [1]
    assert pushed.exit_code == 4
    assert pushed.stopped == (
        "chunks/000001.xml: the full part of 'wiki' was refused; expected it to be taken before"
        " the parts behind it, which are not sent: mend its records and convert again, or remove"
        " the receipts to try it again as it is"
    )


def test_that_holds_for_the_push_that_goes_on_too(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, refusing("a"))
    chunks = [chunk_of(tmp_path, 1, "a", feedtype="full"), chunk_of(tmp_path, 2, "z")]
    pushing(chunks)
    pushed = pushing(chunks)

    assert [sent.chunk for sent in wire.sent] == [1]
    assert pushed.exit_code == 4


def test_halving_goes_on_where_it_was(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [chunk_of(tmp_path, 1, "abcd")]
    left = [ILL_FORMED, SUCCESS]

    def killed(_sent: Sent) -> ApplianceResponse:
        if not left:
            raise RuntimeError("killed")
        return left.pop(0)

    wired(monkeypatch, killed)
    with pytest.raises(RuntimeError, match=r"^killed$"):
        pushing(chunks)
    wire = wired(monkeypatch, accept)
    pushed = pushing(chunks)

    assert [sent.names for sent in wire.sent] == [("c", "d")]
    assert states(pushed) == ["accepted"]


def test_a_refused_chunk_can_end_the_push(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, refusing("b"))
    chunks = [chunk_of(tmp_path, 1, "ab"), chunk_of(tmp_path, 2, "c")]
    pushed = pushing(chunks, replace(TO_GSA, on_refusal=OnRefusal.STOP))

    assert [sent.chunk for sent in wire.sent] == [1]
    assert (states(pushed), pushed.exit_code) == (["failed", "ready"], 4)


def test_a_refused_chunk_can_be_set_aside_whole(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, refusing("b"))
    chunks = [chunk_of(tmp_path, 1, "ab"), chunk_of(tmp_path, 2, "c")]
    pushed = pushing(chunks, replace(TO_GSA, on_refusal=OnRefusal.SKIP))

    assert [sent.chunk for sent in wire.sent] == [1, 2]
    assert (states(pushed), pushed.exit_code) == (["refused", "accepted"], 1)
    assert [(fate.accepted, fate.refused, fate.left) for fate in pushed.outcomes] == [
        (0, 2, 0),
        (1, 0, 0),
    ]


def test_more_refused_records_than_allowed_end_the_push(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(monkeypatch, refusing("a", "b"))
    pushed = pushing([chunk_of(tmp_path, 1, "abcd")], replace(TO_GSA, max_rejects=1))

    assert pushed.exit_code == 3
    assert pushed.stopped is not None
    assert pushed.stopped.endswith(
        "this is more than the 1 records that --max-rejects allows the appliance to refuse"
    )


def test_an_appliance_that_takes_nothing_at_all_ends_the_push(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, lambda _sent: ILL_FORMED)
    names = [f"{number:03d}" for number in range(300)]
    pushed = pushing([chunk_of(tmp_path, 1, names)])

    assert pushed.exit_code == 4
    assert pushed.stopped is not None
    assert pushed.stopped.endswith(
        "; 100 records refused in a row: expected the appliance to take some; push again to go on"
    )
    assert sum(len(sent.names) == 1 for sent in wire.sent) == 100


# Thunderstone


def test_the_search_indexes_are_updated_once_last_and_alone(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, lambda sent: results(*["OK"] * (len(sent.names) or 1)))
    pushed = pushing([items_of(tmp_path, 1, "ab"), items_of(tmp_path, 2, "c")], TO_THUNDERSTONE)

    assert [(sent.chunk, sent.names) for sent in wire.sent] == [
        (1, ("a", "b")),
        (2, ("c",)),
        (3, ()),
    ]
    assert states(pushed) == ["accepted"] * 3


def test_they_are_not_updated_behind_a_push_that_was_ended(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, saying(results("Not Allowed")))
    pushed = pushing([items_of(tmp_path, 1, "a")], TO_THUNDERSTONE)

    assert len(wire.sent) == 1
    assert pushed.exit_code == 4
    assert "Cluster Members" in (pushed.stopped or "")


def test_an_item_that_the_appliance_names_is_refused_without_halving(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, saying(results("OK", "FAIL", "OK"), results("OK")))
    pushed = pushing([items_of(tmp_path, 1, "abc")], TO_THUNDERSTONE)

    assert [sent.chunk for sent in wire.sent] == [1, 2]
    assert [refusal.record for refusal in pushed.outcomes[0].refusals] == [1]
    assert (pushed.outcomes[0].accepted, pushed.exit_code) == (2, 1)


# When it ends


def test_a_push_that_drains_finishes_the_chunk_that_is_under_way(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = StopSignal()

    def interrupted(_sent: Sent) -> ApplianceResponse:
        stop.drain()
        return SUCCESS

    wire = wired(monkeypatch, interrupted)
    pushed = pushing([chunk_of(tmp_path, 1, "a"), chunk_of(tmp_path, 2, "b")], stop=stop)

    assert [sent.chunk for sent in wire.sent] == [1]
    assert states(pushed) == ["accepted", "ready"]
    assert pushed.stopped == DRAINED


def test_nothing_is_begun_behind_the_deadline(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, accept)
    pushed = pushing([chunk_of(tmp_path, 1, "a")], replace(TO_GSA, deadline=1.0))

    assert wire.sent == []
    assert pushed.exit_code == 75


def test_a_backlog_above_the_ceiling_holds_the_first_chunk_back(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, accept, backlog=ApplianceResponse(status=200, body=b"4001"))
    pushed = pushing([chunk_of(tmp_path, 1, "a")], replace(TO_GSA, max_wait_seconds=0.0))

    assert wire.sent == []
    assert pushed.exit_code == 75


def test_a_second_push_of_a_run_is_kept_out(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, accept)
    with (
        Receipts(tmp_path / "push" / "gsa", target="other", run="other"),
        pytest.raises(BusyError),
    ):
        pushing([chunk_of(tmp_path, 1, "a")])

    assert wire.sent == []


# Before anything is sent


def test_a_full_feed_without_records_is_refused(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(monkeypatch, accept)
    with pytest.raises(ConfigError) as caught:
        pushing([chunk_of(tmp_path, 1, "", feedtype="full")])

    assert str(caught.value) == (
        "chunks/000001.xml: a full feed without records, which empties 'wiki'; expected records,"
        " or --allow-empty-full"
    )


def test_one_is_sent_if_that_is_meant(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, accept)
    pushed = pushing([chunk_of(tmp_path, 1, "", feedtype="full")], replace(TO_GSA, can_empty=True))

    assert wire.sent == [Sent(1, "full", ())]
    assert states(pushed) == ["accepted"]


def test_what_was_accepted_is_sent_again_if_that_is_asked_for(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [chunk_of(tmp_path, 1, "a"), chunk_of(tmp_path, 2, "b")]
    wire = wired(monkeypatch, accept)
    pushing(chunks)
    pushed = pushing(chunks, replace(TO_GSA, replay=True))

    assert [sent.chunk for sent in wire.sent] == [1, 2, 1, 2]
    assert states(pushed) == ["accepted", "accepted"]


# What must never happen


@pytest.mark.parametrize("way", [OnRefusal.BISECT, OnRefusal.SKIP], ids=str)
def test_nothing_is_sent_behind_an_empty_full_feed_that_was_refused(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch, way: OnRefusal
) -> None:
    wire = wired(monkeypatch, saying(ILL_FORMED, SUCCESS))
    chunks = [chunk_of(tmp_path, 1, "", feedtype="full"), chunk_of(tmp_path, 2, "z")]
    settings = replace(TO_GSA, can_empty=True, on_refusal=way)
    pushing(chunks, settings)
    pushed = pushing(chunks, settings)

    assert [sent.chunk for sent in wire.sent] == [1]
    assert (states(pushed), pushed.exit_code) == (["refused", "ready"], 4)


def groups_of(root: Path) -> Chunk:
    """Write a chunk of two groups that take the place of those of their source."""
    chunk = chunk_of(root, 1, "ab")
    member = "<membership><principal>%s</principal><members/></membership>"
    text = f"<xmlgroups>{member % 'a'}{member % 'b'}</xmlgroups>".encode()
    (root / chunk.path).write_bytes(text)
    digest = hashlib.sha256(text).hexdigest()
    return replace(chunk, format="gsa-groups", feedtype="replace", bytes=len(text), sha256=digest)


def test_only_the_first_part_of_halved_groups_replaces_what_there_was(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, saying(ILL_FORMED, SUCCESS))
    pushed = pushing([groups_of(tmp_path)])

    assert [sent.feedtype for sent in wire.sent] == ["replace", "replace", "incremental"]
    assert states(pushed) == ["accepted"]


def test_nothing_is_sent_while_a_chunk_that_is_to_be_sent_again_is_gone(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [chunk_of(tmp_path, 1, "a", feedtype="full"), chunk_of(tmp_path, 2, "b")]
    wire = wired(monkeypatch, accept)
    pushing(chunks)
    (tmp_path / "chunks" / "000002.xml").unlink()
    with pytest.raises(SourceError) as caught:
        pushing(chunks, replace(TO_GSA, replay=True))

    assert [sent.chunk for sent in wire.sent] == [1, 2]
    assert states(pushing(chunks)) == ["accepted", "accepted"]
    assert str(caught.value) == (
        f"{tmp_path}/chunks/000002.xml: No such file or directory; expected the file of a chunk"
    )


# What no appliance can take


def test_a_record_that_no_request_can_hold_is_set_aside_without_being_sent(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, accept)
    chunk = chunk_of(tmp_path, 1, ["a", "b" * 2000, "c"], feedtype="full")
    pushed = pushing([chunk], replace(TO_GSA, max_request_bytes=1500))

    [fate] = pushed.outcomes
    assert wire.sent == [Sent(1, "full", ("a",)), Sent(1, "incremental", ("c",))]
    assert (fate.state, fate.accepted, fate.refused, fate.left) == ("partly-accepted", 2, 1, 0)
    assert [tuple(msgspec.structs.astuple(one)) for one in fate.refusals] == [
        (1, "2,289 bytes on the wire; expected fewer than 1,500: no request holds it")
    ]


def test_it_ends_a_push_that_is_to_stop_at_a_refusal(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(monkeypatch, accept)
    settings = replace(TO_GSA, max_request_bytes=1500, on_refusal=OnRefusal.STOP)
    pushed = pushing([chunk_of(tmp_path, 1, ["b" * 2000])], settings)

    assert (states(pushed), pushed.exit_code) == (["failed"], 4)


# Going on


def test_an_item_that_is_refused_can_end_the_push_behind_its_chunk(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, saying(results("OK", "FAIL")))
    chunks = [items_of(tmp_path, 1, "ab"), items_of(tmp_path, 2, "cd")]
    pushed = pushing(chunks, replace(TO_THUNDERSTONE, on_refusal=OnRefusal.STOP))

    assert [sent.chunk for sent in wire.sent] == [1]
    assert states(pushed) == ["partly-accepted", "ready", "ready"]
    assert pushed.exit_code == 4
    assert pushed.stopped == (
        "chunks/000001.xml: OK for 1 of 2 Items, FAIL; expected all of them to be taken, as"
        " --on-refusal is stop"
    )


def test_updates_of_the_search_indexes_between_chunks_are_left_to_the_last_one(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wired(monkeypatch, lambda sent: results(*["OK"] * (len(sent.names) or 1)))
    items = [items_of(tmp_path, 1, "a"), items_of(tmp_path, 3, "b")]
    update = replace(write_update(tmp_path / "chunks" / "u.xml"), path="chunks/u.xml", ordinal=2)
    pushing([items[0], update, items[1]], TO_THUNDERSTONE)
    pushed = pushing([items[0], update, items[1]], TO_THUNDERSTONE)

    assert [sent.chunk for sent in wire.sent] == [1, 3, 4]
    assert states(pushed) == ["accepted"] * 4
    assert pushed.outcomes[1].reply == "not sent: the update behind all chunks does the same"


def test_a_push_that_had_too_many_refused_is_not_gone_on_with(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [chunk_of(tmp_path, 1, "ab"), chunk_of(tmp_path, 2, "c")]
    wired(monkeypatch, refusing("a", "b"))
    pushing(chunks, replace(TO_GSA, max_rejects=0))
    wire = wired(monkeypatch, accept)
    pushed = pushing(chunks, replace(TO_GSA, max_rejects=0))

    assert wire.sent == []
    assert pushed.exit_code == 3
    assert pushed.stopped == (
        "1 records were refused before; this is more than the 0 that --max-rejects allows: allow"
        " more to go on"
    )


def test_a_push_that_is_asked_to_end_when_all_is_settled_has_ended_well(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = StopSignal()

    def interrupted(_sent: Sent) -> ApplianceResponse:
        stop.drain()
        return SUCCESS

    wired(monkeypatch, interrupted)
    chunks = [chunk_of(tmp_path, 1, "a")]
    pushed = pushing(chunks, stop=stop)

    assert (pushed.stopped, pushed.exit_code) == (None, 0)
    assert states(pushing(chunks, replace(TO_GSA, replay=True))) == ["accepted"]


def test_a_push_goes_on_in_whatever_order_its_chunks_are_given(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [chunk_of(tmp_path, 1, "a"), chunk_of(tmp_path, 2, "b")]
    wired(monkeypatch, saying(SUCCESS, TORN))
    pushing(chunks)
    wire = wired(monkeypatch, accept)
    pushing(chunks[::-1])

    assert [sent.chunk for sent in wire.sent] == [2]


def test_a_push_does_not_go_on_under_another_name(
    tmp_path: Path, pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = chunk_of(tmp_path, 1, "a")
    wire = wired(monkeypatch, accept)
    pushing([chunk])
    with pytest.raises(ConfigError, match="push the files that they are of, with"):
        pushing([replace(chunk, datasource="other")])

    assert len(wire.sent) == 1


@pytest.mark.parametrize("mode", [GroupsMode.REPLACE, GroupsMode.CLEANUP])
def test_the_first_groups_of_each_source_begin_anew_in_a_mode(
    pushing: Pushing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: GroupsMode
) -> None:
    wire = wired(monkeypatch, accept)
    groups = replace(groups_of(tmp_path), feedtype="incremental")
    chunks = [
        replace(groups, ordinal=1, datasource="ldap"),
        replace(groups, ordinal=2, datasource="ldap"),
        replace(groups, ordinal=3, datasource="files"),
    ]
    pushing(chunks, replace(TO_GSA, groups_mode=mode))
    assert [one.feedtype for one in wire.sent] == [mode.value, "incremental", mode.value]


def test_a_push_that_is_done_again_does_not_remove_the_groups_that_it_brought(
    pushing: Pushing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = replace(groups_of(tmp_path), feedtype="full")
    chunks = [replace(groups, ordinal=1), replace(groups, ordinal=2, feedtype="incremental")]
    settings = replace(TO_GSA, groups_mode=GroupsMode.CLEANUP)
    wired(monkeypatch, saying(SUCCESS, TORN))
    pushing(chunks, settings)
    wire = wired(monkeypatch, accept)
    pushing(chunks, settings)
    assert [(one.chunk, one.feedtype) for one in wire.sent] == [(2, "incremental")]


def test_a_mode_of_groups_needs_groups(
    pushing: Pushing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(monkeypatch, accept)
    with pytest.raises(ConfigError) as caught:
        pushing([chunk_of(tmp_path, 1, "a")], replace(TO_GSA, groups_mode=GroupsMode.REPLACE))
    assert str(caught.value) == (
        "--groups-mode replace: no groups feed among what is pushed; expected one"
    )
