"""`feedferry rejects`: a run with damage of many kinds is listed, shown and accepted."""

import json
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.archives import HOST, document, gsa_feed, put
from support.runs import convert

DAMAGED = (
    f'<record url="{HOST}/amp" mimetype="text/plain"><content>fish & chips</content></record>',
    f'<record url="{HOST}/action" action="ad" mimetype="text/plain"/>',
    '<record mimetype="text/plain"><content>no url</content></record>',
    f'<record url="{HOST}/b64" mimetype="text/plain"><content encoding="base64binary">!!!!'
    "</content></record>",
    f'<record url="{HOST}/entity" mimetype="text/plain"><content>a&nbsp;b</content></record>',
    "text between records",
    f'<record url="{HOST}/rot" mimetype="text/html"><content encoding="rot13"/></record>',
    '<record url="relative" mimetype="text/plain"><content>a</content></record>',
    f'<record url="{HOST}/type"><content>a</content></record>',
    f'<record url="{HOST}/torn" mimetype="text/plain"><content>lost its end',
)
CODES = (
    *("malformed", "bad-action", "url-missing", "bad-base64", "entity", "stray", "bad-encoding"),
    *("url-not-absolute", "mimetype-missing", "torn-record"),
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The folder of a run, in the working folder, in which ten records are rejected."""
    monkeypatch.chdir(tmp_path)
    records = [text for number, bad in enumerate(DAMAGED) for text in (document(number), bad)]
    put(Path("feed.xml"), gsa_feed(*records, document(99)))
    assert convert("feed.xml", "-o", "out", "--to", "gsa-feed") == 1
    capsys.readouterr()
    return "out"


@pytest.mark.slow
def test_rejects_are_counted_by_code_and_filtered(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rejects", "list", run, "--format", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["number"], line["code"]) for line in lines] == [*enumerate(CODES, start=1)]
    assert (lines[0]["url"], "data" in lines[0]) == (f"{HOST}/amp", False)

    main(["rejects", "accept", run, "--code", "stray", "-o", "known.txt"])
    capsys.readouterr()
    words = ("--url", "*", "--code", "entity", "--code", "stray", "--code", "bad-action")
    main(["rejects", "list", run, *words, "--accepted-rejects", "known.txt"])
    names = ((2, "bad-action"), (5, "entity"), (6, "stray, accepted"))
    assert capsys.readouterr().out.splitlines() == [
        "out:",
        *(
            f"  {number}: {name}: feed.xml:{line['line']} (byte {line['offset']}): {line['reason']}"
            for number, name in names
            for line in (lines[number - 1],)
        ),
    ]
    main(["rejects", "list", run, "--code", "no-such"])
    assert capsys.readouterr().out == "no rejects\n"


@pytest.mark.slow
def test_accepted_rejects_are_added_once_to_the_list_of_the_run(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rejects", "accept", run]) == 2
    assert "expected -o FILE" in capsys.readouterr().err

    main(["rejects", "accept", run, "--code", "entity", "-o", "known.txt"])
    listed = ("--accepted-rejects", "known.txt")
    convert("feed.xml", "-o", "again", "--to", "gsa-feed", *listed)
    for code in (1, 0):
        capsys.readouterr()
        main(["rejects", "accept", "again"])
        assert capsys.readouterr().out.endswith(f"known.txt: {9 * code} added\n")
    assert convert("feed.xml", "-o", "third", "--to", "gsa-feed", *listed) == 0
    capsys.readouterr()
    main(["rejects", "list", "third"])
    assert "total                   10         0        10         0" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_stopped_at_a_limit_goes_on_when_its_rejects_are_accepted(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("feed.xml", "-o", "stopped", "--to", "gsa-feed", "--max-rejects", "5%")
    assert convert(*words) == 3
    capsys.readouterr()

    main(["rejects", "list", "stopped"])
    printed = capsys.readouterr()
    assert "total                   10        10         0         0" in printed.out
    assert printed.err.startswith("feedferry: stopped: not finished; ")
    main(["rejects", "accept", "stopped", "-o", "known.txt"])
    assert convert(*words, "--accepted-rejects", "known.txt") == 0


@pytest.mark.slow
def test_a_stopped_run_of_a_job_has_the_list_of_its_settings_whatever_the_name_of_the_job_file(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("nightly.yaml").write_text(
        "version: 1\njob: wiki\nsource: {type: gsa-feed, path: [feed.xml]}\n"
        "target: {type: gsa-feed}\nrejects: {max: 5%, accepted: known.txt}\n"
    )
    assert main(["run", "nightly.yaml", "--progress", "none"]) == 3
    main(["rejects", "accept", "nightly.yaml", "--code", "stray"])
    for name in ("nightly.yaml", "runs/wiki"):
        capsys.readouterr()
        assert main(["rejects", "list", name]) == 0
        assert "total                   10         9         1         0" in capsys.readouterr().out
    assert main(["rejects", "show", "runs/wiki", "6"]) == 0


@pytest.mark.slow
def test_a_reject_is_shown_by_its_number_or_its_url(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["rejects", "show", run, "1"])
    shown = capsys.readouterr().out
    main(["rejects", "show", run, "--url", f"{HOST}/amp"])
    assert capsys.readouterr().out == shown
    assert shown.startswith("reject    1 of out\ncode      malformed:")

    for words, message in (
        ((run, "11"), "feedferry: out: no reject 11; expected one that"),
        ((run,), "feedferry: N: expected the number of a reject, or --url"),
        (("feed.xml", "1"), "feedferry: feed.xml: expected a job file"),
    ):
        assert main(["rejects", "show", *words]) == 2
        assert capsys.readouterr().err.startswith(message)


@pytest.mark.slow
def test_accept_takes_the_list_that_the_job_file_names_now(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = "version: 1\njob: wiki\nsource: {type: gsa-feed, path: feed.xml}\n"
    job += "target: {type: gsa-feed}\nrejects: {accepted: LIST}\n"
    Path("wiki.yaml").write_text(job.replace("LIST", "old.txt"))
    assert main(["run", "wiki.yaml", "--progress", "none"]) == 1
    Path("jobs").mkdir()
    Path("jobs/moved.yaml").write_text(job.replace("LIST", "new.txt") + "runs: ../runs\n")
    Path("wiki.yaml").write_text(job.replace("LIST", "newer.txt"))
    for name in ("jobs/moved.yaml", "wiki.yaml", "runs/wiki"):
        capsys.readouterr()
        assert main(["rejects", "accept", name]) == 0
    assert Path("jobs/new.txt").read_text() == Path("newer.txt").read_text()
    assert not Path("old.txt").exists()
