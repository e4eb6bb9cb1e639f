"""Entries of a state that are gone: which of them are deleted, and when a run is stopped."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from feedferry.schemas.errors import FeedferryError, StoppedError
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.schemas.source_options import SourceOptions
from feedferry.transforms.sources.changes.detector import ChangeDetector, check_safety
from feedferry.transforms.sources.listing import EntryKind, ListingEntry
from feedferry.transforms.storage.state import StateHead, open_state, update_state

URL = "http://docs.example.com/"
A, B, TWIN = (SentDocument(key=key, url=URL + name) for key, name in ("aa", "bb", "ca"))
UPPER = SentDocument(key="U", url=f"{URL}A")


@contextmanager
def detector_of(folder: Path, *documents: SentDocument, **options: Any) -> Iterator[ChangeDetector]:
    changes = [StateChange(document=document) for document in documents]
    update_state(folder / "state", changes, before=0, stamp=StateHead(source="docs"))
    with open_state(folder / "state") as state:
        detector = ChangeDetector(state, **options)
        yield detector
        detector.close()


def gone(document: SentDocument, *, has_url: bool = True) -> ListingEntry:
    return ListingEntry(key=document.key, kind=EntryKind.GONE, url=document.url if has_url else "")


DELETIONS = {
    "its own URL": ((A, B), (A,), [gone(A)]),
    "in the order of keys": ((A, B), (B, A), [gone(A), gone(B)]),
    "the URL of a document that remains": ((A, TWIN), (A,), [gone(A, has_url=False)]),
    "a URL of several documents once": ((A, TWIN), (A, TWIN), [gone(A, has_url=False), gone(TWIN)]),
    "no entry of the state": ((), (A,), [gone(A)]),
}


@pytest.mark.parametrize(("state", "removed", "lines"), DELETIONS.values(), ids=DELETIONS)
def test_a_url_is_deleted_unless_a_document_that_remains_has_it(
    tmp_path: Path,
    state: Iterable[SentDocument],
    removed: Iterable[SentDocument],
    lines: list[ListingEntry],
) -> None:
    with detector_of(tmp_path, *state) as detector:
        for document in removed:
            detector.add_gone(document.key, document.url)
        assert list(detector.deletions()) == lines


def test_urls_are_compared_after_a_rewriting(tmp_path: Path) -> None:
    with detector_of(tmp_path, A, B, UPPER, rewrite=str.lower) as detector:
        detector.add_gone(A.key, A.url)
        assert list(detector.deletions()) == [gone(A, has_url=False)]


def test_listed_keys_are_joined_with_the_state_in_batches(tmp_path: Path) -> None:
    with detector_of(tmp_path, A, B, TWIN) as detector:
        batches = [("first", ["0", "b"]), ("second", ["bb"])]
        assert [(name, [key for key, *_ in known]) for name, known in detector.joined(batches)] == [
            ("first", ["a", "b"]),
            ("second", []),
            (None, ["c"]),
        ]


def test_a_listing_out_of_order_is_a_defect(tmp_path: Path) -> None:
    with detector_of(tmp_path, A) as detector, pytest.raises(FeedferryError) as caught:
        list(detector.joined([("b", ["b"]), ("a", ["a"])]))
    assert str(caught.value) == (
        "'a' listed after 'b': a defect of feedferry; no document was read"
    )


def test_expected_deletions_and_those_without_a_url_do_not_stop_a_run(tmp_path: Path) -> None:
    limits = SourceOptions(to_format="", min_records=2, max_delete_percent=Decimal(0))
    with detector_of(tmp_path, A, B, TWIN) as detector:
        detector.listed = 2
        detector.add_gone(A.key, A.url)
        detector.add_gone(B.key, B.url, is_expected=True)
        assert list(detector.deletions(limits)) == [gone(A, has_url=False), gone(B)]
        detector.add_gone(TWIN.key, TWIN.url)
        with pytest.raises(StoppedError, match=r"^1 of 3 documents"):
            list(detector.deletions(limits))


CURE = "no document was read: check whether the source is complete; if it is,"


@pytest.mark.parametrize(
    ("listed", "deleted", "known_documents", "limits", "message"),
    [
        (0, 0, 0, {}, None),
        (1000, 0, 1000, {"min_records": 1000}, None),
        (0, 40, 40, {"min_records": 0, "max_delete_percent": Decimal(100)}, None),
        (32, 8, 40, {}, None),
        (
            *(0, 40, 40, {}),
            "0 documents are in the source, and the state has 40; expected 1 or more;"
            f" {CURE} --min-records allows fewer",
        ),
        (
            *(999, 0, 1000, {"min_records": 1000}),
            "999 documents are in the source, and the state has 1000; expected 1000 or more;"
            f" {CURE} --min-records allows fewer",
        ),
        (
            *(31, 9, 40, {}),
            "9 of 40 documents in the state are gone; expected at most 20% of them;"
            f" {CURE} --max-delete-percent allows more",
        ),
        (
            *(994, 6, 1000, {"max_delete_percent": Decimal("0.5")}),
            "6 of 1000 documents in the state are gone; expected at most 0.5% of them;"
            f" {CURE} --max-delete-percent allows more",
        ),
    ],
)
def test_a_run_that_would_delete_too_much_is_stopped(
    listed: int, deleted: int, known_documents: int, limits: dict[str, Any], message: str | None
) -> None:
    options = SourceOptions(to_format="", **limits)
    if message is None:
        check_safety(listed, deleted, known=known_documents, options=options)
        return
    with pytest.raises(StoppedError) as caught:
        check_safety(listed, deleted, known=known_documents, options=options)
    assert str(caught.value) == message
