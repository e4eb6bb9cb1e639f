"""Deletions: keys without a row, the query for deletes, and what a state keeps after a run."""

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, StoppedError
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import TimestampType, Watermark
from feedferry.transforms.sources.changes.detector import ChangeDetector
from feedferry.transforms.sources.database.changes.deletions import (
    DeletedKey,
    KeySets,
    RowDeletions,
    advance_state,
    read_deleted,
)
from feedferry.transforms.sources.database.changes.row_entries import FormerUrl, SentDeletion
from feedferry.transforms.sources.database.mapping.columns import ColumnReference
from feedferry.transforms.sources.database.mapping.row_mapping import IncrementalReading
from feedferry.transforms.sources.database.tables.table import open_table
from feedferry.transforms.sources.listing import EntryKind, ListingEntry
from feedferry.transforms.sources.state_changes import rejected
from feedferry.transforms.storage.state import SourceState, StateHead, open_state, update_state
from support.database_runs import Database


def row(number: int, url: str | None = None, **fields: str) -> SentDocument:
    """The document of a row, with the URL that its key makes, or another."""
    url = f"http://db.example.com/{number}" if url is None else url
    return SentDocument(key=f"[{number}]", url=url, **fields)  # type: ignore[arg-type]


ANNA, BERT, CARL = row(1, digest="a"), row(2, digest="b"), row(3, digest="c")
TWIN = row(2, ANNA.url, digest="b")
TAKEN = row(2, "http://db.example.com/old", digest="b")
DELETED_ANNA = SentDeletion("[1]", ANNA.url).entry()
LAX = SourceOptions(to_format="", min_records=0, max_delete_percent=Decimal(100))
MOVED = FormerUrl(TAKEN.url).entry()


def state_of(folder: Path, *entries: SentDocument) -> SourceState:
    path = folder / "state"
    seen = [StateChange(document=entry) for entry in entries]
    update_state(path, seen, before=0, stamp=StateHead(source="people.yaml"))
    return open_state(path)


@pytest.fixture
def keys() -> Iterator[KeySets]:
    keys = KeySets()
    yield keys
    keys.close()


def lines_of(
    state: SourceState, keys: KeySets, limits: SourceOptions | None = None, **options: Any
) -> list[ListingEntry]:
    """Return the lines of the keys that are not deleted, and then the deletions."""
    rewrite, is_refresh = options.get("rewrite"), options.get("is_refresh", False)
    with closing(ChangeDetector(state, rewrite)) as detector:
        deletions = RowDeletions(detector, keys, is_refresh=is_refresh)
        deletions.of_state(compares_keys=limits is not None)
        return [*deletions.of_query(), *detector.deletions(limits)]


def gone(key: str, url: str = "") -> ListingEntry:
    """A deletion, or a key that is only forgotten."""
    return ListingEntry(key=key, kind=EntryKind.GONE, url=url)


WITHOUT_A_ROW = {
    "no row": ((ANNA, BERT, CARL), ["[1]", "[3]"], [gone("[2]", BERT.url)]),
    "no URL": ((row(1, "", digest="a"),), [], [gone("[1]")]),
    "URL of a remaining row": ((ANNA, TWIN), ["[2]"], [gone("[1]")]),
    "URL of both": ((ANNA, TWIN), [], [gone("[1]"), gone("[2]", ANNA.url)]),
    "former URL": ((ANNA, MOVED), ["[1]"], [gone(MOVED.key, TAKEN.url)]),
    "former URL of a row": ((ANNA, TAKEN, MOVED), ["[1]", "[2]"], [gone(MOVED.key)]),
}


@pytest.mark.parametrize(
    ("entries", "existing", "lines"), WITHOUT_A_ROW.values(), ids=WITHOUT_A_ROW
)
def test_keys_without_a_row_are_deleted(
    tmp_path: Path,
    keys: KeySets,
    entries: tuple[SentDocument, ...],
    existing: list[str],
    lines: object,
) -> None:
    keys.add_existing(existing)
    with state_of(tmp_path, *entries) as state:
        assert lines_of(state, keys, LAX) == lines


def test_a_former_url_that_a_row_has_after_a_rewriting_is_only_forgotten(
    tmp_path: Path, keys: KeySets
) -> None:
    now = row(2, TAKEN.url.upper(), digest="b")
    keys.add_existing(["[1]", "[2]"])
    with state_of(tmp_path, ANNA, now, MOVED) as state:
        assert lines_of(state, keys, LAX) == [gone(MOVED.key, TAKEN.url)]
        assert lines_of(state, keys, LAX, rewrite=str.lower) == [gone(MOVED.key)]


