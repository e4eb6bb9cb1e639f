"""A gateway fills an index: decisions of ACLs that arrive in any delivery, and what it keeps."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feedferry.pipelines.serve.forward_journal import (
    DeliveryOutcome,
    ForwardJournal,
    ForwardState,
)
from feedferry.pipelines.serve.retry import retry
from feedferry.schemas.errors import BusyError, ConfigError
from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.steps.kept_acls import count_kept
from support.archives import gsa_feed
from support.gateway_nights import HOST, Night, acl, below, page, permit
from support.gateways import GatewayRun
from support.ports import kept_port
from support.served import serving

pytestmark = pytest.mark.slow


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with serving(tmp_path / "new") as target:
        yield Night(tmp_path, target.url)


def damaged(name: str) -> str:
    """Return a record whose content cannot be decoded."""
    content = '<content encoding="base64binary">?</content>'
    return f'<record url="{HOST}{name}" mimetype="text/plain">{content}</record>'


def last(run: GatewayRun) -> DeliveryOutcome:
    return run.journal()[-1]


def test_acls_of_one_delivery_decide_about_documents_of_another(night: Night) -> None:
    night.posted(acl("folder/", "ann"), source="folders")
    night.posted(page("folder/a", below("folder/")), page("open"))
    run = night.forward()
    assert night.seen() == {"ann": ["folder/a", "open"], "bob": ["open"]}
    night.posted(acl("folder/", "bob"), source="folders")
    run = night.forward()
    assert night.seen() == {"ann": ["open"], "bob": ["folder/a", "open"]}
    assert (last(run).accepted, last(run).changed, run.warnings) == (2, 1, [])
    assert run.kept() == ["forwarded.jsonl", "state.acls"]


def test_an_acl_that_arrives_alone_protects_the_document_of_a_later_delivery(night: Night) -> None:
    night.posted(acl("a", "ann"))
    night.forward()
    night.posted(page("a"))
    night.forward()
    assert night.seen() == {"ann": ["a"], "bob": []}


def test_a_rejected_document_is_shown_to_no_user(night: Night) -> None:
    night.posted(page("a"), acl("leaf", "ann").replace("child-overrides", "leaf-node"))
    night.forward()
    night.posted(page("a", below("leaf")))
    run = night.forward()
    assert night.seen() == {"ann": [], "bob": []}
    assert (last(run).rejected, last(run).withheld) == (1, 1)


def test_a_document_waits_for_the_acl_of_its_parent(night: Night) -> None:
    night.posted(page("a"))
    night.posted(page("folder/a", below("folder/")))
    run = night.forward()
    assert night.seen() == {"ann": ["a"], "bob": ["a"]}
    assert (last(run).rejected, last(run).withheld, last(run).waiting) == (0, 0, 1)
    night.posted(acl("folder/", "ann"), source="folders")
    run = night.forward()
    assert night.seen() == {"ann": ["a", "folder/a"], "bob": ["a"]}
    assert (last(run).changed, last(run).waiting) == (1, 0)


def test_deletions_and_full_feeds_change_the_index(night: Night) -> None:
    night.posted(page("a"), page("b"))
    night.posted(f'<record url="{HOST}a" action="delete"/>')
    night.posted(page("c"), source="wiki", feedtype="full")
    night.forward()
    assert night.seen()["ann"] == ["b", "c"]
    night.posted(page("d"), source="wiki", feedtype="full")
    night.forward()
    assert night.seen()["ann"] == ["b", "d"]
    night.posted(source="wiki", feedtype="full")
    run = night.forward()
    assert (night.seen()["ann"], last(run).state) == (["b"], ForwardState.FORWARDED)


def test_a_full_feed_that_removes_a_parent_hides_the_documents_below_it(night: Night) -> None:
    night.posted(acl("folder/", "ann"), source="folders", feedtype="full")
    night.posted(page("folder/a", below("folder/")))
    night.forward()
    assert night.seen()["ann"] == ["folder/a"]
    night.posted(acl("other/", "ann"), source="folders", feedtype="full")
    run = night.forward()
    assert night.seen()["ann"] == []
    assert (last(run).state, last(run).waiting) == (ForwardState.FORWARDED, 1)


def test_a_full_feed_with_a_rejected_document_deletes_nothing(night: Night) -> None:
    night.posted(page("a"), page("b"), page("c"), page("narrow"), feedtype="full")
    night.forward()
    night.posted(page("b"), damaged("c"), page("narrow", permit("ann")), feedtype="full")
    run = night.forward()
    assert night.seen() == {"ann": ["a", "b", "narrow"], "bob": ["a", "b"]}
    assert (last(run).state, last(run).rejected) == (ForwardState.FORWARDED, 1)
    assert "forwarded as an incremental feed, which deletes nothing" in last(run).reason
    assert last(run).reason in run.warnings[-1]
    night.posted(page("b"), page("narrow", permit("ann")), feedtype="full")
    night.forward()
    assert night.seen() == {"ann": ["b", "narrow"], "bob": ["b"]}


def test_a_full_feed_that_the_server_refuses_in_part_narrows_its_documents(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(f"- {{endpoint: bulk, refuse_urls: ['{HOST}refused']}}\n", "utf-8")
    with serving(tmp_path / "new", "--scenario", str(scenario)) as target:
        night = Night(tmp_path, target.url)
        night.posted(page("a"), page("narrow"), feedtype="full")
        night.forward()
        night.posted(page("narrow", permit("ann")), page("refused"), feedtype="full")
        run = night.forward()
        assert night.seen() == {"ann": ["a", "narrow"], "bob": ["a"]}
        assert (last(run).state, last(run).refused) == (ForwardState.FORWARDED, 1)
        assert "forwarded as an incremental feed" in last(run).reason


def test_a_narrower_acl_counts_although_the_acl_above_it_is_doubtful(night: Night) -> None:
    night.posted(acl("folder/", "ann"))
    night.posted(page("folder/a"), page("b"), page("folder/c", below("folder/")))
    night.forward()
    assert night.seen() == {"ann": ["b", "folder/a", "folder/c"], "bob": ["b", "folder/a"]}
    night.posted(
        acl("folder/", "ann"),
        "<record mimetype='text/plain'><x></record>",
        page("folder/a", below("folder/")),
        page("b", permit("ann")),
    )
    run = night.forward()
    assert night.seen() == {"ann": ["b", "folder/c"], "bob": []}
    assert (last(run).state, last(run).withheld) == (ForwardState.FORWARDED, 1)
    night.posted(acl("folder/", "bob"), page("folder/a", below("folder/")))
    night.forward()
    assert night.seen() == {"ann": ["b"], "bob": ["folder/a", "folder/c"]}


def test_content_that_is_no_text_is_left_out_and_counted(night: Night) -> None:
    night.posted(page("a.bin", mimetype="application/octet-stream"))
    run = night.forward()
    assert night.seen()["ann"] == ["a.bin"]
    assert last(run).losses == {"content": 1}
    assert any("without content: 1" in line for line in run.remarks)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Answer requests whose path has a word with the status 503; an empty word has none."""
    request = ApplianceClient.request

    def answer(word: str) -> None:
        def answered(
            client: ApplianceClient, method: str, path: str, *more: object, **named: bool
        ) -> ApplianceResponse:
            if word and word in path:
                return ApplianceResponse(status=503, body=b"busy")
            return request(client, method, path, *more, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(ApplianceClient, "request", answered)

    return answer


def test_acls_are_kept_when_a_delivery_is_forwarded_and_not_before(
    night: Night, answers: Callable[[str], None]
) -> None:
    night.posted(acl("folder/", "ann"))
    answers("_refresh")
    run = GatewayRun(night.spool, appliance=night.appliance).until_warned("held back")
    assert (run.gateway.backlog(), night.acls.exists()) == (1, False)
    answers("")
    night.forward()
    assert count_kept(night.acls) == (1, 0)


def test_a_delivery_that_is_held_back_holds_back_all_others(tmp_path: Path) -> None:
    with kept_port() as port:
        with serving(tmp_path / "new", "--port", str(port)) as target:
            night = Night(tmp_path, target.url)
            night.posted(acl("folder/", "ann"), source="folders")
            night.posted(page("folder/a", below("folder/")))
            night.forward()
        night.posted(acl("folder/", "bob"), source="folders")
        night.posted(page("folder/b", below("folder/")), source="others")
        run = GatewayRun(night.spool, appliance=night.appliance).until_warned("held back")
        assert [line for line in run.warnings if "delivery 4" in line] == []
        with serving(tmp_path / "new", "--port", str(port)):
            night.forward()
            assert night.seen() == {"ann": [], "bob": ["folder/a", "folder/b"]}


def test_a_delivery_is_forwarded_again_if_the_gateway_ends_before_its_line(night: Night) -> None:
    night.posted(acl("folder/", "ann"))
    night.forward()
    night.posted(page("folder/a", below("folder/")))
    night.forward()
    journal = night.spool.root / "forward" / "forwarded.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    run = night.forward()
    assert night.seen() == {"ann": ["folder/a"], "bob": []}
    assert [each.ordinal for each in run.journal()] == [1, 2]


@pytest.mark.parametrize("names", ["as they are", "mapped"])
def test_what_is_sent_and_remembered_is_not_sent_again(
    night: Night, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: str
) -> None:
    transform = tmp_path / "steps.yaml" if names == "mapped" else None
    if transform is not None:
        transform.write_text("transform: [{principals: {case: lower}}]", "utf-8")
    user = "ann" if transform is None else "ANN"
    night.posted(acl("folder/", user), page("folder/a", below("folder/")))
    append = ForwardJournal.append

    def fail(_journal: ForwardJournal, _outcome: DeliveryOutcome) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(ForwardJournal, "append", fail)
    stopped = GatewayRun(night.spool, appliance=night.appliance, transform=transform)
    stopped.until_warned("the disk is full")
    monkeypatch.setattr(ForwardJournal, "append", append)
    sent: list[str] = []
    send = ApplianceClient.send

    def count(client: ApplianceClient, part: ChunkPart, *, feedtype: str) -> ApplianceResponse:
        sent.append(part.chunk.path)
        return send(client, part, feedtype=feedtype)

    monkeypatch.setattr(ApplianceClient, "send", count)
    run = night.forward(transform=transform)
    assert (sent, last(run).accepted) == ([], 2)
    assert night.seen() == {"ann": ["folder/a"], "bob": []}


def test_feeds_that_wait_are_forwarded_in_one_run(night: Night) -> None:
    night.posted(page("a"), source="wiki", feedtype="full")
    for number in range(4):
        night.posted(page(f"b{number}"), source=f"of-{number % 2}")
    night.posted(page("c"), source="wiki", feedtype="full")
    run = night.forward()
    assert night.seen()["ann"] == ["b0", "b1", "b2", "b3", "c"]
    lines = [(each.ordinal, each.accepted, each.together) for each in run.journal()]
    assert lines == [(1, 1, ()), (2, 4, (3, 4, 5)), (6, 1, ())]
    assert night.forward().journal() == run.journal()


def test_a_feed_that_cannot_be_read_is_set_aside_alone(night: Night) -> None:
    night.posted(page("a"))
    night.spool.feed(b"no feed", "docs")
    night.posted(page("b"))
    run = night.forward()
    assert night.seen()["ann"] == ["a", "b"]
    assert [each.state.value for each in run.journal()] == ["forwarded", "set-aside", "forwarded"]
    found = "--retry 2: delivery 2 is older than delivery 3, which a search server has"
    with pytest.raises(ConfigError, match=found):
        retry(night.spool.root, "2")


def test_acls_before_a_feed_that_is_set_aside_are_unknown_until_they_are_stated(
    night: Night,
) -> None:
    night.posted(acl("folder/", "bob"))
    night.posted(page("folder/a", below("folder/")))
    night.forward()
    narrowed = gsa_feed(acl("folder/", "ann"), datasource="docs")
    night.spool.feed(narrowed.replace(b"UTF-8", b"klingon"), "docs")
    night.posted(page("folder/b", below("folder/")))
    done = night.forward()
    assert [each.state.value for each in done.journal()[1:]] == ["set-aside", "forwarded"]
    assert night.seen() == {"ann": [], "bob": ["folder/a"]}
    night.posted(acl("folder/", "ann"), page("folder/b", below("folder/")))
    night.forward()
    assert night.seen() == {"ann": ["folder/a", "folder/b"], "bob": []}


def test_acls_after_a_part_that_cannot_be_read_are_unknown_until_they_are_stated(
    night: Night,
) -> None:
    night.posted(acl("folder/", "ann"))
    night.posted(page("folder/a", below("folder/")))
    night.spool.feed(gsa_feed("<record mimetype='text/plain'><x></record>", datasource="docs"))
    night.forward()
    assert count_kept(night.acls) == (1, 1)  # the document, and not its folder
    night.posted(page("folder/b", below("folder/")))
    run = night.forward()
    assert night.seen() == {"ann": ["folder/a"], "bob": []}
    assert (last(run).withheld, run.gateway.backlog()) == (1, 0)
    night.posted(acl("folder/", "ann"), page("folder/b", below("folder/")))
    night.forward()
    assert night.seen() == {"ann": ["folder/a", "folder/b"], "bob": []}


def test_two_gateways_do_not_share_a_state(night: Night) -> None:
    night.spool.root.mkdir()
    with GatewayRun(night.spool, appliance=night.appliance).gateway, pytest.raises(BusyError):
        GatewayRun(night.spool, appliance=night.appliance).gateway.__enter__()
