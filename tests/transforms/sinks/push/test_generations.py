"""An older run is not pushed over a newer one of its job, nor over one that a full feed undoes."""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import BusyError, ConfigError, FatalError, TargetError
from feedferry.schemas.run_record import Replay, RunRecord
from feedferry.transforms.sinks.push.generations import (
    check_generation,
    claimed_datasources,
    next_generation,
)
from feedferry.transforms.sinks.push.outcome import PushAccount, PushProgress
from feedferry.transforms.sinks.push.pusher import Pusher
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.throttle.gate import StopSignal
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.protocol import RunSession
from feedferry.transforms.storage.run_folders.run_record import write_run
from support.fake_appliance import GSA, SUCCESS, FakeClient, chunk_of

NIGHT = datetime(2026, 11, 22, 2, tzinfo=UTC)


class Runs:
    """A folder of runs, and an appliance that accepts all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.appliance = GSA
        self.client = FakeClient(lambda sent: SUCCESS)

    def make(
        self, job: str, generation: int | None, *, feedtype: str = "incremental"
    ) -> tuple[Path, Sequence[Chunk]]:
        root = self.folder / job / f"{generation}"
        chunk = chunk_of(root, 1, [f"{job}-{generation}"], feedtype=feedtype)
        record = RunRecord(id=root.name, job=job, generation=generation, started_at=NIGHT)
        write_run(root, record)
        with (self.folder / "generations.jsonl").open("a") as ledger:
            ledger.write(f'{{"generation":{generation},"run":"{root.name}","job":"{job}"}}\n')
        return root, [chunk]

    def push(
        self, job: str, generation: int | None, *, feedtype: str = "incremental", **more: bool
    ) -> PushAccount:
        root, chunks = self.make(job, generation, feedtype=feedtype)
        settings = PushSettings(appliance=self.appliance, **more)  # type: ignore[arg-type]  # bools only
        progress = PushProgress(lambda message: None)
        pusher = Pusher(settings, stop=StopSignal(), progress=progress, client=self.client)
        return pusher.push(chunks, root=root, folder=root / "push" / GSA.name)

    def names(self) -> list[str]:
        return [name for sent in self.client.sent for name in sent.names]


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "runs")


def test_an_older_run_of_a_job_is_refused_before_anything_is_sent(runs: Runs) -> None:
    runs.push("people", 2)
    with pytest.raises(ConfigError) as caught:
        runs.push("people", 1)
    assert str(caught.value) == (
        f"{runs.folder}/people/1: generation 1 of people; generation 2 of people was already pushed"
        f" to {GSA.url}, and this run would replace newer documents:"
        " begin a new run with --fresh, or give --allow-older"
    )
    assert runs.names() == ["people-2"]


def test_an_older_run_is_pushed_if_that_is_allowed(runs: Runs) -> None:
    runs.push("people", 2)
    assert runs.push("people", 1, allow_older=True).exit_code == 0
    assert runs.names() == ["people-2", "people-1"]


def test_a_push_of_the_newest_run_is_continued_and_repeated(runs: Runs) -> None:
    runs.push("people", 2)
    assert runs.push("people", 2).earlier_chunks == 1
    assert runs.push("people", 2, replay=True).exit_code == 0
    assert runs.names() == ["people-2", "people-2"]


def test_a_run_with_nothing_left_to_send_is_no_older_run(runs: Runs) -> None:
    runs.push("people", 1)
    runs.push("people", 2)
    assert runs.push("people", 1).earlier_chunks == 1


def test_an_older_run_is_not_finished_after_a_newer_one(runs: Runs) -> None:
    def swap(session: RunSession) -> None:
        session.step("swap the alias", lambda: session.send("/alias", None))

    def refuse(_session: RunSession) -> None:
        raise TargetError("the alias is locked")

    runs.appliance = replace(GSA, protocol=replace(FEEDERGATE, finish=refuse))
    runs.push("people", 1)
    runs.appliance = replace(GSA, protocol=replace(FEEDERGATE, finish=swap))
    runs.push("people", 2)
    sent = len(runs.client.sent)
    account = runs.push("people", 1)
    assert (len(runs.client.sent), account.steps, account.exit_code) == (sent, {}, 2)
    assert "generation 2 of people was already pushed" in str(account.stopped)
    assert runs.push("people", 2).stopped is None  # its steps are done
    finished = runs.push("people", 1, allow_older=True)
    assert finished.steps == {"swap the alias": "Success"}
    assert runs.push("people", 1).stopped is None


@pytest.mark.parametrize(
    ("newer", "older", "is_refused"),
    [
        ("incremental", "incremental", False),
        ("full", "incremental", True),
        ("incremental", "full", True),
    ],
)
def test_two_jobs_on_one_datasource_disturb_each_other_if_one_is_full(
    runs: Runs, newer: str, older: str, is_refused: bool
) -> None:
    runs.push("wiki", 2, feedtype=newer)
    if is_refused:
        with pytest.raises(ConfigError, match="generation 1 of people; generation 2 of wiki was"):
            runs.push("people", 1, feedtype=older)
    else:
        assert runs.push("people", 1, feedtype=older).exit_code == 0


def test_a_replay_is_as_old_as_the_run_whose_rejects_it_sends(runs: Runs) -> None:
    runs.push("wiki", 2, feedtype="full")
    root, chunks = runs.make("people", 3)
    replay = Replay(run="1", generation=1, export="fixed")
    record = RunRecord(id="3", job="people", generation=3, started_at=NIGHT, replay=replay)
    write_run(root, record)
    settings = PushSettings(appliance=GSA)
    with pytest.raises(ConfigError, match="generation 1 of people; generation 2 of wiki was"):
        check_generation(root, chunks, settings)
    with claimed_datasources(root, chunks, replace(settings, allow_older=True)):
        pass
    assert runs.push("people", 2).exit_code == 0  # newer than the documents of the replay


def test_a_run_without_a_generation_is_pushed_at_any_time(runs: Runs) -> None:
    runs.push("people", 2)
    assert runs.push("people", None).exit_code == 0


def test_the_ledger_has_a_run_before_its_first_request(runs: Runs) -> None:
    root, chunks = runs.make("people", 1)
    [chunk] = chunks
    ledger = runs.folder / "pushed" / GSA.name / (chunk.format or "") / str(chunk.datasource)
    with claimed_datasources(root, chunks, PushSettings(appliance=GSA)):
        assert b'"generation":1,"job":"people"' in (ledger / "ledger.jsonl").read_bytes()
        with (
            pytest.raises(BusyError, match="in use by another push"),
            claimed_datasources(*runs.make("wiki", 2), PushSettings(appliance=GSA)),
        ):
            pass


def test_a_damaged_ledger_allows_nothing(runs: Runs) -> None:
    runs.push("people", 1)
    [ledger] = runs.folder.rglob("ledger.jsonl")
    ledger.write_bytes(b'{"generation":"1"}\n')
    with pytest.raises(FatalError, match=r"ledger.jsonl:1: .*; expected a line about a run"):
        runs.push("people", 2)


def test_a_run_that_was_moved_is_refused_because_its_ledger_is_elsewhere(
    runs: Runs, tmp_path: Path
) -> None:
    root, chunks = runs.make("people", 1)
    root.rename(tmp_path / "backup")
    with (
        pytest.raises(ConfigError, match="backup: the run 1 of the job people; expected it in its"),
        claimed_datasources(tmp_path / "backup", chunks, PushSettings(appliance=GSA)),
    ):
        pass


def test_a_copy_of_a_run_is_refused_because_the_ledger_of_generations_is_elsewhere(
    runs: Runs, tmp_path: Path
) -> None:
    root, chunks = runs.make("people", 1)
    shutil.copytree(root, tmp_path / "other" / "people" / "1")
    with (
        pytest.raises(ConfigError, match=r"not in .*other/generations.jsonl; expected a run where"),
        claimed_datasources(
            tmp_path / "other" / "people" / "1", chunks, PushSettings(appliance=GSA)
        ),
    ):
        pass


def test_an_older_run_is_refused_by_the_receipts_of_a_newer_one_if_the_ledger_is_lost(
    runs: Runs,
) -> None:
    runs.push("people", 2)
    [ledger] = runs.folder.rglob("ledger.jsonl")
    ledger.write_bytes(ledger.read_bytes()[:50])
    with pytest.raises(ConfigError, match="generation 2 of people was already pushed"):
        runs.push("people", 1)


def test_the_ledger_is_the_same_for_another_spelling_of_the_address(runs: Runs) -> None:
    older, newer = runs.make("people", 1), runs.make("people", 2)
    here = PushSettings(appliance=replace(GSA, url="http://localhost:19900"))
    with claimed_datasources(*newer, here):
        pass
    for url in ("http://localhost:19900", "http://127.0.0.1:19900"):
        settings = PushSettings(appliance=replace(GSA, url=url))
        with pytest.raises(ConfigError, match=f"2 of people was already pushed to {url}"):
            check_generation(*older, settings)


def test_each_run_in_a_folder_of_runs_gets_the_next_generation(tmp_path: Path) -> None:
    first = next_generation(tmp_path, RunRecord(id="first", job="people", started_at=NIGHT))
    with (tmp_path / "generations.jsonl").open("ab") as torn:
        torn.write(b'{"generation":')
    second = next_generation(tmp_path, RunRecord(id="second", job="wiki", started_at=NIGHT))
    assert (first.generation, second.generation) == (1, 2)
    assert (tmp_path / "generations.jsonl").read_text() == (
        '{"generation":1,"run":"first","job":"people"}\n'
        '{"generation":2,"run":"second","job":"wiki"}\n'
    )


@pytest.mark.parametrize(
    ("is_pushed", "job"), [(True, "wiki"), (False, "people")], ids=["pushes", "runs of the job"]
)
def test_generations_continue_after_their_ledger_is_lost(
    runs: Runs, is_pushed: bool, job: str
) -> None:
    _ = runs.push("people", 7) if is_pushed else runs.make("people", 7)
    (runs.folder / "generations.jsonl").unlink()
    record = next_generation(runs.folder, RunRecord(id="new", job=job, started_at=NIGHT))
    assert record.generation == 8
