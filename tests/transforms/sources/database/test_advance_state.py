"""What a state moves by: which rows stay known, which are forgotten, where the mark stands."""

from collections.abc import Iterable
from pathlib import Path

from schemas.known import Known, Seen
from transforms.sources.database.advance_state import NextRunPlan, StateAdvance, advance_state
from transforms.sources.database.deletions import GONE
from transforms.sources.database.watermark import Kind, Mark
from transforms.sources.seen import rejected
from transforms.storage.state import Stamp, State, move, open_state

MARK = Mark(kind=Kind.TEXT, text="2026-11-21 12:00:00")
BY_MARK = NextRunPlan(timestamp="updated", mark=MARK, lag_seconds=600)
BY_KEYS = NextRunPlan(timestamp="updated", mark=MARK, lag_seconds=600, compares_keys=True)
BY_QUERY = NextRunPlan(timestamp="updated", mark=MARK, lag_seconds=600, asks_deletes=True)
EVERYTHING = NextRunPlan()

YOUNG = Known(
    key="[1]", url="http://db.example.com/1", fingerprint="2026-11-21 11:50:00", digest="young"
)
OLD = Known(
    key="[2]", url="http://db.example.com/2", fingerprint="2026-11-21 11:49:58", digest="old"
)
TIMELESS = Known(key="[3]", url="http://db.example.com/3", digest="timeless")
REFUSED = Known(key="[4]", url="http://db.example.com/4", fingerprint="2026-11-21 11:00:00")
GONE_BY_QUERY = Known(key="[5]", url="", fingerprint="http://db.example.com/5", digest=GONE)


def state_of(folder: Path, *knowns: Known) -> State:
    path = folder / "state"
    seen = [Seen(known=known) for known in knowns]
    move(path, seen, before=0, stamp=Stamp(source="people.yaml"))
    return open_state(path)


def settled(
    folder: Path, next_run: NextRunPlan, before: Iterable[Known], *seen: Seen, most: int = 10
) -> StateAdvance:
    with state_of(folder, *before) as state:
        return advance_state(
            lambda: seen, state=state, next_run=next_run, path=folder / "settled", most=most
        )


def moved(folder: Path, next_run: NextRunPlan, before: Iterable[Known], *seen: Seen) -> list[Seen]:
    return list(settled(folder, next_run, before, *seen).seen)


def stands(known: Known) -> Seen:
    return Seen(known=known)


def goes(known: Known) -> Seen:
    return Seen(known=known, is_gone=True)


def test_a_row_that_is_read_again_next_time_is_known(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_MARK, [], stands(YOUNG)) == [stands(YOUNG)]


def test_a_row_that_is_older_than_the_lag_is_forgotten(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_MARK, [], stands(OLD)) == [goes(OLD)]


def test_a_row_that_was_known_and_is_older_now_is_forgotten(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_MARK, [OLD, YOUNG]) == [goes(OLD)]


def test_a_row_without_a_timestamp_is_known(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_MARK, [TIMELESS], stands(TIMELESS)) == [stands(TIMELESS)]


def test_a_row_whose_timestamp_does_not_compare_is_known(tmp_path: Path) -> None:
    numbers = NextRunPlan(timestamp="updated", mark=Mark(kind=Kind.INTEGER, text="1800000000"))
    assert moved(tmp_path, numbers, [], stands(OLD)) == [stands(OLD)]


def test_every_row_is_known_where_keys_are_compared(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_KEYS, [YOUNG], stands(OLD)) == [stands(OLD)]


def test_every_row_is_known_where_there_is_no_mark(tmp_path: Path) -> None:
    assert moved(tmp_path, EVERYTHING, [YOUNG], stands(OLD)) == [stands(OLD)]


def test_the_first_mark_below_which_nothing_is_forgets_nothing(tmp_path: Path) -> None:
    least = NextRunPlan(timestamp="version", mark=Mark(kind=Kind.TEXT, text="7"))
    assert moved(tmp_path, least, [YOUNG], stands(OLD)) == [stands(OLD)]


def test_a_row_that_was_rejected_is_known_without_a_digest(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_MARK, [], rejected(stands(OLD))) == [
        stands(Known(key="[2]", url="", fingerprint="2026-11-21 11:49:58"))
    ]


def test_a_row_that_was_rejected_stands_where_it_was_sent_before(tmp_path: Path) -> None:
    refused = Known(key="[2]", url="http://db.example.com/new", fingerprint="2026-11-21 12:00:00")
    assert moved(tmp_path, BY_MARK, [OLD], stands(refused)) == [
        goes(OLD),
        stands(Known(key="[2]", url="http://db.example.com/2", fingerprint="2026-11-21 12:00:00")),
    ]


