"""Values in place of those of a job file: --set, and the profiles of the file."""

from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.schemas.errors import ConfigError
from support.archives import put
from support.rehearsal import gsa_feed, page

TEXT = """\
version: 1
job: nightly
source: {type: gsa-feed, path: [archive/*.xml]}
target:
  type: gsa-feed
  url: https://gsa.example.com:19902
  auth: {bearer: "${env:TOKEN}"}
chunk: {max_bytes: 64MiB, max_records: 10}
verify: target
keep: 14 runs
profiles:
  staging:
    target: {url: "http://staging.example.com:19900", auth: null}
    chunk: {max_records: 5}
  local: {target: {auth: {basic: "u:${env:TOKEN}"}}}
  wrong:
    target: {profil: x}
"""


def load(folder: Path, *overrides: str, profile: str | None = None, **environment: str) -> Job:
    path = Path(put(folder / "job.yaml", TEXT.encode()))
    words = {"overrides": overrides, "job_profile": profile}
    return load_job(path, words, {"TOKEN": "t", **environment})


def error(folder: Path, *overrides: str, profile: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, *overrides, profile=profile)
    return str(caught.value).replace(f"{folder}/", "")


def test_set_has_precedence_over_variables_profiles_and_the_file(tmp_path: Path) -> None:
    job = load(tmp_path, "jobs=2", profile="staging", FEEDFERRY_JOBS="3", FEEDFERRY_KEEP_RUNS="2")
    assert (job.convert.jobs, job.keep.runs) == (2, 2)
    assert (job.convert.max_chunk_bytes, job.convert.max_chunk_records) == (64 << 20, 5)
    assert job.push is not None
    assert (job.push.appliance.url, job.push.appliance.auth) == (
        "http://staging.example.com:19900",
        None,
    )
    shown = ("jobs", "keep.runs", "chunk.max_records", "chunk.max_bytes")
    assert [job.origins[key].replace(f"{tmp_path}/", "") for key in shown] == [
        "flag --set jobs",
        "environment FEEDFERRY_KEEP_RUNS",
        "job.yaml:14:26",
        "job.yaml:8:20",
    ]


def test_runs_with_a_profile_have_a_folder_and_a_state_of_their_own(tmp_path: Path) -> None:
    assert load(tmp_path).home == tmp_path / "runs/nightly"
    assert load(tmp_path, profile="staging").home == tmp_path / "runs/nightly-staging"


@pytest.mark.parametrize(
    ("override", "inputs"),
    [
        ("source.path=[a.xml, b.xml]", ("a.xml", "b.xml")),
        ("source.path=a b,c.xml", ("a b,c.xml",)),
        ("source={type: gsa-feed, path: x.xml}", ("x.xml",)),
    ],
)
def test_lists_and_objects_are_yaml_and_other_values_are_texts(
    tmp_path: Path, override: str, inputs: tuple[str, ...]
) -> None:
    assert load(tmp_path, override).convert.inputs == tuple(f"{tmp_path}/{name}" for name in inputs)


def test_a_text_of_digits_is_a_text(tmp_path: Path) -> None:
    assert load(tmp_path, "job=2024").name == "2024"


def test_a_pair_is_replaced_as_a_whole(tmp_path: Path) -> None:
    assert load(tmp_path, profile="local").settings["target.auth"] == "basic=u:${env:TOKEN}"


def test_a_short_form_replaces_a_section(tmp_path: Path) -> None:
    assert load(tmp_path, "keep=30d").keep.seconds == 30 * 86400.0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("jobs", "--set: 'jobs'; expected a key and a value, as jobs=2"),
        ("jobs=x", "--set: jobs: 'x'; expected a number of processes, 1 or more"),
        ("jobs=", "--set: jobs: ''; expected a number of processes, 1 or more"),
        (
            "chunk.max_byte=3",
            "--set: chunk: 'max_byte'; expected one of max_bytes, max_records; did you mean"
            " 'max_bytes'?",
        ),
        (
            "source.path=[a",
            "--set source.path: the YAML ends or breaks off here; expected KEY: VALUE, with the"
            " same indentation for the keys of a section, and closed quotes and brackets",
        ),
        ("keep.age=3d", "--set: keep: keys; expected keys at job.yaml:10:7 too"),
        (
            "target.url=http://u:hunter2@h:19900",
            "--set: target.url: a password in plain text; expected ${env:NAME} or ${file:PATH}"
            " instead",
        ),
        (
            "transform=[{drop: {mimetype: x}}]",
            "--set: transform: a list of steps; expected it at the top of job.yaml, or the name of"
            " a file with steps",
        ),
        (
            "loss={accept: [acl], fail_on: [acl]}",
            "--set loss.accept and loss.fail_on: both name acl; expected each field in one of them",
        ),
    ],
)
def test_an_override_has_the_errors_of_the_file(
    tmp_path: Path, override: str, message: str
) -> None:
    assert error(tmp_path, override) == message


