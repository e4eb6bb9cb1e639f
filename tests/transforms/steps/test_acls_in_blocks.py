"""The ACLs that are stored before a run do not depend on how the inputs are read."""

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from feedferry.pipelines.convert.inputs.step_inputs import SpanInputs
from feedferry.schemas.errors import FeedferryError
from feedferry.schemas.record import Record
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.formats.holding.acl_metadata import is_acl_name
from feedferry.transforms.steps import read_steps
from support.batches import by_parser
from support.varied_feeds import feed, varied_feed

_IN_BLOCKS = ReadOptions(batch_records=1024, acls_in_blocks=True)


def stored(data: bytes, folder: Path, reading: ReadOptions) -> list[str]:
    """The statements that make the stored ACLs of a feed, or the error in place of them."""
    folder.mkdir()
    source, stated = folder.with_name("source.xml"), folder / "steps.yaml"
    source.write_bytes(data)
    stated.write_text("transform: [acl: decision]\n")
    steps = read_steps(stated)
    span = Span(source="f", path=str(source), format="gsa-feed")
    try:
        steps.prepare(SpanInputs([span], reading), folder)
    except FeedferryError as exc:
        return [exc.text]
    [path] = steps.stored_acls(folder)
    with closing(sqlite3.connect(path)) as database:
        return [*database.iterdump()]


def check_stored(data: bytes, folder: Path) -> None:
    """Raise AssertionError if the stored ACLs are not those that the parser reads."""
    with by_parser():
        expected = stored(data, folder / "parser", ReadOptions())
    assert stored(data, folder / "blocks", _IN_BLOCKS) == expected


@pytest.mark.parametrize("seed", range(12))
def test_the_acls_of_a_feed_in_blocks_are_those_of_single_records(
    seed: int, tmp_path: Path
) -> None:
    check_stored(varied_feed(Random(seed)), tmp_path)


def record(number: int, metas: str) -> str:
    acl = '<acl inherit-from="http://a.example.com/"><principal scope="user" access="permit">'
    return (
        f'<record url="http://a.example.com/{number}" mimetype="text/plain">'
        f"{acl}u{number % 3}</principal></acl><metadata>{metas}</metadata>"
        f"<content>quay {number}</content></record>\n"
    )


def test_an_acl_in_metadata_is_stored_next_to_records_that_are_read_without_metadata(
    tmp_path: Path,
) -> None:
    others = [record(n, f'<meta name="name{n % 7}" content="{n}"/>') for n in range(60)]
    meta = '<meta name="google:aclusers" content="eve"/>'
    stated = [record(n, meta) for n in range(60, 80)]
    without = [text.partition("<acl")[0] + text.partition("</acl>")[2] for text in stated]
    check_stored(feed("".join([*others, *without])), tmp_path)


def test_records_are_read_without_contents_and_metadata(tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    metas = [
        f'<meta name="name{n % 7}" content="{n}"/>' * (n % 2) + '<meta name="z" content="x"/>'
        for n in range(200)
    ]
    records = [record(n, f'{metas[n]}<meta name="n{n % 5}" content="y"/>') for n in range(200)]
    path.write_bytes(feed("".join(records), feedtype="incremental"))
    span = Span(source="f", path=str(path), format="gsa-feed")
    results = [*SpanInputs([span], _IN_BLOCKS).records()]
    assert any(isinstance(result, ElementBlock) for result in results)
    found = [item for item in singly(results, outlined=is_acl_name) if isinstance(item, Record)]
    assert [of.url for of in found] == [f"http://a.example.com/{n}" for n in range(200)]
    assert all(of.acl is not None for of in found)
    assert sum(of.content is None and not of.metadata for of in found) > 150
