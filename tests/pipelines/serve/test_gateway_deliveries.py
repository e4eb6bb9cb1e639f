"""What a gateway forwards of each delivery, and in which order; the wire is a function."""

import errno
import os
import re
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from feedferry.pipelines.serve.forward_journal import DeliveryOutcome, ForwardJournal, ForwardState
from feedferry.pipelines.serve.gateway import DRAIN_SECONDS
from feedferry.schemas.delivery import JOURNAL
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.pusher import Pusher
from feedferry.transforms.sinks.push.session import PushInterrupted
from feedferry.transforms.sources.spool import read_deliveries
from support import fake_appliance
from support.archives import ACL, BROKEN, HOST, document, gsa_feed, thunderstone
from support.fake_appliance import SUCCESS, THUNDERSTONE, FakeClient, Sent
from support.gateways import GatewayRun, accepting, digest
from support.served import wait_until
from support.spools import HandSpool

pytestmark = pytest.mark.slow

Wired = Callable[[Callable[[Sent], ApplianceResponse]], FakeClient]
AWAY = ApplianceResponse(error="nobody there")
EMPTY = gsa_feed(datasource="crm", feedtype="full")
_ITEM = re.compile(rb"<Type>([ID])</Type>\s*<Url>http://www\.example\.com/([^<]+)")
WEB_RECORD = f'<record url="{HOST}/1" mimetype="text/html"/>'
SECRET = gsa_feed(document(1, inside=ACL))


def taking(sent: Sent) -> ApplianceResponse:
    """What Thunderstone says when all is well."""
    rows = max(len(sent.names), 1)
    result = "<ItemResult><Status>OK</Status></ItemResult>" * rows
    text = f"<ThunderstoneReplicationResult><Rows>{rows}</Rows>{result}"
    body = f"{text}</ThunderstoneReplicationResult>".encode()
    return ApplianceResponse(status=200, content_type="text/xml", body=body, sent_bytes=10)


@pytest.fixture
def wired(monkeypatch: pytest.MonkeyPatch) -> Wired:
    return partial(fake_appliance.replace_client, monkeypatch)


@pytest.fixture
def spool(tmp_path: Path) -> HandSpool:
    return HandSpool(tmp_path / "spool")


def texts(wire: FakeClient) -> list[tuple[str | None, int]]:
    """The feedtype and the number of records of each feed that was sent."""
    return [(sent.feedtype, len(sent.names)) for sent in wire.sent]


def test_forwarded_delivery_leaves_only_a_line(spool: HandSpool, wired: Wired) -> None:
    wired(accepting)
    spool.feed(gsa_feed(document(1), document(2)))
    spool.feed(gsa_feed(document(3)))
    run = GatewayRun(spool).to_the_end()
    found = [(one.ordinal, one.state, one.accepted) for one in run.journal()]
    assert found == [(1, ForwardState.FORWARDED, 2), (2, ForwardState.FORWARDED, 1)]
    assert (run.kept(), run.warnings) == (["forwarded.jsonl"], [])


@pytest.mark.parametrize(
    ("feed", "posted", "sent"),
    [
        (EMPTY, ("crm", "full"), ["full"]),
        (EMPTY, ("crm", "incremental"), []),
        (gsa_feed(WEB_RECORD), ("web", "full"), ["metadata-and-url"]),
    ],
    ids=["empty-full", "empty-incremental", "full-web"],
)
def test_a_feed_is_sent_as_it_was_posted_unless_it_changes_nothing(
    spool: HandSpool, wired: Wired, feed: bytes, posted: tuple[str, str], sent: list[str]
) -> None:
    wire = wired(accepting)
    spool.feed(feed, *posted)
    GatewayRun(spool).to_the_end()
    assert [request.feedtype for request in wire.sent] == sent


@pytest.mark.parametrize(("feedtype", "sent"), [("full", "full"), ("replace", "replace")])
def test_groups_without_any_clear_their_source(
    spool: HandSpool, wired: Wired, feedtype: str, sent: str
) -> None:
    wire = wired(accepting)
    spool.groups(b"<xmlgroups></xmlgroups>", "ldap", feedtype)
    GatewayRun(spool).to_the_end()
    assert texts(wire) == [(sent, 0)]