UNKNOWN = ListingEntry(
    key="[9]",
    kind=EntryKind.REJECTED,
    code="unknown-key",
    reason="[9] is deleted, and its URL is not known; expected columns of the URL",
)
SENT_BEFORE = ListingEntry(key="[1]", kind=EntryKind.FILTERED, url=ANNA.url, code="gone-before")
OTHER, NINE = "http://db.example.com/other", "http://db.example.com/9"
IN_THE_QUERY = {
    "the URL that was sent": ([DeletedKey("[1]", OTHER)], (ANNA, BERT), [gone("[1]", ANNA.url)]),
    "the URL of the query": ([DeletedKey("[9]", NINE)], (ANNA,), [gone("[9]", NINE)]),
    "URL of a row": ([DeletedKey("[9]", ANNA.url)], (ANNA,), [gone("[9]")]),
    "no URL": ([DeletedKey("[9]")], (ANNA,), [UNKNOWN]),
    "sent before": ([DeletedKey("[1]", ANNA.url)], (DELETED_ANNA,), [SENT_BEFORE]),
    "no longer in the query": ([], (DELETED_ANNA, BERT), [gone("[1]")]),
}


@pytest.mark.parametrize(("deleted", "entries", "lines"), IN_THE_QUERY.values(), ids=IN_THE_QUERY)
def test_keys_of_the_query_for_deletes_are_deleted(
    tmp_path: Path,
    keys: KeySets,
    deleted: list[DeletedKey],
    entries: tuple[SentDocument, ...],
    lines: object,
) -> None:
    keys.add_deleted(deleted)
    with state_of(tmp_path, *entries) as state:
        assert lines_of(state, keys) == lines


def test_a_refresh_sends_a_deletion_again(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey("[1]")])
    with state_of(tmp_path, DELETED_ANNA) as state:
        assert lines_of(state, keys, is_refresh=True) == [gone("[1]", ANNA.url)]


def test_a_deleted_key_that_a_row_has_is_rejected(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey("[1]")])
    keys.add_existing(["[1]"])
    with state_of(tmp_path, ANNA) as state:
        (line,) = lines_of(state, keys)
    assert (line.kind, line.code, line.reason) == (
        EntryKind.REJECTED,
        "key-in-both",
        "[1] is in the query for deletes, and a row has it; expected one of both",
    )


def test_too_many_keys_without_a_row_stop_the_run(tmp_path: Path, keys: KeySets) -> None:
    keys.add_existing(["[1]"])
    with state_of(tmp_path, ANNA, BERT) as state:
        message = "^1 of 2 documents in the state are gone; expected"
        with pytest.raises(StoppedError, match=message):
            lines_of(state, keys, SourceOptions(to_format=""))


def test_keys_of_the_query_do_not_stop_the_run(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey("[2]")])
    keys.add_existing(["[1]"])
    with state_of(tmp_path, ANNA, BERT) as state:
        assert lines_of(state, keys, SourceOptions(to_format="")) == [gone("[2]", BERT.url)]


@pytest.fixture
def people(tmp_path: Path) -> Database:
    return Database(tmp_path, "CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT, slug TEXT)")


def read(people: Database, query: str) -> list[DeletedKey]:
    return list(read_deleted(open_table(people.mapping), query))


