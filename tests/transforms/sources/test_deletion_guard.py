"""Sources that look emptied, and how far that may go."""

from decimal import Decimal

import pytest

from schemas.errors import StoppedError
from transforms.sources.change_detection import Counts, Safety, check_safety, count_entries
from transforms.sources.listing import EntryKind, ListingEntry

USUAL = Safety()


def counts_of(*lines: ListingEntry) -> Counts:
    counts = Counts()
    for _ in count_entries(lines, counts):
        pass
    return counts


def line(
    kind: EntryKind, *, key: str = "a", url: str = "http://x/a", code: str = ""
) -> ListingEntry:
    return ListingEntry(key=key, kind=kind, url=url, code=code)


def test_a_usual_run_needs_one_document_and_deletes_a_fifth() -> None:
    assert Safety(min_records=1, max_delete_percent=Decimal(20)) == USUAL


def test_lines_are_passed_on() -> None:
    lines = [line(EntryKind.FILE), line(EntryKind.GONE), line(EntryKind.REJECTED)]

    assert list(count_entries(lines, Counts())) == lines


def test_lines_are_counted_as_they_pass() -> None:
    counts = Counts()
    passing = count_entries([line(EntryKind.FILE), line(EntryKind.FILE)], counts)
    next(passing)

    assert counts == Counts(listed=1)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (line(EntryKind.FILE), Counts(listed=1)),
        (line(EntryKind.FILTERED, code="unchanged"), Counts(listed=1)),
        (line(EntryKind.GONE), Counts(gone=1)),
        (line(EntryKind.FILTERED, code="hidden"), Counts()),
        (line(EntryKind.REJECTED, code="unreadable"), Counts()),
        (line(EntryKind.FOLDER, key="a/"), Counts()),
        (line(EntryKind.FILTERED, key="a/", code="unchanged"), Counts()),
        (line(EntryKind.GONE, key="a/"), Counts()),
        (line(EntryKind.GONE, url=""), Counts()),
    ],
)
def test_documents_are_counted_and_nothing_else(one: ListingEntry, expected: Counts) -> None:
    assert counts_of(one) == expected


def test_a_source_without_documents_stops_a_run_whose_state_knows_some() -> None:
    with pytest.raises(StoppedError) as caught:
        check_safety(Counts(gone=40), known=40, safety=USUAL)

    assert str(caught.value) == (
        "0 documents are in the source, and the state has 40; expected 1 or more; no document "
        "was read: check whether the source is complete; if it is, --min-records allows fewer"
    )


def test_a_source_without_documents_is_safe_if_none_are_known() -> None:
    check_safety(Counts(), known=0, safety=USUAL)


def test_fewer_documents_than_asked_for_stop_the_run() -> None:
    with pytest.raises(StoppedError, match=r"^999 documents .* the state has 1000; expected 1000"):
        check_safety(Counts(listed=999), known=1000, safety=Safety(min_records=1000))


def test_as_many_documents_as_asked_for_are_safe() -> None:
    check_safety(Counts(listed=1000), known=1000, safety=Safety(min_records=1000))


def test_an_emptied_source_is_safe_for_who_says_so() -> None:
    safety = Safety(min_records=0, max_delete_percent=Decimal(100))

    check_safety(Counts(gone=40), known=40, safety=safety)


def test_too_many_deletions_stop_the_run() -> None:
    with pytest.raises(StoppedError) as caught:
        check_safety(Counts(listed=31, gone=9), known=40, safety=USUAL)

    assert str(caught.value) == (
        "9 of 40 documents in the state are gone; expected at most 20% of them; no document "
        "was read: check whether the source is complete; if it is, --max-delete-percent allows "
        "more"
    )


def test_as_many_deletions_as_allowed_are_safe() -> None:
    check_safety(Counts(listed=32, gone=8), known=40, safety=USUAL)


def test_a_limit_may_be_a_part_of_a_percent() -> None:
    with pytest.raises(StoppedError, match=r"^6 of 1000 .* at most 0\.5% of them"):
        check_safety(
            Counts(listed=994, gone=6), known=1000, safety=Safety(max_delete_percent=Decimal("0.5"))
        )


def test_a_run_that_stops_exits_with_3() -> None:
    with pytest.raises(StoppedError) as caught:
        check_safety(Counts(), known=1, safety=USUAL)

    assert caught.value.exit_code == 3
