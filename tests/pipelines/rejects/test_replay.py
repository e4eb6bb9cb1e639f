"""Rejects that were corrected are converted and pushed by a new run of the same job."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

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


def replays(run: str = "out") -> list[str]:
    """Return the folders of the replays of a run without a job, the oldest first."""
    home = Path(run, "rejects/replays")
    return [str(home / record.id) for record in runs_of(home)]


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
    [first] = replays()
    assert capsys.readouterr().err == (
        "feedferry: fixed: still as exported: 1 file: raw/000001.xml\n"
        f"feedferry: {first}: 1 reject of out replayed\n"
    )
    assert urls(first) == [f"{HOST}/act"]
    assert [(line["datasource"], line["feedtype"]) for line in manifest(first)] == [
        ("wiki", "incremental")
    ]
    assert read_replayed(Path("out")) == {2: first}

    edit("fixed/001-gsa-feed.xml", ("<record mime", f'<record url="{HOST}/new" mime'))
    edit("fixed/raw/000001.xml", ("&", "&amp;"))
    flags = ("--set", "target.default_mimetype=text/html")
    assert main(["rejects", "replay", "out", "fixed", *flags, *QUIET]) == 0
    [_, again] = replays()
    assert sorted(urls(again)) == [f"{HOST}/{name}" for name in ("amp", "new", "type")]
    assert read_replayed(Path("out")) == {1: again, 2: first, 3: again, 4: again}
    assert main(["rejects", "replay", "out", *QUIET]) == 2


def test_rejects_are_replayed_as_they_are_after_a_setting_has_changed() -> None:
    convert("feed.xml", "-o", "out", "--to", "gsa-feed", "--allow-empty-full", HOLES)
    flags = ("--set", "target.default_mimetype=text/html", *QUIET)

    assert main(["rejects", "replay", "out", *flags]) == 1
    [replayed] = replays()
    assert (urls(replayed), read_replayed(Path("out"))) == ([f"{HOST}/type"], {4: replayed})


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
    assert len(replays()) == 1 - is_job


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
        assert f"feedferry rejects replay {first} night1" in capsys.readouterr().err
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
    assert replays() == []


def convert_night(number: int, url: str, *names: str) -> str:
    """Convert and push a feed of these rejected records; export and correct them in `nightN`."""
    put(Path("feed.xml"), gsa_feed(document(number), *(bad(name, number) for name in names)))
    words = ("--to", "gsa-feed", "--push-to", url, "--attempts", "1", "--max-chunk-records", "1")
    assert convert("feed.xml", "-o", f"out{number}", *words) == 1
    assert main(["rejects", "export", f"out{number}", "-o", f"night{number}"]) == 0
    edit(f"night{number}/001-gsa-feed.xml", ('"ad"', '"add"'))
    return f"out{number}"


def test_the_rejects_of_three_nights_without_a_job_are_pushed_as_their_runs(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served.serving(here / "spool") as appliance:
        for number, names in enumerate((("a", "b"), ("a", "c"), ("d",)), start=1):
            out = convert_night(number, appliance.url, *names)
            command = ["rejects", "replay", out, f"night{number}", *QUIET]
            assert [main(command), main(command), main(command)] == [0, 0, 0]
            assert read_replayed(Path(out)) == dict.fromkeys(
                range(1, len(names) + 1), *replays(out)
            )
            assert main(["rejects", "replay", out, *QUIET]) == 2
        appliance.settle()
        expected = [*(f"{number}.txt" for number in (1, 2, 3)), "a", "b", "c", "d"]
        assert sorted(appliance.urls()) == sorted(f"{HOST}/{name}" for name in expected)
        assert sum(appliance.arrivals().values()) == 3 + 5
    assert "night1: already replayed: 2 rejects: 1, 2\n" in capsys.readouterr().err
    assert not Path("generations.jsonl").exists()


def test_the_rejects_of_a_replay_without_a_job_are_replayed(here: Path) -> None:
    put(Path("feed.xml"), gsa_feed(document(1), bad("a", 1)))
    with served.serving(here / "spool") as appliance:
        words = ("--to", "gsa-feed", "--push-to", appliance.url)
        assert convert("feed.xml", "-o", "out", *words) == 1
        assert main(["rejects", "replay", "out", *QUIET]) == 1
        [first] = replays()
        assert main(["rejects", "export", first, "-o", "fixed"]) == 0
        edit("fixed/001-gsa-feed.xml", ('"ad"', '"add"'))
        assert main(["rejects", "replay", first, "fixed", *QUIET]) == 0
        assert appliance.urls() == [f"{HOST}/1.txt", f"{HOST}/a"]
    assert (read_replayed(Path("out")), len(replays(first))) == ({}, 1)


def test_a_replay_without_a_job_that_was_interrupted_is_finished_before_another_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = [{"endpoint": "xmlfeed", "requests": "3", "status": 500}]
    Path("fail.yaml").write_text(json.dumps(failing), "utf-8")
    with served.serving(here / "spool", "--scenario", "fail.yaml") as appliance:
        out = convert_night(1, appliance.url, "a", "b")
        assert main(["rejects", "replay", out, "night1", *QUIET]) == 4
        assert read_replayed(Path(out)) == {}
        capsys.readouterr()
        assert main(["rejects", "replay", out, *QUIET]) == 2
        command = f"feedferry rejects replay {out} {here / 'night1'}"
        assert capsys.readouterr().err == (
            f"feedferry: {replays(out)[0]}: an unfinished run; finish it: {command}\n"
        )
        assert main([*command.split()[1:], *QUIET]) == 0
        assert sum(appliance.arrivals().values()) == 3
    assert read_replayed(Path(out)) == dict.fromkeys((1, 2), *replays(out))


@pytest.mark.parametrize("is_job", [True, False], ids=["job", "conversion"])
def test_a_replay_that_has_sent_nothing_makes_way_for_another_one(
    here: Path, capsys: pytest.CaptureFixture[str], *, is_job: bool
) -> None:
    with served.serving(here / "spool") as appliance:
        Path("wiki.yaml").write_text(JOB.replace("URL", repr(appliance.url)))
        run = str(run_night(1, "a")) if is_job else convert_night(1, appliance.url, "a")
        down = ("--set", "target.url=http://127.0.0.1:9")
        assert main(["rejects", "replay", run, "night1", *down, *QUIET]) == 4
        assert main(["rejects", "export", run, "-o", "again"]) == 0
        edit("again/001-gsa-feed.xml", ('"ad"', '"add"'))
        capsys.readouterr()
        assert main(["rejects", "replay", run, "again", *QUIET]) == 0
        assert " is abandoned: another replay has begun\n" in capsys.readouterr().err
        assert main(["rejects", "replay", run, "night1", *QUIET]) == 0
        assert sum(appliance.arrivals().values()) == 2
    assert {*read_replayed(Path(run))} == {1}


def test_an_export_of_an_earlier_run_in_a_folder_is_not_replayed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("-o", "out", "--to", "gsa-feed", "--feedtype", "incremental")
    convert("feed.xml", *words)
    export("out")
    edit("fixed/001-gsa-feed.xml", ('action="ad"', 'action="add"'))
    put(Path("feed.xml"), gsa_feed(bad("other", 2), bad("another", 2)))
    convert("feed.xml", *words, "--fresh")
    capsys.readouterr()

    assert main(["rejects", "replay", "out", "fixed", *QUIET]) == 2
    assert (
        f"fixed: an export of an earlier run in {Path('out').absolute()}" in capsys.readouterr().err
    )
    assert read_replayed(Path("out")) == {}


def test_the_rejects_of_an_unfinished_run_are_not_replayed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("-o", "out", "--to", "gsa-feed", "--push-to", "http://127.0.0.1:9", "--attempts", "1")
    assert convert("feed.xml", *words, HOLES) == 4
    capsys.readouterr()
    assert main(["rejects", "replay", "out", *QUIET]) == 2
    assert capsys.readouterr().err == (
        "feedferry: out: an unfinished run; expected a finished one: start it again\n"
    )


def test_the_rejects_of_a_push_of_files_are_not_replayed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(Path("feed.xml"), gsa_feed(document(1), document(2)))
    scenario = json.dumps([{"refuse_urls": [document_url(1)]}])
    Path("refuse.yaml").write_text(scenario, "utf-8")
    with served.serving(here / "spool", "--scenario", "refuse.yaml") as appliance:
        assert main(["push", "feed.xml", "-o", "out", "--to", appliance.url, *QUIET]) == 1
    capsys.readouterr()
    assert main(["rejects", "replay", "out", *QUIET]) == 2
    assert capsys.readouterr().err == (
        "feedferry: out: a push of files; expected a conversion: push the files of an export with"
        " feedferry push\n"
    )


def test_the_rejects_of_a_run_near_the_root_are_exported(tmp_path: Path) -> None:
    with TemporaryDirectory() as folder:
        assert convert("feed.xml", "-o", folder, "--to", "gsa-feed", HOLES) == 1
        export(folder)
