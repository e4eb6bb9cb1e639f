"""A push to an appliance that is a function: order, receipts, refusals, and how it ends."""

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import (
    BusyError,
    ConfigError,
    FatalError,
    SourceError,
    TooManyRejectsError,
)
from feedferry.schemas.receipt import ChunkState, Refusal, RefusalOf
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.rules.known_rejects import add_known_rejects, load_known_rejects
from feedferry.transforms.sinks.push.chunk_parts import ChunkSplitter
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.outcome import PushAccount, PushProgress, write_rejects
from feedferry.transforms.sinks.push.pusher import Pusher
from feedferry.transforms.sinks.push.settings import OnRefusal, PushSettings
from feedferry.transforms.sinks.push.throttle.backlog import BacklogLimits
from feedferry.transforms.sinks.push.throttle.gate import StopSignal
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.protocol import RunSession
from feedferry.transforms.storage.files.journal import DISK, Disk
from support.disks import RecordingDisk
from support.fake_appliance import (
    GSA,
    ILL_FORMED,
    SUCCESS,
    THUNDERSTONE,
    FakeClient,
    Sent,
    chunk_of,
    items_of,
)

AT_ONCE = RetryPolicy(max_attempts=3, jitter=lambda: 0.0)
TO_GSA = PushSettings(appliance=GSA, retry=AT_ONCE, backlog=BacklogLimits(interval_seconds=0.001))
TO_THUNDERSTONE = PushSettings(appliance=THUNDERSTONE, retry=AT_ONCE)
CLOSED = ApplianceResponse(error="http://gsa/xmlfeed: connection closed", sent_bytes=9)
Respond = Callable[[Sent], ApplianceResponse]


def limited(max_request_bytes: int) -> PushSettings:
    """Return settings for an appliance that takes requests of fewer bytes only."""
    protocol = replace(FEEDERGATE, max_request_bytes=max_request_bytes)
    return replace(TO_GSA, appliance=replace(GSA, protocol=protocol))


def accept(_sent: Sent) -> ApplianceResponse:
    return SUCCESS


def respond(*responses: ApplianceResponse | str) -> Respond:
    """Return one response after another, the last of them for ever; "kill" raises."""
    left = list(responses)

    def next_response(_sent: Sent) -> ApplianceResponse:
        response = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(response, str):
            raise RuntimeError(response)
        return response

    return next_response


def refuse(*names: str) -> Respond:
    """Refuse every request with one of these records."""
    return lambda sent: ILL_FORMED if set(names) & set(sent.names) else SUCCESS


def results(*statuses: str) -> ApplianceResponse:
    """Return the response of a Thunderstone appliance, with a status for each Item."""
    items = "".join(f"<ItemResult><Status>{status}</Status></ItemResult>" for status in statuses)
    body = (
        f"<ThunderstoneReplicationResult>{items}<Rows>{len(statuses)}</Rows>"
        "</ThunderstoneReplicationResult>"
    )
    return ApplianceResponse(status=200, content_type="text/xml", body=body.encode(), sent_bytes=10)


def take_items(sent: Sent) -> ApplianceResponse:
    return results(*["OK"] * (len(sent.names) or 1))


