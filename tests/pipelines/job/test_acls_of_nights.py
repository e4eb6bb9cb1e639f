"""Three nights of a job to an index: at no time does a search show a document to a stranger."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedferry.pipelines.folders.job_folders import runs_of
from feedferry.schemas.receipt import NARROW
from support.forks import run
from support.index_searches import found_by
from support.served import BOUND_SECONDS, Served, serving, start, wait_until

pytestmark = pytest.mark.slow

HOST = "http://h.example/"
USERS = ("ann", "bob", "stranger")


class FeedJob:
    """A job that reads `feed.xml` and fills an index."""

    def __init__(self, folder: Path, served: Served) -> None:
        self.folder, self._served = folder, served
        self.home = folder / "runs" / "nights"
        target = f"{{type: opensearch, url: {served.url}/docs}}"
        source = "{type: gsa-feed, path: [feed.xml]}"
        text = f"version: 1\njob: nights\nsource: {source}\ntarget: {target}\n"
        (folder / "nights.yaml").write_text(text, "utf-8")

    def write(self, *parts: str, feedtype: str = "incremental", datasource: str = "web") -> None:
        header = f"<datasource>{datasource}</datasource><feedtype>{feedtype}</feedtype>"
        group = f"<group>{''.join(parts)}</group>"
        text = f"<gsafeed><header>{header}</header>{group}</gsafeed>"
        (self.folder / "feed.xml").write_text(text, "utf-8")

    def run(self, *flags: str) -> int:
        return self.command("run", "nights.yaml", "--progress", "none", *flags)

    def command(self, *words: str) -> int:
        done = run(*words, cwd=self.folder)
        assert done.returncode in (0, 1, 3), done.stderr
        return done.returncode

    def night(self, *parts: str, feedtype: str = "incremental", datasource: str = "web") -> int:
        self.write(*parts, feedtype=feedtype, datasource=datasource)
        return self.run()

    def report(self) -> Path:
        """Return the report of the last run."""
        return self.home / runs_of(self.home)[-1].id / "report.json"

    def readers(self) -> dict[str, list[str]]:
        """Return the users who find each document, by its path."""
        url, found = f"{self._served.url}/docs", dict[str, list[str]]()
        for user in USERS:
            for path in found_by(url, user, base=HOST):
                found.setdefault(path, []).append(user)
        return dict(sorted(found.items()))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[FeedJob]:
    with serving(tmp_path / "spool") as served:
        yield FeedJob(tmp_path, served)


def principal(user: str) -> str:
    return f'<principal scope="user" access="permit">{user}</principal>'


def acl(path: str, user: str, parent: str = "") -> str:
    inherited = f' inherit-from="{HOST}{parent}"' if parent else ""
    return f'<acl url="{HOST}{path}"{inherited}>{principal(user)}</acl>'


def folder(path: str, user: str, parent: str = "") -> str:
    kind = 'inheritance-type="parent-overrides"'
    kind += f' inherit-from="{HOST}{parent}"' if parent else ""
    return f'<acl url="{HOST}{path}" {kind}>{principal(user)}</acl>'


def document(path: str, inner: str = "") -> str:
    head = f'<record url="{HOST}{path}" mimetype="text/plain">'
    return f"{head}{inner}<content>text</content></record>"


def child(path: str, parent: str) -> str:
    return document(path, f'<acl inherit-from="{HOST}{parent}"/>')


def deletion(path: str) -> str:
    return f'<record url="{HOST}{path}" action="delete" mimetype="text/plain"/>'


METADATA = '<metadata><meta name="a" content="b"/></metadata>'
REJECTED = acl("x", "ann").replace('"permit"', '"permt"')


def test_a_document_whose_acl_is_damaged_stays_hidden_where_its_folder_changes(
    job: FeedJob,
) -> None:
    damaged = '<acl><principal scope="user" access="permt">ann</principal></acl>'
    record = f'<record url="{HOST}d/x" mimetype="text/plain">{{}}<content>x</content></record>'
    parent = f'<acl url="{HOST}d/" inheritance-type="parent-overrides">{{}}</acl>'
    permit = '<principal scope="user" access="permit">{}</principal>'
    inherits = f'<acl inherit-from="{HOST}d/"/>'
    job.night(parent.format(permit.format("ann")), record.format(inherits))
    assert job.readers() == {"d/x": ["ann"]}
    assert job.night(record.format(damaged)) == 1
    assert job.night(parent.format(permit.format("bob"))) == 1
    assert job.readers() == {}
    assert job.night(record.format(inherits)) == 0
    assert job.readers() == {"d/x": ["bob"]}


def test_a_document_without_a_decision_any_more_is_withheld_also_if_rejects_are_not(
    job: FeedJob,
) -> None:
    flags = "--set", "rejects.withhold=false"
    damaged = '<acl><principal scope="user" access="permt">ann</principal></acl>'
    job.night(folder("d/", "ann"), child("d/x", "d/"))
    job.write(document("d/x", damaged))
    assert job.run(*flags) == 1
    assert job.readers() == {"d/x": ["ann"]}
    job.write(folder("d/", "bob"))
    assert job.run(*flags) == 1
    assert job.readers() == {}


@pytest.mark.parametrize("changes_at_once", [False, True])
def test_a_document_that_stays_with_a_damaged_acl_that_inherits_follows_its_folder(
    job: FeedJob, changes_at_once: bool
) -> None:
    flags = "--set", "rejects.withhold=false"
    damaged = f'<acl inherit-from="{HOST}d/"><principal scope="user" access="permt">x</principal>'
    job.night(folder("d/", "ann"), child("d/x", "d/"))
    job.write(document("d/x", f"{damaged}</acl>"), *[folder("d/", "bob")] * changes_at_once)
    assert job.run(*flags) == 1
    assert job.readers() == ({} if changes_at_once else {"d/x": ["ann"]})
    assert job.night(folder("d/", "eve")) == 1
    assert job.readers() == {}


def test_a_document_whose_newer_acl_is_filtered_follows_its_folder(job: FeedJob) -> None:
    with (job.folder / "nights.yaml").open("a", encoding="utf-8") as text:
        text.write("transform:\n- drop: {principal: eve}\n")
    job.night(folder("d/", "ann"), document("d/x"), acl("d/x", "ann", "d/"))
    assert job.night(acl("d/x", "eve", "d/"), document("other")) == 0
    assert job.night(folder("d/", "bob")) == 1
    assert job.readers() == {"other": ["ann", "bob", "stranger"]}


def test_documents_are_hidden_below_a_folder_that_changes_after_the_acls_were_cleared(
    job: FeedJob,
) -> None:
    below = folder("d/e/", "ann", parent="d/"), child("d/e/y", "d/e/"), acl("d/z", "ann", "d/")
    documents = child("d/x", "d/"), document("d/z"), child("f/x", "f/")
    job.night(folder("d/", "ann"), folder("f/", "ann"), *below, *documents)
    before = {path: ["ann"] for path in ("d/e/y", "d/x", "d/z", "f/x")}
    assert job.readers() == before
    assert job.command("state", "clear", "nights") == 0
    assert job.night(document("new", f"<acl>{principal('bob')}</acl>")) == 0
    assert job.readers() == {**before, "new": ["bob"]}
    assert job.night(folder("d/", "bob")) == 1
    assert job.readers() == {"f/x": ["ann"], "new": ["bob"]}
    report = json.loads(job.report().read_bytes())
    assert report["account"]["reject_codes"] == {"acl-chain-broken": 4}
    assert job.night(child("d/x", "d/"), child("d/e/y", "d/e/")) == 0  # one of them waits
    assert job.readers() == {"d/x": ["bob"], "f/x": ["ann"], "new": ["bob"]}
    assert job.night(below[0].replace("ann", "bob"), acl("d/z", "bob", "d/"), document("d/z")) == 0
    found = {path: ["bob"] for path in ("d/e/y", "d/x", "d/z", "new")}
    assert job.readers() == {**found, "f/x": ["ann"]}


def test_a_document_has_the_acl_that_arrived_alone_nights_before_it(job: FeedJob) -> None:
    assert job.night(acl("x", "ann")) == 0
    assert job.night(document("y")) == 0
    assert job.night(document("x")) == 0
    assert job.readers() == {"x": ["ann"], "y": [*USERS]}
    assert job.night(document("x"), acl("x", "bob")) == 0
    assert job.readers() == {"x": ["bob"], "y": [*USERS]}
    assert job.night(document("x")) == 0
    assert job.readers() == {"x": ["bob"], "y": [*USERS]}


def test_a_document_is_withheld_until_its_rejected_acl_is_stated_again(job: FeedJob) -> None:
    assert job.night(document("x", f"<acl>{principal('bob')}</acl>")) == 0
    assert job.night(REJECTED) == 1
    assert job.readers() == {}
    assert job.night(document("x")) == 1
    assert job.readers() == {}
    assert job.night(acl("x", "ann")) == 0
    assert job.night(document("x")) == 0
    assert job.readers() == {"x": ["ann"]}


def test_a_rejected_acl_of_a_feed_in_utf_16_is_unknown(job: FeedJob) -> None:
    job.write(REJECTED, document("y"))
    path = job.folder / "feed.xml"
    path.write_bytes(path.read_text("utf-8").encode("utf-16"))
    assert job.run() == 1
    assert job.night(document("x")) == 1
    assert job.readers() == {"y": [*USERS]}


def test_a_document_inherits_from_a_parent_of_a_night_before_until_it_is_deleted(
    job: FeedJob,
) -> None:
    assert job.night(folder("d/", "ann")) == 0
    assert job.night(child("d/x", "d/")) == 0
    assert job.readers() == {"d/x": ["ann"]}
    assert job.night(deletion("d/")) == 0
    assert job.readers() == {}
    assert job.night(child("d/y", "d/")) == 0
    assert job.readers() == {}


def test_a_new_acl_of_a_folder_counts_for_documents_of_nights_before_it(job: FeedJob) -> None:
    lower = folder("d/e/", "ann").replace(" inheritance", f' inherit-from="{HOST}d/" inheritance')
    assert job.night(folder("d/", "ann"), lower) == 0
    assert job.night(child("d/x", "d/"), child("d/e/y", "d/e/"), document("z")) == 0
    assert job.readers() == {"d/e/y": ["ann"], "d/x": ["ann"], "z": [*USERS]}
    assert job.night(folder("d/", "bob")) == 0
    assert job.readers() == {"d/e/y": ["ann", "bob"], "d/x": ["bob"], "z": [*USERS]}
    assert job.night(document("z")) == 0
    assert job.night(folder("d/", "ann"), child("d/new", "d/")) == 0
    assert job.readers() == {
        "d/e/y": ["ann"],
        "d/new": ["ann"],
        "d/x": ["ann"],
        "z": [*USERS],
    }


def test_a_document_is_hidden_until_the_acl_of_its_folder_arrives(job: FeedJob) -> None:
    assert job.night(child("d/x", "d/"), document("y")) == 0
    assert job.readers() == {"y": [*USERS]}
    [listed] = job.home.glob("*-*/withheld.csv")
    lines = [line.split(",")[:3] for line in listed.read_text("utf-8").splitlines()]
    assert lines == [["url", "datasource", "code"], [f"{HOST}d/x", "web", "acl-chain-waiting"]]
    assert job.night(document("z")) == 0
    assert job.readers() == {"y": [*USERS], "z": [*USERS]}
    assert job.night(folder("d/", "ann")) == 0
    assert job.readers() == {"d/x": ["ann"], "y": [*USERS], "z": [*USERS]}
    assert job.night(deletion("d/")) == 0
    assert job.readers() == {"y": [*USERS], "z": [*USERS]}
    assert job.night(folder("d/", "bob")) == 0
    assert job.readers()["d/x"] == ["bob"]


def test_a_new_acl_of_a_folder_counts_for_the_copy_in_each_datasource(job: FeedJob) -> None:
    assert job.night(folder("d/", "ann"), child("d/x", "d/")) == 0
    assert job.night(child("d/x", "d/"), datasource="other") == 0
    assert job.readers() == {"d/x": ["ann", "ann"]}
    assert job.night(folder("d/", "bob")) == 0
    assert job.readers() == {"d/x": ["bob", "bob"]}


def test_a_document_has_the_newest_acl_of_its_url_in_another_datasource(job: FeedJob) -> None:
    assert job.night(acl("x", "ann"), folder("d/", "ann")) == 0
    assert job.night(document("x"), document("y"), document("z"), datasource="other") == 0
    assert job.readers() == {"x": ["ann"], "y": [*USERS], "z": [*USERS]}
    assert job.night(acl("x", "bob"), acl("y", "bob")) == 0
    assert job.readers() == {"x": ["bob"], "y": ["bob"], "z": [*USERS]}
    assert job.night(deletion("x")) == 1
    assert job.readers() == {"y": ["bob"], "z": [*USERS]}


def test_the_steps_before_are_applied_once_to_acls_of_nights_before(job: FeedJob) -> None:
    steps = (
        "transform:\n"
        "- principals: {rewrite: [['re:(ann|bob)1', '\\1']], unmapped: reject}\n"
        f"- urls: {{rewrite: [['{HOST}', '{HOST}new/']]}}\n"
        f"- keep: {{url: '{HOST}new/d/*'}}\n"
    )
    path = job.folder / "nights.yaml"
    path.write_text(path.read_text("utf-8") + steps, "utf-8")
    assert job.night(folder("d/", "ann1")) == 0
    assert job.night(child("d/x", "d/")) == 0
    assert job.readers() == {"new/d/x": ["ann"]}
    assert job.night(folder("d/", "bob1")) == 0
    assert job.readers() == {"new/d/x": ["bob"]}


def test_documents_of_nights_before_are_withheld_when_their_folder_is_deleted(
    job: FeedJob,
) -> None:
    assert job.night(folder("d/", "ann"), folder("e/", "ann")) == 0
    assert job.night(child("d/x", "d/"), child("e/y", "e/")) == 0
    assert job.night(deletion("d/")) == 0
    assert job.readers() == {"e/y": ["ann"]}
    assert job.night(REJECTED.replace("/x", "/e/")) == 1
    assert job.readers() == {}
    done = run("rejects", "export", "nights", "-o", "fixed", cwd=job.folder)
    assert "acl-chain-broken: 1 reject without bytes, not exported" in done.stderr


def test_a_full_feed_removes_the_acls_of_its_datasource_only(job: FeedJob) -> None:
    assert job.night(acl("x", "ann"), acl("y", "ann")) == 0
    assert job.night(acl("z", "bob"), datasource="other") == 0
    assert job.night(document("x"), acl("y", "bob"), feedtype="full") == 0
    assert job.night(document("x"), document("y")) == 0
    assert job.night(document("z"), datasource="other") == 0
    assert job.readers() == {"x": [*USERS], "y": ["bob"], "z": ["bob"]}


def test_a_run_of_full_feeds_does_not_leave_documents_of_other_datasources_open(
    job: FeedJob,
) -> None:
    full = "--set", "target.feedtype=full"
    job.write(folder("d/", "ann"), child("d/x", "d/"))
    assert job.run(*full) == 0
    assert job.night(child("d/y", "d/"), datasource="other") == 0
    assert job.readers() == {"d/x": ["ann"], "d/y": ["ann"]}
    job.write(folder("d/", "ann"), child("d/x", "d/"))
    assert job.run(*full) == 0
    job.write(folder("d/", "bob"), child("d/x", "d/"))
    assert job.run(*full) == 3
    assert job.readers() == {"d/x": ["ann"], "d/y": ["ann"]}
    assert job.run() == 0
    assert job.readers() == {"d/x": ["bob"], "d/y": ["bob"]}


def test_a_run_that_is_killed_keeps_its_acls_when_it_goes_on(job: FeedJob) -> None:
    assert job.night(acl("x", "ann")) == 0
    kept = (job.home / "state.acls").read_bytes()
    job.write(acl("x", "bob"), acl("y", "bob"))
    process = start("run", "nights.yaml", "--progress", "none", cwd=job.folder)
    wait_until(lambda: any(job.home.glob("*/.work/*/kept.acls")))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == -signal.SIGKILL
    assert (job.home / "state.acls").read_bytes() == kept
    assert job.run("--only-resume") == 0
    assert job.night(document("x"), document("y")) == 0
    assert job.readers() == {"x": ["bob"], "y": ["bob"]}


def test_a_run_that_stops_leaves_the_acls_as_they_were(job: FeedJob) -> None:
    assert job.night(acl("x", "ann")) == 0
    job.write(acl("x", "bob"), REJECTED)
    assert job.run("--set", "rejects.max=0") == 3
    assert job.night(document("x")) == 0
    assert job.readers() == {"x": ["ann"]}


BROKEN = "<content encoding='base64binary'>%%%</content>"


def test_a_withheld_document_is_hidden_until_its_next_good_version(job: FeedJob) -> None:
    partial = document("d/x").replace("<content>text</content>", METADATA)
    bad = child("d/y", "d/").replace("<content>text</content>", BROKEN)
    assert job.night(folder("d/", "ann"), child("d/x", "d/"), child("d/y", "d/")) == 0
    assert job.readers() == {"d/x": ["ann"], "d/y": ["ann"]}
    assert job.night(partial, bad) == 1
    assert job.readers() == {}
    assert job.night(folder("d/", "bob")) == 0
    assert job.night(acl("d/x", "bob")) == 0
    assert job.readers() == {}
    assert job.night(child("d/y", "d/")) == 0
    assert job.night(document("d/x")) == 0
    assert job.readers() == {"d/x": ["bob"], "d/y": ["bob"]}


def test_an_acl_alone_shows_a_document_that_was_withheld_for_its_acl(job: FeedJob) -> None:
    assert job.night(document("x")) == 0
    assert job.night(document("x", '<acl inherit-from="http://h.example/none/"/>')) == 0
    assert job.readers() == {}
    assert job.night(acl("x", "ann")) == 0
    assert job.readers() == {"x": ["ann"]}
    assert job.night(REJECTED) == 1
    assert job.readers() == {}
    assert job.night(acl("x", "bob")) == 0
    assert job.readers() == {"x": ["bob"]}


def test_a_replay_of_rejects_has_the_acls_of_its_job(job: FeedJob) -> None:
    assert job.night(acl("x", "ann"), folder("d/", "bob")) == 0
    broken = '<content encoding="base64binary">%%%</content>'
    plain = "<content>text</content>"
    parts = [part.replace(plain, broken) for part in (document("x"), child("d/y", "d/"))]
    assert job.night(*parts) == 1
    assert job.readers() == {}
    assert job.command("rejects", "export", "nights", "-o", "fixed") == 0
    for path in (job.folder / "fixed").rglob("*.xml"):
        path.write_text(path.read_text("utf-8").replace(broken, plain), "utf-8")
    code = job.command("rejects", "replay", "nights", "fixed")
    assert job.readers() == {"d/y": ["bob"], "x": ["ann"]}
    assert code == 0


def test_an_acl_that_an_abandoned_run_may_have_sent_is_unknown(tmp_path: Path) -> None:
    scenario = tmp_path / "faults.yaml"
    scenario.write_text("- {endpoint: bulk, requests: 2-1000, status: 503}\n", "utf-8")
    with serving(tmp_path / "spool", "--scenario", str(scenario)) as served:
        job = FeedJob(tmp_path, served)
        assert job.night(acl("x", "ann"), document("x")) == 0
        job.write(acl("x", "bob"))
        process = start("run", "nights.yaml", "--progress", "none", cwd=job.folder)
        receipts = "*/push/*/receipts-*.jsonl"
        wait_until(lambda: any(NARROW in path.read_text() for path in job.home.glob(receipts)))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=BOUND_SECONDS)
        assert process.returncode == -signal.SIGKILL
    with serving(tmp_path / "spool", "--port", served.url.rpartition(":")[2]) as served:
        job.write(document("x"))
        assert job.run("--fresh") == 1
        assert job.readers() == {}
        assert job.night(acl("x", "bob"), document("x")) == 0
        assert job.readers() == {"x": ["bob"]}
