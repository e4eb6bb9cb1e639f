"""The last phase of a job with `verify`: its run is compared with what the target has."""

import json
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.pipelines.options.compare_options import URLS
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.run_record import Phase
from support.jobs import HOST, TreeJob
from support.rehearsal import gone, gsa_feed
from support.served import Served


def run(*flags: str) -> int:
    return main(["run", "people.yaml", "--progress", "none", *flags])


def delete_at(appliance: Served, name: str) -> None:
    """Delete a document behind the back of the job."""
    feed = gsa_feed(gone(name)).replace("http://www.example.com/", HOST)
    feed = feed.replace("<datasource>other<", "<datasource>people<")
    Path("gone.xml").write_text(feed)
    assert main(["push", "gone.xml", "-o", "gone", "--to", appliance.url]) == 0


@pytest.mark.slow
def test_a_run_ends_with_the_proof_that_its_documents_are_there(
    here: Path, appliance: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    job = TreeJob(here, appliance.url, documents=10, more="verify: target\n")

    assert run() == 0
    assert f"verified  10 same; against {appliance.url}\n" in capsys.readouterr().out
    [record] = job.records()
    found = json.loads((job.home / record.id / "verification.json").read_text())
    assert (found["counts"]["same"], found["first"]) == (10, [])
    page = (job.home / record.id / "report.html").read_text()
    assert "Every document of the run is at the target." in page
    assert "Verified</a></dt><dd>10</dd><dd>10 same</dd>" in page
    assert main(["runs", "show", str(job.home / record.id)]) == 0
    assert "verified  10 same" in capsys.readouterr().out


@pytest.mark.slow
def test_only_the_proof_is_repeated_if_the_target_could_not_be_asked(
    here: Path, appliance: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = "verify: {against: 'http://127.0.0.1:9'}\n"
    job = TreeJob(here, appliance.url, documents=10, more=nowhere)
    assert run() == 4
    [record] = job.records()
    assert (record.phase, record.exit_code) == (Phase.VERIFY, 4)
    assert not (job.home / record.id / "verification.json").exists()
    feeds = appliance.arrivals()

    appliance.settle()
    delete_at(appliance, "0003.txt")
    appliance.settle()
    text = (here / "people.yaml").read_text().replace(nowhere, "verify: target\n")
    (here / "people.yaml").write_text(text)
    capsys.readouterr()
    assert run("--only-resume") == 1

    assert "verified  9 same, 1 missing; against" in capsys.readouterr().out
    [record] = job.records()
    assert (record.phase, record.exit_code, record.attempts) == (Phase.DONE, 1, 2)
    assert appliance.arrivals().total() == feeds.total() + 1  # that of the deletion
    [line] = (job.home / record.id / "differences.jsonl").read_text().splitlines()
    assert json.loads(line) == {"change": "missing", "fields": [], "url": f"{HOST}0003.txt"}
    page = (job.home / record.id / "report.html").read_text()
    assert "Done, but the target differs" in page
    assert f"{HOST}0003.txt" in page


def load(folder: Path, text: str) -> object:
    (folder / "job.yaml").write_text(
        "version: 1\njob: a\nsource: {type: feeds, path: feed.xml}\n"
        f"target: {{type: gsa-feed, url: 'http://gsa.example.com:19900'}}\n{text}"
    )
    return load_job(folder / "job.yaml", {}, {}).verify


def test_the_keys_of_verify_are_those_of_the_command(tmp_path: Path) -> None:
    options = load(tmp_path, "verify: {against: urls, sample: 5%, contents: true, requests: 2}\n")
    assert (options.against, options.contents, options.requests) == (URLS, True, 2)  # type: ignore[attr-defined]  # it is not None
    assert load(tmp_path, "") is None
    target = load(tmp_path, "verify: {ignore: [modified]}\n")
    assert target.against == "http://gsa.example.com:19900"  # type: ignore[attr-defined]  # the same
    assert load(tmp_path, "verify: spool/\n").against == f"{tmp_path}/spool/"  # type: ignore[attr-defined]  # the same


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("verify: {against: urls, requests: 0}\n", "verify.requests"),
        ("verify: {sample: none}\n", "verify.sample"),
        ("verify: target\npush: {keep_chunks: refused}\n", "verify.against"),
    ],
)
def test_a_verification_that_is_not_possible_is_an_error(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, text)


def test_a_plan_says_what_the_run_will_be_compared_with(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TreeJob(here, "http://gsa.example.com:19900", documents=3, more="verify: target\n")

    assert main(["plan", "people.yaml", "--progress", "none"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "verify    against http://gsa.example.com:19900, after the push" in printed


@pytest.mark.slow
def test_the_newest_run_of_a_job_is_verified_at_its_target(
    here: Path, appliance: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    TreeJob(here, appliance.url, documents=10)
    assert run() == 0
    capsys.readouterr()
    assert main(["verify", "people.yaml"]) == 0
    assert "10" in capsys.readouterr().out
    delete_at(appliance, "0003.txt")
    assert main(["verify", "people.yaml", "--set", "verify.ignore=modified"]) == 1
    assert "0003.txt" in capsys.readouterr().out
    assert main(["verify", "people.yaml", "--set", "verify.ignor=x"]) == 2
    assert "did you mean 'ignore'?" in capsys.readouterr().err


@pytest.mark.slow
def test_a_target_with_profiles_is_compared_by_the_profile_that_was_filled(
    here: Path, appliance: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    job = TreeJob(here, appliance.url, documents=3, more="loss: {accept: [acl]}\nverify: target\n")
    path = here / "people.yaml"
    target = f"{{type: thunderstone, url: '{appliance.url}/recvdata.xml', profile: PROFILE}}"
    text = path.read_text().split("target:")[0] + f"target: {target}\n"
    text += "loss: {accept: [acl]}\nverify: target\n"
    path.write_text(text.replace("PROFILE", "other"))
    assert run() == 0
    job.write("0000.txt", "changed")
    path.write_text(text.replace("PROFILE", "apple"))
    capsys.readouterr()
    assert run("--fresh") == 0
    assert "verified  1 same; against" in capsys.readouterr().out
    assert main(["verify", "people.yaml", "--held-in", "other"]) == 1
