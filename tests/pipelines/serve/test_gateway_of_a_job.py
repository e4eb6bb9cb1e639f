"""A job and a gateway write the same index, and keep its ACLs and groups in one state."""

from pathlib import Path
from shutil import copyfile

import pytest

from feedferry.pipelines.serve.forward_journal import DeliveryOutcome, ForwardJournal
from support.archives import gsa_feed
from support.gateway_nights import HOST, Night, acl, below, page, permit
from support.gateways import GatewayRun
from support.groups_job import GroupsJob, group
from support.index_searches import found_by
from support.rehearsal import xmlgroups
from support.served import Served, post_form, run, serving, wait_until

pytestmark = pytest.mark.slow


def post(gateway: Served, path: str, text: bytes, **fields: str) -> None:
    stated = [f"{name}={value}" for name, value in fields.items()]
    fields_of = (*stated, "feedtype=incremental", "data=<-")
    assert post_form(f"{gateway.url}/{path}", *fields_of, text=text) == b"Success"


def test_a_delivery_without_its_line_is_not_sent_over_a_job_that_has_run_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_journal: ForwardJournal, _outcome: DeliveryOutcome) -> None:
        raise OSError("the disk is full")

    with serving(tmp_path / "new") as target:
        night, job = Night(tmp_path, target.url), Night(tmp_path / "job", target.url)
        night.posted(acl("folder/", "ann"), page("a"))
        monkeypatch.setattr(ForwardJournal, "append", fail)
        GatewayRun(night.spool, appliance=night.appliance).until_warned("the disk is full")
        monkeypatch.undo()
        job.acls.parent.mkdir(parents=True)
        copyfile(night.acls, job.acls)
        job.posted(acl("folder/", "bob"), page("a", permit("ann")))
        job.forward()
        copyfile(job.acls, night.acls)
        assert night.seen() == {"ann": ["a"], "bob": []}
        night.posted(page("folder/b", below("folder/")))
        done = night.forward()
        assert night.seen() == {"ann": ["a"], "bob": ["folder/b"]}
        assert [each.ordinal for each in done.journal()] == [1, 2]


def test_a_gateway_with_the_state_of_a_job_writes_its_documents_and_groups(tmp_path: Path) -> None:
    with serving(tmp_path / "new") as target:

        def seen() -> dict[str, list[str]]:
            url = f"{target.url}/docs"
            return {user: found_by(url, user, base=HOST) for user in ("ann", "bob")}

        def groups_of_bob() -> list[str]:
            found = run("access", "bob", "--groups-index", f"{target.url}/docs-groups")
            assert found.returncode == 0, found.stderr
            return [name for name in ("board", "staff") if f"gs:Default:{name}" in found.stdout]

        job = GroupsJob(tmp_path, target.url)
        documents = [acl("folder/", "ann"), page("folder/a", below("folder/"))]
        job.night([*documents, page("own", permit("ann"))], [group("staff", "ann", "bob")])
        assert seen() == {"ann": ["folder/a", "own"], "bob": []}
        assert groups_of_bob() == ["staff"]
        words = ("--forward", f"{target.url}/docs", "--set", "target.groups_index=docs-groups")
        state = ("--state", str(tmp_path / "runs" / "nights" / "state"))
        with serving(tmp_path / "gateway", *words, *state) as gateway:
            groups = xmlgroups(group("board", "bob")).encode()
            post(gateway, "xmlgroups", groups, groupsource="ldap")
            feed = gsa_feed(acl("folder/", "bob"), datasource="web")
            post(gateway, "xmlfeed", feed, datasource="web")
            wait_until(lambda: gateway.get("/getbacklogcount") == b"0")
        assert seen() == {"ann": ["own"], "bob": ["folder/a"]}
        assert groups_of_bob() == ["board", "staff"]
        job.night(documents, [group("staff", "ann")])
        assert groups_of_bob() == ["board"]
        assert seen() == {"ann": ["folder/a", "own"], "bob": []}
