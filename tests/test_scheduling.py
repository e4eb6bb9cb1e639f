"""The recipes of docs/scheduling.md: each is run as its scheduler runs it.

Airflow is not installed with the tests. Its snippet runs against a stand-in for the part of the
contract of BashOperator that the page describes.
"""

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.pages import FEEDFERRY, read_page
from support.programs_needed import path_of
from support.runs import ROOT

pytestmark = pytest.mark.slow

PAGE = read_page("docs/scheduling.md")
FILES = dict(re.findall(r'^```\w+ title="([\w.@-]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))
COMMAND, FOLDER = "/opt/feedferry/bin/feedferry", "/srv/feedferry"
JOB = """\
version: 1
job: nightly
source: {type: gsa-feed, path: feed.xml}
target: {type: thunderstone}
loss: {accept: [acl]}
"""
RESULTS = {
    0: "success",
    1: "success",
    2: "failed",
    3: "failed",
    5: "failed",
    4: "retry",
    75: "retry",
}


class SkipError(Exception):
    """AirflowSkipException."""


class FailError(Exception):
    """AirflowFailException, after which Airflow does not retry."""


class RetryError(Exception):
    """AirflowException, after which Airflow retries."""


class BashOperatorStandIn:
    """Runs a command, and raises by its exit code, as BashOperator does."""

    started: "list[BashOperatorStandIn]" = []  # noqa: RUF012 # emptied by each test

    def __init__(
        self, *, bash_command: str, skip_on_exit_code: list[int], retries: int, **more: Any
    ) -> None:
        self.report = more["on_failure_callback"]
        self.command, self.skipped, self.retries = bash_command, skip_on_exit_code, retries
        self.started.append(self)

    def execute(self, context: object) -> None:
        code = subprocess.run(["bash", "-c", self.command], check=False).returncode
        if code in self.skipped:
            raise SkipError
        if code:
            raise RetryError


class DagStandIn:
    """A DAG, of which only the beginning and the end of its block matter."""

    def __init__(self, _name: str, **_: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with a job file, in place of that of the recipes."""
    shutil.copy(ROOT / "pipelines" / "sample" / "01-intranet.xml", tmp_path / "feed.xml")
    (tmp_path / "nightly.yaml").write_text(JOB)
    return tmp_path


def placed(text: str, folder: Path, command: Path = FEEDFERRY) -> str:
    """Return a recipe with the places of this machine."""
    return text.replace(COMMAND, str(command)).replace(FOLDER, str(folder))


def ends_with(code: int, folder: Path) -> Path:
    """Return a command that says something, and ends with an exit code."""
    path = folder / f"ends-with-{code}"
    path.write_text(f"#!/bin/sh\necho the account\necho the reason >&2\nexit {code}\n")
    path.chmod(0o755)
    return path


def cron(folder: Path, command: Path = FEEDFERRY) -> str:
    """Run the line of the crontab as cron does; return what would be mailed."""
    *_, line = FILES["feedferry.cron"].splitlines()
    assert "%" not in line
    home = folder / "home"
    home.mkdir(exist_ok=True)
    words = placed(line, folder, command).split(maxsplit=5)
    assert words[:5] == ["0", "22", "*", "*", "*"]
    return subprocess.run(
        ["/bin/sh", "-c", words[5]],
        cwd=home,
        env={"HOME": str(home), "LOGNAME": "me", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def runs(folder: Path) -> list[Path]:
    return sorted((folder / "runs" / "nightly").glob("*-*/report.json"))


def test_cron_mails_nothing_when_a_job_succeeds(job: Path) -> None:
    assert cron(job) == ""
    assert len(runs(job)) == 1


def test_cron_mails_the_message_of_a_job_that_fails(job: Path) -> None:
    (job / "feed.xml").unlink()
    mail = cron(job)
    assert mail.splitlines()[0] == "exit code 2"
    assert "feed.xml" in mail


@pytest.mark.parametrize("code", [code for code in RESULTS if code])
def test_cron_mails_the_account_with_every_other_exit_code(job: Path, code: int) -> None:
    assert cron(job, ends_with(code, job)).splitlines() == [
        f"exit code {code}",
        "the account",
        "the reason",
    ]


def unit(name: str, folder: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    parser.read_string(placed(FILES[name], folder).replace("%i", "nightly"))
    return parser


def test_the_units_are_accepted_by_systemd(job: Path) -> None:
    program = path_of("systemd-analyze")
    for name in ("feedferry@.service", "feedferry@.timer", "feedferry-failed@.service"):
        text = placed(FILES[name], job).replace("User=feedferry\n", "")
        (job / name.replace("@", "@nightly")).write_text(text)
    names = [str(path) for path in sorted(job.glob("feedferry*@nightly.*"))]
    checked = subprocess.run(
        [program, "verify", *names], capture_output=True, text=True, check=False
    )
    ours = [line for line in checked.stderr.splitlines() if "feedferry" in line]
    assert ours == []


def test_the_service_runs_the_job(job: Path) -> None:
    service = unit("feedferry@.service", job)["Service"]
    ended = subprocess.run(
        shlex.split(service["ExecStart"]),
        cwd=service["WorkingDirectory"],
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, len(runs(job))) == (0, 1), ended.stderr


def test_the_service_treats_each_exit_code_as_the_page_says(job: Path) -> None:
    service = unit("feedferry@.service", job)["Service"]
    succeeds = {"0", *service["SuccessExitStatus"].split()}
    fails = {*service["RestartPreventExitStatus"].split()}
    assert service["Restart"] == "on-failure"
    for code, result in RESULTS.items():
        is_done = str(code) in succeeds
        assert (is_done, str(code) in fails) == (result == "success", result == "failed")


@pytest.fixture
def mailed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the mails that are sent from now on; nothing can be read of a journal."""
    programs, mails = tmp_path / "programs", tmp_path / "mails"
    programs.mkdir()
    for name, text in (("mail", f'{{ echo "$@"; cat; }} >> {mails}'), ("journalctl", 'echo "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    return mails


def test_the_service_of_a_failure_mails_the_journal(job: Path, mailed: Path) -> None:
    assert (
        unit("feedferry@.service", job)["Unit"]["OnFailure"] == "feedferry-failed@nightly.service"
    )
    command = unit("feedferry-failed@.service", job)["Service"]["ExecStart"]
    subprocess.run(shlex.split(command), check=True)
    assert mailed.read_text().splitlines() == [
        "-s feedferry nightly has failed operator@example.com",
        "-u feedferry@nightly -n 50 --no-pager",
    ]


def test_a_stand_in_for_airflow_mails_the_error_of_the_last_attempt(
    job: Path, mailed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow_result(job, ends_with(4, job), monkeypatch)
    (task,) = BashOperatorStandIn.started
    task.report({"exception": RetryError("exit code 4")})
    assert mailed.read_text() == "-s feedferry nightly has failed operator@example.com\nexit code 4"


@pytest.mark.parametrize(
    ("codes", "ended", "mail"),
    [
        ([0], 0, ""),
        ([1], 0, "exit code 1"),
        ([2], 2, "exit code 2"),
        ([75, 4, 0], 0, ""),
        ([4] * 12, 4, "exit code 4"),
    ],
    ids=str,
)
def test_the_script_tries_again_and_mails_what_needs_a_person(
    job: Path, mailed: Path, codes: list[int], ended: int, mail: str
) -> None:
    (job / "codes").write_text("".join(f"{code}\n" for code in codes))
    command = job / "ends"
    command.write_text(
        f"#!/bin/sh\ncode=$(head -n 1 {job}/codes)\nsed -i 1d {job}/codes\nexit $code\n"
    )
    command.chmod(0o755)
    script = job / "feedferry-night.sh"
    script.write_text(placed(FILES["feedferry-night.sh"], job, command))
    environment = {**os.environ, "PAUSE": "0"}
    done = subprocess.run(["/bin/sh", script, "nightly.yaml"], env=environment, check=False)
    text = mailed.read_text().splitlines()[-1] if mailed.exists() else ""
    assert (done.returncode, text, (job / "codes").read_text()) == (ended, mail, "")


def airflow_result(
    folder: Path, command: Path, monkeypatch: pytest.MonkeyPatch, *, name: str = "nightly.yaml"
) -> str:
    """Execute the task of the DAG against the stand-in; return what becomes of it."""
    stand_ins: dict[str, dict[str, Any]] = {
        "airflow": {},
        "airflow.sdk": {"DAG": DagStandIn},
        "airflow.sdk.exceptions": {
            "AirflowFailException": FailError,
            "AirflowSkipException": SkipError,
        },
        "airflow.providers": {},
        "airflow.providers.standard": {},
        "airflow.providers.standard.operators": {},
        "airflow.providers.standard.operators.bash": {"BashOperator": BashOperatorStandIn},
    }
    for module, names in stand_ins.items():
        stand_in = ModuleType(module)
        vars(stand_in).update(names)
        monkeypatch.setitem(sys.modules, module, stand_in)
    BashOperatorStandIn.started.clear()
    text = placed(FILES["nightly_dag.py"], folder, command).replace("nightly.yaml", name)
    exec(compile(text, "nightly_dag.py", "exec"), {"__name__": "nightly_dag"})
    (task,) = BashOperatorStandIn.started
    try:
        task.execute({})
    except FailError:
        return "failed"
    except RetryError:
        return "retry"
    return "success"


@pytest.mark.parametrize("code", RESULTS)
def test_a_stand_in_for_airflow_treats_each_exit_code_as_the_page_says(
    job: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert airflow_result(job, ends_with(code, job), monkeypatch) == RESULTS[code]


def test_a_stand_in_for_airflow_runs_the_job(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert airflow_result(job, FEEDFERRY, monkeypatch) == "success"
    assert len(runs(job)) == 1
    assert airflow_result(job, FEEDFERRY, monkeypatch, name="gone.yaml") == "failed"


def test_the_recipes_name_one_command_and_one_folder() -> None:
    named = re.findall(r"/(?:opt|srv)/[\w/.@%-]+", "\n".join(FILES.values()))
    assert {*named} <= {COMMAND, FOLDER, f"{FOLDER}/nightly.yaml", f"{FOLDER}/%i.yaml"}
