"""How a delivery is digested: its changes, its tally, and where it ends."""

import pytest

from pipelines.serve.rehearsal import documents
from pipelines.serve.rehearsal.digest import Interrupted, Tally, Unreadable, digest
from pipelines.serve.rehearsal.views import Status
from schemas.delivery import Door
from schemas.errors import FormatError
from support.rehearsal import Rehearsal, data, gone, gsa_feed, item, metadata, page


def never() -> bool:
    return False


def test_each_record_is_one_change(held: Rehearsal) -> None:
    delivery = held.write(gsa_feed(page("a"), gone("b")), datasource="s", feedtype="incremental")
    found = list(digest(delivery, held.spool, Tally(), stopping=never))
    assert len(found) == 2


def test_a_full_feed_begins_with_the_removal_of_what_was(held: Rehearsal) -> None:
    delivery = held.write(gsa_feed(), datasource="s", feedtype="full")
    found = list(digest(delivery, held.spool, Tally(), stopping=never))
    assert found == [*documents.forget(delivery), documents.keep(delivery)]


def test_what_is_no_feed_is_told(held: Rehearsal) -> None:
    delivery = held.write(b"<html>" + b" " * 3_000_000, feedtype="full")
    with pytest.raises(FormatError):
        list(digest(delivery, held.spool, Tally(), stopping=never))


def test_a_full_feed_of_which_no_record_can_be_read_changes_nothing(held: Rehearsal) -> None:
    markup = gsa_feed(page("a", "x & y"), page("b", "x & y"))
    delivery = held.write(markup, datasource="s", feedtype="full")
    with pytest.raises(Unreadable) as caught:
        list(digest(delivery, held.spool, Tally(), stopping=never))
    assert str(caught.value) == "ProcessFeed: parsing error: none of its 2 records can be read"


def test_included_and_refused_records_are_counted(held: Rehearsal) -> None:
    markup = gsa_feed(page("a"), page("b", inner=metadata(x="")), page("c"))
    delivery, tally = held.write(markup, datasource="s", feedtype="incremental"), Tally()
    list(digest(delivery, held.spool, tally, stopping=never))
    assert (tally.included, tally.in_error, tally.status) == (2, 1, Status.WITH_ERRORS)


def test_a_reason_is_not_kept_without_end(held: Rehearsal) -> None:
    markup = gsa_feed(f'<record url="a" action="{"x" * 5000}"/>')
    delivery, tally = held.write(markup, datasource="s", feedtype="incremental"), Tally()
    list(digest(delivery, held.spool, tally, stopping=never))
    (reason,) = tally.details
    assert (len(reason), reason[-12:]) == (1002, "xxxxxxxxxx …")


def test_a_malformed_record_is_told_with_its_line(held: Rehearsal) -> None:
    markup = gsa_feed(page("a"), page("b", "x & y"))
    delivery, tally = held.write(markup, datasource="s", feedtype="incremental"), Tally()
    list(digest(delivery, held.spool, tally, stopping=never))
    assert tally.details == [
        "Skipping the record, Line number: 7, Error: an & that is not escaped; expected &amp;"
    ]


def test_only_the_first_reasons_are_kept(held: Rehearsal) -> None:
    bad = [page(f"{number}", inner=metadata(x="")) for number in range(8)]
    delivery, tally = held.write(gsa_feed(*bad), datasource="s", feedtype="full"), Tally()
    list(digest(delivery, held.spool, tally, stopping=never))
    assert (tally.in_error, len(tally.details)) == (8, 5)


def test_an_incremental_feed_without_its_end_is_told_so(held: Rehearsal) -> None:
    markup = gsa_feed(page("a")).removesuffix("</group>\n</gsafeed>\n")
    delivery, tally = held.write(markup, datasource="s", feedtype="incremental"), Tally()
    list(digest(delivery, held.spool, tally, stopping=never))
    assert (tally.included, tally.details) == (
        1,
        [
            "ProcessFeed: parsing error, Line number: 7: the end of the stream; expected"
            " </gsafeed>: more records may have followed"
        ],
    )


def test_a_full_feed_without_its_end_is_unreadable(held: Rehearsal) -> None:
    markup = gsa_feed(page("a")).removesuffix("</group>\n</gsafeed>\n")
    delivery = held.write(markup, datasource="s", feedtype="full")
    with pytest.raises(Unreadable) as caught:
        list(digest(delivery, held.spool, Tally(), stopping=never))
    assert str(caught.value) == (
        "ProcessFeed: parsing error: Line number: 7: the end of the stream; expected </gsafeed>:"
        " more records may have followed"
    )


def test_data_without_its_end_goes_in_as_far_as_it_goes(held: Rehearsal) -> None:
    markup = data(item("I", "a")).removesuffix("</ThunderstoneReplication>")
    delivery, tally = held.write(markup, door=Door.DATA, profile="p"), Tally()
    assert len(list(digest(delivery, held.spool, tally, stopping=never))) == 1


def test_it_stops_between_two_changes(held: Rehearsal) -> None:
    delivery = held.write(gsa_feed(page("a"), page("b")), datasource="s", feedtype="incremental")
    answers = iter([False, False, False, False])
    changes = digest(delivery, held.spool, Tally(), stopping=lambda: next(answers, True))
    with pytest.raises(Interrupted):
        list(changes)


def test_it_stops_in_the_middle_of_what_is_no_record(held: Rehearsal) -> None:
    markup = gsa_feed("<stray>" + "x" * 8_000_000)
    delivery, blocks = held.write(markup, datasource="s", feedtype="incremental"), iter(range(4))
    changes = digest(delivery, held.spool, Tally(), stopping=lambda: next(blocks, None) is None)
    with pytest.raises(Interrupted):
        list(changes)


def test_a_delivery_that_failed_has_the_reason_first() -> None:
    tally = Tally()
    tally.included = 7
    tally.refuse(3, "odd; expected even")
    tally.fail("no feed")
    assert (tally.included, tally.in_error, tally.details, tally.status) == (
        0,
        1,
        ["no feed", "Skipping the record, Line number: 3, Error: odd; expected even"],
        Status.FAILED,
    )


def test_a_delivery_without_errors_is_completed() -> None:
    assert Tally().status is Status.COMPLETED