def page(name: str) -> str:
    """The record of a page whose name a fake wire can tell."""
    url = f"http://www.example.com/{name}"
    return f'<record url="{url}" mimetype="text/plain"><content>{name}</content></record>'


def items(wire: FakeClient) -> list[list[tuple[str, str]]]:
    """Of each chunk the types and the last parts of the urls of its Items, but for updates."""
    results = [_ITEM.findall(text) for text in wire.texts]
    return [[(kind.decode(), name.decode()) for kind, name in item] for item in results if item]


def test_full_feed_deletes_missing_documents_from_thunderstone(
    spool: HandSpool, wired: Wired
) -> None:
    wire = wired(taking)
    spool.feed(gsa_feed(page("a"), page("b"), page("c")), "crm", "full")
    spool.feed(gsa_feed(page("b"), page("d")), "crm", "full")
    run = GatewayRun(spool, appliance=THUNDERSTONE).to_the_end()
    assert items(wire) == [
        [("I", "a"), ("I", "b"), ("I", "c")],
        [("D", "a"), ("D", "c")],
        [("I", "b"), ("I", "d")],
    ]
    assert run.remarks == ["delivery 2 of 'crm': 2 documents that it leaves out are deleted"]
    assert [(entry.accepted, entry.losses) for entry in run.journal()] == [(3, {}), (4, {})]


