"""Runs in object storage: their chunks are those of a run on this machine."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import feedferry
from feedferry.pipelines.cli.main import main
from feedferry.pipelines.folders.remote_folder import RUN_LEASE, RemoteFolder
from feedferry.pipelines.job.run.run_result import RunResult
from feedferry.schemas.account import Account
from feedferry.schemas.errors import BusyError, ConfigError, FatalError
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.convert import SpanConversion
from feedferry.transforms.storage.objects.object_storage import ObjectStorage
from feedferry.transforms.storage.run_folders.attempts import Attempt
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from support import remotes
from support.archives import BROKEN, document, gsa_feed
from support.object_faults import faulty_proxy, times
from support.runs import ROOT, chosen

MAIN = "import sys; from feedferry.pipelines.cli.main import main; sys.exit(main(sys.argv[1:]))"
URI = f"s3://{remotes.BUCKET}/run"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("s3")]


@pytest.fixture
def feed(tmp_path: Path) -> str:
    """A feed of several spans, with a record that is rejected."""
    records = (document(number, text="text " * 200) for number in range(300))
    path = tmp_path / "feed.xml"
    path.write_bytes(gsa_feed(*records, BROKEN, feedtype="full"))
    return str(path)


def _convert(feed: str, output: str, **options: object) -> RunResult:
    given = {"to_format": "gsa-feed", "span_bytes": "64KiB", "accept_holes": True, **options}
    return feedferry.convert(feed, output, **given)  # type: ignore[arg-type]  # texts of flags


def _chunks(root: str) -> list[tuple[object, ...]]:
    """Return the chunks of a run, without their paths, and their bytes."""
    storage = storage_of(root)
    lines = map(json.loads, (storage.get("manifest.jsonl") or b"").splitlines())
    return [
        ({name: value for name, value in line.items() if name != "path"}, storage.get(line["path"]))
        for line in lines
    ]


@pytest.mark.kind("object storage")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_in_object_storage_has_the_chunks_of_a_local_one(
    feed: str, tmp_path: Path, jobs: str
) -> None:
    local = str(tmp_path / "out")
    _convert(feed, local)
    result = _convert(feed, URI, jobs=jobs)

    assert (result.exit_code, result.uri) == (1, URI)
    assert _chunks(URI) == _chunks(local)
    assert len(_chunks(URI)) > 2


def test_the_files_of_the_run_name_the_uri(feed: str) -> None:
    _convert(feed, URI)
    storage = storage_of(URI)
    report = json.loads(storage.get("report.json") or b"")
    run = json.loads(storage.get("run.json") or b"")

    assert (report["folder"], run["phase"], run["id"]) == (URI, "done", "run")
    assert b"/feedferry-" not in (storage.get("run.log") or b"/feedferry-")
    used = {"manifest.jsonl", "report.html", "run.log", "timeline.jsonl", "report.json"}
    assert used <= set(storage.sizes())
    assert any(name.startswith("rejects/") for name in storage.sizes())


def _published() -> set[str]:
    manifest = (storage_of(URI).get("manifest.jsonl") or b"").splitlines()
    return {json.loads(line)["path"] for line in manifest}


def test_only_published_objects_are_left(feed: str) -> None:
    _convert(feed, URI)
    assert set(storage_of(URI).sizes(".work")) == _published()


def test_a_finished_run_is_refused_and_fresh_replaces_it(feed: str) -> None:
    _convert(feed, URI)
    assert _convert(feed, URI).exit_code == 1
    with pytest.raises(ConfigError, match="of a finished run") as caught:
        _convert(feed, URI, span_bytes="128KiB")

    assert URI in caught.value.text
    with pytest.raises(ConfigError):
        _convert("missing.xml", URI, fresh=True)
    first = _chunks(URI)
    assert _convert(feed, URI, fresh=True).exit_code == 1
    assert _chunks(URI) == first
    assert len([name for name in storage_of(URI).sizes() if name.endswith(".xml")]) == len(first)


def test_standard_input_is_refused(feed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(feed, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        with pytest.raises(ConfigError, match="for standard input, which cannot be read again"):
            _convert("-", URI)


@pytest.mark.parametrize("uri", ["sftp://host/run", "hdfs://host/run", "ftp://u:secret@host/r"])
def test_storage_without_atomic_creation_is_refused(feed: str, uri: str) -> None:
    with pytest.raises(ConfigError, match="cannot be written to; expected") as caught:
        _convert(feed, uri)
    assert "secret" not in caught.value.text


def test_a_second_driver_is_busy(feed: str) -> None:
    from feedferry.pipelines.folders.remote_runs import opened_remote

    with opened_remote(URI), pytest.raises(BusyError, match="in use by process"):
        _convert(feed, URI)
    assert _convert(feed, URI).exit_code == 1


def test_what_was_converted_is_not_converted_again(
    feed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accounts of a killed run are found by one listing; its files are believed by size."""
    storage = storage_of(URI)
    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, "publish", _killed)
        with pytest.raises(KeyboardInterrupt):
            _convert(feed, URI)
    before = {name for name in storage.sizes() if name.endswith(".xml")}
    assert before
    assert storage.get("report.json") is None

    listings: list[str] = []
    sizes = ObjectStorage.sizes

    def counted(self: ObjectStorage, prefix: str = "") -> dict[str, int]:
        listings.append(prefix)
        return sizes(self, prefix)

    monkeypatch.setattr(ObjectStorage, "sizes", counted)
    monkeypatch.setattr(SpanConversion, "run", _killed)
    _convert(feed, URI)

    assert len(listings) < 8
    after = {name for name in storage.sizes() if name.endswith(".xml")}
    assert after
    assert after <= before


