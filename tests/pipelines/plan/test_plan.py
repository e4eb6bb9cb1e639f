"""The plan of a run says what the run then does, and stores nothing."""

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.transforms.formats import FORMATS, by_name
from support.archives import BROKEN, DELETED, document, documents, gsa_feed, put
from support.runs import ROOT, convert, left, report
from support.spools import HandSpool

GOLDEN = ROOT / "tests" / "golden"
SOURCES = {
    "gsa-feed": "gsa_feed/*.xml",
    "gsa-groups": "gsa_groups/*.xml",
    "groups-csv": "groups_csv/*.csv",
    "thunderstone": "thunderstone/*.xml",
    "lister-stream": "lister_stream/*.stream",
    "retriever-stream": "retriever_stream/*.stream",
    "authorizer-stream": "authorizer_stream/*.stream",
}
TARGETS = [format_.name for format_ in FORMATS.ours if format_.encoder]
TO = ("--to", "gsa-feed", "--datasource", "docs")
TREE = ("docs", "--from", "files", *TO, "--base-url", "https://docs.example.com/")
STATE = ("--state", "docs.state", "--max-delete-percent", "50")
ROWS = ("--from", "database", "--mapping", "people.yaml", *TO)
PEOPLE = b"""\
connection: sqlite:///people.db
table: people
url: https://people.example.com/{id}
modified: changed
incremental: {timestamp: changed, deletes: compare}
"""
JOB = b"""\
version: 1
job: docs
source: {type: files, path: docs, base_url: "https://docs.example.com/"}
target: {type: gsa-feed, datasource: docs, url: "http://gsa.example.com:19900"}
"""
HEADER = "GSA Adaptor Data Version 1 [\\n]\\n"
LISTER = f'import sys; sys.stdout.write("{HEADER}id-list\\na\\nb\\nmissing\\nboom\\n")'
RETRIEVER = f"""\
import sys
if sys.argv[1] == "boom":
    sys.exit(3)
sys.stdout.write("{HEADER}id=" + sys.argv[1] + "\\nmime-type=text/plain\\n")
sys.stdout.write("not-found\\n" if sys.argv[1] == "missing" else "content\\nhello")
"""

pytestmark = pytest.mark.usefixtures("here")


