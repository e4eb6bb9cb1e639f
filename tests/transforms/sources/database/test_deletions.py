"""Deletions: keys without a row, the query for deletes, and what a state keeps after a run."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from schemas.errors import ConfigError, StoppedError
from schemas.sent_document import SentDocument, StateChange
from schemas.source_options import SourceOptions
from schemas.span import TimestampType, Watermark
from support.database_runs import Database
from transforms.sources.database.columns import ColumnReference
from transforms.sources.database.deletions import (
    DeletedKey,
    DeletionLister,
    KeySets,
    advance_state,
    former_url,
    read_deleted,
    sent_deletion,
)
from transforms.sources.database.mapping import IncrementalReading
from transforms.sources.database.table import open_table
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.state_changes import rejected
from transforms.storage.state import SourceState, StateHead, open_state, update_state

ANNA = SentDocument(key="[1]", url="http://db.example.com/1", digest="a")
BERT = SentDocument(key="[2]", url="http://db.example.com/2", digest="b")
CARL = SentDocument(key="[3]", url="http://db.example.com/3", digest="c")
TWIN = SentDocument(key="[2]", url=ANNA.url, digest="b")
TAKEN = SentDocument(key="[2]", url="http://db.example.com/old", digest="b")
DELETED_ANNA = sent_deletion("[1]", ANNA.url)
LAX = SourceOptions(to_format="", min_records=0, max_delete_percent=Decimal(100))
MOVED = former_url("http://db.example.com/old")


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


def gone(key: str, url: str = "") -> ListingEntry:
    """A deletion, or a key that is only forgotten."""
    return ListingEntry(key=key, kind=EntryKind.GONE, url=url)


@pytest.mark.parametrize(
    ("entries", "existing", "lines"),
    [
        pytest.param((ANNA, BERT, CARL), ["[1]", "[3]"], [gone("[2]", BERT.url)], id="no row"),
        pytest.param(
            (SentDocument(key="[1]", url="", digest="a"),), [], [gone("[1]")], id="no URL"
        ),
        pytest.param((ANNA, TWIN), ["[2]"], [gone("[1]")], id="URL of a remaining row"),
        pytest.param(
            (ANNA, TWIN), [], [gone("[1]", ANNA.url), gone("[2]", ANNA.url)], id="URL of both"
        ),
        pytest.param((ANNA, MOVED), ["[1]"], [gone(MOVED.key, TAKEN.url)], id="former URL"),
        pytest.param(
            (ANNA, TAKEN, MOVED), ["[1]", "[2]"], [gone(MOVED.key)], id="former URL of a row"
        ),
    ],
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
        assert list(DeletionLister(state, keys, compares_keys=True).lines(LAX)) == lines


def unknown(key: str, reason: str) -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.REJECTED, code="unknown-key", reason=reason)


def sent_before(key: str, url: str) -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.FILTERED, url=url, code="gone-before")


@pytest.mark.parametrize(
    ("deleted", "entries", "lines"),
    [
        pytest.param(
            [DeletedKey("[1]", "http://db.example.com/other")],
            (ANNA, BERT),
            [gone("[1]", ANNA.url)],
            id="the URL that was sent",
        ),
        pytest.param(
            [DeletedKey("[9]", "http://db.example.com/9")],
            (ANNA,),
            [gone("[9]", "http://db.example.com/9")],
            id="the URL of the query",
        ),
        pytest.param([DeletedKey("[9]", ANNA.url)], (ANNA,), [gone("[9]")], id="URL of a row"),
        pytest.param(
            [DeletedKey("[9]")],
            (ANNA,),
            [
                unknown(
                    "[9]",
                    "[9] is deleted, and its URL is not known; expected columns of the URL",
                )
            ],
            id="no URL",
        ),
        pytest.param(
            [DeletedKey("[1]", ANNA.url)],
            (DELETED_ANNA,),
            [sent_before("[1]", ANNA.url)],
            id="sent before",
        ),
        pytest.param([], (DELETED_ANNA, BERT), [gone("[1]")], id="no longer in the query"),
    ],
)
def test_keys_of_the_query_for_deletes_are_deleted(
    tmp_path: Path,
    keys: KeySets,
    deleted: list[DeletedKey],
    entries: tuple[SentDocument, ...],
    lines: object,
) -> None:
    keys.add_deleted(deleted)
    with state_of(tmp_path, *entries) as state:
        assert list(DeletionLister(state, keys, compares_keys=False).lines(LAX)) == lines


def test_a_refresh_sends_a_deletion_again(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey("[1]")])
    with state_of(tmp_path, DELETED_ANNA) as state:
        deletions = DeletionLister(state, keys, compares_keys=False, is_refresh=True)
        assert list(deletions.lines(LAX)) == [gone("[1]", ANNA.url)]


def test_a_deleted_key_that_a_row_has_is_rejected(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey("[1]")])
    keys.add_existing(["[1]"])
    with state_of(tmp_path, ANNA) as state:
        (line,) = DeletionLister(state, keys, compares_keys=False).lines(LAX)
    assert (line.kind, line.code, line.reason) == (
        EntryKind.REJECTED,
        "key-in-both",
        "[1] is in the query for deletes, and a row has it; expected one of both",
    )


def test_too_many_keys_without_a_row_stop_the_run(tmp_path: Path, keys: KeySets) -> None:
    keys.add_existing(["[1]"])
    with state_of(tmp_path, ANNA, BERT) as state:
        deletions = DeletionLister(state, keys, compares_keys=True)
        with pytest.raises(
            StoppedError, match=r"^1 of 2 documents in the state are gone; expected"
        ):
            list(deletions.lines(SourceOptions(to_format="")))


def test_keys_of_the_query_do_not_stop_the_run(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey("[2]")])
    keys.add_existing(["[1]"])
    with state_of(tmp_path, ANNA, BERT) as state:
        deletions = DeletionLister(state, keys, compares_keys=True)
        assert list(deletions.lines(SourceOptions(to_format=""))) == [gone("[2]", BERT.url)]


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

YOUNG = SentDocument(
    key="[1]", url="http://db.example.com/1", fingerprint="2026-11-21 11:50:00", digest="young"
)
OLD = SentDocument(
    key="[2]", url="http://db.example.com/2", fingerprint="2026-11-21 11:49:58", digest="old"
)
TIMELESS = SentDocument(key="[3]", url="http://db.example.com/3", digest="timeless")
REFUSED = SentDocument(key="[4]", url="http://db.example.com/4", fingerprint="2026-11-21 11:00:00")
RENAMED = SentDocument(key="[1]", url="http://db.example.com/new", digest="new")
SENT = sent_deletion("[5]", "http://db.example.com/5")
FORMER = former_url("http://db.example.com/1")


def kept(entry: SentDocument) -> StateChange:
    return StateChange(document=entry)


def dropped(entry: SentDocument) -> StateChange:
    return StateChange(document=entry, is_deleted=True)


@pytest.mark.parametrize(
    ("reading", "before", "seen", "changes"),
    [
        pytest.param(BY_MARK, [], kept(YOUNG), [kept(YOUNG)], id="a row that is read again"),
        pytest.param(BY_MARK, [], kept(OLD), [dropped(OLD)], id="a row older than the lag"),
        pytest.param(BY_MARK, [OLD, YOUNG], None, [dropped(OLD)], id="a row that is older now"),
        pytest.param(
            BY_MARK, [TIMELESS], kept(TIMELESS), [kept(TIMELESS)], id="a row without a timestamp"
        ),
        pytest.param(BY_KEYS, [YOUNG], kept(OLD), [kept(OLD)], id="keys are compared"),
        pytest.param(
            BY_MARK,
            [],
            rejected(kept(OLD)),
            [kept(SentDocument(key="[2]", url="", fingerprint=OLD.fingerprint))],
            id="a rejected row",
        ),
        pytest.param(
            BY_MARK,
            [OLD],
            kept(SentDocument(key="[2]", url="http://db.example.com/new", fingerprint=MARK.text)),
            [dropped(OLD), kept(SentDocument(key="[2]", url=OLD.url, fingerprint=MARK.text))],
            id="a rejected row with a former URL",
        ),
        pytest.param(BY_MARK, [REFUSED], None, [dropped(REFUSED)], id="no longer rejected"),
        pytest.param(BY_KEYS, [REFUSED], None, [], id="rejected and not seen"),
        pytest.param(
            BY_MARK,
            [YOUNG],
            dropped(YOUNG),
            [kept(SentDocument(key="[1]", url="", fingerprint=YOUNG.fingerprint, digest="young"))],
            id="a marked row",
        ),
        pytest.param(
            BY_MARK,
            [],
            dropped(OLD),
            [dropped(SentDocument(key="[2]", url="", fingerprint=OLD.fingerprint, digest="old"))],
            id="an old marked row",
        ),
        pytest.param(
            BY_KEYS,
            [YOUNG],
            dropped(SentDocument(key="[1]", url=YOUNG.url)),
            [dropped(SentDocument(key="[1]", url=YOUNG.url))],
            id="a key without a row",
        ),
        pytest.param(
            BY_QUERY,
            [],
            dropped(SentDocument(key="[5]", url="http://db.example.com/5")),
            [kept(SENT)],
            id="a key of the query for deletes",
        ),
        pytest.param(BY_QUERY, [SENT], None, [], id="a deletion that was sent"),
        pytest.param(
            BY_QUERY,
            [SENT],
            dropped(SentDocument(key="[5]", url="")),
            [dropped(SentDocument(key="[5]", url=""))],
            id="a deletion without a URL",
        ),
        pytest.param(
            BY_KEYS, [YOUNG], kept(RENAMED), [kept(FORMER), kept(RENAMED)], id="a new URL"
        ),
        pytest.param(
            BY_KEYS,
            [YOUNG],
            dropped(RENAMED),
            [kept(FORMER), kept(SentDocument(key="[1]", url="", digest="new"))],
            id="a new URL of a marked row",
        ),
        pytest.param(
            BY_QUERY,
            [],
            dropped(SentDocument(key=FORMER.key, url=YOUNG.url)),
            [dropped(SentDocument(key=FORMER.key, url=YOUNG.url))],
            id="a former URL that was deleted",
        ),
        pytest.param(BY_MARK, [FORMER], None, [], id="a former URL that was not deleted"),
    ],
)
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
