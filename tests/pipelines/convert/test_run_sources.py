"""The sources of a run: loaded and split before the pipeline, remembered after it."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.input_files import list_spans
from feedferry.pipelines.convert.inputs.source_runs import (
    load_sources,
    settings_of,
    source_runs,
    split_sources,
)
from feedferry.pipelines.convert.publication.state_update import (
    remember,
    store_generation,
    store_update,
)
from feedferry.pipelines.convert.publication.work_folder import seal
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.account import merge
from feedferry.schemas.choices import SpoolHistory
from feedferry.schemas.errors import ConfigError, FatalError, StoppedError
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.sources import SourceRun
from feedferry.transforms.storage.state import StateHead, open_state, update_state
from support.archives import gsa_feed, put

pytestmark = pytest.mark.usefixtures("here")


def options(*inputs: str, **more: Any) -> ConvertOptions:  # the fields of ConvertOptions
    usual = ConvertOptions(
        inputs=inputs or ("docs",),
        output="out",
        to_format="jsonl",
        from_format="files",
        base_url="https://docs.example.com/",
    )
    return replace(usual, **more)


def load(chosen: ConvertOptions) -> tuple[Settings, list[SourceRun[Any]]]:
    """The settings of a run, and its sources."""
    spans = list_spans(chosen, stdin_copy=Path("spool"))
    sources = load_sources(spans, chosen)
    Path("work").mkdir(exist_ok=True)
    settings = settings_of(chosen, (), Path("work"), sources)
    return settings, source_runs(spans, settings, chosen)


def split(chosen: ConvertOptions) -> list[Span]:
    _, runs = load(chosen)
    return list(split_sources(runs))


def refusal(chosen: ConvertOptions) -> str:
    with pytest.raises(ConfigError) as caught:
        load(chosen)
    return str(caught.value)


def known(folder: Path, *keys: str, rules: str = "") -> None:
    """Let a state know these documents of the tree."""
    seen = (
        StateChange(document=SentDocument(key=key, url=f"https://docs.example.com/{key}"))
        for key in keys
    )
    update_state(
        folder / "s", seen, before=0, stamp=StateHead(source=f"{folder}/docs", rules=rules)
    )


def test_a_tree_is_split_into_parts_of_its_listing_which_is_made_once(here: Path) -> None:
    put(here / "docs/a.txt", b"x" * 900)
    put(here / "docs/b.txt", b"x")
    parts = split(options(span_bytes=2000))
    assert [(part.format, part.source, part.ordinal) for part in parts] == [
        ("listing", "docs", 0),
        ("listing", "docs", 1),
    ]
    put(here / "docs/c.txt", b"x")
    assert split(options(span_bytes=2000)) == parts


def test_a_file_of_records_is_not_split(here: Path) -> None:
    put(here / "a.xml", gsa_feed())
    (part,) = split(options("a.xml", from_format="gsa-feed", base_url=None))
    assert (part.format, part.path) == ("gsa-feed", f"{here}/a.xml")


IN_TREE = "in the tree '{}/docs', whose files are documents; expected a place outside"


@pytest.mark.parametrize(
    ("inputs", "keys", "message"),
    [
        (
            ("docs/a.txt",),
            {"hidden": True, "from_format": "jsonl"},
            "--hidden: not for this source; expected a tree (--from files)",
        ),
        (
            ("docs",),
            {"history": SpoolHistory.ALL},
            "--history: not for this source; expected a spool (--from spool)",
        ),
        (
            ("docs",),
            {"acl": "none.csv", "state": "s"},
            "--acl {}/none.csv: No such file or directory; expected a table that can be read",
        ),
        (
            ("docs",),
            {"include": ("/",)},
            "--include: '/'; expected a glob such as '*.pdf' or 'archive/'",
        ),
        (("docs",), {"output": "docs/out"}, f"-o docs/out: {IN_TREE}, or --exclude 'out/'"),
        (("docs",), {"output": "docs"}, f"-o docs: {IN_TREE}"),
        (("docs",), {"state": "docs/s"}, f"--state docs/s: {IN_TREE}, or --exclude 's'"),
        (
            ("docs", "more"),
            {"state": "s"},
            "--state s: of docs, more; expected one tree or one database",
        ),
        (
            ("docs/a.txt",),
            {"state": "s"},
            "--state s: of single files; expected a folder, as what is not named would look as if"
            " it were gone",
        ),
        (
            ("docs",),
            {"state": "elsewhere"},
            "--state elsewhere: a state of '/elsewhere'; expected one of '{}/docs'; name another"
            " path to send all documents",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_source_that_cannot_be_one_run_is_refused(
    here: Path, inputs: tuple[str, ...], keys: dict[str, object], message: str
) -> None:
    put(here / "docs/a.txt", b"x")
    put(here / "more/b.txt", b"x")
    update_state(here / "elsewhere", (), before=0, stamp=StateHead(source="/elsewhere"))
    assert refusal(options(*inputs, **keys)) == message.format(here)


@pytest.mark.parametrize(
    ("inputs", "keys"),
    [
        (("docs",), {"output": "docs/out", "exclude": ("out/",)}),
        (("docs",), {"output": "docs/.out"}),
        (("docs/a.txt",), {"output": "docs/out"}),
    ],
)
def test_a_run_may_write_what_it_does_not_read(
    here: Path, inputs: tuple[str, ...], keys: dict[str, object]
) -> None:
    put(here / "docs/a.txt", b"x")
    assert len(split(options(*inputs, **keys))) == 1


def test_documents_of_two_trees_need_urls_of_their_own(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    put(here / "more/b.txt", b"y")
    assert len(split(options("docs", "more"))) == 2
    put(here / "again/a.txt", b"y")
    shutil.rmtree("work")
    with pytest.raises(ConfigError) as caught:
        split(options("docs", "again"))
    assert str(caught.value) == (
        "INPUT: 'a.txt' is in 'docs' and in 'again', and would have one url; expected a run for"
        " each, with a --base-url of its own"
    )


def test_a_listing_that_is_not_safe_is_not_kept(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    known(here, "a.txt", "b.txt")
    chosen = options(state="s")
    with pytest.raises(StoppedError):
        split(chosen)
    assert not Path("work/00000-00000.listing").exists()


def converted(chosen: ConvertOptions) -> Path:
    """Convert, and return the folder of the run, which has still to be remembered."""
    settings, runs = load(chosen)
    store_generation(settings)
    parts = list(split_sources(runs))
    seal(Path(settings.folder))
    work = Path(settings.folder)
    store_update(runs, merge(convert(part, settings) for part in parts).files, work)
    return work


def test_a_state_is_updated_to_the_documents_that_were_seen(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    known(here, "b.txt", *map(str, range(9)))
    remember(converted(options(state="s", max_delete_percent=100)), "s")
    with open_state(here / "s") as state:
        assert [document.key for document in state.documents()] == ["a.txt"]


def test_a_state_that_another_run_has_updated_is_kept(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    work = converted(options(state="s"))
    known(here, "z.txt")
    with pytest.raises(FatalError) as caught:
        remember(work, "s")
    assert str(caught.value) == (
        f"{here}/s: generation 1; expected 0: another run has updated this state; start again with"
        " --fresh to compare the source with the new state"
    )


def test_a_run_without_a_state_updates_none_that_its_job_has_later(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    remember(converted(options()), "s")
    assert not (here / "s").exists()


def test_a_state_is_not_updated_from_a_damaged_listing(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    work = converted(options(state="s"))
    (work / "00000-00000.listing").write_bytes(b"")
    with pytest.raises(FatalError, match="files of the run are damaged; begin again with --fresh"):
        remember(work, "s")