class Outcome(NamedTuple):
    """Exit code, JSON on stdout, None without any, and stderr."""

    code: int
    values: Any
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process, with its account as JSON."""

    def run(*args: str) -> Outcome:
        capsys.readouterr()
        code = main([*args, "--format", "json", "--progress", "none"])
        out, err = capsys.readouterr()
        return Outcome(code, json.loads(out) if out else None, err)

    return run


@pytest.fixture
def compare(command: Run) -> Run:
    """Plan and convert with the same words; require one account, and return that of the plan."""

    def run(*args: str) -> Outcome:
        before = left(".")
        planned = command("plan", *args)
        assert left(".") == before
        converted = command("convert", *args, "-o", "out", "--fresh")
        assert planned.code == converted.code, (planned, converted)
        if converted.values is None:
            assert planned.err.replace("the run would stop: ", "") == converted.err
            return planned
        for name in ("account", "chunks", "chunk_bytes", "settings", "sources"):
            assert planned.values[name] == converted.values[name]
        return planned

    return run


@pytest.fixture
def tree(here: Path) -> Path:
    put(here / "docs/a.txt", b"keel")
    put(here / "docs/b/c.txt", b"planks")
    put(here / "docs/empty.txt", b"")
    put(here / "docs/.hidden", b"x")
    return here / "docs"


@pytest.fixture
def people(here: Path) -> Path:
    put(here / "people.yaml", PEOPLE)
    execute(
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, changed TEXT)",
        "INSERT INTO people VALUES (1, 'Ida', '2026-01-01'), (2, 'Tim', '2026-01-02')",
        "INSERT INTO people VALUES (3, 'Ann', '2026-01-03')",
    )
    return here / "people.db"


def execute(*statements: str) -> None:
    with closing(sqlite3.connect("people.db")) as database, database:
        for statement in statements:
            database.execute(statement)


def feed_files(count: int, *, records: int = 100) -> None:
    """Write feeds of documents of about 1 kB."""
    for number in range(count):
        first = number * records + 1
        feed = gsa_feed(*documents(first, first + records - 1, text="plan " * 200))
        put(Path(f"feeds/{number:03}.xml"), feed)


def flags(target: str, source: str) -> list[str]:
    """Return flags that let nothing stop a run."""
    words = ["--to", target, "--accept-loss", "acl,content", "--accept-holes", "--allow-empty-full"]
    words += ["--from", source, "--base-url", "http://adaptor.example.com/doc/"]
    return [*words, "--datasource", "docs"] if by_name(target).keeps_feedtypes else words


def readable(names: list[str], source: str, command: Run) -> list[str]:
    """Return the files that end no run, found by halving."""
    if command("plan", *names, *flags("jsonl", source)).code < 2:
        return names
    middle = len(names) // 2
    halves = (names[:middle], names[middle:]) if middle else ()
    return [name for half in halves for name in readable(half, source, command)]


# The same account as that of the run


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_a_plan_of_golden_files_is_the_account_of_their_conversion_to_each_format(
    source: str, command: Run, compare: Run
) -> None:
    paths = sorted(map(str, GOLDEN.glob(SOURCES[source])))
    names = readable(paths, source, command)
    assert len(names) > len(paths) * 3 // 4
    outcomes = {to: compare(*names, *flags(to, source)) for to in TARGETS}
    stopped = {to for to, outcome in outcomes.items() if outcome.code > 1}
    decided = {to for to in TARGETS if by_name(to).needs_decisions}
    assert stopped <= {"retriever-stream", *decided}  # a part without a URL may be any ACL


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_plan_of_the_sample_is_the_account_of_its_conversion(target: str, compare: Run) -> None:
    sample = str(ROOT / "pipelines" / "sample")
    compare(sample, "--to", target, "--accept-loss", "acl,content")


@pytest.mark.slow
def test_several_chunks_of_a_full_feed_with_rejects_have_the_size_that_is_published(
    compare: Run,
) -> None:
    records = [*documents(1, 300, text="plan " * 200), BROKEN, DELETED]
    put(Path("a.xml"), gsa_feed(*records, feedtype="full"))
    small = ("--max-chunk-bytes", "64KiB", "--span-bytes", "100KiB", "--accept-holes")
    for to in ("gsa-feed", "thunderstone", "avro"):
        plan = compare("a.xml", "--to", to, *(small[:4] if to == "thunderstone" else small))
        assert (plan.code, plan.values["chunks"] >= 6) == (1, True)
        assert plan.values["account"]["reject_codes"] == {"malformed": 1}


@pytest.mark.slow
def test_a_plan_of_a_second_run_is_about_changes(tree: Path, compare: Run) -> None:
    first = compare(*TREE, *STATE)
    assert first.values["account"]["filter_codes"] == {"empty": 1, "hidden": 1}
    state = Path("docs.state").read_bytes()
    (tree / "a.txt").unlink()
    put(tree / "d.txt", b"ribs")
    main(["plan", *TREE, *STATE])
    assert Path("docs.state").read_bytes() == state
    second = compare(*TREE, *STATE)
    assert second.values["account"]["written"] == {"ADD": 1, "DELETE": 1}


@pytest.mark.slow
def test_a_plan_of_rows_is_the_account_of_their_conversion(people: Path, compare: Run) -> None:
    assert compare(*ROWS, *STATE).values["account"]["written"] == {"ADD": 3}
    execute(
        "DELETE FROM people WHERE id = 1", "UPDATE people SET changed = '2026-01-09' WHERE id=2"
    )
    assert compare(*ROWS, *STATE).values["account"]["written"] == {"ADD": 1, "DELETE": 1}


@pytest.mark.slow
def test_a_plan_of_programs_calls_them_as_a_run_does(here: Path, compare: Run) -> None:
    put(here / "list.py", LISTER.encode())
    put(here / "get.py", RETRIEVER.encode())
    python = sys.executable
    text = f'lister: ["{python}", list.py]\nretriever: ["{python}", get.py]\nretries: 0\n'
    put(here / "programs.yaml", text.encode())
    base = ("--base-url", "http://adaptor.example.com/", "--jobs", "2")
    account = compare("programs.yaml", "--from", "adaptor", *TO, *base).values["account"]
    assert (account["written"], account["rejected"], account["filtered"]) == (
        {"ADD": 2},
        {"ADD": 1},
        {"ADD": 1},
    )


@pytest.mark.slow
def test_a_plan_of_a_spool_leaves_out_superseded_feeds(here: Path, compare: Run) -> None:
    spool = HandSpool("spool")
    spool.feed(gsa_feed(document(1)), "crm", "full")
    spool.feed(gsa_feed(document(2), document(3)), "crm", "full")
    spool.feed(gsa_feed(document(4)), "crm")
    plan = compare("spool", "--from", "spool", "--to", "gsa-feed").values
    assert (plan["account"]["written"], plan["chunks"]) == ({"ADD": 3}, 2)


# Where a run would stop


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit",
    [
        ("--min-records", "9"),
        ("--max-delete-percent", "1"),
        ("--refresh", "--feedtype", "full", "--max-content-bytes", "5"),
        ("--max-rejects", "10%", "--max-content-bytes", "5"),
        ("--url-template", "{path}"),
    ],
    ids=["min-records", "max-delete-percent", "holes", "max-rejects", "urls"],
)
def test_a_plan_stops_where_the_run_stops(limit: tuple[str, ...], tree: Path, compare: Run) -> None:
    convert(*TREE, *STATE, "-o", "out", "-q")
    (tree / "a.txt").unlink()
    Path("docs/d.txt").write_text("ribs and planks")
    assert compare(*TREE, *STATE, *limit).code in (2, 3)


def test_all_losses_are_counted_before_a_plan_stops(tree: Path, command: Run) -> None:
    put(tree / "empty-as-metadata.txt", b"more than five bytes")
    words = ("--acl", "posix", "--acl-everyone", "all", "--to", "thunderstone")
    plan = command("plan", *TREE[:3], *TREE[-2:], *words)
    losses = plan.values["account"]["losses"]
    assert (plan.code, losses["acl"]["count"]) == (3, 3)
    assert plan.values["account"]["written"] == {"ADD": 3}
    (stop,) = plan.values["stops"]
    assert stop.startswith("3 documents: https://docs.example.com/a.txt: acl: ")
    assert plan.err == f"feedferry: the run would stop: {stop}\n"


# The output


def test_a_plan_is_a_text_by_default(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *TREE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == [
        "url       https://docs.example.com/a.txt",
        "url       https://docs.example.com/b/c.txt",
        "duration  0:01 to read and convert; without the push",
    ]


def test_nothing_is_stored_not_even_in_the_temporary_folder(
    tree: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "tmp/keep", b"")
    monkeypatch.setattr("tempfile.tempdir", str(here / "tmp"))
    before = left(".")
    assert main(["plan", *TREE, *STATE]) == 0
    assert left(".") == before


# Jobs


def test_a_plan_of_a_job_is_that_of_its_flags_and_knows_how_long_pushes_take(
    tree: Path, here: Path, command: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "job.yaml", JOB)
    planned, by_flags = command("plan", "job.yaml"), command("plan", *TREE)
    assert planned.values["account"] == by_flags.values["account"]
    assert planned.values["push_seconds"] is None
    for run in ("runs/docs/1", "runs/docs/2"):
        put(
            here / run / "push/gsa/report.json",
            b'{"target": "a", "sent_bytes": 10000, "seconds": 2000}',
        )
    put(here / "runs/docs/3/push/gsa/report.json", b"{damaged")
    before = left(".")
    size = planned.values["chunk_bytes"]
    assert command("plan", "job.yaml").values["push_seconds"] == pytest.approx(size / 5)
    assert main(["plan", "job.yaml", "--set", "source.exclude=b"]) == 0
    assert ":" in capsys.readouterr().out.splitlines()[-1].partition("convert; ")[2]
    assert left(".") == before


@pytest.mark.slow
def test_a_plan_of_a_job_is_the_account_of_its_run(tree: Path, here: Path, command: Run) -> None:
    put(here / "job.yaml", JOB.replace(b', url: "http://gsa.example.com:19900"', b""))
    for _ in range(2):
        planned = command("plan", "job.yaml").values
        assert main(["run", "job.yaml", "--progress", "none"]) == 0
        latest = max(here.glob("runs/docs/*/report.json"), key=os.path.getmtime)
        assert planned["account"] == json.loads(latest.read_bytes())["account"]
        put(tree / "d.txt", b"ribs")


@pytest.mark.slow
def test_a_dry_run_of_convert_and_of_run_is_a_plan(tree: Path, command: Run) -> None:
    put(Path("job.yaml"), JOB)
    planned = without_times(command("plan", *TREE).values)
    files = left(Path())
    assert without_times(command("convert", *TREE, "--dry-run", "-o", "out").values) == planned
    assert (
        command("run", "job.yaml", "-n", "--deadline", "6h").values["account"]
        == (planned["account"])
    )
    assert left(Path()) == files


def without_times(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "seconds"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "docs"), "--to: not given; expected FORMAT; see --help"),
        (("plan", *TREE, "--sample", "0"), "--sample: '0'; expected a number of records"),
        (("plan", *TREE, "--sample", "0.0%"), "--sample: '0.0%'; expected a number of records"),
        (("convert", *TREE, "--limit", "3"), "use plan --sample N, or inspect --head N. See"),
    ],
)
def test_a_part_that_cannot_be_planned_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert main(list(words)) == 2
    assert message in capsys.readouterr().err


# Samples


def test_a_sample_is_spread_over_the_input_and_estimates_the_whole(command: Run) -> None:
    feed_files(40)
    words = ("feeds", "--to", "jsonl")
    whole = command("plan", *words).values
    sample = command("plan", *words, "--sample", "25%").values
    assert (sample["is_estimate"], sample["converted_parts"], sample["parts"]) == (True, 11, 40)
    assert sample["account"]["read"]["ADD"] == pytest.approx(4000, rel=0.01)
    assert sample["chunks"] == whole["chunks"] == 40
    assert sample["chunk_bytes"] == pytest.approx(whole["chunk_bytes"], rel=0.01)
    few = command("plan", *words, "--sample", "10").values
    assert few["converted_parts"] == 8


def test_an_estimated_account_balances(here: Path, command: Run) -> None:
    for number in range(30):
        put(here / f"feeds/{number:02}.xml", gsa_feed(document(number), BROKEN, DELETED))
    account = command("plan", "feeds", "--to", "jsonl", "--sample", "40%").values["account"]
    assert account["read"] == {"ADD": 30, "DELETE": 30, "unreadable": 30}
    assert account["rejected"] == {"unreadable": 30}


def test_a_sample_of_rows_and_of_a_tree_counts_documents(
    tree: Path, people: Path, command: Run
) -> None:
    for args in (TREE, ROWS):
        exact = command("plan", *args).values["account"]
        sample = command("plan", *args, "--sample", "2").values["account"]
        assert sample == exact


@pytest.mark.slow
def test_a_sample_never_moves_a_state(tree: Path) -> None:
    convert(*TREE, *STATE, "-o", "out", "-q")
    before = Path("docs.state").read_bytes()
    put(tree / "d.txt", b"ribs")
    assert main(["plan", *TREE, *STATE, "--sample", "1"]) == 0
    assert Path("docs.state").read_bytes() == before
    assert report("out")["account"]["written"] == {"ADD": 2}
