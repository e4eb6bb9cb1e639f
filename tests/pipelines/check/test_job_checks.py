"""The check of a job opens what a run would open, and names for each fault its fix.

Appliances, certificates and databases are real; a full disk is a parameter.
"""

import json
import os
import pwd
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import msgspec
import pytest

from feedferry.pipelines.check.job_checks import check_job, start_checks
from feedferry.pipelines.cli.main import main
from feedferry.pipelines.cli.results.job_checks import check_as_text
from feedferry.pipelines.folders.manifest import write_manifest
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.push_options import parse_push_to
from feedferry.schemas.check import Check, CheckLine, Level, ok
from feedferry.schemas.run_record import Phase, RunRecord
from feedferry.transforms.sinks.push.wire.checks import check_appliance
from feedferry.transforms.steps.kept_acls import replace_kept
from feedferry.transforms.storage.run_folders.run_record import write_run
from support.appliance_sockets import certificate, chunk
from support.bulk_server import known, serving
from support.databases import PASSWORD, RestartingServer, Server, postgresql
from support.ports import kept_port
from support.receivers import deliveries, receiving
from support.rehearsal import gsa_feed, page
from support.remotes import put_all, sftp_server
from support.served import BOUND_SECONDS

NIGHT = datetime(2026, 11, 21, 22, tzinfo=UTC)
TRUST = "add the address of this machine to the List of Trusted IP Addresses in Content Sources"
_PUSHED = ("ca_file", "profile", "window")
UNTRUSTING = ("10.0.0.0/8",)