def test_an_unknown_profile_is_refused(tmp_path: Path) -> None:
    assert error(tmp_path, profile="stagin") == (
        "--profile stagin: not in job.yaml, which has staging, local, wrong; did you mean"
        " 'staging'?"
    )


def test_a_wrong_key_of_a_profile_has_its_place(tmp_path: Path) -> None:
    assert error(tmp_path, profile="wrong").startswith(
        "job.yaml:17:14: target: 'profil'; expected one of type, datasource,"
    )


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ("3", "job.yaml:3:11: profiles: a scalar; expected names with keys below them"),
        ("{a: 3}", "job.yaml:3:15: a scalar; expected keys and values"),
        ("{a: {jobs: 2}, a: {}}", "job.yaml:3:26: profiles: 'a' twice; expected each key once"),
        ("{a: {job: x, job: y}}", "job.yaml:3:24: 'job' twice; expected each key once"),
        (
            "{a: {profiles: {}}}",
            "job.yaml:3:26: profiles: {}; expected them at the top of the file only",
        ),
        (
            "{a: {transform: [{drop: {mimetype: x}}]}}",
            "job.yaml:3:27: transform: a list of steps; expected it at the top of job.yaml, or the"
            " name of a file with steps",
        ),
    ],
)
def test_wrong_profiles_are_reported_with_their_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], profiles: str, message: str
) -> None:
    text = f"version: 1\njob: j\nprofiles: {profiles}\n"
    text += "source: {type: gsa-feed, path: a.xml}\ntarget: {type: avro}\n"
    path = put(tmp_path / "job.yaml", text.encode())
    assert main(["check", path, "--offline"]) == 2
    error = capsys.readouterr().err.replace(f"{tmp_path}/", "").removeprefix("feedferry: ")
    assert error.splitlines() == [message]


def test_the_secrets_of_a_profile_that_is_not_chosen_may_be_on_another_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEY", raising=False)
    text = "version: 1\njob: j\nsource: {type: gsa-feed, path: a.xml}\n"
    text += "target: {type: gsa-feed, url: http://127.0.0.1:1}\n"
    text += "profiles:\n  production:\n    target: {auth: {api_key: '${env:KEY}'}, feedtype: ful}\n"
    path = put(tmp_path / "job.yaml", text.encode())
    wrong = "job.yaml:7:55: target.feedtype: 'ful'; expected one of full,"
    missing = "job.yaml:7:20: target.auth: ${env:KEY}: not set; expected a variable of the"
    for chosen, errors in (((), [wrong]), (("--profile", "production"), [wrong, missing])):
        assert main(["check", path, "--offline", *chosen]) == 2
        found = capsys.readouterr().err.replace(f"{tmp_path}/", "").removeprefix("feedferry: ")
        assert len(found.splitlines()) == len(errors)
        assert all(expected in found for expected in errors)


def test_a_plan_of_a_job_refuses_the_flags_of_its_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path / "job.yaml", TEXT.encode())
    assert main(["plan", path, "--accept-loss", "acl"]) == 2
    assert capsys.readouterr().err.endswith(
        "--accept-loss: not with a job file; expected --set loss.accept=VALUE\n"
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["plan", "a.xml", "--to", "jsonl", "--profile", "night"],
            "--profile: only with a job file; expected JOB as the only INPUT",
        ),
        (
            ["verify", "a.xml", "--against", "b.xml", "--set", "jobs=2"],
            "--set: only with a job file; expected JOB as the only INPUT",
        ),
        (
            ["plan", "a.xml", "--to", "jsonl", "--set", "keep.runs=2"],
            "--set keep.runs: a key of job files; expected one of a conversion or its target",
        ),
    ],
)
def test_some_overrides_need_a_job_file(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.endswith(f"{error}\n")


@pytest.mark.slow
def test_the_rejects_of_a_profile_are_not_replayed_without_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "a.xml", gsa_feed(page("1", more=' action="ad"'), page("2")).encode())
    put(
        here / "job.yaml",
        b"version: 1\njob: j\nsource: {type: gsa-feed, path: a.xml}\ntarget: {type: avro}\n"
        b"profiles: {staging: {chunk: {max_records: 5}}}\n",
    )
    assert main(["run", "job.yaml", "--profile", "staging", "-q"]) == 1
    (run,) = Path("runs/j-staging").glob("2*")
    replay = ["rejects", "replay", str(run), "--job", "job.yaml", "-q"]
    assert main(replay) == 2
    assert capsys.readouterr().err.endswith(
        f"{run}: not a run of the job j; expected --profile, if the run had a profile\n"
    )
    assert not [*run.glob("rejects/replay-*")]
    assert main([*replay, "--profile", "staging"]) == 1
