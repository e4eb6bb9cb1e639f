"""Changes of the state after a run: which rows are kept and which are forgotten."""

from collections.abc import Iterable
from pathlib import Path

from schemas.sent_document import DELETION_SENT, SentDocument, StateChange
from schemas.span import TimestampType, Watermark
from transforms.sources.database.advance_state import NextRunPlan, advance_state
from transforms.sources.state_changes import rejected
from transforms.storage.state import SourceState, StateHead, open_state, update_state

MARK = Watermark(type=TimestampType.TEXT, text="2026-11-21 12:00:00")
BY_MARK = NextRunPlan(timestamp="updated", mark=MARK, lag_seconds=600)
BY_KEYS = NextRunPlan(timestamp="updated", mark=MARK, lag_seconds=600, compares_keys=True)
BY_QUERY = NextRunPlan(timestamp="updated", mark=MARK, lag_seconds=600, has_deletes_query=True)
EVERYTHING = NextRunPlan()

YOUNG = SentDocument(
    key="[1]", url="http://db.example.com/1", fingerprint="2026-11-21 11:50:00", digest="young"
)
OLD = SentDocument(
    key="[2]", url="http://db.example.com/2", fingerprint="2026-11-21 11:49:58", digest="old"
)
TIMELESS = SentDocument(key="[3]", url="http://db.example.com/3", digest="timeless")
REFUSED = SentDocument(key="[4]", url="http://db.example.com/4", fingerprint="2026-11-21 11:00:00")
GONE_BY_QUERY = SentDocument(
    key="[5]", url="", fingerprint="http://db.example.com/5", digest=DELETION_SENT
)


def state_of(folder: Path, *knowns: SentDocument) -> SourceState:
    path = folder / "state"
    seen = [StateChange(known=known) for known in knowns]
    update_state(path, seen, before=0, stamp=StateHead(source="people.yaml"))
    return open_state(path)


def changes(
    folder: Path, next_run: NextRunPlan, before: Iterable[SentDocument], *seen: StateChange
) -> list[StateChange]:
    with state_of(folder, *before) as state:
        path = folder / "changes"
        return list(advance_state(seen, state=state, next_run=next_run, path=path))


def kept(known: SentDocument) -> StateChange:
    return StateChange(known=known)


def gone(known: SentDocument) -> StateChange:
    return StateChange(known=known, is_gone=True)


def test_a_row_that_is_read_again_next_time_is_known(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_MARK, [], kept(YOUNG)) == [kept(YOUNG)]


def test_a_row_that_is_older_than_the_lag_is_forgotten(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_MARK, [], kept(OLD)) == [gone(OLD)]


def test_a_row_that_was_known_and_is_older_now_is_forgotten(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_MARK, [OLD, YOUNG]) == [gone(OLD)]


def test_a_row_without_a_timestamp_is_known(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_MARK, [TIMELESS], kept(TIMELESS)) == [kept(TIMELESS)]


def test_every_row_is_known_where_keys_are_compared(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_KEYS, [YOUNG], kept(OLD)) == [kept(OLD)]


def test_every_row_is_known_where_there_is_no_mark(tmp_path: Path) -> None:
    assert changes(tmp_path, EVERYTHING, [YOUNG], kept(OLD)) == [kept(OLD)]


def test_a_row_that_was_rejected_is_known_without_a_digest(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_MARK, [], rejected(kept(OLD))) == [
        kept(SentDocument(key="[2]", url="", fingerprint="2026-11-21 11:49:58"))
    ]


def test_a_rejected_row_keeps_its_former_url(tmp_path: Path) -> None:
    refused = SentDocument(
        key="[2]", url="http://db.example.com/new", fingerprint="2026-11-21 12:00:00"
    )
    assert changes(tmp_path, BY_MARK, [OLD], kept(refused)) == [
        gone(OLD),
        kept(
            SentDocument(
                key="[2]", url="http://db.example.com/2", fingerprint="2026-11-21 12:00:00"
            )
        ),
    ]


def test_a_rejected_row_that_is_not_rejected_again_is_forgotten(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_MARK, [REFUSED]) == [gone(REFUSED)]


def test_a_rejected_row_that_was_not_seen_is_known_where_keys_are_compared(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_KEYS, [REFUSED]) == []


def test_a_marked_row_is_kept_without_a_url(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_MARK, [YOUNG], gone(YOUNG)) == [
        kept(SentDocument(key="[1]", url="", fingerprint="2026-11-21 11:50:00", digest="young"))
    ]


def test_an_old_marked_row_is_forgotten(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_MARK, [], gone(OLD)) == [
        gone(SentDocument(key="[2]", url="", fingerprint="2026-11-21 11:49:58", digest="old"))
    ]


def test_a_key_that_no_row_has_is_forgotten(tmp_path: Path) -> None:
    known = SentDocument(key="[1]", url="http://db.example.com/1")
    assert changes(tmp_path, BY_KEYS, [YOUNG], gone(known)) == [gone(known)]


def test_a_key_of_the_query_for_deletes_is_kept_as_gone(tmp_path: Path) -> None:
    known = SentDocument(key="[5]", url="http://db.example.com/5")
    assert changes(tmp_path, BY_QUERY, [], gone(known)) == [kept(GONE_BY_QUERY)]


def test_a_key_that_is_gone_is_kept(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_QUERY, [GONE_BY_QUERY]) == []


def test_a_key_whose_deletion_has_no_url_is_forgotten(tmp_path: Path) -> None:
    known = SentDocument(key="[5]", url="")
    assert changes(tmp_path, BY_QUERY, [GONE_BY_QUERY], gone(known)) == [gone(known)]


def test_the_url_that_a_row_had_is_known_for_the_next_run(tmp_path: Path) -> None:
    renamed = SentDocument(key="[1]", url="http://db.example.com/new", digest="new")
    assert changes(tmp_path, BY_KEYS, [YOUNG], kept(renamed)) == [
        kept(SentDocument(key='"http://db.example.com/1"', url="")),
        kept(renamed),
    ]


def test_the_url_that_a_deleted_row_had_is_known_for_the_next_run(tmp_path: Path) -> None:
    renamed = SentDocument(key="[1]", url="http://db.example.com/new", digest="new")
    assert changes(tmp_path, BY_KEYS, [YOUNG], gone(renamed)) == [
        kept(SentDocument(key='"http://db.example.com/1"', url="")),
        kept(SentDocument(key="[1]", url="", digest="new")),
    ]


def test_a_url_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    known = SentDocument(key='"http://db.example.com/1"', url="http://db.example.com/1")
    assert changes(tmp_path, BY_QUERY, [], gone(known)) == [gone(known)]


def test_a_former_url_that_was_not_deleted_is_kept(tmp_path: Path) -> None:
    assert changes(tmp_path, BY_MARK, [SentDocument(key='"http://db.example.com/1"', url="")]) == []


def test_a_state_can_be_changed_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with state_of(tmp_path, OLD) as state:
        seen = advance_state(
            [kept(YOUNG)], state=state, next_run=BY_MARK, path=tmp_path / "changes"
        )
        count = update_state(path, seen, before=1, stamp=StateHead(source="people.yaml"))
    assert count == 1
