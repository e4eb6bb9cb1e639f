"""Rejects that were corrected are converted and pushed by a new run of the same job."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.folders.job_folders import runs_of
from feedferry.pipelines.rejects.run_rejects import read_replayed
from support import served
from support.archives import HOST, document, gsa_feed, put
from support.runs import column, convert, keep_levels, manifest

pytestmark = pytest.mark.slow

AMP = f'<record url="{HOST}/amp" mimetype="text/plain"><content>fish & chips</content></record>'
ACTION = f'<record url="{HOST}/act" action="ad" mimetype="text/plain"><content>a</content></record>'
NO_URL = '<record mimetype="text/plain"><content>a</content></record>'
NO_TYPE = f'<record url="{HOST}/type"><content>a</content></record>'
DAMAGED = (AMP, ACTION, NO_URL, NO_TYPE)
HOLES = "--accept-holes"
QUIET = ("--progress", "none")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    records = [text for number, bad in enumerate(DAMAGED) for text in (document(number), bad)]
    put(Path("feed.xml"), gsa_feed(*records, feedtype="full"))
    with keep_levels():
        yield tmp_path


def edit(name: str, *pairs: tuple[str, str]) -> None:
    text = Path(name).read_text("utf-8")
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    Path(name).write_text(text, "utf-8")


def export(run: str) -> None:
    assert main(["rejects", "export", run, "-o", "fixed"]) == 0


def urls(folder: str | Path) -> list[str]:
    texts = [path.read_text("utf-8") for path in sorted(Path(folder, "chunks").iterdir())]
    return [url for text in texts for url in re.findall('<record url="([^"]+)"', text)]


def test_corrected_records_are_converted_with_the_settings_of_the_run_and_never_full(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--to", "gsa-feed", "--datasource", "wiki", "--feedtype", "full", "--max-rejects", "9")
    convert("feed.xml", "-o", "out", *words, HOLES)
    export("out")
    edit("fixed/001-gsa-feed.xml", ('action="ad"', 'action="add"'))

    assert main(["rejects", "replay", "out", "fixed", *QUIET]) == 1
    assert capsys.readouterr().err == (
        "feedferry: fixed: still as exported: 1 file: raw/000001.xml\n"
        "feedferry: out-replay-1: 1 reject of out replayed\n"
    )
    assert urls("out-replay-1") == [f"{HOST}/act"]
    assert [(line["datasource"], line["feedtype"]) for line in manifest("out-replay-1")] == [
        ("wiki", "incremental")
    ]
    assert read_replayed(Path("out")) == {2: "out-replay-1"}

    edit("fixed/001-gsa-feed.xml", ("<record mime", f'<record url="{HOST}/new" mime'))
    edit("fixed/raw/000001.xml", ("&", "&amp;"))
    flags = ("--set", "target.default_mimetype=text/html", "-o", "again")
    assert main(["rejects", "replay", "out", "fixed", *flags, *QUIET]) == 0
    assert sorted(urls("again")) == [f"{HOST}/{name}" for name in ("amp", "new", "type")]
    replayed_in = {1: "again", 2: "out-replay-1", 3: "again", 4: "again"}
    assert read_replayed(Path("out")) == replayed_in
    assert main(["rejects", "replay", "out", *QUIET]) == 2


def test_rejects_are_replayed_as_they_are_after_a_setting_has_changed() -> None:
    convert("feed.xml", "-o", "out", "--to", "gsa-feed", "--allow-empty-full", HOLES)
    flags = ("--set", "target.default_mimetype=text/html", *QUIET)

    assert main(["rejects", "replay", "out", *flags]) == 1
    assert (urls("out-replay-1"), read_replayed(Path("out"))) == (
        [f"{HOST}/type"],
        {4: "out-replay-1"},
    )


def test_a_job_pushes_corrected_records_also_those_that_the_appliance_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = json.dumps([{"requests": "1-6", "refuse_urls": [document_url(1), document_url(2)]}])
    Path("refuse.yaml").write_text(scenario, "utf-8")
    with served.serving(here / "spool", "--scenario", "refuse.yaml") as appliance:
        Path("wiki.yaml").write_text(
            "version: 1\njob: wiki\nsource: {type: gsa-feed, path: feed.xml}\n"
            f"target: {{type: gsa-feed, url: {appliance.url!r}}}\nsafety: {{accept_holes: true}}\n"
        )
        assert main(["run", "wiki.yaml", *QUIET]) == 1
        [first] = runs_of(here / "runs/wiki")
        run = f"runs/wiki/{first.id}"
        export("wiki.yaml")
        edit(
            "fixed/001-gsa-feed.xml",
            ('"ad"', '"add"'),
            ("<record mime", f"<record url='{HOST}/new' mime"),
        )
        edit("fixed/raw/000001.xml", ("&", "&amp;"))
        flags = ("--set", "target.default_mimetype=text/html", *QUIET)
        assert main(["rejects", "replay", "wiki.yaml", "fixed", *flags]) == 0
        appliance.settle()
        names = [*(f"{number}.txt" for number in range(4)), "act", "amp", "new", "type"]
        assert sorted(appliance.urls()) == sorted(f"{HOST}/{name}" for name in names)
        assert appliance.feedtypes().count("full") == 1

    assert sorted(read_replayed(Path(run))) == [1, 2, 3, 4, 5, 6]
    last = runs_of(here / "runs/wiki")[-1].id
    assert column(f"runs/wiki/{last}", "feedtype") == ["incremental"] * 3
    capsys.readouterr()
    assert main(["rejects", "replay", run, *QUIET]) == 2
    assert "no rejects to export" in capsys.readouterr().err
    main(["rejects", "list", run, "--format", "json"])
    states = [json.loads(line)["replayed_in"] for line in capsys.readouterr().out.splitlines()]
    assert len(set(states)) == 1


@pytest.mark.parametrize("is_job", [True, False], ids=["job", "conversion"])
@pytest.mark.parametrize("words", [(), ("fixed",)], ids=["rejects", "export"])
def test_a_replay_that_could_not_push_is_resumed(
    here: Path, *, is_job: bool, words: tuple[str, ...]
) -> None:
    Path("wiki.yaml").write_text(
        "version: 1\njob: wiki\n"
        "source: {type: gsa-feed, path: feed.xml}\ntarget: {type: gsa-feed}\n"
        "safety: {accept_holes: true}\n"
    )
    if is_job:
        main(["run", "wiki.yaml", *QUIET])
        run = f"runs/wiki/{runs_of(here / 'runs/wiki')[0].id}"
    else:
        convert("feed.xml", "-o", "out", "--to", "gsa-feed", HOLES)
        run = "out"
    if words:
        export(run)
    command = [
        "rejects",
        "replay",
        run,
        *words,
        "--set",
        "target.default_mimetype=text/html",
        *QUIET,
    ]

    assert (
        main([*command, "--set", "target.url=http://127.0.0.1:9", "--set", "push.attempts=1"]) == 4
    )
    assert read_replayed(Path(run)) == {}
    with served.serving(here / "spool") as appliance:
        assert main([*command, "--set", f"target.url={appliance.url}"]) == 1
        assert appliance.urls() == [f"{HOST}/type"]
    assert (len(read_replayed(Path(run))), len(runs_of(here / "runs/wiki"))) == (1, 2 * is_job)
    assert len([*here.glob("out-replay-*")]) == 1 - is_job


def test_an_older_run_is_not_replayed_over_a_newer_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wiki.yaml").write_text(
        "version: 1\njob: wiki\n"
        "source: {type: gsa-feed, path: feed.xml}\ntarget: {type: gsa-feed}\n"
        "safety: {accept_holes: true}\n"
    )
    for _ in range(2):
        main(["run", "wiki.yaml", *QUIET])
    older, newer = (record.id for record in runs_of(here / "runs/wiki"))
    capsys.readouterr()

    assert main(["rejects", "replay", f"runs/wiki/{older}", *QUIET]) == 2
    assert f"older than {newer}, which may have sent newer documents" in capsys.readouterr().err
    flags = ("--allow-older", "--set", "target.default_mimetype=text/html", *QUIET)
    assert main(["rejects", "replay", f"runs/wiki/{older}", *flags]) == 1
    assert read_replayed(Path(f"runs/wiki/{older}")).keys() == {4}


JOB = (
    "version: 1\njob: wiki\nsource: {type: gsa-feed, path: feed.xml}\nkeep: {runs: 1}\n"
    "target: {type: gsa-feed, url: URL}\nchunk: {max_records: 1}\npush: {attempts: 1}\n"
)


def bad(name: str, night: int) -> str:
    return ACTION.replace("/act", f"/{name}").replace(">a<", f">{night}<")


def run_night(number: int, *names: str) -> Path:
    """Run the job on a feed of these rejected records; export and correct them in `nightN`."""
    put(Path("feed.xml"), gsa_feed(document(number), *(bad(name, number) for name in names)))
    assert main(["run", "wiki.yaml", *QUIET]) == 1
    assert main(["rejects", "export", "wiki.yaml", "-o", f"night{number}"]) == 0
    edit(f"night{number}/001-gsa-feed.xml", ('"ad"', '"add"'))
    return Path("runs/wiki", runs_of(Path("runs/wiki"))[-1].id)


def replay(folder: str, *flags: str) -> int:
    return main(["rejects", "replay", "wiki.yaml", folder, *flags, *QUIET])


def test_an_export_belongs_to_its_run_whatever_was_run_or_replayed_since(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served.serving(here / "spool") as appliance:
        Path("wiki.yaml").write_text(JOB.replace("URL", repr(appliance.url)).replace("1}", "9}", 1))
        first, second = run_night(1, "a", "b"), run_night(2, "a", "c")

        assert [replay("night1"), replay("night2")] == [2, 0]
        assert (read_replayed(first), {*read_replayed(second)}) == ({}, {1, 2})
        assert [replay("night1"), replay("night1", "--allow-older")] == [2, 0]
        assert {*read_replayed(first)} == {1, 2}
        capsys.readouterr()
        assert [replay("night1"), replay("night2"), replay("night1")] == [0, 0, 0]
        assert capsys.readouterr() == (
            "",
            "feedferry: night1: already replayed: 2 rejects: 1, 2\n"
            "feedferry: night2: already replayed: 2 rejects: 1, 2\n"
            "feedferry: night1: already replayed: 2 rejects: 1, 2\n",
        )
        assert main(["rejects", "replay", str(second), "night1"]) == 2
        assert "feedferry rejects replay wiki.yaml night1" in capsys.readouterr().err
        assert main(["rejects", "list", "wiki.yaml"]) == 0
        assert "bad-action         2         0         0         2" in capsys.readouterr().out
        assert sum(appliance.arrivals().values()) == 2 + 4


def test_a_replay_that_is_finished_by_another_start_is_not_sent_again(here: Path) -> None:
    failing = [{"endpoint": "xmlfeed", "requests": "3-4", "status": 500}]
    Path("fail.yaml").write_text(json.dumps(failing), "utf-8")
    with served.serving(here / "spool", "--scenario", "fail.yaml") as appliance:
        Path("wiki.yaml").write_text(JOB.replace("URL", repr(appliance.url)))
        run = run_night(1, "a", "b")
        assert replay("night1") == 4
        assert read_replayed(run) == {}
        assert main(["run", "wiki.yaml", "--only-resume", *QUIET]) == 4
        assert main(["run", "wiki.yaml", "--only-resume", *QUIET]) == 0
        assert replay("night1") == 0
        assert (run.exists(), {*read_replayed(run)}) == (True, {1, 2})
        assert sum(appliance.arrivals().values()) == 3


def test_a_replay_of_which_nothing_was_sent_is_not_replaced_by_a_new_run(here: Path) -> None:
    with served.serving(here / "spool") as appliance:
        Path("wiki.yaml").write_text(JOB.replace("URL", repr(appliance.url)))
        run = run_night(1, "a")
        assert replay("night1", "--set", "target.url=http://127.0.0.1:9") == 4
        assert main(["run", "wiki.yaml", "--only-resume", *QUIET]) == 0
        assert [record.is_abandoned for record in runs_of(run.parent)] == [False, True]
        assert replay("night1") == 0
        assert {*read_replayed(run)} == {1}


def document_url(number: int) -> str:
    item = re.search('url="([^"]+)"', document(number))
    assert item is not None
    return item[1]


@pytest.mark.parametrize("is_accepted", [True, False])
def test_an_older_version_is_not_replayed_without_the_newest(
    is_accepted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    old = document(1).replace("<content>", "<content>old ")
    newest = document(1).replace("<content>", "<content>R & D ")
    put(Path("old.xml"), gsa_feed(old))
    put(Path("new.xml"), gsa_feed(newest))
    known = ("--accepted-rejects", "known.txt") if is_accepted else ()
    assert convert("old.xml", "new.xml", "-o", "out", "--to", "gsa-feed", *known) == 1
    if is_accepted:
        assert main(["rejects", "accept", "out", "--code", "malformed"]) == 0
    capsys.readouterr()
    assert main(["rejects", "replay", "out"]) == 2
    shown = capsys.readouterr().err
    assert ("older-version: 1 reject, not exported: 1." in shown) is is_accepted
    assert not Path("out-replay-1").exists()
