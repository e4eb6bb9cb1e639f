"""What a run made gets its names: in input order, all at once, the report last."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from pipelines.convert.publish import publish
from schemas.account import Account, Chunk, SpanFile
from schemas.errors import FatalError
from schemas.span import Span
from support.archives import put
from support.runs import chunks, column, left, manifest, report
from transforms.adapt import Target
from transforms.convert import Settings
from transforms.formats import ReadOptions, WriteOptions

SPANS = [Span(source="b.xml"), Span(source="a.xml", source_ordinal=1)]
HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
    "<gsafeed>\n<header>\n<datasource>wiki</datasource>\n"
)
GROUP = "<group>\n</group>\n</gsafeed>\n"

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def work(here: Path) -> Path:
    folder = here / "out" / ".work" / "1"
    folder.mkdir(parents=True)
    return folder


def settings(work: Path, *, to: str = "native") -> Settings:
    return Settings(
        folder=str(work),
        target=Target(format=to),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 20,
    )


def made(work: Path, name: str, text: bytes = b"{}\n", **stated: Any) -> Chunk:
    """A chunk that a span has left."""
    put(work / name, text)
    described: dict[str, Any] = {
        "bytes": len(text),
        "sha256": hashlib.sha256(text).hexdigest(),
        "records": {"ADD": 1},
        "first_url": "",
        "last_url": "",
        "members": 0,
        "note": None,
        "source": "a.xml",
        "span": 0,
    }
    return Chunk(path=name, **(described | stated))


def kept(work: Path, name: str, text: bytes = b"1") -> SpanFile:
    """A file that a span has left, as its account lists it."""
    path = Path(put(work / name, text))
    return SpanFile(
        path=name,
        bytes=len(text),
        sha256=hashlib.sha256(text).hexdigest(),
        modified_ns=path.stat().st_mtime_ns,
    )


def headed(work: Path, name: str, **stated: Any) -> Chunk:
    """A chunk of the feed wiki that says it is incremental, in a run that was to be full."""
    asked = {"datasource": "wiki", "feedtype": "incremental", "requested_feedtype": "full"}
    return made(work, name, text_of("incremental"), **(asked | stated))


def text_of(feedtype: str) -> bytes:
    """A feed of wiki without records."""
    return f"{HEAD}<feedtype>{feedtype}</feedtype>\n</header>\n{GROUP}".encode()


def published(work: Path, *ones: Chunk, to: str = "native", **counted: Any) -> None:
    account = Account(chunks=list(ones), **counted)
    publish(account, settings(work, to=to), output=work.parents[1], spans=SPANS)


def test_chunks_are_numbered_in_their_order(work: Path) -> None:
    ones = [made(work, "00000-00000-000.jsonl", b"1"), made(work, "00001-00000-000.jsonl", b"2")]
    published(work, *ones)

    assert chunks("out") == [b"1", b"2"]


def test_chunks_are_called_by_their_number(work: Path) -> None:
    ones = [made(work, "00000-00000-000.jsonl"), made(work, "00001-00000-000.jsonl")]
    published(work, *ones)

    assert column("out", "path") == ["chunks/000001.jsonl", "chunks/000002.jsonl"]


def test_the_manifest_has_a_line_for_each_chunk(work: Path) -> None:
    published(work, made(work, "00000-00000-000.jsonl", b"12345"))

    assert manifest("out") == [
        {
            "asked": None,
            "attempts": 0,
            "bytes": 5,
            "datasource": None,
            "feedtype": None,
            "first_url": "",
            "format": "native",
            "last_url": "",
            "members": 0,
            "note": None,
            "ordinal": 1,
            "origin": None,
            "path": "chunks/000001.jsonl",
            "records": {"ADD": 1},
            "reply": None,
            "sha256": "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5",
            "source": "a.xml",
            "span": 0,
            "state": "ready",
        }
    ]


def test_files_of_a_killed_span_are_not_published(work: Path) -> None:
    put(work / "00000-00000-001.jsonl", b"of before")
    published(work, made(work, "00000-00000-000.jsonl", b"1"))

    assert chunks("out") == [b"1"]


def test_rejects_keep_the_name_of_their_span(work: Path) -> None:
    files = [kept(work, "0/a/00000-00000.rejects.avro"), kept(work, "1/a/00001-00003.rejects.avro")]
    published(work, files=files)

    assert left("out/rejects") == ["00000-00000.avro", "00001-00003.avro"]


def test_lists_of_urls_are_joined_in_order(work: Path) -> None:
    first = kept(work, "0/a/00000-00000.urls.txt", b"http://www.example.com/a\n")
    second = kept(work, "1/a/00001-00000.urls.txt", b"http://www.example.com/b\n")
    published(work, files=[first, second])

    expected = b"http://www.example.com/a\nhttp://www.example.com/b\n"
    assert Path("out/urls.txt").read_bytes() == expected


def test_without_urls_there_is_no_list(work: Path) -> None:
    published(work)

    assert not Path("out/urls.txt").exists()


def test_the_report_counts_the_chunks(work: Path) -> None:
    published(work, made(work, "1.jsonl", b"123"), made(work, "2.jsonl", b"45"))

    assert (report("out")["chunks"], report("out")["chunk_bytes"]) == (2, 5)


def test_the_report_names_the_sources_in_their_order(work: Path) -> None:
    published(work)

    assert report("out")["sources"] == ["b.xml", "a.xml"]


def test_the_exit_code_is_1_where_there_are_rejects(work: Path) -> None:
    published(work, rejected={"ADD": 1})

    assert report("out")["exit_code"] == 1


def test_the_first_chunk_of_a_full_feed_is_made_full(work: Path) -> None:
    published(work, headed(work, "00000-00003-000.xml", span=3), to="gsa-feed")

    assert chunks("out") == [text_of("full")]


def test_no_later_chunk_of_a_full_feed_is_made_full(work: Path) -> None:
    ones = [
        headed(work, "00000-00000-000.xml", feedtype="full"),
        headed(work, "00000-00001-000.xml"),
    ]
    published(work, *ones, to="gsa-feed")

    assert column("out", "feedtype") == ["full", "incremental"]


def test_each_datasource_of_a_file_has_a_full_feed_of_its_own(work: Path) -> None:
    ones = [
        headed(work, "00000-00000-000.xml", feedtype="full", datasource="people"),
        headed(work, "00000-00000-001.xml"),
    ]
    published(work, *ones, to="gsa-feed")

    assert column("out", "feedtype") == ["full", "full"]


def test_an_incremental_feed_stays_incremental(work: Path) -> None:
    chunk = headed(work, "00000-00000-000.xml", requested_feedtype="incremental")
    published(work, chunk, to="gsa-feed")

    assert column("out", "feedtype") == ["incremental"]


def test_a_chunk_that_is_made_full_is_described_anew(work: Path) -> None:
    published(work, headed(work, "00000-00003-000.xml", span=3), to="gsa-feed")

    [text] = chunks("out")
    found = [(line["feedtype"], line["bytes"], line["sha256"]) for line in manifest("out")]
    assert found == [("full", len(text), hashlib.sha256(text).hexdigest())]


def test_an_index_is_updated_after_all_else(work: Path) -> None:
    published(work, made(work, "00000-00000-000.xml"), to="thunderstone")

    assert column("out", "records") == [{"ADD": 1}, {"UPDATE_INDEX": 1}]


def test_an_index_is_not_updated_where_nothing_changes(work: Path) -> None:
    published(work, to="thunderstone")

    assert manifest("out") == []


def test_no_other_target_has_an_index_to_update(work: Path) -> None:
    published(work, made(work, "00000-00000-000.jsonl"))

    assert column("out", "records") == [{"ADD": 1}]


def test_a_run_that_was_killed_while_it_staged_chunks_goes_on(work: Path) -> None:
    first, second = made(work, "1.jsonl", b"1"), made(work, "2.jsonl", b"2")
    put(work / "chunks" / "000001.jsonl", b"1")
    put(work / "chunks" / "000002.jsonl", b"half")
    published(work, first, second)

    assert chunks("out") == [b"1", b"2"]


def test_a_run_that_was_killed_before_its_report_goes_on(work: Path) -> None:
    first = made(work, "1.jsonl", b"1")
    published(work, first)
    Path("out/report.json").unlink()
    published(work, first)

    assert (chunks("out"), report("out")["chunks"]) == ([b"1"], 1)


def test_a_published_chunk_that_was_damaged_is_published_again(work: Path) -> None:
    first, second = made(work, "1.jsonl", b"1"), made(work, "2.jsonl", b"2")
    published(work, first, second)
    Path("out/report.json").unlink()
    Path("out/chunks/000001.jsonl").unlink()
    put(Path("out/chunks/000009.jsonl"), b"of nobody")
    published(work, first, second)

    assert chunks("out") == [b"1", b"2"]


@pytest.mark.parametrize("text", [None, b"12", b"\0\0\0"], ids=["removed", "truncated", "zeroed"])
def test_a_file_that_is_not_as_it_was_written_is_not_published(
    work: Path, text: bytes | None
) -> None:
    chunk, file = made(work, "1.jsonl", b"123"), kept(work, "1.jsonl", b"123")
    (work / "1.jsonl").unlink()
    if text is not None:
        put(work / "1.jsonl", text)
        os.utime(work / "1.jsonl", ns=(0, 0))
    with pytest.raises(FatalError) as caught:
        published(work, chunk, files=[file])

    assert (str(caught.value), left("out/chunks")) == (
        f"{work}/1.jsonl: differs from the 3 bytes that were written; expected an unchanged file;"
        " start again to write it again",
        [],
    )


def test_a_file_that_was_copied_in_its_place_is_published(work: Path) -> None:
    chunk, file = made(work, "1.jsonl", b"123"), kept(work, "1.jsonl", b"123")
    os.utime(work / "1.jsonl", ns=(0, 0))
    published(work, chunk, files=[file])

    assert chunks("out") == [b"123"]


def test_a_manifest_that_cannot_be_written_leaves_no_chunks(work: Path) -> None:
    Path("out/manifest.jsonl.partial").mkdir()
    with pytest.raises(FatalError, match="manifest"):
        published(work, made(work, "00000-00000-000.jsonl"))

    assert not Path("out/chunks").exists()
