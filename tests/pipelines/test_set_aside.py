"""A delivery that cannot be converted or digested is set aside, and tried again on request."""

import json
import re
from pathlib import Path

import pytest

from feedferry.pipelines.serve.delivery_runs import Convert
from feedferry.pipelines.serve.forward_journal import DeliveryOutcome, ForwardJournal, ForwardState
from feedferry.pipelines.serve.gateway import DRAIN_SECONDS
from feedferry.pipelines.serve.rehearsal.delivery_table import DeliveryStatus
from feedferry.pipelines.serve.rehearsal.index import Index
from feedferry.pipelines.serve.retry import retry
from feedferry.pipelines.serve.spool_writer import SpoolWriter
from feedferry.pipelines.serve.worker_process import WorkerProcess
from feedferry.schemas.errors import BusyError, ConfigError
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sources.spool import read_deliveries
from support import hostile_work as work
from support.archives import document, gsa_feed
from support.fake_appliance import GSA, THUNDERSTONE, FakeClient, replace_client
from support.forks import run
from support.gateways import GatewayRun, accepting
from support.served import post_form, serving, wait_until
from support.spools import HandSpool

pytestmark = pytest.mark.slow

LIMIT, PLENTY = 3.0, 60.0
FAILED = "Internal Error: ZeroDivisionError('division by zero')"
DIED = "begun 3 times and never finished: the process ended each time"


def sent(wire: FakeClient) -> list[tuple[str | None, list[str]]]:
    """The feedtype and the names of the documents of each feed."""
    both = zip(wire.sent, wire.texts, strict=True)
    return [(request.feedtype, re.findall(r"/(\d+\.txt)", text.decode())) for request, text in both]


@pytest.fixture
def spool(tmp_path: Path) -> HandSpool:
    return HandSpool(tmp_path / "spool")


def forwarding(
    spool: HandSpool,
    convert: Convert,
    *,
    limit: float = PLENTY,
    to: Appliance = GSA,
    drain_seconds: float = DRAIN_SECONDS,
) -> GatewayRun:
    """A gateway that converts in a worker process."""
    worker = WorkerProcess(limit_seconds=limit)
    return GatewayRun(
        spool,
        appliance=to,
        first_pause_seconds=0.01,
        drain_seconds=drain_seconds,
        worker=worker,
        convert=convert,
    )


@pytest.mark.parametrize(
    ("convert", "limit", "reason"),
    [
        (work.convert_looping, LIMIT, "not finished after 3 seconds, the limit for 262 bytes"),
        (work.convert_failing, PLENTY, FAILED),
        (work.convert_dying, PLENTY, DIED),
    ],
    ids=["loops", "raises", "dies"],
)
def test_what_cannot_be_converted_is_set_aside_and_the_others_are_forwarded(
    spool: HandSpool, monkeypatch: pytest.MonkeyPatch, convert: Convert, limit: float, reason: str
) -> None:
    wire = replace_client(monkeypatch, accepting)
    spool.feed(gsa_feed(document(1)), "bad", "full")
    spool.feed(gsa_feed(document(2)), "crm")
    (delivery,) = forwarding(spool, convert, limit=limit).to_the_end().gateway.set_aside()
    assert (delivery.ordinal, delivery.name, delivery.feedtype, delivery.reason) == (
        1,
        "bad",
        "full",
        reason,
    )
    assert sent(wire) == [("incremental", ["2.txt"])]