def test_a_driver_that_has_lost_its_lease_publishes_nothing(
    feed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a pause of its host: another driver has taken the run over meanwhile."""
    convert, lease = SpanConversion.run, b'{"host": "other", "token": "other"}'

    def pausing(self: SpanConversion) -> Account:
        storage_of(URI).remove(RUN_LEASE)
        storage_of(URI).put(RUN_LEASE, lease)
        return convert(self)

    monkeypatch.setattr(SpanConversion, "run", pausing)
    with pytest.raises(BusyError, match="taken over by another process"):
        _convert(feed, URI)
    storage = storage_of(URI)
    assert (storage.get("report.json"), storage.get("manifest.jsonl")) == (None, None)
    assert storage.get(RUN_LEASE) == lease


def test_a_driver_that_another_one_was_faster_than_publishes_nothing(
    feed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is the last object, and is put only if there is none."""
    put_if_absent = ObjectStorage.put_if_absent

    def raced(self: ObjectStorage, name: str, data: bytes) -> bool:
        if name == "report.json":
            self.put(name, b"of another driver")
        return put_if_absent(self, name, data)

    monkeypatch.setattr(ObjectStorage, "put_if_absent", raced)
    with pytest.raises(BusyError, match=r"run/report\.json: published by another process"):
        _convert(feed, URI)
    assert storage_of(URI).get("report.json") == b"of another driver"


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


_WRITER = """
import sys, time
from feedferry.transforms.storage.run_folders.find_storage import storage_of
file = storage_of(sys.argv[1]).open_whole("00000-00000-000.xml")
file.write(bytes(20 << 20))
print("begun", flush=True)
time.sleep(600)
"""


def _kill_a_writer(uri: str) -> None:
    command = (sys.executable, "-c", _WRITER, uri)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()


def _open_uploads() -> list[str]:
    uploads = ObjectStorage.of(f"s3://{remotes.BUCKET}").uploads(abort=False)
    return [upload.partition(" (upload ")[0] for upload in uploads]


def _check_uploads_are_aborted(capsys: pytest.CaptureFixture[str]) -> None:
    attempt = ".work/abc/00000-00000/host-1-a b"
    for uri in (f"{URI}/{attempt}", f"{URI}-2/{attempt}"):
        _kill_a_writer(uri)
    file = f"{attempt}/00000-00000-000.xml"
    other = f"run-2/{file}"
    assert sorted(_open_uploads()) == [other, f"run/{file}"]

    assert main(["runs", "clean", URI, "--dry-run"]) == 0
    assert f"would remove  {URI}/{file} (upload " in capsys.readouterr().out
    assert len(_open_uploads()) == 2
    assert main(["runs", "clean", URI]) == 0
    assert f"removed  {URI}/{file} (upload " in capsys.readouterr().out
    assert _open_uploads() == [other]
    assert storage_of(URI).sizes() == {}


def test_uploads_of_killed_writers_are_aborted(capsys: pytest.CaptureFixture[str]) -> None:
    """The server checks the signatures of requests."""
    _check_uploads_are_aborted(capsys)


def test_a_run_that_ends_aborts_uploads(feed: str) -> None:
    _kill_a_writer(f"{URI}/.work/abc/00000-00000/host-1-a")
    _convert(feed, URI)
    assert _open_uploads() == []


def test_a_run_whose_uploads_cannot_be_listed_is_complete(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    storage_of(URI).put(".work/abc/00000-00000/host-1-a/00000-00000-000.xml", b"left")
    with faulty_proxy(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        proxy.fault = times(1, "slow", lambda request: "uploads=&" in request.path)
        assert main(["convert", feed, "-o", URI, "--to", "gsa-feed", "--accept-holes"]) == 1
    assert f"the run is complete: feedferry runs clean {URI}" in capsys.readouterr().err
    assert not any(name.startswith(".work/abc/") for name in storage_of(URI).sizes())


def test_another_server_aborts_uploads(capsys: pytest.CaptureFixture[str]) -> None:
    with remotes.s3_server():
        _check_uploads_are_aborted(capsys)


def test_uploads_that_may_not_be_listed_are_an_error_with_the_permissions() -> None:
    with (
        remotes.s3_at("http://127.0.0.1:9"),
        pytest.raises(FatalError, match=r"s3://documents/run/: open uploads: ConnectError"),
    ):
        ObjectStorage.of(URI).uploads(abort=True)


def test_a_process_lists_the_objects_again_for_a_later_start(feed: str) -> None:
    """Workers of a cluster outlive a run that is killed."""
    span, storage = Span(source="a.xml", format="gsa-feed"), storage_of(URI)
    assert Attempt(storage, span).find_account(begun="first") is None
    with Attempt(storage, span) as attempt:
        account = attempt.commit(Account(spans=1))
    assert Attempt(storage, span).find_account(begun="first") is None
    assert Attempt(storage, span).find_account(begun="second") == account


def test_another_server_has_the_same_chunks(feed: str, tmp_path: Path) -> None:
    local = str(tmp_path / "out")
    _convert(feed, local)
    with remotes.s3_server():
        assert _convert(feed, URI, jobs="2").exit_code == 1
        assert _chunks(URI) == _chunks(local)
        assert storage_of(URI).get(".work/lease.json") is None


def test_a_run_that_is_killed_at_any_time_is_resumed(tmp_path: Path) -> None:
    """Nothing is published, or all. Chunks are sent in parts, so a killed worker leaves uploads."""
    local, feed, rng = str(tmp_path / "out"), tmp_path / "feed.xml", random.Random(22)
    feed.write_bytes(gsa_feed(*(document(n, text="text " * 40_000) for n in range(120))))
    words = ("--to", "gsa-feed", "--span-bytes", "10MiB", "-q")
    command = (*(sys.executable, "-c", MAIN), "convert", str(feed), "-o", URI, *words)
    _convert(str(feed), local, span_bytes="10MiB")
    while not _open_uploads():
        _finishes((*command, "--jobs", "2", "--fresh"), 60, unless=_open_uploads)
    for _ in range(chosen(usual=8, full=50)):
        if _finishes((*command, "--jobs", "2"), rng.uniform(0.8, 6)):
            assert _chunks(URI) == _chunks(local)
            storage_of(URI).remove("")
        else:
            assert storage_of(URI).get("report.json") is None or _chunks(URI) == _chunks(local)
    assert subprocess.run(command, cwd=ROOT, check=False).returncode in (0, 2)
    _kill_a_writer(f"{URI}/.work/abc/00000-00000/host-1-a")
    assert main(["runs", "clean", URI]) == 0
    assert _chunks(URI) == _chunks(local)
    assert _open_uploads() == []
    assert set(storage_of(URI).sizes(".work")) == _published()


def _finishes(
    command: tuple[str, ...], seconds: float, *, unless: Callable[[], object] = lambda: False
) -> bool:
    """Start a run, and kill it with its workers after some time; return whether it had finished."""
    end = time.monotonic() + seconds
    process = subprocess.Popen(command, start_new_session=True, cwd=ROOT)
    while process.poll() is None:
        if time.monotonic() > end or unless():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False
        time.sleep(0.01)
    assert process.returncode in (0, 2)  # it finishes now, or had published when it was killed
    return True


def test_what_killed_attempts_have_left_is_removed(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _convert(feed, URI)
    storage = storage_of(URI)
    whole = set(storage.sizes())
    storage.put(".work/abc/00000-00000/host-1-f/00000-00000-000.xml", b"left by an attempt")
    assert main(["runs", "clean", URI, "--dry-run"]) == 0
    assert f"would remove  {URI}/.work/abc/00000-00000/host-1-f/" in capsys.readouterr().out
    assert set(storage.sizes()) > whole
    assert main(["runs", "clean", URI]) == 0

    assert set(storage.sizes()) == whole


def test_cleaning_an_unfinished_run_leaves_what_it_resumes_from(
    feed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _convert(feed, str(tmp_path / "out"))
    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, "publish", _killed)
        with pytest.raises(KeyboardInterrupt):
            _convert(feed, URI)
    before = set(storage_of(URI).sizes())
    assert main(["runs", "clean", URI]) == 0
    assert {name for name in before if name.endswith((".xml", ".0.json"))} <= set(
        storage_of(URI).sizes()
    )

    _convert(feed, URI)
    assert _chunks(URI) == _chunks(str(tmp_path / "out"))


def test_an_index_update_and_an_empty_feed_are_objects_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no files of spans, and are there also after the run was resumed."""
    path = tmp_path / "feed.xml"
    path.write_bytes(gsa_feed(*map(document, range(9))))
    options = {"to_format": "thunderstone", "accept_loss": "acl"}
    _convert(str(path), str(tmp_path / "out"), **options)
    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, "publish", _killed)
        with pytest.raises(KeyboardInterrupt):
            _convert(str(path), URI, **options)
    _convert(str(path), URI, **options)

    assert _chunks(URI) == _chunks(str(tmp_path / "out"))
    assert all(data for _, data in _chunks(URI))
