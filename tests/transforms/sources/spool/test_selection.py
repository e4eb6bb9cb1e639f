"""The journal of a spool, what of it is superseded, and the spans of the rest."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from schemas.account import NoticeCount
from schemas.choices import SpoolHistory
from schemas.delivery import JOURNAL, Delivery, Door
from schemas.errors import ConfigError, FormatError, SourceError
from schemas.feed import Feed
from schemas.notice import Notice
from schemas.span import FileSignature, Span
from support.archives import put
from support.spools import delivered, journal
from transforms.sources.spool.deliveries import name_of, read_deliveries
from transforms.sources.spool.selection import (
    Selection,
    Spool,
    notices_of,
    read_selection,
    select,
    spans_of,
    superseded,
    write_selection,
)

CURE = (
    "expected a delivery, as feedferry serve writes it; take the line out, and all but the feed"
    " that it names is read"
)
COPY = "were delivered; copy the file again, or take its line out of deliveries.jsonl"
SPOOL = Spool(source="spool", root="/srv/spool")


def groups(ordinal: int, feedtype: str, datasource: str = "ldap") -> Delivery:
    more = {"path": None} if feedtype == "cleanup" else {}
    return delivered(ordinal, door=Door.GROUPS, datasource=datasource, feedtype=feedtype, **more)


def data(ordinal: int, profile: str = "docs") -> Delivery:
    return delivered(ordinal, door=Door.DATA, datasource="", feedtype="", profile=profile)


def damage(spool: Path) -> str:
    with pytest.raises(FormatError) as caught:
        list(read_deliveries(spool))
    return str(caught.value)


def refusal(*deliveries: Delivery, only: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        select(deliveries, replace(SPOOL, only=only))
    return str(caught.value)


def selected(*deliveries: Delivery, **chosen: object) -> list[int]:
    """The ordinals of what is read."""
    return [one.ordinal for one in select(deliveries, replace(SPOOL, **chosen)).deliveries]


def told(*deliveries: Delivery, history: SpoolHistory = SpoolHistory.LATEST) -> list[str]:
    """The notices of a selection, each as a line."""
    selection = select(deliveries, replace(SPOOL, history=history))
    return [notice.message for notice in notices_of(selection)]


def spans(root: Path, *deliveries: Delivery) -> list[Span]:
    selection = Selection(deliveries=deliveries)
    return list(spans_of(selection, source="spool", root=str(root)))


def refused(root: Path, delivery: Delivery) -> str:
    with pytest.raises(SourceError) as caught:
        spans(root, delivery)
    return str(caught.value)


# The journal


def test_deliveries_are_read_as_they_were_written(tmp_path: Path) -> None:
    wrote = (
        delivered(1, at="2026-01-02T03:04:05Z", client="127.0.0.1", user_agent="curl", bytes=7),
        groups(2, "cleanup"),
        data(5),
    )
    journal(tmp_path, *wrote)
    assert list(read_deliveries(tmp_path)) == list(wrote)


def test_what_was_read_before_is_passed_over(tmp_path: Path) -> None:
    journal(tmp_path, delivered(1), delivered(2), delivered(3))
    assert [one.ordinal for one in read_deliveries(tmp_path, 1)] == [2, 3]


@pytest.mark.parametrize("after", range(9))
def test_what_was_read_before_is_passed_over_wherever_it_ends(tmp_path: Path, after: int) -> None:
    agents = ("", "curl" * 99, "x", "", "wget" * 9, "", "y" * 400, "")
    wrote = [delivered(number, user_agent=agent) for number, agent in enumerate(agents, start=1)]
    journal(tmp_path, *wrote)
    assert list(read_deliveries(tmp_path, after)) == wrote[after:]


def test_ordinals_may_have_gaps(tmp_path: Path) -> None:
    journal(tmp_path, delivered(2), delivered(5), delivered(90))
    assert [one.ordinal for one in read_deliveries(tmp_path, 4)] == [5, 90]


def test_a_line_that_is_being_written_is_passed_over_too(tmp_path: Path) -> None:
    journal(tmp_path, delivered(1), delivered(2, user_agent="curl" * 99))
    os.truncate(tmp_path / JOURNAL, (tmp_path / JOURNAL).stat().st_size - 1)
    assert list(read_deliveries(tmp_path, 1)) == []


def test_a_damaged_line_has_its_number_whatever_was_passed_over(tmp_path: Path) -> None:
    journal(tmp_path, *(delivered(number) for number in range(1, 9)))
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b"[]\n")
    with pytest.raises(FormatError) as caught:
        list(read_deliveries(tmp_path, 7))
    assert str(caught.value) == (f"{tmp_path / JOURNAL}:9: Expected `object`, got `array`; {CURE}")


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    journal(tmp_path, delivered(1), delivered(2))
    os.truncate(tmp_path / JOURNAL, (tmp_path / JOURNAL).stat().st_size - 1)
    assert [one.ordinal for one in read_deliveries(tmp_path)] == [1]


def test_a_line_whose_end_has_come_is_read_the_next_time(tmp_path: Path) -> None:
    journal(tmp_path, delivered(1), delivered(2))
    whole = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(whole[:-30])
    before = list(read_deliveries(tmp_path))
    (tmp_path / JOURNAL).write_bytes(whole)
    assert (before, list(read_deliveries(tmp_path, 1))) == ([delivered(1)], [delivered(2)])


def test_a_spool_without_a_journal_has_no_deliveries(tmp_path: Path) -> None:
    assert list(read_deliveries(tmp_path)) == []


def test_a_journal_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).mkdir()
    with pytest.raises(SourceError) as caught:
        list(read_deliveries(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path / JOURNAL}: Is a directory; expected a file that can be read"
    )


def test_a_line_that_a_later_one_was_written_into_is_told(tmp_path: Path) -> None:
    journal(tmp_path, delivered(1))
    line = (tmp_path / JOURNAL).read_bytes()
    put(tmp_path / JOURNAL, line + line[:9] + line)
    assert damage(tmp_path) == (
        f"{tmp_path / JOURNAL}:2: JSON is malformed: expected ':' (byte 11); {CURE}"
    )


def test_a_line_that_names_no_door_is_told(tmp_path: Path) -> None:
    put(tmp_path / JOURNAL, b'{"ordinal":1,"door":"back","path":"feeds/1","bytes":1}\n')
    assert damage(tmp_path) == (
        f"{tmp_path / JOURNAL}:1: Invalid enum value 'back' - at `$.door`; {CURE}"
    )


def test_deliveries_before_a_damaged_line_are_read(tmp_path: Path) -> None:
    journal(tmp_path, delivered(1))
    line = (tmp_path / JOURNAL).read_bytes()
    put(tmp_path / JOURNAL, line + b"\n" + line)
    assert next(read_deliveries(tmp_path)) == delivered(1)


def test_a_delivery_out_of_order_is_told(tmp_path: Path) -> None:
    journal(tmp_path, delivered(4), delivered(4))
    assert damage(tmp_path) == f"{tmp_path / JOURNAL}:2: ordinal 4 after 4; {CURE}"


@pytest.mark.parametrize("path", ["../passwd", "/etc/passwd", "feeds/../../x", "", "."])
def test_a_path_that_leads_out_of_the_spool_is_told(tmp_path: Path, path: str) -> None:
    journal(tmp_path, delivered(1, path=path))
    assert damage(tmp_path) == (
        f"{tmp_path / JOURNAL}:1: path {path!r}, which is not below the spool; {CURE}"
    )


# What is superseded


def test_a_full_feed_supersedes_what_came_before_it() -> None:
    feeds = delivered(1), delivered(2, feedtype="full"), delivered(3, feedtype="full")
    assert superseded(feeds) == {1, 2}


def test_what_comes_behind_a_full_feed_stands() -> None:
    assert superseded([delivered(1, feedtype="full"), delivered(2)]) == frozenset()


def test_a_full_feed_leaves_other_datasources_alone() -> None:
    feeds = delivered(1, datasource="wiki"), delivered(2), delivered(3, feedtype="full")
    assert superseded(feeds) == {2}


def test_a_full_feed_supersedes_metadata_and_urls_of_its_datasource() -> None:
    feeds = delivered(1, feedtype="metadata-and-url"), delivered(2, feedtype="full")
    assert superseded(feeds) == {1}


def test_metadata_and_urls_supersede_nothing() -> None:
    assert superseded([delivered(1), delivered(2, feedtype="metadata-and-url")]) == frozenset()


def test_a_web_feed_supersedes_nothing() -> None:
    feeds = (delivered(number, datasource="web", feedtype="full") for number in (1, 2))
    assert superseded(feeds) == frozenset()


@pytest.mark.parametrize("feedtype", ["full", "replace", "cleanup"])
def test_whole_groups_supersede_those_before_them(feedtype: str) -> None:
    feeds = groups(1, "full"), groups(2, "incremental"), groups(3, feedtype)
    assert superseded(feeds) == {1, 2}


def test_groups_of_another_groupsource_stand() -> None:
    feeds = groups(1, "full", "ggg"), groups(2, "incremental"), groups(3, "cleanup", "others")
    assert superseded(feeds) == frozenset()


def test_a_groupsource_and_a_datasource_of_one_name_are_two() -> None:
    assert superseded(
        [groups(1, "full", "crm"), delivered(2, datasource="crm", feedtype="full")]
    ) == (frozenset())


def test_data_supersede_nothing() -> None:
    assert superseded([data(1), replace(data(2), feedtype="full")]) == frozenset()


# What is selected


def test_only_what_stands_is_selected() -> None:
    feeds = delivered(1), delivered(2, datasource="wiki"), delivered(3, feedtype="full"), data(4)
    assert selected(*feeds) == [2, 3, 4]


def test_all_of_the_history_is_selected_on_request() -> None:
    feeds = delivered(1), delivered(2, feedtype="full"), groups(3, "full"), groups(4, "full")
    assert selected(*feeds, history=SpoolHistory.ALL) == [1, 2, 3, 4]


def test_a_cleanup_has_nothing_to_read() -> None:
    feeds = groups(1, "incremental"), groups(2, "cleanup"), groups(3, "incremental")
    assert (selected(*feeds), selected(*feeds, history=SpoolHistory.ALL)) == ([3], [1, 3])


def test_only_datasources_that_are_named_are_selected() -> None:
    feeds = delivered(1), delivered(2, datasource="wiki"), groups(3, "full", "wiki"), data(4, "crm")
    assert selected(*feeds, only=("wiki", "crm")) == [2, 3, 4]


def test_a_door_may_be_named() -> None:
    feeds = delivered(1), groups(2, "full"), data(3)
    assert selected(*feeds, only=("xmlgroups",)) == [2]


def test_a_name_that_nothing_was_delivered_under_is_refused() -> None:
    assert refusal(delivered(1), data(2, "crm"), only=("crm", "nix")) == (
        "--only nix: 'spool' holds nothing of that name; expected one of 'crm', 'intranet', or a"
        " door: 'recvdata', 'xmlfeed'"
    )


def test_several_profiles_are_refused() -> None:
    assert refusal(data(1, "wiki"), data(2, "crm"), data(3, "wiki")) == (
        "INPUT: 'spool' holds data of the profiles 'crm', 'wiki'; expected --only PROFILE, as"
        " records do not say which they are of"
    )


def test_several_profiles_that_are_named_are_selected() -> None:
    assert selected(data(1, "wiki"), data(2, "crm"), only=("wiki", "crm")) == [1, 2]


# What is told of the rest


def test_what_is_superseded_is_counted_by_datasource() -> None:
    feeds = (
        *(delivered(1), delivered(2), delivered(3, feedtype="full")),
        *(groups(4, "incremental"), groups(5, "replace")),
    )
    line = (
        "spool (byte 0): later feeds supersede 2 of 'intranet', 1 of 'ldap'; left out: --history"
        " all reads them"
    )
    assert told(*feeds) == [line, line, line]


def test_of_many_datasources_ten_are_named() -> None:
    feeds = (
        delivered(2 * number + turn, datasource=f"d{number}", feedtype="full")
        for number in range(12)
        for turn in (1, 2)
    )
    assert told(*feeds)[0] == (
        "spool (byte 0): later feeds supersede 1 of 'd0', 1 of 'd1', 1 of 'd2', 1 of 'd3', 1 of"
        " 'd4', 1 of 'd5', 1 of 'd6', 1 of 'd7', 1 of 'd8', 1 of 'd9', and those of 2 more; left"
        " out: --history all reads them"
    )


def test_all_of_the_history_supersedes_nothing() -> None:
    assert told(delivered(1), delivered(2, feedtype="full"), history=SpoolHistory.ALL) == []


def test_a_cleanup_that_stands_is_told() -> None:
    assert told(groups(1, "cleanup")) == [
        "spool#1 (byte 0): a cleanup of the groups of 'ldap'; no feed does that: the groups that"
        " the target has stay"
    ]


def test_a_cleanup_that_a_full_feed_came_behind_is_not() -> None:
    assert told(groups(1, "cleanup"), groups(2, "full")) == []


def test_a_cleanup_in_all_of_the_history_is_told() -> None:
    feeds = groups(1, "incremental"), groups(2, "cleanup")
    assert told(*feeds, history=SpoolHistory.ALL) == [
        "spool#2 (byte 0): a cleanup of the groups of 'ldap'; no feed does that: earlier"
        " groups are read all the same"
    ]


def test_a_selection_is_read_as_it_was_written(tmp_path: Path) -> None:
    notice = NoticeCount(2, Notice(code="superseded", detail="2 of 'wiki'", source="spool"))
    selection = Selection(deliveries=(delivered(1), data(2)), notices=(notice,))
    write_selection(selection, tmp_path / "selection")
    assert read_selection(tmp_path / "selection") == selection


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
    selection = Selection(
        deliveries=tuple(delivered(number, path="f", bytes=1) for number in (3, 8))
    )
    found = spans_of(selection, source="spool", root=str(tmp_path), first=5)
    assert [(span.source, span.name) for span in found] == [
        ("spool#3", "00005-00000"),
        ("spool#8", "00006-00000"),
    ]


def test_groups_that_replace_others_are_a_full_feed(tmp_path: Path) -> None:
    put(tmp_path / "g", b"x")
    (span,) = spans(tmp_path, replace(groups(1, "replace"), path="g", bytes=1))
    assert (span.format, span.feed) == ("gsa-groups", Feed(datasource="ldap", feedtype="full"))


def test_a_datasource_web_is_never_a_full_feed(tmp_path: Path) -> None:
    put(tmp_path / "feeds/000003.xml", b"")
    [span] = spans(tmp_path, delivered(3, datasource="web", feedtype="full"))
    assert span.feed == Feed(datasource="web", feedtype="metadata-and-url")


def test_data_are_of_no_feed(tmp_path: Path) -> None:
    put(tmp_path / "d", b"x")
    (span,) = spans(tmp_path, replace(data(1), path="d", bytes=1))
    assert (span.format, span.feed) == ("thunderstone", None)


def test_a_feed_whose_file_is_gone_is_told(tmp_path: Path) -> None:
    assert refused(tmp_path, delivered(7, bytes=1234)) == (
        f"spool#7: {tmp_path}/feeds/000007.xml: No such file or directory; expected the 1,234 bytes"
        f" that {COPY}"
    )


def test_a_feed_that_was_copied_in_part_is_told(tmp_path: Path) -> None:
    put(tmp_path / "feeds/000007.xml", b"<gsa")
    assert refused(tmp_path, delivered(7, bytes=1234)) == (
        f"spool#7: {tmp_path}/feeds/000007.xml: 4 bytes; expected the 1,234 bytes that {COPY}"
    )


def test_data_go_by_the_name_of_their_profile() -> None:
    assert [name_of(one) for one in (delivered(1), groups(2, "full"), data(3, "crm"))] == [
        *("intranet", "ldap", "crm")
    ]
