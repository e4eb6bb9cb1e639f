"""Runs in object storage are pushed, shown and compared where they are."""

import json
import os
from pathlib import Path

import pytest

import feedferry
from feedferry.schemas.errors import BusyError, SourceError
from feedferry.transforms.sinks.push.receipts import Receipts
from feedferry.transforms.storage.run_folders.find_storage import lease_on, storage_of
from support import remotes
from support.archives import BROKEN, document, gsa_feed
from support.forks import run
from support.served import Served, serving

URI = f"s3://{remotes.BUCKET}/nightly/run.2026"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("s3")]


@pytest.fixture
def converted(tmp_path: Path) -> str:
    """The URI of a run of several chunks, with one reject."""
    records = (document(number, text="text " * 200) for number in range(100))
    path = tmp_path / "feed.xml"
    path.write_bytes(gsa_feed(*records, BROKEN))
    feedferry.convert(str(path), URI, to_format="gsa-feed", span_bytes="32KiB")
    return URI


def test_a_run_is_pushed_from_where_it_is(converted: str, appliance: Served) -> None:
    pushed = run("push", converted, "--to", appliance.url)
    again = run("push", converted, "--to", appliance.url)

    assert (pushed.returncode, again.returncode) == (0, 0), pushed.stderr
    assert "feedferry-" not in pushed.stdout + pushed.stderr
    assert len(appliance.urls()) == 100
    assert set(appliance.arrivals().values()) == {1}
    names = storage_of(converted).sizes("push")
    assert any("receipts-001.jsonl/" in name for name in names)
    assert not any(name.endswith((".jsonl", "lock")) for name in names)
    assert storage_of(converted).get(".work/lease.json") is None


def test_each_receipt_is_stored_before_the_next_request(
    converted: str, appliance: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A push that ends after any receipt, as by SIGKILL, goes on behind it."""
    add, added = Receipts.add, []

    def killed(self: Receipts, receipt: object) -> None:
        add(self, receipt)  # type: ignore[arg-type]
        added.append(receipt)
        raise MemoryError

    for count in (1, 2):
        with monkeypatch.context() as patch:
            patch.setattr(Receipts, "add", killed)
            with pytest.raises(MemoryError):
                feedferry.push(converted, appliance.url)
        assert len(added) == count
        assert len([n for n in storage_of(URI).sizes("push") if "jsonl/" in n]) == count + 1
    (result,) = feedferry.push(converted, appliance.url)

    assert result.exit_code == 0
    assert set(appliance.arrivals().values()) == {1}


def test_a_run_is_converted_and_pushed_by_one_command(tmp_path: Path, appliance: Served) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(gsa_feed(*map(document, range(10))))
    done = run("convert", str(path), "-o", URI, "--to", "gsa-feed", "--push-to", appliance.url)

    assert done.returncode == 0, done.stderr
    assert len(appliance.urls()) == 10
    assert json.loads(storage_of(URI).get("run.json") or b"")["phase"] == "done"


def test_a_worker_of_a_runner_pushes_as_the_command_does(
    tmp_path: Path, converted: str, appliance: Served
) -> None:
    """The worker has no file of the driver; its receipts are those that a later push reads."""
    with serving(tmp_path / "other") as other:
        feed, words = str(tmp_path / "feed.xml"), {"to_format": "gsa-feed", "span_bytes": "32KiB"}
        runner = {"runner": "FnApiRunner", "push_to": other.url}
        done = feedferry.convert(feed, f"{URI}-later", **words, **runner)  # type: ignore[arg-type]
        (again,) = feedferry.push(f"{URI}-later", other.url)
        feedferry.push(converted, appliance.url)
        assert other.documents() == appliance.documents()
        assert other.arrivals() == appliance.arrivals()
        assert other.feedtypes() == appliance.feedtypes()

    assert done.exit_code == 1  # for the reject
    assert again.account.is_settled_before
    assert done.settlement is not None
    assert (done.settlement.accepted, done.settlement.changed) == (100, ())
    names = storage_of(f"{URI}-later").sizes("push")
    assert not [name for name in names if name.endswith(("lease.json", ".jsonl", "lock"))]
    assert any("receipts-001.jsonl/" in name for name in names)


def test_a_push_that_another_process_is_doing_is_refused(converted: str, appliance: Served) -> None:
    """It may be that of a worker, which has outlived its command and the lease of the run."""
    assert run("push", converted, "--to", appliance.url).returncode == 0
    folder = next(name for name in storage_of(URI).sizes("push")).rpartition("/receipts")[0]
    with lease_on(f"{URI}/{folder}"), pytest.raises(BusyError, match="in use by process"):
        feedferry.push(converted, appliance.url, replay=True)
    (result,) = feedferry.push(converted, appliance.url)

    assert result.exit_code == 0


def test_a_changed_chunk_is_not_sent(converted: str, appliance: Served) -> None:
    storage = storage_of(converted)
    lines = (storage.get("manifest.jsonl") or b"").splitlines()
    storage.put(json.loads(lines[0])["path"], b"changed")
    with pytest.raises(SourceError, match="the file was changed"):
        feedferry.push(converted, appliance.url)


def test_verbs_show_a_run_where_it_is(converted: str, appliance: Served) -> None:
    assert run("push", converted, "--to", appliance.url, "-q").returncode == 0
    shown = run("runs", "show", converted)
    table = run("rejects", "list", converted)
    reject = run("rejects", "show", converted, "1")
    proved = run("verify", converted, "--against", appliance.url)

    assert f"run       {URI}\n" in shown.stdout, shown.stderr
    assert (table.returncode, "malformed" in table.stdout) == (0, True), table.stderr
    assert f"1 of {URI}" in reject.stdout, reject.stderr
    assert proved.returncode == 0, proved.stderr
    for done in (shown, table, reject, proved):
        assert "feedferry-" not in done.stdout + done.stderr
    assert storage_of(converted).get(".work/lease.json") is None


def test_runs_in_object_storage_are_compared(converted: str, tmp_path: Path) -> None:
    path = tmp_path / "later.xml"
    path.write_bytes(gsa_feed(*(document(number, text="text " * 200) for number in range(1, 100))))
    later = f"{URI}-later"
    feedferry.convert(str(path), later, to_format="gsa-feed")
    same = run("diff", converted, converted)
    other = run("diff", converted, later)
    local = run("diff", converted, str(path))

    assert (same.returncode, other.returncode, local.returncode) == (0, 1, 1), other.stderr
    assert "removed" in other.stdout
    assert "feedferry-" not in other.stdout + other.stderr


def test_rejects_of_a_run_in_object_storage_are_exported_and_accepted(
    converted: str, tmp_path: Path
) -> None:
    exported, known = tmp_path / "corrections", tmp_path / "known.txt"
    export = run("rejects", "export", converted, "-o", str(exported))
    accept = run("rejects", "accept", converted, "-o", str(known))
    replay = run("rejects", "replay", converted, str(exported))

    assert (export.returncode, accept.returncode) == (0, 0), export.stderr + accept.stderr
    assert "1 reject\n" in export.stdout
    assert any(path.is_file() for path in exported.rglob("*"))
    assert "\nmalformed http" in known.read_text()
    assert replay.returncode == 2
    assert "expected a run in a folder of this machine" in replay.stderr


def test_two_pushes_at_once_are_refused(converted: str, appliance: Served) -> None:
    from feedferry.pipelines.folders.remote_runs import opened_remote

    with opened_remote(converted), pytest.raises(BusyError, match=f"process {os.getpid()}"):
        feedferry.push(converted, appliance.url)
