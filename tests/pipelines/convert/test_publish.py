"""The output of a run is published in input order, all at once, the report last."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.convert.publication.publish import publish
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.account import Account, Chunk, SpanFile
from feedferry.schemas.errors import FatalError
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats import ReadOptions, WriteOptions
from feedferry.transforms.rules.adapt import Target
from support.archives import put
from support.runs import chunks, column, left, manifest, report

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


def settings(work: Path, *, to: str = "jsonl") -> Settings:
    return Settings(
        folder=str(work),
        target=Target(format=to),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 20,
    )


def chunk_of(work: Path, name: str, text: bytes = b"{}\n", **stated: Any) -> Chunk:
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
    return chunk_of(work, name, text_of("incremental"), **(asked | stated))


def text_of(feedtype: str) -> bytes:
    """A feed of wiki without records."""
    return f"{HEAD}<feedtype>{feedtype}</feedtype>\n</header>\n{GROUP}".encode()


def published(work: Path, *ones: Chunk, to: str = "jsonl", **counted: Any) -> None:
    account = Account(chunks=list(ones), **counted)
    output = work.parents[1]
    options = ConvertOptions(inputs=(), output=str(output), to_format=to)
    publish(account, settings(work, to=to), output=output, spans=SPANS, options=options)


def test_chunks_are_numbered_in_their_order(work: Path) -> None:
    first = chunk_of(work, "00000-00000-000.jsonl", b"1")
    second = chunk_of(work, "00001-00000-000.jsonl", b"23")
    published(work, first, second)

    assert chunks("out") == [b"1", b"23"]
    assert column("out", "path") == ["chunks/000001.jsonl", "chunks/000002.jsonl"]
    values = report("out")
    assert (values["chunks"], values["chunk_bytes"], values["sources"]) == (
        2,
        3,
        ["b.xml", "a.xml"],
    )


def test_files_of_a_killed_span_are_not_published(work: Path) -> None:
    put(work / "00000-00000-001.jsonl", b"of before")
    published(work, chunk_of(work, "00000-00000-000.jsonl", b"1"))

    assert chunks("out") == [b"1"]


def test_rejects_keep_the_name_of_their_span_and_lists_of_urls_are_joined(work: Path) -> None:
    files = [
        kept(work, "0/a/00000-00000.rejects.avro"),
        kept(work, "0/a/00000-00000.urls.txt", b"http://www.example.com/a\n"),
        kept(work, "1/a/00001-00003.rejects.avro"),
        kept(work, "1/a/00001-00003.urls.txt", b"http://www.example.com/b\n"),
    ]
    published(work)
    assert not Path("out/urls.txt").exists()
    published(work, files=files, rejected={"ADD": 1})

    assert left("out/rejects") == ["00000-00000.avro", "00001-00003.avro"]
    urls = b"http://www.example.com/a\nhttp://www.example.com/b\n"
    assert Path("out/urls.txt").read_bytes() == urls
    assert report("out")["exit_code"] == 1


def test_the_first_chunk_of_a_full_feed_is_made_full(work: Path) -> None:
    published(work, headed(work, "00000-00003-000.xml", span=3), to="gsa-feed")

    text = text_of("full")
    (line,) = manifest("out")
    assert chunks("out") == [text]
    assert (line["feedtype"], line["bytes"], line["sha256"]) == (
        "full",
        len(text),
        hashlib.sha256(text).hexdigest(),
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"feedtype": "full"}, {}, ["full", "incremental"]),
        ({"feedtype": "full", "datasource": "people"}, {}, ["full", "full"]),
        (
            {"requested_feedtype": "incremental"},
            {"requested_feedtype": "incremental"},
            ["incremental", "incremental"],
        ),
    ],
    ids=["one feed", "two datasources", "incremental"],
)
def test_each_full_feed_has_one_full_chunk(
    work: Path, first: dict[str, str], second: dict[str, str], expected: list[str]
) -> None:
    made_chunks = [headed(work, "0.xml", **first), headed(work, "1.xml", **second)]
    published(work, *made_chunks, to="gsa-feed")

    assert column("out", "feedtype") == expected


def test_an_interrupted_publication_begins_again(work: Path) -> None:
    first, second = chunk_of(work, "1.jsonl", b"1"), chunk_of(work, "2.jsonl", b"2")
    put(work / "chunks" / "000001.jsonl", b"1")
    put(work / "chunks" / "000002.jsonl", b"half")
    published(work, first, second)
    assert chunks("out") == [b"1", b"2"]

    Path("out/report.json").unlink()
    Path("out/chunks/000001.jsonl").unlink()
    put(Path("out/chunks/000009.jsonl"), b"of nobody")
    published(work, first, second)
    assert (chunks("out"), report("out")["chunks"]) == ([b"1", b"2"], 2)


@pytest.mark.parametrize("text", [None, b"12", b"\0\0\0"], ids=["removed", "truncated", "zeroed"])
def test_a_file_that_is_not_as_it_was_written_is_not_published(
    work: Path, text: bytes | None
) -> None:
    chunk, file = chunk_of(work, "1.jsonl", b"123"), kept(work, "1.jsonl", b"123")
    (work / "1.jsonl").unlink()
    if text is not None:
        put(work / "1.jsonl", text)
        os.utime(work / "1.jsonl", ns=(0, 0))
    with pytest.raises(FatalError) as caught:
        published(work, chunk, files=[file])

    assert (str(caught.value), left("out/chunks")) == (
        f"{work}/1.jsonl: differs from the 3 bytes that were written; start again to write it"
        " again",
        [],
    )


def test_a_file_that_was_copied_in_its_place_is_published(work: Path) -> None:
    chunk, file = chunk_of(work, "1.jsonl", b"123"), kept(work, "1.jsonl", b"123")
    os.utime(work / "1.jsonl", ns=(0, 0))
    published(work, chunk, files=[file])

    assert chunks("out") == [b"123"]
