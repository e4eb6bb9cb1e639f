"""Sources that are asked what there is, before a run and behind it."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.convert.inputs import list_spans
from pipelines.convert.settings import settings_of
from pipelines.convert.source_setup import (
    begin,
    cut_source,
    load_sources,
    refuse_shared_urls,
    remember,
)
from schemas.account import Account, merge
from schemas.errors import ConfigError, FatalError, StoppedError
from schemas.sent_document import SentDocument, StateChange
from schemas.span import Span
from support.archives import gsa_feed, put
from transforms.convert import Settings, convert
from transforms.storage.state import StateHead, open_state, update_state

pytestmark = pytest.mark.usefixtures("here")


def options(*inputs: str, **more: Any) -> ConvertOptions:  # the fields of ConvertOptions
    usual = ConvertOptions(
        inputs=inputs or ("docs",),
        output="out",
        to_format="native",
        from_format="files",
        base_url="https://docs.example.com/",
    )
    return replace(usual, **more)


def loaded(chosen: ConvertOptions) -> tuple[list[Span], Settings]:
    """The sources of a run, and what is told to all that read them."""
    spans = list_spans(chosen.inputs, from_format=chosen.from_format, spool=Path("spool"))
    sources = load_sources(spans, chosen)
    Path("work").mkdir(exist_ok=True)
    return spans, settings_of(chosen, (), Path("work"), sources)


def cut(chosen: ConvertOptions) -> list[Span]:
    spans, settings = loaded(chosen)
    return [part for span in spans for part in cut_source(span, settings, chosen)]


def refusal(chosen: ConvertOptions) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(chosen)
    return str(caught.value)


def known(folder: Path, *keys: str, rules: str = "") -> None:
    """Let a state know these documents of the tree."""
    seen = (
        StateChange(known=SentDocument(key=key, url=f"https://docs.example.com/{key}"))
        for key in keys
    )
    update_state(
        folder / "s", seen, before=0, stamp=StateHead(source=f"{folder}/docs", rules=rules)
    )


def test_a_tree_is_cut_into_parts_of_its_listing(here: Path) -> None:
    put(here / "docs/a.txt", b"x" * 900)
    put(here / "docs/b.txt", b"x")
    parts = cut(options(span_bytes=2000))
    assert [(part.format, part.source, part.ordinal) for part in parts] == [
        ("listing", "docs", 0),
        ("listing", "docs", 1),
    ]


def test_a_listing_that_stands_is_not_made_again(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    before = cut(options())
    put(here / "docs/b.txt", b"x")
    assert cut(options()) == before


def test_a_file_of_records_is_left_to_others(here: Path) -> None:
    put(here / "a.xml", gsa_feed())
    (part,) = cut(options("a.xml", from_format="gsa-feed", base_url=None))
    assert (part.format, part.path) == ("gsa-feed", f"{here}/a.xml")


def test_a_table_that_is_not_there_is_told_before_anything_is_read(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    assert refusal(options(acl="none.csv", state="s")) == (
        f"--acl {here}/none.csv: No such file or directory; expected a table that can be read"
    )


def test_a_pattern_that_is_none_is_told(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    assert refusal(options(include=("/",))) == (
        "--include: '/'; expected a glob such as '*.pdf' or 'archive/'"
    )


def test_a_url_must_be_made(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    assert refusal(options(base_url=None)) == (
        "--base-url: not given; expected the URL of the folder, such as https://docs.example.com/,"
        " or --url-template, such as https://docs.example.com/{path}"
    )


def test_what_a_run_writes_is_not_to_be_a_document(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    assert refusal(options(output="docs/out")) == (
        f"-o docs/out: in the tree '{here}/docs', whose files are documents; expected a place"
        " outside, or --exclude 'out/'"
    )


def test_a_tree_is_not_to_be_written_in_itself(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    assert refusal(options(output="docs")) == (
        f"-o docs: in the tree '{here}/docs', whose files are documents; expected a place outside"
    )


def test_a_state_is_not_to_be_a_document(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    assert refusal(options(state="docs/s")) == (
        f"--state docs/s: in the tree '{here}/docs', whose files are documents; expected a place"
        " outside, or --exclude 's'"
    )


@pytest.mark.parametrize(
    "more", [{"output": "docs/out", "exclude": ("out/",)}, {"output": "docs/.out"}]
)
def test_what_is_left_out_may_be_written(here: Path, more: dict[str, object]) -> None:
    put(here / "docs/a.txt", b"x")
    assert len(cut(options(**more))) == 1


def test_beside_files_that_are_named_anything_may_be_written(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    assert len(cut(options("docs/a.txt", output="docs/out"))) == 1


def test_a_state_is_of_one_source(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    put(here / "more/b.txt", b"x")
    assert refusal(options("docs", "more", state="s")) == (
        "--state s: of docs, more; expected one tree or one database"
    )


def test_a_state_is_of_no_single_files(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    assert refusal(options("docs/a.txt", state="s")) == (
        "--state s: of single files; expected a folder, as what is not named would look as if it"
        " were gone"
    )


def test_a_state_of_another_tree_is_told(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    update_state(here / "s", (), before=0, stamp=StateHead(source="/elsewhere"))
    assert refusal(options(state="s")) == (
        f"--state s: a state of '/elsewhere'; expected one of '{here}/docs'; name another path"
        " to send all documents"
    )


def test_documents_of_two_trees_need_urls_of_their_own(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    put(here / "more/a.txt", b"y")
    chosen = options("docs", "more")
    cut(chosen)
    with pytest.raises(ConfigError) as caught:
        refuse_shared_urls(*loaded(chosen), chosen)
    assert str(caught.value) == (
        "INPUT: 'a.txt' is in 'docs' and in 'more', and would have one url; expected a run for"
        " each, with a --base-url of its own"
    )


def test_two_trees_without_a_path_in_common_are_taken(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    put(here / "more/b.txt", b"y")
    chosen = options("docs", "more")
    assert len(cut(chosen)) == 2
    refuse_shared_urls(*loaded(chosen), chosen)


def test_a_listing_that_is_not_safe_is_not_kept(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    known(here, "a.txt", "b.txt")
    chosen = options(state="s")
    with pytest.raises(StoppedError):
        cut(chosen)
    assert not Path("work/00000-00000.listing").exists()


def test_a_state_moves_to_what_was_seen(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    known(here, "b.txt", *map(str, range(9)))
    chosen = options(state="s", max_delete_percent=100)
    spans, settings = loaded(chosen)
    begin(settings)
    account = merge(map(convert, cut(chosen), [settings]))
    remember(spans, settings, chosen, account)
    with open_state(here / "s") as state:
        assert [one.key for one in state.documents()] == ["a.txt"]


def test_a_state_that_another_run_has_moved_stays(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    chosen = options(state="s")
    spans, settings = loaded(chosen)
    begin(settings)
    account = merge(map(convert, cut(chosen), [settings]))
    known(here, "z.txt")
    with pytest.raises(FatalError) as caught:
        remember(spans, settings, chosen, account)
    assert str(caught.value) == (
        f"{here}/s: generation 1; expected 0: another run has updated this state; start again with"
        " --fresh to compare the source with the new state"
    )


def test_a_run_without_a_state_notes_nothing(here: Path) -> None:
    put(here / "docs/a.txt", b"x")
    spans, settings = loaded(options())
    begin(settings)
    remember(spans, settings, options(), Account())
    assert list(Path("work").iterdir()) == []
