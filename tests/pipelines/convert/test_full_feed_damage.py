"""A full feed with any damage: either each of its documents is published, or the run stops."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.pipelines.convert.inputs.input_files import list_spans
from feedferry.pipelines.convert.inputs.source_runs import settings_of
from feedferry.pipelines.convert.publication.account_checks import check_account
from feedferry.pipelines.convert.publication.publish import publish
from feedferry.pipelines.options.convert_checks import parse
from feedferry.schemas.account import merge
from feedferry.schemas.errors import FeedferryError
from feedferry.schemas.feed import FULL
from feedferry.schemas.record import Action, Record
from feedferry.transforms.conversion.convert import convert_on
from feedferry.transforms.conversion.file_spans import begin
from feedferry.transforms.formats import GSA_FEED
from support.damage import FAULTS, full_feed_contents

PROLOG = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<gsafeed>\n<header><datasource>made</datasource>'
    "<feedtype>full</feedtype></header>\n<group>\n"
)
EPILOG = "</group>\n</gsafeed>\n"
OPENERS = (b"<![CDATA[", b"<!--", b"<?php echo 1;")
CLOSERS = (b"]]>", b"-->", b"?>", b"")
FRAME = (
    *(b"</group>", b"<group>", b"</gsafeed>", b"<gsafeed>", b"</header>", b"<header>"),
    b"<gsafeed><header><datasource>other</datasource><feedtype>full</feedtype></header><group>",
)
MOST_REMOVED = len("></content><") - 1
"""Without these bytes, a CDATA section runs on, and has no end of a record before the next start: a
whole record that quotes one. No reader could know better.
"""


Damage = Callable[[st.DrawFn, bytes], bytes]


class Published(NamedTuple):
    """What a run ends with: its exit code, the documents in its chunks, and whether one is full."""

    exit_code: int
    urls: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    is_full: bool = False


@st.composite
def full_feeds(draw: st.DrawFn) -> bytes:
    """A full feed of documents with a number as metadata, each in one line."""
    contents = draw(st.lists(full_feed_contents, min_size=2, max_size=7))
    records = (
        f'<record url="{_url(number)}" mimetype="text/plain"><metadata><meta name="number"'
        f' content="{number}"/></metadata>{content}</record>\n'
        for number, content in enumerate(contents)
    )
    return (PROLOG + "".join(records) + EPILOG).encode()


def _url(number: int) -> str:
    return f"http://www.example.com/{number}"


# Each kind of damage takes a feed, and returns it damaged.


def place_a_fault(draw: st.DrawFn, feed: bytes) -> bytes:
    fault = draw(st.sampled_from([item for item in FAULTS.values() if item.place.search(feed)]))
    begin, end = draw(st.sampled_from([match.span() for match in fault.place.finditer(feed)]))
    return feed[:begin] + fault.becomes + feed[end:]


def zero_a_stretch(draw: st.DrawFn, feed: bytes) -> bytes:
    begin = draw(_places(feed))
    length = draw(st.sampled_from((1, 10, 100, 1000)))
    return feed[:begin] + bytes(len(feed[begin : begin + length])) + feed[begin + length :]


def remove_a_few_bytes(draw: st.DrawFn, feed: bytes) -> bytes:
    begin, length = draw(_places(feed)), draw(st.integers(1, MOST_REMOVED))
    return feed[:begin] + feed[begin + length :]


def truncate(draw: st.DrawFn, feed: bytes) -> bytes:
    return feed[: draw(_places(feed))]


def open_a_section_in_a_record(draw: st.DrawFn, feed: bytes) -> bytes:
    """A section that begins between records may be a comment that a person wrote."""
    begin = draw(st.sampled_from([match.end() for match in re.finditer(rb"<metadata>|t>", feed)]))
    end = draw(st.integers(begin, len(feed)))
    opener, closer = draw(st.sampled_from(OPENERS)), draw(st.sampled_from(CLOSERS))
    return feed[:begin] + opener + feed[begin:end] + closer + feed[end:]


def put_markup_of_the_frame_in_a_record(draw: st.DrawFn, feed: bytes) -> bytes:
    begin = draw(st.sampled_from([match.end() for match in re.finditer(rb"<metadata>|t>", feed)]))
    return feed[:begin] + draw(st.sampled_from(FRAME)) + feed[begin:]


def damage_the_header(draw: st.DrawFn, feed: bytes) -> bytes:
    begin, end = feed.index(b"<header>"), feed.index(b"<group>")
    at = draw(st.integers(begin, end))
    length = draw(st.integers(0, min(MOST_REMOVED, end - at)))
    return feed[:at] + draw(st.sampled_from((b"", b"\0", b"<", b">", b"&"))) + feed[at + length :]


def _places(feed: bytes) -> st.SearchStrategy[int]:
    return st.integers(0, len(feed) - 1)


DAMAGES: tuple[Damage, ...] = (
    place_a_fault,
    zero_a_stretch,
    remove_a_few_bytes,
    truncate,
    open_a_section_in_a_record,
    put_markup_of_the_frame_in_a_record,
    damage_the_header,
)


def published(feed: bytes, span_bytes: int) -> Published:
    """Convert a feed as the command does, but without Beam."""
    with tempfile.TemporaryDirectory() as folder:
        source, output, work = (Path(folder, name) for name in ("feed.xml", "out", "out/work"))
        work.mkdir(parents=True)
        source.write_bytes(feed)
        options = parse({"inputs": (str(source),), "output": str(output), "to_format": "gsa-feed"})
        settings = settings_of(options, (), work, {})
        try:
            spans = list_spans(options, stdin_copy=work / "stdin")
            parts = [
                part
                for span in spans
                for part in begin(span, span_bytes=span_bytes, options=settings.reading)
            ]
            account = merge(made for part in parts for made in convert_on(part, settings))
            check_account(account)
            report = publish(account, settings, output=output, spans=spans, options=options)
        except FeedferryError as exc:
            return Published(exc.exit_code)
        records = []
        for chunk in sorted((output / "chunks").iterdir()):
            with chunk.open("rb") as stream:
                read = GSA_FEED.read(stream)
                records += [item for item in read if isinstance(item, Record)]
    added = [record for record in records if record.action is Action.ADD]
    return Published(
        report.exit_code,
        frozenset(record.url for record in added),
        frozenset(meta.value for record in added for meta in record.metadata),
        any(record.provenance.feedtype == FULL for record in records),
    )


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@given(data=st.data())
def test_a_document_that_is_missing_from_a_full_feed_stops_the_run(
    damage: Damage, data: st.DataObject
) -> None:
    feed = data.draw(full_feeds())
    damaged = data.draw(st.composite(damage)(feed))
    run = published(damaged, data.draw(st.sampled_from((400, 1 << 20))))

    count = feed.count(b"<record url=")
    missing = [
        number
        for number in range(count)
        if _url(number) not in run.urls and str(number) not in run.numbers
    ]
    if run.exit_code == 0 or (run.exit_code == 1 and run.is_full):
        assert missing == []


@given(feed=full_feeds())
def test_a_full_feed_without_damage_is_published_whole(feed: bytes) -> None:
    run = published(feed, 400)

    count = feed.count(b"<record url=")
    assert (run.exit_code, run.is_full) == (0, True)
    assert run.urls == {_url(number) for number in range(count)}