def test_a_rejected_row_that_is_not_rejected_again_is_forgotten(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_MARK, [REFUSED]) == [goes(REFUSED)]


def test_a_rejected_row_that_was_not_seen_is_known_where_keys_are_compared(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_KEYS, [REFUSED]) == []


def test_a_row_that_says_it_is_deleted_is_known_without_a_url(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_MARK, [YOUNG], goes(YOUNG)) == [
        stands(Known(key="[1]", url="", fingerprint="2026-11-21 11:50:00", digest="young"))
    ]


def test_a_row_that_says_it_is_deleted_is_forgotten_when_it_is_old(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_MARK, [], goes(OLD)) == [
        goes(Known(key="[2]", url="", fingerprint="2026-11-21 11:49:58", digest="old"))
    ]


def test_a_key_that_no_row_has_is_forgotten(tmp_path: Path) -> None:
    gone = Known(key="[1]", url="http://db.example.com/1")
    assert moved(tmp_path, BY_KEYS, [YOUNG], goes(gone)) == [goes(gone)]


def test_a_key_that_a_query_says_is_deleted_is_known_as_gone(tmp_path: Path) -> None:
    gone = Known(key="[5]", url="http://db.example.com/5")
    assert moved(tmp_path, BY_QUERY, [], goes(gone)) == [stands(GONE_BY_QUERY)]


def test_a_key_that_is_known_as_gone_stays_so(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_QUERY, [GONE_BY_QUERY]) == []


def test_a_key_whose_deletion_has_no_url_is_forgotten(tmp_path: Path) -> None:
    gone = Known(key="[5]", url="")
    assert moved(tmp_path, BY_QUERY, [GONE_BY_QUERY], goes(gone)) == [goes(gone)]


def test_the_url_that_a_row_had_is_known_for_the_next_run(tmp_path: Path) -> None:
    renamed = Known(key="[1]", url="http://db.example.com/new", digest="new")
    assert moved(tmp_path, BY_KEYS, [YOUNG], stands(renamed)) == [
        stands(Known(key='"http://db.example.com/1"', url="")),
        stands(renamed),
    ]


def test_the_url_that_a_deleted_row_had_is_known_for_the_next_run(tmp_path: Path) -> None:
    renamed = Known(key="[1]", url="http://db.example.com/new", digest="new")
    assert moved(tmp_path, BY_KEYS, [YOUNG], goes(renamed)) == [
        stands(Known(key='"http://db.example.com/1"', url="")),
        stands(Known(key="[1]", url="", digest="new")),
    ]


def test_a_url_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    gone = Known(key='"http://db.example.com/1"', url="http://db.example.com/1")
    assert moved(tmp_path, BY_QUERY, [], goes(gone)) == [goes(gone)]


def test_a_url_that_was_not_deleted_yet_stays_known(tmp_path: Path) -> None:
    assert moved(tmp_path, BY_MARK, [Known(key='"http://db.example.com/1"', url="")]) == []


def test_the_mark_is_what_was_read_up_to(tmp_path: Path) -> None:
    assert settled(tmp_path, BY_MARK, [], stands(YOUNG), stands(REFUSED)).mark == MARK


def test_too_many_rejected_rows_keep_the_mark_at_the_first_of_them(tmp_path: Path) -> None:
    seen = (rejected(stands(YOUNG)), stands(REFUSED), rejected(stands(OLD)))
    assert settled(tmp_path, BY_MARK, [], *seen, most=2).mark == Mark(
        kind=Kind.TEXT, text="2026-11-21 11:00:00"
    )


def test_rejected_rows_without_a_timestamp_do_not_move_the_mark(tmp_path: Path) -> None:
    assert settled(tmp_path, BY_MARK, [], rejected(stands(TIMELESS)), most=0).mark == MARK


def test_rows_above_the_mark_that_was_kept_are_known(tmp_path: Path) -> None:
    seen = (stands(OLD), stands(REFUSED))
    assert list(settled(tmp_path, BY_MARK, [], *seen, most=0).seen) == [
        stands(OLD),
        stands(Known(key="[4]", url="", fingerprint="2026-11-21 11:00:00")),
    ]


def test_many_rejected_rows_without_a_mark_make_none(tmp_path: Path) -> None:
    assert settled(tmp_path, EVERYTHING, [], stands(REFUSED), most=0).mark is None


def test_a_state_can_be_moved_by_it_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with state_of(tmp_path, OLD) as state:
        kept = advance_state(
            lambda: [stands(YOUNG)], state=state, next_run=BY_MARK, path=tmp_path / "settled"
        )
        count = move(path, kept.seen, before=1, stamp=Stamp(source="people.yaml"))
    assert count == 1
