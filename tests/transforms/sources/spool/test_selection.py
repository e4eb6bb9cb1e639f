"""The journal of a spool, the feeds of it that a run reads, and their spans."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from feedferry.schemas.choices import SpoolHistory
from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.errors import ConfigError, FatalError, SourceError
from feedferry.schemas.feed import Feed
from feedferry.schemas.span import FileSignature, Span
from feedferry.transforms.sources.spool.deliveries import open_deliveries, read_deliveries
from feedferry.transforms.sources.spool.spool_source import (
    FeedFault,
    Spool,
    find_faults,
    select,
    spans_of,
)
from support.archives import document, gsa_feed, put
from support.spools import HandSpool, delivered, journal

CURE = (
    "expected a delivery, as feedferry serve writes it: restore the file from a copy, or take the"
    " line out, and all but the feed that it names is read"
)
SPOOL = Spool(source="spool", root="/srv/spool")
WHOLE = gsa_feed(document(1))
ALL: dict[str, object] = {"history": SpoolHistory.ALL}
FULL_2, FULL_3 = delivered(2, feedtype="full"), delivered(3, feedtype="full")


def groups(ordinal: int, feedtype: str, datasource: str = "ldap") -> Delivery:
    more = {"path": None} if feedtype == "cleanup" else {}
    return delivered(ordinal, "xmlgroups", datasource=datasource, feedtype=feedtype, **more)


def data(ordinal: int, profile: str = "docs") -> Delivery:
    return delivered(ordinal, "recvdata", datasource="", feedtype="", profile=profile)


def damage(spool: Path) -> str:
    with pytest.raises(FatalError) as caught:
        list(read_deliveries(spool))
    return str(caught.value)


def refusal(*deliveries: Delivery, only: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        select(deliveries, replace(SPOOL, only=only))
    return str(caught.value)


def selected(*deliveries: Delivery, **chosen: object) -> list[int]:
    """The ordinals of what is read."""
    kept = select(deliveries, replace(SPOOL, **chosen)).deliveries
    return [delivery.ordinal for delivery in kept]


def notices(*deliveries: Delivery, history: SpoolHistory = SpoolHistory.LATEST) -> list[str]:
    """The notices of a selection, each as often as it is counted."""
    noted = select(deliveries, replace(SPOOL, history=history)).notices
    return [message for each in noted for message in [each.first.message] * each.count]


def spans(root: Path, *deliveries: Delivery) -> list[Span]:
    return list(spans_of(deliveries, Span(source="spool", path=str(root))))


# The journal


def test_deliveries_are_read_as_they_were_written(tmp_path: Path) -> None:
    wrote = (
        delivered(1, at="2026-01-02T03:04:05Z", client="127.0.0.1", user_agent="curl", bytes=7),
        groups(2, "cleanup"),
        data(5),
    )
    journal(tmp_path, *wrote)
    assert list(read_deliveries(tmp_path)) == list(wrote)


def test_ordinals_may_have_gaps_and_an_unfinished_line_is_ignored(tmp_path: Path) -> None:
    journal(tmp_path, delivered(2), delivered(5), delivered(90))
    whole = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(whole[:-30])
    deliveries = open_deliveries(tmp_path)
    assert [one.ordinal for one in deliveries.read()] == [2, 5]
    (tmp_path / JOURNAL).write_bytes(whole)
    assert [one.ordinal for one in deliveries.read()] == [90]


def test_a_spool_without_a_journal_has_no_deliveries(tmp_path: Path) -> None:
    assert list(read_deliveries(tmp_path)) == []


def test_a_journal_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).mkdir()
    assert damage(tmp_path) == f"{tmp_path / JOURNAL}: Is a directory; expected a readable file"


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (b'{"ordinal"{"ordinal":1}', "JSON is malformed: expected ':' (byte 10)"),
        (
            b'{"ordinal":1,"endpoint":1,"format":"gsa-feed","path":"feeds/1","bytes":1}',
            "Expected `str`, got `int` - at `$.endpoint`",
        ),
        (msgspec.json.encode(delivered(4)), "ordinal 4 after 4"),
    ],
)
def test_a_damaged_line_is_reported_after_the_deliveries_before_it(
    tmp_path: Path, line: bytes, finding: str
) -> None:
    journal(tmp_path, delivered(4))
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(line + b"\n")
    assert next(read_deliveries(tmp_path)) == delivered(4)
    assert damage(tmp_path) == f"{tmp_path / JOURNAL}:2: {finding}; {CURE}"


@pytest.mark.parametrize("path", ["../passwd", "/etc/passwd", "feeds/../../x", "", "."])
def test_a_path_that_leads_out_of_the_spool_is_refused(tmp_path: Path, path: str) -> None:
    journal(tmp_path, delivered(1, path=path))
    assert damage(tmp_path) == (
        f"{tmp_path / JOURNAL}:1: path {path!r}, which is not below the spool; {CURE}"
    )


# The selection


@pytest.mark.parametrize(
    ("deliveries", "keys", "expected"),
    [
        ((delivered(1), FULL_2, FULL_3), {}, [3]),
        ((FULL_2, delivered(3)), {}, [2, 3]),
        ((delivered(1, datasource="wiki"), delivered(2), FULL_3, data(4)), {}, [1, 3, 4]),
        ((delivered(1, feedtype="metadata-and-url"), FULL_2), {}, [2]),
        ((delivered(1), delivered(2, feedtype="metadata-and-url")), {}, [1, 2]),
        ([delivered(number, datasource="web", feedtype="full") for number in (1, 2)], {}, [1, 2]),
        ((groups(1, "full"), groups(2, "incremental"), groups(3, "full")), {}, [3]),
        ((groups(1, "full"), groups(2, "incremental"), groups(3, "replace")), {}, [3]),
        ((groups(1, "incremental"), groups(2, "cleanup"), groups(3, "incremental")), {}, [3]),
        ((groups(1, "full", "ggg"), groups(2, "cleanup", "others")), {}, [1]),
        ((groups(1, "full", "intranet"), FULL_2), {}, [1, 2]),
        ((data(1), replace(data(2), feedtype="full")), {}, [1, 2]),
        ((delivered(1), FULL_2, groups(3, "full"), groups(4, "full")), ALL, [1, 2, 3, 4]),
        ((groups(1, "incremental"), groups(2, "cleanup"), groups(3, "incremental")), ALL, [1, 3]),
        (
            (delivered(1), delivered(2, datasource="wiki"), groups(3, "full", "wiki"), data(4)),
            {"only": ("wiki", "docs")},
            [2, 3, 4],
        ),
        ((delivered(1), groups(2, "full"), data(3)), {"only": ("xmlgroups",)}, [2]),
        ((data(1, "wiki"), data(2, "crm")), {"only": ("wiki", "crm")}, [1, 2]),
    ],
)
def test_current_feeds_of_the_named_datasources_are_selected(
    deliveries: Sequence[Delivery], keys: dict[str, object], expected: list[int]
) -> None:
    assert selected(*deliveries, **keys) == expected


def test_a_name_without_deliveries_is_refused() -> None:
    assert refusal(delivered(1), data(2, "crm"), only=("crm", "nix")) == (
        "--only nix: 'spool' holds nothing of that name; expected one of 'crm', 'intranet', or an"
        " endpoint: 'recvdata', 'xmlfeed'"
    )


def test_several_profiles_are_refused() -> None:
    assert refusal(data(1, "wiki"), data(2, "crm"), data(3, "wiki")) == (
        "INPUT: 'spool' holds data of the profiles 'crm', 'wiki'; expected --only PROFILE, as"
        " records do not say which they are of"
    )


# Notices


def test_superseded_feeds_are_counted_by_datasource() -> None:
    feeds = (
        *(delivered(1), delivered(2), delivered(3, feedtype="full")),
        *(groups(4, "incremental"), groups(5, "replace")),
    )
    line = (
        "spool (byte 0): later feeds supersede 2 of 'intranet', 1 of 'ldap'; left out: --history"
        " all reads them"
    )
    assert notices(*feeds) == [line, line, line]


def test_of_many_datasources_ten_are_named() -> None:
    feeds = (
        delivered(2 * number + turn, datasource=f"d{number}", feedtype="full")
        for number in range(12)
        for turn in (1, 2)
    )
    assert notices(*feeds)[0] == (
        "spool (byte 0): later feeds supersede 1 of 'd0', 1 of 'd1', 1 of 'd2', 1 of 'd3', 1 of"
        " 'd4', 1 of 'd5', 1 of 'd6', 1 of 'd7', 1 of 'd8', 1 of 'd9', and those of 2 more; left"
        " out: --history all reads them"
    )


A_CLEANUP = "a cleanup of the groups of 'ldap'; no feed does that"


@pytest.mark.parametrize(
    ("deliveries", "history", "expected"),
    [
        ((delivered(1), FULL_2), SpoolHistory.ALL, []),
        (
            *((groups(1, "cleanup"),), SpoolHistory.LATEST),
            [f"spool#1 (byte 0): {A_CLEANUP}: the groups that the target has stay"],
        ),
        ((groups(1, "cleanup"), groups(2, "full")), SpoolHistory.LATEST, []),
        (
            *((groups(1, "incremental"), groups(2, "cleanup")), SpoolHistory.ALL),
            [f"spool#2 (byte 0): {A_CLEANUP}: earlier groups are read all the same"],
        ),
    ],
)
def test_a_current_cleanup_is_a_notice(
    deliveries: tuple[Delivery, ...], history: SpoolHistory, expected: list[str]
) -> None:
    assert notices(*deliveries, history=history) == expected


# Faults of full feeds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WHOLE, None),
        (WHOLE + b"<!-- made on a Monday -->\n", None),
        (WHOLE.decode().encode("utf-16"), None),
        (b"<gsafeed><group><acl url='a'/></group></gsafeed >", None),
        (WHOLE[:-5], FeedFault.TORN),
        (WHOLE.decode()[:-5].encode("utf-16"), FeedFault.TORN),
        (b"hello", FeedFault.TORN),
        (b"<html></html>", FeedFault.TORN),
        (gsa_feed(), FeedFault.EMPTY),
        (b"<gsafeed/>", FeedFault.EMPTY),
        (b"<xmlgroups/>", FeedFault.TORN),
        (b"hello </gsafeed>", FeedFault.TORN),
        (b"<html><!-- </gsafeed> --></html>", FeedFault.TORN),
        (b'<?xml version="1.0" encoding="klingon"?><gsafeed/>', FeedFault.UNREADABLE),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_full_feed_is_torn_without_its_end_and_empty_without_a_record(
    tmp_path: Path, text: bytes, expected: FeedFault | None
) -> None:
    spool = HandSpool(tmp_path)
    spool.feed(text, "crm", "full")
    spool.feed(b"hello", "crm", "incremental")
    faults = find_faults(read_deliveries(spool.root), spool.root)
    assert faults == ({} if expected is None else {1: expected})


@pytest.mark.parametrize(
    ("record", "expected"), [(b"<record url='a'/>", {}), (b"", {1: FeedFault.EMPTY})]
)
def test_a_record_after_two_megabytes_of_blanks_counts(
    tmp_path: Path, record: bytes, expected: dict[int, FeedFault]
) -> None:
    spool = HandSpool(tmp_path)
    spool.feed(b"<gsafeed>%b%b</gsafeed>" % (b" " * (2 << 20), record), "crm", "full")
    assert find_faults(read_deliveries(spool.root), spool.root) == expected


def test_a_full_feed_whose_file_is_missing_supersedes_nothing(tmp_path: Path) -> None:
    faults = find_faults([FULL_2], tmp_path)
    assert faults == {2: FeedFault.UNREADABLE}
    kept = select([delivered(1), FULL_2], SPOOL, faults).deliveries
    assert [delivery.ordinal for delivery in kept] == [1, 2]


@pytest.mark.parametrize("history", SpoolHistory)
def test_a_torn_full_feed_is_left_out_and_supersedes_nothing(history: SpoolHistory) -> None:
    torn = dict.fromkeys((2, 3), FeedFault.TORN)
    selection = select([delivered(1), FULL_2, FULL_3], replace(SPOOL, history=history), torn)
    assert [delivery.ordinal for delivery in selection.deliveries] == [1]
    (noted,) = selection.notices
    assert (noted.count, noted.first.message) == (
        2,
        "spool#2 (byte 0): a full feed of 'intranet' that is no feed or has no end; left out, as it"
        " would delete documents of its missing part: earlier feeds stay",
    )


def test_an_empty_full_feed_removes_earlier_feeds_from_any_history() -> None:
    spool = replace(SPOOL, history=SpoolHistory.ALL)
    selection = select([delivered(1), FULL_2, FULL_3], spool, {3: FeedFault.EMPTY})
    assert [delivery.ordinal for delivery in selection.deliveries] == [3]
    (noted,) = selection.notices
    assert (noted.count, noted.first.message) == (
        2,
        "spool (byte 0): full feeds without records remove 2 of 'intranet'; left out",
    )


# Spans


def test_a_delivery_is_a_span_of_its_file(tmp_path: Path) -> None:
    path = put(tmp_path / "feeds/000007.xml", b"<gsafeed/>")
    assert spans(tmp_path, delivered(7, bytes=10, datasource="wiki", feedtype="full")) == [
        Span(
            source="spool#7",
            path=path,
            format="gsa-feed",
            feed=Feed(datasource="wiki", feedtype="full"),
            signature=FileSignature(size=10),
        )
    ]


def test_each_delivery_is_a_source_of_its_own(tmp_path: Path) -> None:
    put(tmp_path / "f", b"x")
    deliveries = [delivered(number, path="f", bytes=1) for number in (3, 8)]
    results = spans_of(deliveries, Span(source="spool", path=str(tmp_path)), first=5)
    assert [(span.source, span.name) for span in results] == [
        ("spool#3", "00005-00000"),
        ("spool#8", "00006-00000"),
    ]


@pytest.mark.parametrize(
    ("delivery", "format_", "feed"),
    [
        (groups(1, "replace"), "gsa-groups", Feed(datasource="ldap", feedtype="full")),
        (
            *(delivered(3, datasource="web", feedtype="full"), "gsa-feed"),
            Feed(datasource="web", feedtype="metadata-and-url"),
        ),
        (data(1), "thunderstone", None),
    ],
)
def test_a_span_has_the_format_and_the_feed_of_its_door(
    tmp_path: Path, delivery: Delivery, format_: str, feed: Feed | None
) -> None:
    put(tmp_path / "f", b"x")
    (span,) = spans(tmp_path, replace(delivery, path="f", bytes=1))
    assert (span.format, span.feed) == (format_, feed)


@pytest.mark.parametrize(
    ("text", "finding"), [(None, "No such file or directory"), (b"<gsa", "4 bytes")]
)
def test_a_file_that_differs_from_its_delivery_is_refused(
    tmp_path: Path, text: bytes | None, finding: str
) -> None:
    if text is not None:
        put(tmp_path / "feeds/000007.xml", text)
    with pytest.raises(SourceError) as caught:
        spans(tmp_path, delivered(7, bytes=1234))
    assert str(caught.value) == (
        f"spool#7: {tmp_path}/feeds/000007.xml: {finding}; expected the 1,234 bytes that were"
        " delivered; copy the file again, or take its line out of deliveries.jsonl"
    )