Findings = dict[str, tuple[str, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with closing(RestartingServer(postgresql)) as servers:
        yield servers.get()


def job_of(folder: Path, *inputs: Path, to: str | None = None, **options: object) -> Job:
    """Return a job whose runs are below a folder, and that pushes to an appliance or nowhere."""
    words: dict[str, object] = {name: options.pop(name, None) for name in _PUSHED}
    target = parse_push_to({"url": to, **words})
    convert = ConvertOptions(
        inputs=tuple(map(str, inputs)), output="", to_format="gsa-feed", datasource="d"
    )
    return Job(
        name="nightly",
        path=folder / "nightly.yaml",
        home=folder / "runs" / "nightly",
        convert=msgspec.structs.replace(convert, **options),
        push=target,
    )


def by_thing(lines: list[CheckLine]) -> Findings:
    """Return level, finding and cure by thing; each failure and warning has a cure."""
    assert [line.what for line in lines if line.level is not Level.OK and not line.cure] == []
    return {
        f"{line.level.value} {line.what}": (line.level.value, line.found, line.cure)
        for line in lines
    }


def shown(lines: list[CheckLine]) -> str:
    return "\n".join(map(check_as_text, lines))


def findings(job: Job, **changes: object) -> Findings:
    return by_thing([*check_job(job, **changes)])  # type: ignore[arg-type]  # its parameters


def feed(folder: Path) -> Path:
    path = folder / "monday.xml"
    path.write_text(gsa_feed(page("a"), page("b")), "utf-8")
    return path


def finished_run(job: Job, run_id: str, *, size: int) -> None:
    """Leave a finished run with one chunk of this size."""
    folder = job.home / run_id
    folder.mkdir(parents=True)
    write_run(folder, RunRecord(id=run_id, job=job.name, started_at=NIGHT, phase=Phase.DONE))
    write_manifest(folder, [msgspec.structs.replace(chunk(b""), bytes=size)])
    (folder / "report.json").write_text("{}")


def test_a_job_that_can_run_has_no_cures(tmp_path: Path) -> None:
    report = findings(job_of(tmp_path, feed(tmp_path)), free=lambda _: 10 << 30)
    assert list(report) == ["ok input", "ok folder of runs", "ok disk"]
    assert report["ok disk"][1].startswith("10.0 GiB free; a run needs ")


def test_a_kind_of_appliance_has_checks_of_its_own(tmp_path: Path) -> None:
    with known(), serving() as index:
        job = job_of(tmp_path, feed(tmp_path), to=index.url, to_format="bulk")
        report = findings(job)
        assert report["ok index"][1] == "is there"
        assert report["ok fields"][1] == "allow and deny are there"
        index.fields = {}
        assert findings(job)["fail fields"] == (
            "fail",
            f"{index.url.removesuffix('/_bulk')}/_mapping: no field allow",
            "make the index anew",
        )


def test_the_exit_code_tells_a_failed_check_from_a_job_file_with_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = feed(tmp_path).name
    path = tmp_path / "nightly.yaml"
    path.write_text(
        f"version: 1\njob: nightly\nsource: {{type: gsa-feed, path: {name}}}\n"
        "target: {type: gsa-feed, datasource: d}\n"
    )
    assert main(["check", str(path)]) == 0
    lines = " ".join(capsys.readouterr().out.split())
    assert lines.startswith(f"ok job file {path}: 5 keys, no errors")
    path.write_text(path.read_text().replace(name, "gone.xml"))
    assert main(["check", str(path), "--format", "json"]) == 4
    report = json.loads(capsys.readouterr().out)
    failed = [line for line in report["checks"] if line["level"] == "fail"]
    assert (report["job"], [line["what"] for line in failed]) == ("nightly", ["source"])
    path.write_text(path.read_text().replace("datasource", "datsource"))
    assert main(["check", str(path)]) == 2
    assert "did you mean 'datasource'?" in capsys.readouterr().err


def test_a_job_with_a_state_that_has_never_run_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(tmp_path / "people.db")) as database:
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
        database.execute("INSERT INTO people VALUES (1), (2)")
        database.commit()
    mapping_file(tmp_path, "sqlite:///people.db")
    path = tmp_path / "nightly.yaml"
    path.write_text(
        "version: 1\njob: nightly\nsource: {type: database, mapping: people.yaml}\n"
        "target: {type: gsa-feed, datasource: people}\n"
    )
    assert main(["check", str(path)]) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert ["ok", "rows", "2"] in lines
    assert ["ok", "state"] in [line[:2] for line in lines]
    assert not (tmp_path / "runs").exists()


def test_a_source_that_cannot_be_loaded_does_not_hide_other_checks(tmp_path: Path) -> None:
    report = findings(job_of(tmp_path, tmp_path / "gone.xml"), free=lambda _: 1 << 40)
    assert list(report) == ["fail source", "ok folder of runs", "ok disk"]
    assert report["fail source"][2] == "expected a file, folder, glob, uri or -"


@pytest.mark.parametrize(
    ("free", "level"), [(1000, "fail"), (1001, "warn"), (1999, "warn"), (2000, "ok")]
)
def test_the_disk_has_room_for_chunks_like_those_of_the_last_run(
    tmp_path: Path, free: int, level: str
) -> None:
    job = job_of(tmp_path, feed(tmp_path))
    finished_run(job, "20261120T220000Z-aaaa", size=10**9)
    finished_run(job, "20261121T220000Z-aaaa", size=1000)
    report = findings(job, free=lambda _: free)
    assert f"{level} disk" in report
    assert report[f"{level} disk"][1].endswith("a run needs 1000 B, as the last run")


def test_a_folder_of_runs_that_cannot_be_made_fails(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    report = findings(job_of(tmp_path, feed(tmp_path)))
    assert report["fail folder of runs"][1] == f"{tmp_path / 'runs'}: Not a directory"


def test_files_of_a_tree_are_counted_and_opened(tmp_path: Path) -> None:
    tree = tmp_path / "docs"
    tree.mkdir()
    (tree / "a.txt").write_text("text")
    (tree / "b.txt").symlink_to("gone")
    options = {"from_format": "files", "base_url": "http://www.example.com/"}
    report = findings(job_of(tmp_path, tree, follow_links=True, **options))
    assert report["ok tree"][1] == f"{tree}: 1 file, 4 bytes"
    assert report["fail tree"][1:] == (
        "1 cannot be read, the first: a link to 'gone', which does not exist",
        "let the user of the run read them, or leave them out by ⟦exclude⟧",
    )


def test_a_folder_without_permission_fails() -> None:
    options = {"from_format": "files", "base_url": "http://www.example.com/"}
    with TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        (docs := Path(folder, "docs")).mkdir(mode=0)
        with not_as_root():
            report = findings(job_of(Path(folder), docs, **options))
    assert "Permission denied" in report["fail tree"][1]


@contextmanager
def not_as_root() -> Iterator[None]:
    """Be another user during the block: root may read everything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(before)


def test_programs_are_looked_up_and_not_started(tmp_path: Path) -> None:
    config = tmp_path / "programs.yaml"
    config.write_text(
        "lister: [./list.sh]\nretriever: [sh, -c, 'touch started']\n"
        "environment: {TOKEN: '${env:DOCTOR_HAS_NO_SUCH_VARIABLE}'}\n"
    )
    (tmp_path / "list.sh").write_text("#!/bin/sh\n")
    job = job_of(tmp_path, config, from_format="adaptor")
    report = findings(job)
    assert report["ok retriever"][1].endswith("/sh")
    assert report["fail lister"][1:] == (
        "./list.sh: no program that can be executed",
        f"name one on the PATH or below {tmp_path} with ./, and chmod +x it",
    )
    assert report["fail secrets"][1] == "${env:DOCTOR_HAS_NO_SUCH_VARIABLE}: not set"
    (tmp_path / "list.sh").chmod(0o755)
    assert "ok lister" in findings(job)
    assert not (tmp_path / "started").exists()


def test_a_secret_that_others_can_read_is_a_warning_without_the_secret(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3same")
    secret.chmod(0o640)
    job = job_of(tmp_path, feed(tmp_path))
    assert job.path is not None
    job.path.write_text(f"source: {{x: '${{file:{secret}}}'}}\n")
    lines = [*check_job(job)]
    assert by_thing(lines)["warn secret"][1:] == (
        f"{secret}: mode 0640, open to other users",
        f"chmod 600 {secret}",
    )
    assert "s3same" not in shown(lines)


def test_kept_acls_that_cannot_be_read_fail(tmp_path: Path) -> None:
    job = job_of(tmp_path, feed(tmp_path))
    kept = tmp_path / "state.acls"
    job = msgspec.structs.replace(
        job, convert=msgspec.structs.replace(job.convert, kept_acls=str(kept))
    )
    replace_kept(kept, ())
    assert findings(job)["ok state"][1] == f"{kept}: can be read"
    with closing(sqlite3.connect(kept)) as database:
        database.execute("PRAGMA user_version = 1")
    assert f"feedferry state clear {kept} removes it" in " ".join(findings(job)["fail state"])


def test_a_state_that_cannot_be_read_fails(tmp_path: Path) -> None:
    job = msgspec.structs.replace(job_of(tmp_path, feed(tmp_path)), has_state=True)
    assert findings(job)["ok state"][1].endswith("none yet, so the next run reads everything")
    job.home.mkdir(parents=True)
    (job.home / "state").write_bytes(b"no database" * 100)
    assert "expected" in findings(job)["fail state"][2]


def test_an_unfinished_run_is_a_warning_about_the_next_one(tmp_path: Path) -> None:
    job = job_of(tmp_path, feed(tmp_path))
    run_id = "20261121T220000Z-aaaa"
    (job.home / run_id).mkdir(parents=True)
    write_run(job.home / run_id, RunRecord(id=run_id, started_at=NIGHT, phase=Phase.PUSH))
    assert findings(job)["warn unfinished run"][1:] == (
        f"{run_id}: ended in the phase push, attempt 1",
        "`feedferry run` goes on with it; with ⟦fresh⟧, it begins anew",
    )


def test_a_check_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    begun, end = Event(), Event()

    def hang(_seconds: float) -> Iterator[CheckLine]:
        end.wait()
        yield ok("slow", "late")

    def begin(_seconds: float) -> Iterator[CheckLine]:
        yield ok("slower", "connected")
        begun.set()
        end.wait()

    running = start_checks([Check("slow", hang), Check("slower", begin)], seconds=0.01)
    assert begun.wait(BOUND_SECONDS)
    lines = [*running]
    end.set()
    assert [(line.level.value, line.what, line.found) for line in lines] == [
        ("fail", "slow", "no result in time"),
        ("ok", "slower", "connected"),
        ("warn", "slower", "its result takes too long"),
    ]


def test_a_check_with_a_defect_shows_no_value() -> None:
    def broken(_seconds: float) -> Iterator[CheckLine]:
        raise KeyError(PASSWORD)

    (line,) = start_checks([Check("broken", broken)], seconds=BOUND_SECONDS)
    assert (line.level.value, line.what, line.found) == ("fail", "broken", "KeyError")


def test_a_deadline_before_the_window_opens_fails(tmp_path: Path) -> None:
    job = job_of(tmp_path, feed(tmp_path), to="http://127.0.0.1:1", window="20:00-06:00 UTC")
    assert job.push is not None
    now = datetime.now(UTC)
    hours = f"{now + timedelta(hours=3):%H:%M}-{now + timedelta(hours=4):%H:%M} UTC"
    job = job_of(tmp_path, feed(tmp_path), to="http://127.0.0.1:1", window=hours)
    late = now + timedelta(hours=5)
    for deadline, level in ((now + timedelta(hours=1), "fail"), (late, "ok")):
        push = msgspec.structs.replace(job.push, deadline=deadline.timestamp())  # type: ignore[type-var]
        assert f"{level} schedule" in findings(msgspec.structs.replace(job, push=push))


def test_a_dead_port_fails(tmp_path: Path) -> None:
    with kept_port() as port:
        report = findings(job_of(tmp_path, feed(tmp_path), to=f"http://127.0.0.1:{port}"))
    assert report["fail appliance"][1:] == (
        f"http://127.0.0.1:{port}/getbacklogcount: connection refused",
        "a feedergate listens on port 19900, with TLS on 19902",
    )
    assert "ok input" in report


@pytest.mark.slow
def test_a_remote_tree_is_listed(tmp_path: Path) -> None:
    put_all(tmp_path / "remote", "docs/a.txt", "docs/b/c.txt")
    with sftp_server(tmp_path / "remote", tmp_path / "home") as server:
        options = {"from_format": "files", "base_url": "http://www.example.com/"}
        job = job_of(tmp_path, inputs=(f"{server.root}/docs/",), **options)
        report = findings(job)
        server.closed = b"/docs"
        assert "fail tree" in findings(job)
    assert report["ok tree"][1].startswith(f"{server.root}/docs: 2 files, ")


@pytest.mark.slow
def test_a_trusting_appliance_passes(tmp_path: Path) -> None:
    with receiving(tmp_path / "spool") as receiver:
        report = findings(job_of(tmp_path, feed(tmp_path), to=receiver.url))
    assert {"ok appliance", "ok trust", "ok backlog", "ok clock"} <= {*report}
    assert report["ok backlog"][1] == "0 feeds waiting; ceiling 4,000, floor 1,000"
    assert deliveries(tmp_path / "spool") == []


@pytest.mark.slow
def test_a_clock_that_differs_is_a_warning(tmp_path: Path) -> None:
    with receiving(tmp_path / "spool") as receiver:
        push = parse_push_to({"url": receiver.url})
        assert push is not None
        now = datetime.now(UTC).timestamp()
        for ahead, finding in ((600, "behind ours"), (-600, "ahead of ours")):
            lines = check_appliance(
                push.appliance, push.backlog, seconds=BOUND_SECONDS, now=now + ahead
            )
            assert by_thing([*lines])["warn clock"][1].endswith(f" s {finding}")


@pytest.mark.slow
def test_an_appliance_that_does_not_trust_us_fails(tmp_path: Path) -> None:
    with receiving(tmp_path / "spool", trusted=UNTRUSTING) as receiver:
        report = findings(job_of(tmp_path, feed(tmp_path), to=receiver.url))
    assert "'Error - Unauthorized Request'" in report["fail trust"][1]
    assert report["fail trust"][2].startswith(f"expected Success: {TRUST}")
    assert "ok backlog" not in report


@pytest.mark.slow
@pytest.mark.parametrize(("trusted", "level"), [(("all",), "ok"), (UNTRUSTING, "fail")])
def test_thunderstone_answers_a_request_without_data(
    tmp_path: Path, trusted: tuple[str, ...], level: str
) -> None:
    with receiving(tmp_path / "spool", trusted=trusted) as receiver:
        url = f"{receiver.url}/texis/recvdata.xml"
        report = findings(job_of(tmp_path, feed(tmp_path), to=url, profile="intranet"))
    assert f"{level} trust" in report
    if level == "fail":
        assert "Cluster Members of the appliance" in report["fail trust"][2]


@pytest.mark.slow
def test_a_backlog_above_the_ceiling_is_a_warning(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("- {backlog: 5000}\n")
    with receiving(tmp_path / "spool", scenario=str(scenario)) as receiver:
        report = findings(job_of(tmp_path, feed(tmp_path), to=receiver.url))
    assert report["warn backlog"][1:] == (
        "5,000 feeds waiting; ceiling 4,000, floor 1,000",
        "a push waits until fewer than 1,000 feeds wait; start it later",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("days", "line", "cure"),
    [
        (-1, "fail appliance", "expected a valid one: renew it at the appliance"),
        (7.5, "warn certificate", "renew it at the appliance before it expires"),
        (90, "ok certificate", ""),
    ],
)
def test_a_certificate_is_renewed_before_it_expires(
    tmp_path: Path, days: float, line: str, cure: str
) -> None:
    pem, key = certificate(tmp_path, days=days)
    with receiving(tmp_path / "spool", certificate=str(pem), key=str(key)) as receiver:
        report = findings(job_of(tmp_path, feed(tmp_path), to=receiver.url, ca_file=str(pem)))
    assert report[line][2] == cure
    assert ("fail appliance" in report) is (days < 0)


def mapping_file(folder: Path, connection: str, **keys: str) -> Path:
    stated = {
        "connection": connection,
        "table": "people",
        "url": "http://p.example.com/{id}",
        **keys,
    }
    path = folder / "people.yaml"
    path.write_text("".join(f"{key}: '{value}'\n" for key, value in stated.items()))
    return path


def people(server: Server, *more: str) -> str:
    return server.new_database("CREATE TABLE people (id int PRIMARY KEY, name text)", *more)


@pytest.mark.slow
def test_a_database_is_connected_described_and_counted(tmp_path: Path, server: Server) -> None:
    database = people(server, "INSERT INTO people SELECT n, 'x' FROM generate_series(1, 1234) n")
    (tmp_path / "url").write_text(server.url(database))
    (tmp_path / "url").chmod(0o600)
    mapping = mapping_file(tmp_path, f"${{file:{tmp_path / 'url'}}}")
    report = findings(job_of(tmp_path, mapping, from_format="database"))
    assert report["ok database"][1].startswith("postgresql ")
    assert report["ok columns"][1] == "key id; columns id, name"
    assert report["ok rows"][1] == "1,234"
    assert "time zones" in " ".join(report)


@pytest.mark.slow
def test_a_server_in_another_zone_is_a_warning(tmp_path: Path, server: Server) -> None:
    database = people(server)
    server.execute("", [f"ALTER DATABASE {database} SET timezone TO 'Asia/Kathmandu'"])
    (tmp_path / "url").write_text(server.url(database))
    mapping = mapping_file(tmp_path, f"${{file:{tmp_path / 'url'}}}")
    report = findings(job_of(tmp_path, mapping, from_format="database"))
    assert report["warn time zones"][1].startswith("database Asia/Kathmandu, this machine ")
    assert "warn rows" in report


@pytest.mark.slow
def test_a_login_or_a_table_that_is_wrong_fails_without_the_secret(
    tmp_path: Path, server: Server
) -> None:
    database = people(server)
    (tmp_path / "url").write_text(server.url(database, password="wr0ng-word"))
    mapping = mapping_file(tmp_path, f"${{file:{tmp_path / 'url'}}}")
    lines = [*check_job(job_of(tmp_path, mapping, from_format="database"))]
    results = by_thing(lines)
    assert "password authentication failed" in results["fail database"][1]
    assert (
        results["fail database"][2]
        == "expected a database that answers, and a login that may read it"
    )
    assert "wr0ng" not in shown(lines)
    (tmp_path / "url").write_text(server.url(database))
    mapping_file(tmp_path, f"${{file:{tmp_path / 'url'}}}", table="persons")
    results = findings(job_of(tmp_path, mapping, from_format="database"))
    assert "ok database" in results
    assert results["fail database"][1:] == (
        "table: 'persons'",
        "expected a table or view; feedferry init lists them",
    )