def test_a_query_for_deletes_returns_keys_and_columns_of_the_url(people: Database) -> None:
    assert read(people, "SELECT 7 AS id -- :all") == [DeletedKey("[7]", "http://db.example.com/7")]
    people.remap(url=ColumnReference(column="slug"))
    assert read(people, "SELECT 7 AS id, 'http://x.example.com/7' AS slug") == [
        DeletedKey("[7]", "http://x.example.com/7")
    ]
    assert read(people, "SELECT 7 AS id") == [DeletedKey("[7]")]
    assert read(people, "SELECT NULL AS id, '' AS slug") == [DeletedKey("[null]")]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 7 AS number, 8 AS ident", "incremental: deletes: 'id'; expected a column: number"),
        ("SELEC 7", '/people.db, the query for deletes: near "7": syntax error; expected SQL that'),
    ],
)
def test_a_wrong_query_for_deletes_is_refused(people: Database, query: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(people, query)
    assert message in str(raised.value)


MARK = Watermark(type=TimestampType.TEXT, text="2026-11-21 12:00:00")
BY_MARK = IncrementalReading(timestamp="updated")
BY_KEYS = IncrementalReading(timestamp="updated", deletes="compare")
BY_QUERY = IncrementalReading(timestamp="updated", deletes="SELECT id FROM log")

YOUNG = row(1, fingerprint="2026-11-21 11:50:00", digest="young")
OLD = row(2, fingerprint="2026-11-21 11:49:58", digest="old")
TIMELESS = row(3, digest="timeless")
REFUSED = row(4, fingerprint="2026-11-21 11:00:00")
RENAMED = row(1, "http://db.example.com/new", digest="new")
REJECTED = row(2, "http://db.example.com/new", fingerprint=MARK.text)
SENT = SentDeletion("[5]", row(5).url).entry()
FORMER = FormerUrl(YOUNG.url).entry()
DELETED_FORMER = SentDocument(key=FORMER.key, url=YOUNG.url)


def kept(entry: SentDocument) -> StateChange:
    return StateChange(document=entry)


def dropped(entry: SentDocument) -> StateChange:
    return StateChange(document=entry, is_deleted=True)


CHANGES = {
    "a row that is read again": (BY_MARK, [], kept(YOUNG), [kept(YOUNG)]),
    "a row older than the lag": (BY_MARK, [], kept(OLD), [dropped(OLD)]),
    "a row that is older now": (BY_MARK, [OLD, YOUNG], None, [dropped(OLD)]),
    "a row without a timestamp": (BY_MARK, [TIMELESS], kept(TIMELESS), [kept(TIMELESS)]),
    "keys are compared": (BY_KEYS, [YOUNG], kept(OLD), [kept(OLD)]),
    "a rejected row": (
        *(BY_MARK, [], rejected(kept(OLD))),
        [kept(row(2, "", fingerprint=OLD.fingerprint))],
    ),
    "a rejected row with a former URL": (
        *(BY_MARK, [OLD], kept(REJECTED)),
        [dropped(OLD), kept(row(2, fingerprint=MARK.text))],
    ),
    "no longer rejected": (BY_MARK, [REFUSED], None, [dropped(REFUSED)]),
    "rejected and not seen": (BY_KEYS, [REFUSED], None, []),
    "a marked row": (BY_MARK, [YOUNG], dropped(YOUNG), [kept(replace(YOUNG, url=""))]),
    "an old marked row": (BY_MARK, [], dropped(OLD), [dropped(replace(OLD, url=""))]),
    "a key without a row": (BY_KEYS, [YOUNG], dropped(row(1)), [dropped(row(1))]),
    "a key of the query for deletes": (BY_QUERY, [], dropped(row(5)), [kept(SENT)]),
    "a deletion that was sent": (BY_QUERY, [SENT], None, []),
    "a deletion without a URL": (BY_QUERY, [SENT], dropped(row(5, "")), [dropped(row(5, ""))]),
    "a new URL": (BY_KEYS, [YOUNG], kept(RENAMED), [kept(FORMER), kept(RENAMED)]),
    "a new URL of a marked row": (
        *(BY_KEYS, [YOUNG], dropped(RENAMED)),
        [kept(FORMER), kept(replace(RENAMED, url=""))],
    ),
    "a former URL that was deleted": (
        *(BY_QUERY, [], dropped(DELETED_FORMER)),
        [dropped(DELETED_FORMER)],
    ),
    "a former URL that was not deleted": (BY_MARK, [FORMER], None, []),
}


@pytest.mark.parametrize(("reading", "before", "seen", "changes"), CHANGES.values(), ids=CHANGES)
def test_a_state_keeps_what_the_next_run_needs(
    tmp_path: Path,
    reading: IncrementalReading,
    before: list[SentDocument],
    seen: StateChange | None,
    changes: list[StateChange],
) -> None:
    path = tmp_path / "changes"
    all_seen = [] if seen is None else [seen]
    with state_of(tmp_path, *before) as state:
        result = advance_state(all_seen, state=state, incremental=reading, mark=MARK, path=path)
        assert list(result) == changes


def test_every_row_is_kept_without_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "changes"
    with state_of(tmp_path, YOUNG) as state:
        result = advance_state([kept(OLD)], state=state, incremental=BY_MARK, mark=None, path=path)
        assert list(result) == [kept(OLD)]


def test_a_state_can_be_updated_while_it_is_open(tmp_path: Path) -> None:
    path, seen = tmp_path / "changes", [kept(YOUNG)]
    with state_of(tmp_path, OLD) as state:
        changes = advance_state(seen, state=state, incremental=BY_MARK, mark=MARK, path=path)
        stamp = StateHead(source="people.yaml")
        assert update_state(tmp_path / "state", changes, before=1, stamp=stamp) == 1