def test_a_retry_starts_from_zero(spool: HandSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = replace_client(monkeypatch, accepting)
    spool.feed(gsa_feed(document(1)), "bad")
    forwarding(spool, work.convert_dying).to_the_end()
    retry(spool.root, "all")
    run = forwarding(spool, work.convert_dying).until_warned("its process was ended by SIGKILL")
    assert run.gateway.set_aside() == []
    (spool.root / "fixed").touch()
    forwarding(spool, work.convert_dying).to_the_end()
    assert sent(wire) == [("incremental", ["1.txt"])]


def test_a_retried_delivery_is_forwarded_with_all_later_ones_of_its_datasource(
    spool: HandSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = replace_client(monkeypatch, accepting)
    spool.feed(gsa_feed(document(1)), "bad", "full")
    spool.feed(gsa_feed(document(2)), "crm")
    forwarding(spool, work.convert_failing).to_the_end()
    (spool.root / "fixed").touch()
    spool.feed(gsa_feed(document(3)), "bad")
    forwarding(spool, work.convert_failing).to_the_end()
    retry(spool.root, "1")
    run = forwarding(spool, work.convert_failing).to_the_end()
    assert run.gateway.set_aside() == []
    assert sent(wire) == [
        ("incremental", ["2.txt"]),
        ("incremental", ["3.txt"]),
        ("full", ["1.txt"]),
        ("incremental", ["3.txt"]),
    ]
    states = [entry.state for entry in run.journal() if entry.ordinal == 1]
    assert states == [ForwardState.SET_ASIDE, ForwardState.RETRIED, ForwardState.FORWARDED]


def test_a_delivery_that_a_later_full_feed_supersedes_is_not_forwarded_again(
    spool: HandSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = replace_client(monkeypatch, accepting)
    spool.feed(gsa_feed(document(1)), "bad", "full")
    forwarding(spool, work.convert_failing).to_the_end()
    (spool.root / "fixed").touch()
    spool.feed(gsa_feed(document(2)), "bad", "full")
    forwarding(spool, work.convert_failing).to_the_end()
    retry(spool.root, "bad")
    last = forwarding(spool, work.convert_failing).to_the_end().journal()[-1]
    assert sent(wire) == [("full", ["2.txt"])]
    assert (last.ordinal, last.state) == (1, ForwardState.LEFT_OUT)


def test_a_full_feed_whose_deletions_the_index_cannot_say_is_set_aside(
    spool: HandSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = replace_client(monkeypatch, accepting)
    spool.feed(gsa_feed(document(1)), "crm", "full")
    set_aside(spool)
    run = forwarding(spool, work.convert_failing, to=THUNDERSTONE).to_the_end()
    (delivery,) = run.gateway.set_aside()
    assert delivery.reason == "the index could not digest it, so its deletions are not known"
    assert [request for request in wire.sent if request.chunk] == []


def set_aside(spool: HandSpool, ordinal: int = 1) -> None:
    """Have the index set a delivery aside, and digest the others."""
    with Index(spool.root / "index.db") as index:
        for delivery in read_deliveries(spool.root):
            index.deliveries.begin(delivery)
            if delivery.ordinal == ordinal:
                index.deliveries.end(
                    [ordinal], DeliveryStatus.SET_ASIDE, "not finished after 300 seconds"
                )
            else:
                index.digest(delivery, spool.root)


def statuses(spool: HandSpool) -> list[DeliveryStatus]:
    with Index(spool.root / "index.db") as index:
        return [row.status for row in reversed(index.deliveries.feed_rows())]


@pytest.mark.parametrize("wanted", ["all", "2", "crm"])
def test_a_command_records_another_attempt_of_the_index(
    spool: HandSpool, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spool.feed(gsa_feed(document(1)), "crm")
    spool.feed(gsa_feed(document(2)), "crm")
    spool.feed(gsa_feed(document(3)), "wiki")
    spool.feed(gsa_feed(document(4)), "crm")
    set_aside(spool, 2)
    assert retry(spool.root, wanted) == 0
    completed, waiting = DeliveryStatus.COMPLETED, DeliveryStatus.WAITING
    assert statuses(spool) == [completed, waiting, completed, waiting]
    assert capsys.readouterr().out == (
        "delivery 2 of 'crm', by the index: not finished after 300 seconds\n"
        f"1 to be retried at the next start of the receiver of {spool.root}\n"
    )


def test_a_delivery_that_a_later_full_feed_supersedes_is_dropped_from_the_index(
    spool: HandSpool,
) -> None:
    spool.feed(gsa_feed(document(1)), "crm", "full")
    spool.feed(gsa_feed(document(2)), "crm", "full")
    set_aside(spool)
    retry(spool.root, "all")
    assert statuses(spool) == [DeliveryStatus.FAILED, DeliveryStatus.COMPLETED]
    with Index(spool.root / "index.db") as index:
        details = index.deliveries.feed_rows()[1].details
    assert details == ("superseded by delivery 2, and not digested",)


def test_a_delivery_that_is_set_aside_twice_is_counted_once(
    spool: HandSpool, capsys: pytest.CaptureFixture[str]
) -> None:
    spool.feed(gsa_feed(document(1)), "crm")
    set_aside(spool)
    journal_file = ForwardJournal(spool.root)
    journal_file.append(DeliveryOutcome(1, ForwardState.SET_ASIDE, reason=FAILED))
    journal_file.close()
    retry(spool.root, "all")
    assert capsys.readouterr().out.splitlines() == [
        "delivery 1 of 'crm', by the index: not finished after 300 seconds",
        f"delivery 1 of 'crm', by the gateway: {FAILED}",
        f"1 to be retried at the next start of the receiver of {spool.root}",
    ]


def test_a_delivery_that_is_not_set_aside_cannot_be_retried(spool: HandSpool) -> None:
    spool.feed(gsa_feed(document(1)), "crm")
    set_aside(spool)
    with pytest.raises(ConfigError) as caught:
        retry(spool.root, "2")
    assert str(caught.value) == (
        f"--retry 2: not set aside in {spool.root}; expected all, or the number or datasource of"
        " one of: 1 (crm)"
    )


def test_a_folder_that_is_no_spool_has_nothing_to_retry(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no deliveries\.jsonl in it"):
        retry(tmp_path, "all")


def test_a_retry_is_refused_while_a_receiver_has_the_spool(spool: HandSpool) -> None:
    spool.feed(gsa_feed(document(1)), "crm")
    with SpoolWriter(spool.root), pytest.raises(BusyError, match="in use by another receiver"):
        retry(spool.root, "all")


FORM_FEEDS = [
    ("/xmlgroups", ("groupsource=ldap", "feedtype=full"), b"\x0b<xmlgroups>"),
    (
        "/xmlfeed",
        ("datasource=crm", "feedtype=incremental"),
        gsa_feed(document(1)).replace(b"<group>", b"<group>\x0c<record"),
    ),
]


@pytest.mark.parametrize(("path", "fields", "text"), FORM_FEEDS, ids=["groups", "feed"])
def test_a_form_feed_in_a_feed_stops_neither_the_index_nor_a_gateway(
    tmp_path: Path, path: str, fields: tuple[str, ...], text: bytes
) -> None:
    flags = ("--feed-timeout", "3s", "--backlog-interval", "50ms")
    with serving(tmp_path / "new") as new:
        with serving(tmp_path / "old", "--forward", new.url, *flags) as old:
            assert post_form(old.url + path, *fields, "data=<-", text=text) == b"Success"
            good = gsa_feed(document(2))
            fields = ("datasource=wiki", "feedtype=incremental")
            assert post_form(f"{old.url}/xmlfeed", *fields, "data=<-", text=good) == b"Success"
            wait_until(lambda: old.get("/getbacklogcount") == b"0")
            wait_until(lambda: "http://intranet.example.com/2.txt" in old.urls())
            assert "http://intranet.example.com/2.txt" in new.urls()
            has_set_aside = bool(json.loads(old.get("/set-aside"))["set_aside"])
        if has_set_aside:
            assert run("serve", "--spool", str(old.spool), "--retry", "all").returncode == 0
        with serving(tmp_path / "old", "--forward", new.url, *flags) as old:
            wait_until(lambda: old.get("/getbacklogcount") == b"0")
            wait_until(lambda: "http://intranet.example.com/2.txt" in old.urls())