class PushRig:
    """A folder with chunks, and an appliance that is a function."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "push" / "gsa"
        self.messages: list[str] = []
        self.stop = StopSignal()
        self.client = FakeClient(accept)

    def push(
        self,
        chunks: Sequence[Chunk],
        settings: PushSettings = TO_GSA,
        *,
        to: Respond = accept,
        backlog: ApplianceResponse | None = None,
        disk: Disk = DISK,
    ) -> PushAccount:
        self.client = FakeClient(to, backlog=backlog)
        pusher = Pusher(
            settings,
            stop=self.stop,
            progress=PushProgress(self.messages.append),
            client=self.client,
            disk=disk,
        )
        self.stop = StopSignal()
        with pusher:
            return pusher.push(chunks, root=self.root, folder=self.folder)

    def push_killed(self, chunks: Sequence[Chunk], *before: ApplianceResponse) -> None:
        """Push chunks until the process ends, after some responses."""
        with pytest.raises(RuntimeError, match=r"^killed$"):
            self.push(chunks, to=respond(*before, "killed"))

    def chunks(self, *names: str) -> list[Chunk]:
        """Write chunks with records of these names."""
        return [chunk_of(self.root, ordinal, each) for ordinal, each in enumerate(names, start=1)]

    def full(self, *names: str) -> list[Chunk]:
        """Write chunks, the first of which is the full part of a feed."""
        others = self.chunks(*names)[1:]
        return [chunk_of(self.root, 1, names[0], feedtype="full"), *others]

    def sent(self) -> list[int]:
        return [sent.chunk for sent in self.client.sent]


@pytest.fixture
def rig(tmp_path: Path) -> PushRig:
    return PushRig(tmp_path)


def states(account: PushAccount) -> list[str]:
    return [outcome.state.value for outcome in account.outcomes]


# Order, and once each


def test_chunks_are_sent_once_in_their_order(rig: PushRig) -> None:
    chunks = rig.chunks("ab", "cd")
    account = rig.push(chunks[::-1])

    assert rig.client.sent == [
        Sent(1, "incremental", ("a", "b")),
        Sent(2, "incremental", ("c", "d")),
    ]
    assert states(account) == ["accepted", "accepted"]
    assert (account.stopped, account.exit_code) == (None, 0)
    assert states(rig.push(chunks)) == ["accepted", "accepted"]
    assert rig.sent() == []


def test_a_chunk_whose_response_was_not_seen_is_sent_again(rig: PushRig) -> None:
    chunks = rig.chunks("a", "b", "c")
    rig.push_killed(chunks, SUCCESS)
    account = rig.push(chunks[::-1])

    assert rig.sent() == [2, 3]
    assert [outcome.attempts for outcome in account.outcomes] == [1, 2, 1]


def test_datasources_are_pushed_in_parallel_each_in_its_order(rig: PushRig) -> None:
    both = threading.Barrier(2, timeout=60)

    def meet(_sent: Sent) -> ApplianceResponse:
        both.wait()
        return SUCCESS

    chunks = [
        replace(chunk, datasource=f"source{chunk.ordinal % 2}") for chunk in rig.chunks(*"abcdef")
    ]
    account = rig.push(chunks, replace(TO_GSA, jobs=2), to=meet)

    assert [number for number in rig.sent() if number % 2] == [1, 3, 5]
    assert [number for number in rig.sent() if not number % 2] == [2, 4, 6]
    assert states(account) == ["accepted"] * 6


class DefectError(Exception):
    """An error that is not expected."""


@pytest.mark.parametrize("order", [1, -1], ids=["mild first", "serious first"])
@pytest.mark.parametrize(
    ("mild", "serious", "exit_code"),
    [
        (BusyError("later"), TooManyRejectsError("many"), 3),
        (TooManyRejectsError("many"), FatalError("gone"), 4),
        (BusyError("later"), OSError(28, "No space left on device"), 4),
        (FatalError("gone"), DefectError("ours"), 5),
    ],
    ids=str,
)
def test_the_most_serious_error_of_several_datasources_decides(
    rig: PushRig, mild: Exception, serious: Exception, exit_code: int, order: int
) -> None:
    first, second = [mild, serious][::order]
    both = threading.Barrier(2, timeout=60)
    first_has_ended = threading.Event()

    def fail(sent: Sent) -> ApplianceResponse:
        both.wait()
        if sent.chunk == 1:
            first_has_ended.set()
            raise first
        first_has_ended.wait()
        raise second

    chunks = [replace(chunk, datasource=f"of{chunk.ordinal}") for chunk in rig.chunks("a", "b")]
    settings = replace(TO_GSA, jobs=2)
    if exit_code == 5:
        with pytest.raises(DefectError):
            rig.push(chunks, settings, to=fail)
    else:
        account = rig.push(chunks, settings, to=fail)
        assert (account.exit_code, account.stopped) == (exit_code, str(serious))


# Receipts on the disk

JOURNAL = "push/gsa/receipts-001.jsonl"
LINE = [f"write {JOURNAL}", f"sync {JOURNAL}"]
BEGIN = [f"sync {JOURNAL}", "sync folder push/gsa", "sync folder push", *LINE]
CHUNK = [*LINE, "send", *LINE]


def push_to_disk(rig: PushRig, disk: RecordingDisk) -> PushAccount:
    def answer(_sent: Sent) -> ApplianceResponse:
        disk.done.append("send")
        return SUCCESS

    return rig.push(rig.chunks("abc", "def"), to=answer, disk=disk)


def test_a_receipt_is_on_the_disk_before_its_request_and_before_the_next(rig: PushRig) -> None:
    disk = RecordingDisk(rig.root)
    push_to_disk(rig, disk)

    assert disk.done == [*BEGIN, *CHUNK, *CHUNK]


@pytest.mark.parametrize("operation", range(1, 12))
def test_no_request_follows_while_a_receipt_is_not_on_the_disk(
    rig: PushRig, operation: int
) -> None:
    disk = RecordingDisk(rig.root)
    disk.fail_at(operation)
    account = push_to_disk(rig, disk)

    assert account.stopped is not None
    assert len(rig.client.sent) == (0 if operation <= len(BEGIN + LINE) else 1)


# Errors


def test_a_closed_connection_is_tried_again(rig: PushRig) -> None:
    account = rig.push(rig.chunks("a"), to=respond(CLOSED, SUCCESS))

    assert rig.sent() == [1, 1]
    assert states(account) == ["accepted"]
    assert rig.messages == [
        "chunks/000001.xml: http://gsa/xmlfeed: connection closed; next attempt in 0 s"
    ]


def test_a_chunk_that_cannot_be_sent_holds_back_the_chunks_after_it(rig: PushRig) -> None:
    chunks = rig.chunks("a", "b", "c")
    account = rig.push(chunks, to=respond(SUCCESS, CLOSED))

    assert rig.sent() == [1, 2, 2, 2]
    assert states(account) == ["accepted", "failed", "ready"]
    assert account.exit_code == 4
    assert account.stopped == "chunks/000002.xml: http://gsa/xmlfeed: connection closed"
    assert states(rig.push(chunks)) == ["accepted"] * 3
    assert rig.sent() == [2, 3]


def test_a_push_without_trust_ends_at_once(rig: PushRig) -> None:
    chunks = [*rig.chunks("a"), chunk_of(rig.root, 2, "b", datasource="other")]
    refused = ApplianceResponse(status=200, body=b"Error - Unauthorized Request")
    account = rig.push(chunks, to=respond(refused))

    assert rig.sent() == [1]
    assert account.exit_code == 4
    assert "List of Trusted IP Addresses" in (account.stopped or "")


def test_a_full_disk_is_waited_for_beyond_the_attempts(rig: PushRig) -> None:
    full = ApplianceResponse(
        status=200, body=b"Feed not accepted due to insufficient disk space. Contact Google."
    )
    no_pause = RetryPolicy(max_attempts=3, first_seconds=0.001, jitter=lambda: 0.0)
    settings = replace(TO_GSA, retry=no_pause)
    account = rig.push(rig.chunks("a"), settings, to=respond(*[full] * 5, SUCCESS))

    assert rig.sent() == [1] * 6
    assert states(account) == ["accepted"]


# Refusals


def test_a_refused_chunk_is_halved_until_its_bad_records_are_alone(rig: PushRig) -> None:
    account = rig.push(rig.chunks("abcdefgh", "z"), to=refuse("c"))
    accepted = [name for sent in rig.client.sent for name in sent.names if "c" not in sent.names]
    first, second = account.outcomes

    assert accepted == ["a", "b", "d", "e", "f", "g", "h", "z"]
    assert (first.state.value, first.accepted, first.refused) == ("partly-accepted", 7, 1)
    assert [refusal.record for refusal in first.refusals] == [2]
    assert second.state is ChunkState.ACCEPTED
    assert (account.stopped, account.exit_code) == (None, 1)


def test_only_the_first_part_of_a_halved_full_chunk_is_full(rig: PushRig) -> None:
    rig.push(rig.full("abcd", "z"), to=refuse("a"))

    assert rig.client.sent == [
        Sent(1, "full", ("a", "b", "c", "d")),
        Sent(1, "full", ("a", "b")),
        Sent(1, "full", ("a",)),
        Sent(1, "full", ("b",)),
        Sent(1, "incremental", ("c", "d")),
        Sent(2, "incremental", ("z",)),
    ]


def test_nothing_is_sent_after_a_refused_full_part(rig: PushRig) -> None:
    chunks = rig.full("a", "z")
    account = rig.push(chunks, to=refuse("a"))

    assert rig.sent() == [1]
    assert account.exit_code == 4
    assert account.stopped == (
        "chunks/000001.xml: the full part of 'wiki' was refused, so the parts after it are not"
        " sent: fix its records and convert again, or remove the receipts to send it again as it is"
    )
    assert rig.push(chunks).exit_code == 4
    assert rig.sent() == []


@pytest.mark.parametrize("way", [OnRefusal.BISECT, OnRefusal.SKIP], ids=str)
def test_nothing_is_sent_after_a_refused_empty_full_feed(rig: PushRig, way: OnRefusal) -> None:
    chunks = rig.full("", "z")
    settings = replace(TO_GSA, allow_empty_full=True, on_refusal=way)
    first = rig.push(chunks, settings, to=respond(ILL_FORMED, SUCCESS))
    assert rig.sent() == [1]
    second = rig.push(chunks, settings)

    assert rig.sent() == []
    for account in (first, second):
        assert (states(account), account.exit_code) == (["refused", "ready"], 4)


def test_halving_continues_after_a_kill(rig: PushRig) -> None:
    chunks = rig.chunks("abcd")
    rig.push_killed(chunks, ILL_FORMED, SUCCESS)
    account = rig.push(chunks)

    assert [sent.names for sent in rig.client.sent] == [("c", "d")]
    assert states(account) == ["accepted"]


@pytest.mark.parametrize(
    ("way", "sent", "expected", "exit_code"),
    [
        (OnRefusal.STOP, [1], ["failed", "ready"], 4),
        (OnRefusal.SKIP, [1, 2], ["refused", "accepted"], 1),
    ],
)
def test_a_refused_chunk_can_end_the_push_or_be_set_aside(
    rig: PushRig, way: OnRefusal, sent: list[int], expected: list[str], exit_code: int
) -> None:
    account = rig.push(rig.chunks("ab", "c"), replace(TO_GSA, on_refusal=way), to=refuse("b"))

    assert rig.sent() == sent
    assert (states(account), account.exit_code) == (expected, exit_code)


def test_more_refused_records_than_allowed_end_the_push(rig: PushRig) -> None:
    chunks = rig.chunks("abcd", "e")
    settings = replace(TO_GSA, max_rejects=1)
    account = rig.push(chunks, settings, to=refuse("a", "b"))

    again = rig.push(chunks, settings)
    assert rig.sent() == []
    for stopped in (account, again):
        assert stopped.exit_code == 3
        assert stopped.stopped == (
            "2 records are refused; expected at most 1, the limit of ⟦max_rejects⟧: raise it to"
            " continue"
        )


def test_known_rejects_do_not_count_towards_the_limit(rig: PushRig) -> None:
    chunks = rig.chunks("abcd", "e")
    known = rig.root / "known.txt"
    add_known_rejects(known, [f"refused http://www.example.com/{name}" for name in "ab"])
    settings = replace(TO_GSA, max_rejects=0, accepted_rejects=str(known))

    account = rig.push(chunks, settings, to=refuse("a", "b"))
    assert (account.stopped, account.exit_code) == (None, 1)
    rejects = rig.root / "rejects.avro"
    written = write_rejects(
        account, root=rig.root, path=rejects, known=load_known_rejects(str(known))
    )
    assert (written.accepted_rejects, written.exit_code) == ({"refused": 2}, 0)
    again = rig.push(chunks, settings)
    assert (rig.sent(), again.stopped) == ([], None)

    rig.folder = rig.root / "push" / "other"
    assert rig.push(chunks, settings, to=refuse("a", "e")).exit_code == 3


def test_a_hundred_consecutive_refusals_end_the_push(rig: PushRig) -> None:
    chunk = chunk_of(rig.root, 1, [f"{number:03d}" for number in range(300)])
    account = rig.push([chunk], to=respond(ILL_FORMED))

    assert account.exit_code == 4
    assert account.stopped is not None
    assert account.stopped.endswith("; 100 consecutive records refused: push again to continue")
    assert sum(len(sent.names) == 1 for sent in rig.client.sent) == 100


def test_a_record_too_large_for_a_request_is_refused_unsent(rig: PushRig) -> None:
    chunk = chunk_of(rig.root, 1, ["a", "b" * 2000, "c"], feedtype="full")
    account = rig.push([chunk], limited(1500))
    [outcome] = account.outcomes

    assert rig.client.sent == [Sent(1, "full", ("a",)), Sent(1, "incremental", ("c",))]
    assert (outcome.state.value, outcome.accepted, outcome.refused) == ("partly-accepted", 2, 1)
    assert outcome.refusals == (
        Refusal(
            1, "2,300 bytes on the wire; expected fewer than 1,500 for a request", RefusalOf.REQUEST
        ),
    )


def test_later_parts_of_a_full_feed_fit_as_incremental(rig: PushRig) -> None:
    chunk = chunk_of(rig.root, 1, "abcd", feedtype="full")
    splitter = ChunkSplitter(chunk, rig.root)
    half = max(part.size for part in splitter.split(splitter.whole))
    account = rig.push([chunk], limited(half + len("full") + 1))

    assert states(account) == ["accepted"]
    assert rig.client.sent == [
        Sent(1, "full", ("a", "b")),
        Sent(1, "incremental", ("c",)),
        Sent(1, "incremental", ("d",)),
    ]


# Thunderstone


def test_the_search_indexes_are_updated_once_after_all_chunks(rig: PushRig) -> None:
    chunks = [items_of(rig.root, 1, "ab"), items_of(rig.root, 2, "c")]
    account = rig.push(chunks, replace(TO_THUNDERSTONE, jobs=3), to=take_items)

    assert rig.sent() == [1, 2, 0]
    assert rig.client.texts[-1].startswith(b"profile=intranet&data=%3C%3Fxml")
    assert b"%3CType%3EUI%3C%2FType%3E" in rig.client.texts[-1]
    assert (states(account), account.exit_code) == (["accepted"] * 2, 0)
    assert account.steps == {"update the search indexes": "OK for 1 of 1 Items"}
    again = rig.push(chunks, TO_THUNDERSTONE, to=take_items)
    assert (rig.sent(), again.steps) == ([], account.steps)


def test_the_search_indexes_are_not_updated_before_all_chunks_are_settled(rig: PushRig) -> None:
    chunks = [items_of(rig.root, 1, "ab"), items_of(rig.root, 2, "c")]
    busy = ApplianceResponse(status=503, sent_bytes=10)
    settings = replace(TO_THUNDERSTONE, retry=RetryPolicy(max_attempts=1))
    account = rig.push(chunks, settings, to=respond(results("OK", "OK"), busy))
    assert (rig.sent(), account.exit_code, account.steps) == ([1, 2], 4, {})
    failed = rig.push(chunks, settings, to=respond(results("OK"), busy))
    assert (rig.sent(), failed.exit_code, failed.steps) == ([2, 0], 4, {})
    assert failed.stopped == (
        "the appliance: 503, an empty response; expected a ThunderstoneReplicationResult"
    )
    account = rig.push(chunks, settings, to=take_items)
    assert (rig.sent(), account.exit_code, account.stopped) == ([0], 0, None)


def test_the_caller_may_do_what_ends_a_run(rig: PushRig) -> None:
    settings = replace(TO_THUNDERSTONE, finish=False)
    rig.push([items_of(rig.root, 1, "ab")], settings, to=take_items)
    assert rig.sent() == [1]


def make_index(session: RunSession) -> None:
    session.step("make the index", lambda: session.send("/index", None, method="PUT"))


def swap(session: RunSession) -> None:
    if not session.refused:
        session.step("swap the alias", lambda: session.send("/alias", None))


INDEXED = replace(GSA, protocol=replace(FEEDERGATE, begin=make_index, finish=swap))


def test_an_appliance_begins_and_finishes_a_run_in_steps(rig: PushRig) -> None:
    chunks, settings = rig.chunks("ab", "c"), replace(TO_GSA, appliance=INDEXED)
    with pytest.raises(RuntimeError, match=r"^killed$"):
        rig.push(chunks, settings, to=respond(SUCCESS, SUCCESS, "killed"))
    assert rig.sent() == [0, 1, 2]
    with pytest.raises(RuntimeError, match=r"^killed$"):
        rig.push(chunks, settings, to=respond(SUCCESS, "killed"))
    assert rig.sent() == [2, 0]
    account = rig.push(chunks, settings)
    assert rig.sent() == [0]
    assert account.steps == {"make the index": "Success", "swap the alias": "Success"}
    lines = (rig.folder / "receipts-001.jsonl").read_text().splitlines()
    steps = [receipt for line in lines if "step" in (receipt := json.loads(line))]
    assert [(step["step"], step.get("is_done", False)) for step in steps] == [
        ("make the index", False),
        ("make the index", True),
        ("swap the alias", False),
        ("swap the alias", False),
        ("swap the alias", True),
    ]


def test_an_appliance_that_cannot_begin_gets_no_chunk(rig: PushRig) -> None:
    settings = replace(TO_GSA, appliance=INDEXED)
    account = rig.push(rig.chunks("ab"), settings, to=respond(ILL_FORMED))
    assert (rig.sent(), account.exit_code, account.steps) == ([0], 4, {})


def test_an_appliance_knows_of_refused_records_when_it_finishes(rig: PushRig) -> None:
    settings = replace(TO_GSA, appliance=INDEXED)
    account = rig.push(rig.chunks("ab", "c"), settings, to=refuse("b"))
    assert [*account.steps] == ["make the index"]
    assert (account.exit_code, account.stopped) == (1, None)


def test_a_replay_has_steps_of_its_own(rig: PushRig) -> None:
    chunks, settings = rig.chunks("ab"), replace(TO_GSA, appliance=INDEXED)
    rig.push(chunks, settings)
    rig.push(chunks, replace(settings, replay=True))
    assert rig.sent() == [0, 1, 0]


def test_the_steps_of_a_refused_full_feed_are_done_again_without_its_receipts(rig: PushRig) -> None:
    chunks, settings = rig.full("a", "z"), replace(TO_GSA, appliance=INDEXED)
    assert rig.push(chunks, settings, to=refuse("a")).exit_code == 4
    assert (rig.sent(), rig.push(chunks, settings).exit_code) == ([0, 1], 4)
    assert rig.sent() == []
    for path in rig.folder.glob("receipts-*"):
        path.unlink()
    account = rig.push(chunks, settings)
    assert (rig.sent(), [*account.steps]) == ([0, 1, 2, 0], ["make the index", "swap the alias"])


def test_items_are_sent_in_as_many_requests_as_their_number_needs(rig: PushRig) -> None:
    protocol = replace(THUNDERSTONE.protocol, max_records=2)
    settings = replace(TO_THUNDERSTONE, appliance=replace(THUNDERSTONE, protocol=protocol))
    account = rig.push([items_of(rig.root, 1, "abcde")], settings, to=take_items)

    assert "".join(name for sent in rig.client.sent for name in sent.names) == "abcde"
    assert max(len(sent.names) for sent in rig.client.sent) == 2
    assert states(account) == ["accepted"]


def test_an_item_that_the_appliance_names_is_refused_without_halving(rig: PushRig) -> None:
    chunks = [items_of(rig.root, 1, "abc")]
    settings = replace(TO_THUNDERSTONE, finish=False)
    account = rig.push(chunks, settings, to=respond(results("OK", "FAIL", "OK")))

    assert rig.sent() == [1]
    assert [refusal.record for refusal in account.outcomes[0].refusals] == [1]
    assert (account.outcomes[0].accepted, account.exit_code) == (2, 1)


def test_a_refused_item_can_end_the_push_after_its_chunk(rig: PushRig) -> None:
    chunks = [items_of(rig.root, 1, "ab"), items_of(rig.root, 2, "cd")]
    settings = replace(TO_THUNDERSTONE, on_refusal=OnRefusal.STOP)
    account = rig.push(chunks, settings, to=respond(results("OK", "FAIL")))

    assert rig.sent() == [1]
    assert states(account) == ["partly-accepted", "ready"]
    assert account.exit_code == 4
    assert account.stopped == (
        "chunks/000001.xml: OK for 1 of 2 Items, FAIL; expected all records to be accepted, because"
        " ⟦on_refusal⟧ is stop"
    )


def test_few_remarks_about_accepted_items_are_counted_by_their_text(rig: PushRig) -> None:
    remark = "<ItemResult><Status>OK</Status><Info>remark {}</Info></ItemResult>"
    items = "".join(remark.format(number % 22) for number in range(25))
    body = f"<ThunderstoneReplicationResult>{items}</ThunderstoneReplicationResult>"
    remarks = ApplianceResponse(status=200, body=body.encode())
    chunks = [items_of(rig.root, 1, [f"{number}" for number in range(25)])]
    notices = rig.push(chunks, TO_THUNDERSTONE, to=respond(remarks)).notices

    assert len(notices) == 21
    assert notices["accepted with the remark 'remark 2'"] == 2
    assert notices["accepted with another remark"] == 2


def test_a_finished_push_is_sent_again_with_replay(rig: PushRig) -> None:
    chunks, again = rig.chunks("a", "b"), replace(TO_GSA, replay=True)
    with pytest.raises(ConfigError, match="nothing was pushed; expected a finished push"):
        rig.push(chunks, again)
    rig.push(chunks, to=respond(SUCCESS, CLOSED))
    with pytest.raises(ConfigError, match="a push that is not finished; expected a finished push"):
        rig.push(chunks, again)
    rig.push(chunks)

    sent = []
    for settings, answer in zip(
        (again, again, TO_GSA, again), (CLOSED, SUCCESS, SUCCESS, SUCCESS), strict=True
    ):
        rig.push(chunks, settings, to=respond(SUCCESS, answer))
        sent.append(rig.sent())
    assert sent == [[1, 2, 2, 2], [2], [], [1, 2]]


# Groups


def groups_of(root: Path, feedtype: str) -> Chunk:
    """Write a chunk of two groups."""
    chunk = chunk_of(root, 1, "ab")
    member = "<membership><principal>%s</principal><members/></membership>"
    text = f"<xmlgroups>{member % 'a'}{member % 'b'}</xmlgroups>".encode()
    (root / chunk.path).write_bytes(text)
    digest = hashlib.sha256(text).hexdigest()
    return replace(chunk, format="gsa-groups", feedtype=feedtype, bytes=len(text), sha256=digest)


def test_only_the_first_part_of_halved_groups_replaces_others(rig: PushRig) -> None:
    account = rig.push([groups_of(rig.root, "replace")], to=respond(ILL_FORMED, SUCCESS))

    assert [sent.feedtype for sent in rig.client.sent] == ["replace", "replace", "incremental"]
    assert states(account) == ["accepted"]


@pytest.mark.parametrize("mode", ["replace", "cleanup"])
def test_the_first_groups_of_each_groupsource_have_the_mode(rig: PushRig, mode: str) -> None:
    groups = groups_of(rig.root, "incremental")
    chunks = [
        replace(groups, ordinal=1, datasource="ldap"),
        replace(groups, ordinal=2, datasource="ldap"),
        replace(groups, ordinal=3, datasource="files"),
    ]
    rig.push(chunks, replace(TO_GSA, groups_mode=mode))

    assert [sent.feedtype for sent in rig.client.sent] == [mode, "incremental", mode]


def test_a_push_that_continues_does_not_remove_its_own_groups(rig: PushRig) -> None:
    groups = groups_of(rig.root, "full")
    chunks = [replace(groups, ordinal=1), replace(groups, ordinal=2, feedtype="incremental")]
    settings = replace(TO_GSA, groups_mode="cleanup")
    rig.push(chunks, settings, to=respond(SUCCESS, CLOSED))
    rig.push(chunks, settings)

    assert [(sent.chunk, sent.feedtype) for sent in rig.client.sent] == [(2, "incremental")]


def test_a_groups_mode_needs_groups(rig: PushRig) -> None:
    with pytest.raises(ConfigError) as caught:
        rig.push(rig.chunks("a"), replace(TO_GSA, groups_mode="replace"))

    assert str(caught.value) == ("--groups-mode replace: no groups feed is pushed; expected one")


# Before anything is sent


def test_an_empty_full_feed_is_refused_unless_it_is_allowed(rig: PushRig) -> None:
    chunks = rig.full("")
    with pytest.raises(ConfigError) as caught:
        rig.push(chunks)

    assert str(caught.value) == (
        "chunks/000001.xml: a full feed without records, which empties 'wiki'; expected records,"
        " or --allow-empty-full"
    )
    assert states(rig.push(chunks, replace(TO_GSA, allow_empty_full=True))) == ["accepted"]
    assert rig.client.sent == [Sent(1, "full", ())]


def test_nothing_is_sent_while_a_chunk_file_is_missing(rig: PushRig) -> None:
    chunks = rig.full("a", "b")
    path = rig.root / "chunks" / "000002.xml"
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(SourceError, match="No such file or directory; expected a readable chunk"):
        rig.push(chunks)
    assert rig.sent() == []
    path.write_bytes(content)
    rig.push(chunks)
    path.unlink()

    assert states(rig.push(chunks)) == ["accepted", "accepted"]


# How it ends


@pytest.mark.parametrize(
    ("names", "expected", "stopped"),
    [
        ("ab", ["accepted", "ready"], "stopped after the current chunk; push again to continue"),
        ("a", ["accepted"], None),
    ],
)
def test_a_stopped_push_finishes_the_current_chunk(
    rig: PushRig, names: str, expected: list[str], stopped: str | None
) -> None:
    stop = rig.stop

    def interrupt(_sent: Sent) -> ApplianceResponse:
        stop.stop()
        return SUCCESS

    account = rig.push(rig.chunks(*names), to=interrupt)

    assert rig.sent() == [1]
    assert (states(account), account.stopped, account.exit_code) == (expected, stopped, 0)


@pytest.mark.parametrize("limit", [{"deadline": 1.0}, {"max_wait_seconds": 0.0}], ids=str)
def test_nothing_is_sent_after_the_deadline_or_above_the_ceiling(
    rig: PushRig, limit: dict[str, float]
) -> None:
    above = ApplianceResponse(status=200, body=b"4001")
    account = rig.push(rig.chunks("a"), replace(TO_GSA, **limit), backlog=above)

    assert (rig.sent(), account.exit_code) == ([], 75)


def test_an_appliance_without_a_connection_ends_the_push_before_its_first_chunk(
    rig: PushRig,
) -> None:
    refused = ApplianceResponse(error="gsa: connection refused", is_unsent=True)
    account = rig.push(rig.chunks("a"), backlog=refused)

    assert (rig.sent(), account.exit_code, account.stopped) == ([], 4, "gsa: connection refused")
    assert rig.messages == ["gsa: connection refused; next attempt in 0 s"] * 2
