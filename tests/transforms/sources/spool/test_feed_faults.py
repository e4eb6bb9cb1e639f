"""What a look at the files of full feeds says, and what is selected by it."""

from pathlib import Path

import pytest

from schemas.choices import SpoolHistory
from support.archives import document, gsa_feed
from support.spools import HandSpool, delivered
from transforms.sources.spool.deliveries import read_deliveries
from transforms.sources.spool.selection import (
    FeedFaults,
    Spool,
    find_faults,
    notices_of,
    select,
)

WHOLE = gsa_feed(document(1))
EMPTY = gsa_feed()
LONG = b"<gsafeed>" + b" " * (2 << 20) + b"<record url='a'/></gsafeed>"


def looked(root: Path, text: bytes, feedtype: str = "full") -> tuple[bool, bool]:
    """Whether a feed is found to be torn, and to be empty."""
    spool = HandSpool(root / "spool")
    spool.feed(text, "crm", feedtype)
    found = find_faults(read_deliveries(spool.root), spool.root)
    return bool(found.torn), bool(found.empty)


def told(
    looked: FeedFaults, *, history: SpoolHistory = SpoolHistory.LATEST
) -> tuple[list[int], list[str]]:
    """What is read of three feeds, the second and third of them full, and what is told."""
    deliveries = (delivered(1), delivered(2, feedtype="full"), delivered(3, feedtype="full"))
    selection = select(deliveries, Spool(source="spool", root="spool", history=history), looked)
    notices = [notice.message for notice in notices_of(selection)]
    return [one.ordinal for one in selection.deliveries], notices


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        WHOLE + b"<!-- made on a Monday -->\n",
        WHOLE.decode().encode("utf-16"),
        LONG,
        b"<gsafeed><group><acl url='a'/></group></gsafeed >",
    ],
    ids=["usual", "comment", "utf-16", "long", "acl"],
)
def test_a_whole_feed_is_neither_torn_nor_empty(tmp_path: Path, text: bytes) -> None:
    assert looked(tmp_path, text) == (False, False)


@pytest.mark.parametrize(
    "text",
    [WHOLE[:-5], WHOLE.decode()[:-5].encode("utf-16"), b"hello", b"<html></html>"],
    ids=["usual", "utf-16", "no-xml", "no-feed"],
)
def test_a_feed_without_its_end_is_torn(tmp_path: Path, text: bytes) -> None:
    assert looked(tmp_path, text) == (True, False)


@pytest.mark.parametrize(
    "text",
    [EMPTY, b"<gsafeed/>", b"<xmlgroups/>", LONG.replace(b"<record url='a'/>", b"")],
    ids=["usual", "one-tag", "groups", "long"],
)
def test_a_feed_without_a_record_is_empty(tmp_path: Path, text: bytes) -> None:
    assert looked(tmp_path, text) == (False, True)


def test_an_incremental_feed_is_not_looked_at(tmp_path: Path) -> None:
    assert looked(tmp_path, b"hello", "incremental") == (False, False)


def test_a_full_feed_that_is_gone_supersedes_nothing(tmp_path: Path) -> None:
    looked = find_faults([delivered(1, feedtype="full")], tmp_path)
    assert looked == FeedFaults(unreadable=frozenset({1}))


@pytest.mark.parametrize("history", SpoolHistory)
def test_a_torn_full_feed_is_left_out_and_supersedes_nothing(history: SpoolHistory) -> None:
    assert told(FeedFaults(torn=frozenset({2, 3})), history=history) == (
        [1],
        2
        * [
            "spool#2 (byte 0): a full feed of 'intranet' without its end; left out, as it would"
            " delete documents of its missing part: earlier feeds stay"
        ],
    )


def test_what_an_empty_full_feed_removed_is_in_no_history() -> None:
    assert told(FeedFaults(empty=frozenset({3})), history=SpoolHistory.ALL) == (
        [3],
        2 * ["spool (byte 0): full feeds without records remove 2 of 'intranet'; left out"],
    )


def test_an_empty_full_feed_that_is_superseded_is_not_told() -> None:
    ordinals, notices = told(FeedFaults(empty=frozenset({2})))
    assert (ordinals, len(notices)) == ([3], 2)