def test_a_gateway_may_end_while_the_appliance_finishes_a_run(
    spool: HandSpool, wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(taking)
    spool.feed(gsa_feed(page("a")), "wiki")
    asked = threading.Event()

    def finish(pusher: Pusher) -> None:
        asked.set()
        raise PushInterrupted

    monkeypatch.setattr(Pusher, "finish", finish)
    run = GatewayRun(spool, appliance=THUNDERSTONE).until(asked.is_set)
    assert run.warnings == []


def test_full_feed_waits_for_its_digestion(spool: HandSpool, wired: Wired) -> None:
    wire = wired(taking)
    run = GatewayRun(spool, appliance=THUNDERSTONE)
    spool.feed(gsa_feed(page("a")), "crm", "full")
    spool.feed(gsa_feed(page("b")), "wiki")
    with run.gateway:
        wait_until(lambda: run.gateway.backlog() == 1)
        before = items(wire)
        digest(run.spool)
        wait_until(lambda: run.gateway.backlog() == 0)
    assert (before, items(wire)) == ([[("I", "b")]], [[("I", "b")], [("I", "a")]])


def test_full_feed_waits_for_earlier_digestions(spool: HandSpool) -> None:
    spool.feed(gsa_feed(page("a")), "crm", "full")
    (delivery,) = read_deliveries(spool.root)
    gateway = GatewayRun(spool, appliance=THUNDERSTONE).gateway
    with closing(gateway.journal) as journal:
        assert gateway.runs.is_ready(delivery)
        journal.append(DeliveryOutcome(2, ForwardState.FORWARDED))
        assert not gateway.runs.is_ready(delivery)


def test_document_taken_during_a_pause_is_not_deleted(spool: HandSpool, wired: Wired) -> None:
    wired(taking)
    spool.feed(gsa_feed(page("a"), page("b")), "crm", "full")
    GatewayRun(spool, appliance=THUNDERSTONE).to_the_end()

    def answer(sent: Sent) -> ApplianceResponse:
        return AWAY if items(wire)[-1] == [("D", "a")] else taking(sent)

    wire = wired(answer)
    spool.feed(gsa_feed(page("b")), "crm", "full")
    spool.feed(gsa_feed(page("a")), "wiki")
    GatewayRun(spool, appliance=THUNDERSTONE, first_pause_seconds=1).to_the_end()
    attempts = [chunk for chunk, _ in groupby(items(wire))]
    assert attempts == [[("D", "a")], [("I", "a")], [("I", "b")]]


def test_document_taken_by_a_held_back_feed_is_deleted(spool: HandSpool, wired: Wired) -> None:
    wire = wired(taking)
    spool.feed(gsa_feed(page("a"), page("b")), "crm", "full")
    spool.feed(gsa_feed(page("b")), "crm", "full")
    spool.feed(gsa_feed(page("a").replace("<content>", f"{ACL}<content>")), "sec")
    run = GatewayRun(spool, appliance=THUNDERSTONE)
    run.until(lambda: run.gateway.backlog() == 1)
    assert items(wire) == [[("I", "a"), ("I", "b")], [("D", "a")], [("I", "b")]]


def test_forwarding_continues_when_thunderstone_is_back(spool: HandSpool, wired: Wired) -> None:
    answers = iter([AWAY, AWAY])
    wire = wired(lambda sent: next(answers, None) or taking(sent))
    spool.feed(gsa_feed(page("a")))
    run = GatewayRun(spool, appliance=THUNDERSTONE, first_pause_seconds=0.01).to_the_end()
    assert items(wire) == [[("I", "a")], [("I", "a")], [("I", "a")]]
    finding = (
        "delivery 1 of 'intranet': chunks/000001.xml: nobody there; held back, with later"
        " deliveries of it; tried again in 0 s"
    )
    assert run.warnings == [finding, finding]


def test_held_back_full_feed_deletes_nothing(spool: HandSpool, wired: Wired) -> None:
    wire = wired(taking)
    spool.feed(gsa_feed(document(1), document(2)), "crm", "full")
    spool.feed(SECRET, "crm", "full")
    run = GatewayRun(spool, appliance=THUNDERSTONE).until_warned("--accept-loss acl")
    assert (b"<Type>D</Type>" in b"".join(wire.texts), run.remarks) == (False, [])


@pytest.mark.parametrize("others", [(), (page("a"),)], ids=["alone", "with-others"])
def test_full_feed_with_a_reject_is_set_aside_and_deletes_nothing(
    spool: HandSpool, wired: Wired, others: tuple[str, ...]
) -> None:
    wire = wired(taking)
    spool.feed(gsa_feed(page("a"), page("b")), "crm", "full")
    spool.feed(gsa_feed(*others, BROKEN), "crm", "full")
    run = GatewayRun(spool, appliance=THUNDERSTONE).to_the_end()
    assert (items(wire), run.remarks) == ([[("I", "a"), ("I", "b")]], [])
    (line,) = run.warnings
    assert line.startswith(f"delivery 2 of 'crm': a full feed with 1 reject, as {run.spool}#2:")
    assert (
        ": an & that is not escaped; expected &amp;; expected all of it, as it deletes what it"
        " leaves out; set aside, its feed is feeds/000002.xml; later deliveries go on"
    ) in line


def test_removed_delivery_is_not_sent_for_its_successor(spool: HandSpool, wired: Wired) -> None:
    wired(lambda _sent: AWAY)
    spool.feed(gsa_feed(page("a")))
    GatewayRun(spool).until_warned("nobody there")
    (spool.root / JOURNAL).unlink()
    (spool.root / "index.db").unlink()
    wire = wired(accepting)
    again = HandSpool(spool.root)
    again.feed(gsa_feed(page("b"), page("c")))
    GatewayRun(again).to_the_end()
    assert [sent.names for sent in wire.sent] == [("b", "c")]


def test_short_journal_of_the_spool_is_reported(spool: HandSpool, wired: Wired) -> None:
    wired(accepting)
    spool.feed(gsa_feed(document(1)))
    run = GatewayRun(spool).to_the_end()
    (spool.root / JOURNAL).write_bytes(b"")
    with pytest.raises(ConfigError) as caught:
        GatewayRun(spool).to_the_end()
    assert str(caught.value) == (
        f"{run.spool}/forward/forwarded.jsonl: has delivery 1, but deliveries.jsonl ends before it:"
        " restore its line, as the next delivery would have its number and count as forwarded"
    )


@pytest.mark.parametrize(
    ("feed", "reason"),
    [
        (b"hello", "{}#1 (byte 0): no element at all; expected <gsafeed>"),
        (b"<html></html>", "{}#1 (byte 0): root element 'html'; expected <gsafeed>"),
        (
            b'<?xml version="1.0" encoding="klingon"?><gsafeed></gsafeed>',
            "{}#1 (byte 0): encoding='klingon'; expected the name of an encoding, such as 'UTF-8'",
        ),
        (
            gsa_feed(document(1), document(2))[:-12],
            "a full feed with 2 rejects, as {}#1:5 (byte 348): text between records; expected a"
            " record; expected all of it, as it deletes what it leaves out",
        ),
    ],
    ids=["no-xml", "no-feed", "no-encoding", "torn"],
)
def test_unreadable_feed_is_set_aside(
    spool: HandSpool, wired: Wired, feed: bytes, reason: str
) -> None:
    wire = wired(accepting)
    spool.feed(feed, "crm", "full")
    spool.feed(gsa_feed(document(3)), "crm")
    run = GatewayRun(spool).to_the_end()
    why = reason.format(spool.root)
    assert texts(wire) == [("incremental", 0)]
    assert run.warnings == [
        f"delivery 1 of 'crm': {why}; set aside, its feed is feeds/000001.xml; later deliveries go"
        f" on; to try again, stop the receiver: feedferry serve --spool {spool.root} --retry 1"
    ]
    assert [(entry.state, entry.reason) for entry in run.journal()] == [
        (ForwardState.SET_ASIDE, why),
        (ForwardState.FORWARDED, ""),
    ]


def test_unreadable_records_are_rejected_and_reported(spool: HandSpool, wired: Wired) -> None:
    wired(accepting)
    spool.feed(gsa_feed(document(1), BROKEN, document(2)))
    run = GatewayRun(spool).to_the_end()
    folder = spool.root / "forward" / "000000000001"
    assert run.warnings == [f"delivery 1 of 'intranet': 1 malformed rejected, in {folder}/rejects/"]
    assert [(entry.accepted, entry.rejected) for entry in run.journal()] == [(2, 1)]
    assert [path.name for path in (folder / "rejects").iterdir()] == ["00000-00000.avro"]
    assert not (folder / ".work").exists()


def test_acl_that_would_be_lost_holds_its_queue_back(spool: HandSpool, wired: Wired) -> None:
    wire = wired(taking)
    spool.feed(SECRET, "sec")
    spool.feed(gsa_feed(document(2)), "sec")
    spool.feed(gsa_feed(document(3)), "crm")
    run = GatewayRun(spool, appliance=THUNDERSTONE)
    run.until(lambda: len(wire.sent) == 2)  # one feed, and the update of the indexes behind it
    assert (run.gateway.backlog(), [entry.ordinal for entry in run.journal()]) == (2, [3])
    assert run.warnings == [
        f"delivery 1 of 'sec': {spool.root}#1: {HOST}/1.txt: acl: 1 principal; --accept-loss acl"
        " goes on without it; held back, with later deliveries of it; tried again when the"
        " gateway is started again"
    ]


def test_queue_continues_when_its_loss_is_accepted(spool: HandSpool, wired: Wired) -> None:
    wired(taking)
    spool.feed(SECRET, "sec")
    spool.feed(gsa_feed(document(2)), "crm")
    spool.feed(gsa_feed(document(3)), "sec")
    held = GatewayRun(spool, appliance=THUNDERSTONE)
    held.until(lambda: held.gateway.backlog() == 2)
    run = GatewayRun(spool, appliance=THUNDERSTONE, accepted=("acl",)).to_the_end()
    assert [one.ordinal for one in run.journal()] == [2, 1, 3]


def test_missing_file_holds_its_queue_back(spool: HandSpool, wired: Wired) -> None:
    wired(accepting)
    path = Path(spool.feed(gsa_feed(document(1)), "crm"))
    spool.feed(gsa_feed(document(2)), "wiki")
    moved = path.rename(path.with_suffix(".gone"))
    run = GatewayRun(spool, first_pause_seconds=0.01)
    with run.gateway:
        wait_until(lambda: bool(run.warnings) and run.gateway.backlog() == 1)
        moved.rename(path)
        wait_until(lambda: run.gateway.backlog() == 0)
    assert [entry.ordinal for entry in run.journal()] == [2, 1]
    assert run.warnings[0] == (
        f"delivery 1 of 'crm': {spool.root}#1: {path}: No such file or directory; expected the"
        f" {path.stat().st_size} bytes that were delivered; copy the file again, or take its line"
        " out of deliveries.jsonl; held back, with later deliveries of it; tried again in 0 s"
    )


def test_refused_full_feed_is_set_aside(spool: HandSpool, wired: Wired) -> None:
    refused = ApplianceResponse(status=400, content_type="text/plain", body=b"malformed feed")
    wired(lambda sent: refused if sent.feedtype == "full" else SUCCESS)
    spool.feed(gsa_feed(document(1)), "crm", "full")
    spool.feed(gsa_feed(document(2)), "crm")
    run = GatewayRun(spool).to_the_end()
    assert [entry.state for entry in run.journal()] == [
        ForwardState.SET_ASIDE,
        ForwardState.FORWARDED,
    ]
    assert run.kept() == ["000000000001", "forwarded.jsonl"]


def test_defect_holds_only_one_queue_back(
    spool: HandSpool, wired: Wired, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(sent: Sent) -> ApplianceResponse:
        if sent.feedtype == "metadata-and-url":
            raise ZeroDivisionError("by nothing")
        return SUCCESS

    wired(answer)
    spool.feed(gsa_feed(WEB_RECORD), "web", "metadata-and-url")
    spool.feed(gsa_feed(document(2)), "crm")
    run = GatewayRun(spool, first_pause_seconds=300)
    run.until(lambda: run.gateway.backlog() == 1)
    assert run.warnings == [
        "delivery 1 of 'web': ZeroDivisionError('by nothing'); held back, with later deliveries of"
        " it; tried again in 300 s"
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_profile_that_is_no_datasource_is_set_aside(spool: HandSpool, wired: Wired) -> None:
    wired(accepting)
    spool.data(thunderstone(f"{HOST}/1"), "my profile")
    run = GatewayRun(spool).to_the_end()
    assert [entry.reason for entry in run.journal()] == [
        "the profile as a datasource: 'my profile'; expected a letter or _, then letters, digits,"
        " _ and -, at most 250"
    ]


def test_groups_are_left_out_for_thunderstone(spool: HandSpool, wired: Wired) -> None:
    wired(taking)
    spool.groups(b"<xmlgroups></xmlgroups>")
    run = GatewayRun(spool, appliance=THUNDERSTONE).to_the_end()
    assert run.remarks == [
        "delivery 1 of 'ldap': groups, which the appliance does not take; left out"
    ]
    assert [entry.state for entry in run.journal()] == [ForwardState.LEFT_OUT]


def test_run_for_another_appliance_is_made_again(spool: HandSpool, wired: Wired) -> None:
    wired(lambda _sent: AWAY)
    spool.feed(gsa_feed(document(1)))
    GatewayRun(spool).until_warned("nobody there")
    wire = wired(taking)
    run = GatewayRun(spool, appliance=THUNDERSTONE).until(lambda: len(wire.sent) == 2)
    assert run.warnings == []


def test_remains_of_a_killed_gateway_are_removed(spool: HandSpool, wired: Wired) -> None:
    wired(accepting)
    spool.feed(gsa_feed(document(1)))
    GatewayRun(spool).to_the_end()
    (spool.root / "forward" / "000000000001" / "chunks").mkdir(parents=True)
    assert GatewayRun(spool).to_the_end().kept() == ["forwarded.jsonl"]


def no_room(_journal: ForwardJournal, _outcome: DeliveryOutcome) -> None:
    """As on a disk that is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_feed_sent_before_a_kill_is_not_sent_again(spool: HandSpool, wired: Wired) -> None:
    wire = wired(accepting)
    spool.feed(gsa_feed(document(1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ForwardJournal, "append", no_room)
        GatewayRun(spool).until_warned("No space left on device")
    GatewayRun(spool).to_the_end()
    assert len(wire.sent) == 1


def test_it_stops_in_time_while_an_answer_does_not_come(spool: HandSpool, wired: Wired) -> None:
    asked, late = threading.Event(), threading.Event()

    def answer(_sent: Sent) -> ApplianceResponse:
        asked.set()
        late.wait(60)
        return SUCCESS

    wire = wired(answer)
    spool.feed(gsa_feed(document(1)))
    run = GatewayRun(spool, drain_seconds=0.05).until(asked.is_set)
    late.set()
    assert run.warnings == [
        "the current delivery has no reply yet; it is sent again at the next start"
    ]
    assert len(wire.sent) == 1


def test_it_stops_at_once_while_it_waits_to_try_again(spool: HandSpool, wired: Wired) -> None:
    wired(lambda _sent: AWAY)
    spool.feed(gsa_feed(document(1)))
    run = GatewayRun(spool, first_pause_seconds=10 * DRAIN_SECONDS).until_warned("nobody there")
    assert len(run.warnings) == 1  # nothing was under way when it stopped
