"""Checks of a job file that need other files, and secrets in real runs."""

import time
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support import remotes
from support.appliance_sockets import listening, reply, saying
from support.archives import put
from support.runs import ROOT

pytestmark = pytest.mark.usefixtures("here")
HEAD = "version: 1\njob: j\n"
TREE = f"{HEAD}source: {{type: files, path: docs, base_url: 'https://docs.example.com/'}}\n"


def check(text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    put(Path("jobs/job.yaml"), text.encode())
    code = main(["check", "jobs/job.yaml", "--offline"])
    out, err = capsys.readouterr()
    return code, (out + err).removeprefix("feedferry: ")


@pytest.mark.parametrize(
    ("source", "output"),
    [
        (
            "{type: files, path: docs, base_url: 'https://h.example.com/'}",
            "ok    job file        jobs/job.yaml: 6 keys, no errors\n",
        ),
        (
            "{type: files, path: docs}",
            "jobs/job.yaml:3:16: source.base_url: not given; expected the URL of the folder, such"
            " as https://docs.example.com/, or source.url_template, such as"
            " https://docs.example.com/{path}\n",
        ),
        (
            "{type: files, path: docs, base_url: x}",
            "jobs/job.yaml:3:45: source.base_url: 'x'; expected a URL, percent-encoded, with a"
            " host, without a user and a fragment, without a query, and with a /"
            " at its end: https://docs.example.com/\n",
        ),
        (
            "{type: database}",
            "jobs/job.yaml:3:16: source.mapping: not given; expected the YAML file of a database\n",
        ),
        (
            "{type: database, mapping: people.yaml}",
            "{here}/jobs/people.yaml:1:8: table: 7; expected a text in quotes\n",
        ),
        (
            "{type: adaptor, path: programs.yaml}",
            "{here}/jobs/programs.yaml:2:14: environment: API_TOKEN: a password in"
            " plain text; expected ${env:NAME} or ${file:PATH} instead\n",
        ),
    ],
)
def test_the_settings_of_a_source_are_checked(
    here: Path, capsys: pytest.CaptureFixture[str], source: str, output: str
) -> None:
    put(
        Path("jobs/people.yaml"),
        b"table: 7\nurl: https://h.example.com/{id}\nconnection: sqlite:///people.db\n",
    )
    put(Path("jobs/programs.yaml"), b"lister: [./list.sh]\nenvironment: {API_TOKEN: hunter2}\n")
    text = f"{HEAD}source: {source}\ntarget: {{type: jsonl}}\nkeep: 14 runs\n"
    expected = output.replace("{here}", str(here))
    assert check(text, capsys) == (0 if "no errors" in output else 2, expected)


def test_the_errors_of_all_stages_are_reported_together(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """\
version: 1
source: {type: fils, path: docs, zone: Nowhere}
target: {type: gsa-feed, datasource: a b, profile: x}
push: {backlog: {ceiling: 5}, groups_mode: bad}
loss: {accept: [acl], fail_on: [acl]}
schedule: {window: "25:00-06:00"}
"""
    code, output = check(text, capsys)
    assert code == 2
    assert [line.split("; ")[0].removeprefix("jobs/job.yaml:") for line in output.splitlines()] == [
        "2:16: source.type: 'fils'",
        "2:40: source.zone: 'Nowhere'",
        "4:44: push.groups_mode: 'bad'",
        "6:20: schedule.window: '25:00'",
        "1:1: job: missing",
        "5:16: loss.accept and loss.fail_on: both name acl",
        "3:38: target.datasource: 'a b'",
        "3:52: target.profile: given without target: {url: URL} (--set target.url=URL)",
        "4:27: push.backlog.ceiling: given without target: {url: URL} (--set target.url=URL)",
    ]


def test_errors_in_a_mapping_and_in_the_job_are_reported_together(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(Path("jobs/people.yaml"), b"table: 7\n")
    text = f"{HEAD}source: {{type: database, mapping: people.yaml}}\n"
    code, output = check(f"{text}target: {{type: jsonl, url: x}}\njobs: 0\n", capsys)
    assert code == 2
    for error in ("jobs: ", "people.yaml:1:8: table: 7", "target.url: 'x'"):
        assert error in output


def test_a_time_without_a_zone_is_in_that_of_the_machine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Africa/Lagos")
    time.tzset()
    hours = 'schedule: {window: "Mon-Fri 22:00-06:00", deadline: 06:00 Etc/GMT+5}\n'
    target = "target: {type: gsa-feed, datasource: docs, url: 'http://h'}"
    code, output = check(f"{TREE}{target}\n{hours}", capsys)
    monkeypatch.undo()
    time.tzset()
    lines = " ".join(output.split()).partition("ok schedule ")[2:]
    assert (code, [*lines]) == (
        0,
        [
            "jobs/job.yaml:5:20: schedule.window: Mon-Fri 22:00-06:00: no time zone stated; it is"
            " that of this machine, WAT (UTC+01:00)"
        ],
    )


def test_a_variable_for_no_key_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEEDFERRY_CHUNK_MAX_BITES", "1")
    monkeypatch.setenv("FEEDFERRY_SFTP_PASSWORD", "hunter2")
    assert check(TREE + "target: {type: jsonl}", capsys) == (
        2,
        "FEEDFERRY_CHUNK_MAX_BITES: no key of a job file; expected the name of a key; did you mean"
        " 'FEEDFERRY_CHUNK_MAX_BYTES'?\n",
    )


@pytest.mark.slow
def test_an_error_of_a_run_names_the_key(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(here / "docs/a.txt", b"a")
    put(here / "job.yaml", f"{TREE}target: {{type: jsonl}}\nruns: docs".encode())
    assert main(["run", "job.yaml", "-q"]) == 2
    assert "in the tree" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 500])
def test_the_secret_of_an_input_is_sent_and_nowhere_stored(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("FEED_TOKEN", "hunter2")
    feed = (ROOT / "pipelines/sample/01-intranet.xml").read_bytes()

    def answer(handler: remotes._Handler) -> bool:
        remotes.send(handler, feed, {}, status=status)
        return True

    with remotes.web_server(here, answer) as server:
        url = f"{server.root}/feed.xml?token=${{env:FEED_TOKEN}}"
        source = f"source: {{type: gsa-feed, path: '{url}'}}\n"
        put(here / "job.yaml", f"{HEAD}{source}target: {{type: jsonl}}\n".encode())
        code = main(["run", "job.yaml", "-vv"])
    assert (code == 0) == (status == 200)
    assert any("?token=hunter2" in asked for asked in server.asked)
    out, err = capsys.readouterr()
    assert "hunter2" not in out + err
    assert status == 200 or "${env:FEED_TOKEN}" in err
    stored = [path for path in (here / "runs").rglob("*") if path.is_file()]
    assert [path for path in stored if b"hunter2" in path.read_bytes()] == []


@pytest.mark.slow
def test_the_credentials_of_an_appliance_are_sent_and_nowhere_stored(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2hunter2")
    put(here / "feed.xml", (ROOT / "pipelines/sample/01-intranet.xml").read_bytes())
    with listening(saying(*[reply("0 hunter2hunter2")] * 3)) as listener:
        put(
            here / "jobs/job.yaml",
            f"{HEAD}source: {{type: gsa-feed, path: ../feed.xml}}\n"
            f"target: {{type: gsa-feed, url: '{listener.url}',"
            " auth: {bearer: '${env:TOKEN}'}}\n"
            "push: {attempts: 1, max_wait: 0s}\n".encode(),
        )
        assert main(["run", "jobs/job.yaml", "-vv"]) in (4, 75)
    assert all(b"\r\nAuthorization: Bearer hunter2hunter2\r\n" in head for head in listener.heard)
    assert listener.heard
    out, err = capsys.readouterr()
    assert "hunter2" not in out + err
    assert "***" in out + err
    stored = [path for path in (here / "jobs").rglob("*") if path.is_file()]
    assert [path for path in stored if b"hunter2" in path.read_bytes()] == []
    [rendered] = [path for path in stored if path.name == "config.rendered.yaml"]
    assert 'auth: {bearer: "${env:TOKEN}"}' in rendered.read_text()


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ("{bearer: hunter2}", "bearer: a secret in plain text, or none; expected "),
        ("{bearer: '${env:NONE}'}", "${env:NONE}: not set; expected a variable of the environment"),
        ("{bearer: '${env:TOKEN}', basic: '${env:TOKEN}'}", "expected an object with one key"),
        ("hunter2", "expected an object with one key and its text"),
        ("{digest: '${env:TOKEN}'}", "'digest'; expected api_key=REFERENCE or basic="),
        ("{basic: 'joe:${env:TOKEN}'}", "basic for http://gsa.example.com:19900: everybody on"),
    ],
)
def test_wrong_credentials_are_refused_and_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, auth: str, expected: str
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    target = f"target: {{type: gsa-feed, url: 'http://gsa.example.com', auth: {auth}}}\n"
    code, output = check(TREE + target, capsys)
    assert code == 2
    assert "target.auth: " in output
    assert expected in output
    assert "hunter2" not in output
