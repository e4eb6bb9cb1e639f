"""A run of a gateway that was pushed in part is made again with other feeds, or as another one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feedferry.pipelines.serve.gateway_acls import GatewayAcls
from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from support.gateway_nights import HOST, Night, acl, below, page, permit
from support.gateways import GatewayRun
from support.served import serving

pytestmark = pytest.mark.slow


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with serving(tmp_path / "new") as target:
        yield Night(tmp_path, target.url)


@pytest.fixture
def busy_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Answer requests after documents whose path has a word with the status 503."""
    request = ApplianceClient.request
    send = ApplianceClient.send

    def answer(word: str) -> None:
        sent: list[str] = []

        def sends(client: ApplianceClient, part: ChunkPart, *, feedtype: str) -> ApplianceResponse:
            reply = send(client, part, feedtype=feedtype)
            sent.append(part.chunk.path)
            return reply

        def answered(
            client: ApplianceClient, method: str, path: str, *more: object, **named: bool
        ) -> ApplianceResponse:
            if word and sent and word in path:
                return ApplianceResponse(status=503, body=b"busy")
            return request(client, method, path, *more, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(ApplianceClient, "send", sends)
        monkeypatch.setattr(ApplianceClient, "request", answered)

    return answer


@pytest.mark.parametrize(("first", "then"), [("bob", "ann"), ("carl", "ann")])
def test_documents_whose_decision_was_sent_get_that_of_a_feed_that_has_arrived_since(
    night: Night, busy_after: Callable[[str], None], first: str, then: str
) -> None:
    night.posted(acl("folder/", "ann"))
    night.posted(page("folder/a", below("folder/")))
    night.forward()
    night.posted(acl("folder/", first))
    busy_after("_refresh")
    GatewayRun(night.spool, appliance=night.appliance).until_warned("held back")
    night.posted(acl("folder/", then))
    busy_after("")
    night.forward()
    assert night.seen() == {"ann": ["folder/a"], "bob": []}


@pytest.mark.parametrize("alone", [False, True])
def test_a_full_feed_that_becomes_an_incremental_one_takes_its_decisions_back(
    tmp_path: Path, alone: bool
) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(f"- {{endpoint: bulk, refuse_urls: ['{HOST}refused']}}\n", "utf-8")
    with serving(tmp_path / "new", "--scenario", str(scenario)) as target:
        night = Night(tmp_path, target.url)
        night.posted(acl("x" if alone else "folder/", "ann"), source="folders", feedtype="full")
        inside = "" if alone else below("folder/")
        night.posted(page("x", inside), source="wiki")
        night.forward()
        assert night.seen() == {"ann": ["x"], "bob": []}
        night.posted(page("refused"), source="folders", feedtype="full")
        assert "forwarded as an incremental feed" in night.forward().journal()[-1].reason
        assert night.seen() == {"ann": ["x"], "bob": []}


def test_an_older_feed_is_not_sent_alone_after_those_that_were_sent_with_it(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_acls: GatewayAcls, _work: Path) -> None:
        raise OSError("the disk is full")

    night.posted(page("a"))
    night.posted(page("a", permit("ann")))
    monkeypatch.setattr(GatewayAcls, "remember", fail)
    GatewayRun(night.spool, appliance=night.appliance).until_warned("the disk is full")
    assert night.seen() == {"ann": ["a"], "bob": []}
    monkeypatch.undo()
    run = night.forward()
    assert night.seen() == {"ann": ["a"], "bob": []}
    assert [(each.ordinal, each.together) for each in run.journal()] == [(1, (2,))]


def test_a_feed_that_cannot_be_read_does_not_part_those_that_were_sent_together(
    night: Night, busy_after: Callable[[str], None]
) -> None:
    night.posted(page("a"))
    night.posted(page("a", permit("ann")))
    busy_after("_refresh")
    GatewayRun(night.spool, appliance=night.appliance).until_warned("held back")
    busy_after("")
    night.spool.feed(b"no feed", "docs")
    run = night.forward()
    assert night.seen() == {"ann": ["a"], "bob": []}
    assert [(each.ordinal, each.together) for each in run.journal()] == [(1, (2,)), (3, ())]


def test_a_feed_that_was_held_back_is_converted_by_the_steps_of_the_next_start(
    night: Night, busy_after: Callable[[str], None], tmp_path: Path
) -> None:
    steps = tmp_path / "steps.yaml"
    steps.write_text("transform: [{metadata: {rename: {A: B}}}]", "utf-8")
    night.posted(page("a"), page("secret"))
    busy_after("_refresh")
    run = GatewayRun(night.spool, appliance=night.appliance, transform=steps)
    run.until_warned("held back")
    busy_after("")
    steps.write_text(f"transform: [drop: {{url: '{HOST}secret'}}]", "utf-8")
    done = night.forward(transform=steps)
    assert (done.journal()[-1].accepted, done.journal()[-1].filtered) == (1, 1)


def test_the_decisions_of_a_feed_that_was_removed_are_taken_back(
    night: Night, busy_after: Callable[[str], None]
) -> None:
    night.posted(acl("folder/", "ann"))
    night.posted(page("folder/a", below("folder/")))
    night.forward()
    night.posted(acl("folder/", "bob"))
    busy_after("_refresh")
    GatewayRun(night.spool, appliance=night.appliance).until_warned("held back")
    busy_after("")
    assert night.seen() == {"ann": [], "bob": ["folder/a"]}
    journal = night.spool.root / "deliveries.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    (night.spool.root / "index.db").unlink()
    night.posted(page("b"))
    night.forward()
    assert night.seen() == {"ann": ["b", "folder/a"], "bob": ["b"]}
    assert night.forward().kept() == ["forwarded.jsonl", "state.acls"]
