"""Deletions: keys of the state without a row, and the keys of the query for deletes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import ConfigError, StoppedError
from schemas.sent_document import DELETION_SENT, SentDocument, StateChange
from support.database_runs import Database
from transforms.sources.change_detection import Safety
from transforms.sources.database.column_index import ColumnReference
from transforms.sources.database.connection import connect
from transforms.sources.database.deletions import (
    DeletedKey,
    KeySets,
    check_deletions,
    list_deletions,
    read_deleted,
)
from transforms.sources.database.table_query import open_rows
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.storage.state import SourceState, StateHead, open_state, update_state

ANNA = SentDocument(key="[1]", url="http://db.example.com/1", digest="a")
BERT = SentDocument(key="[2]", url="http://db.example.com/2", digest="b")
CARL = SentDocument(key="[3]", url="http://db.example.com/3", digest="c")
GONE_ANNA = SentDocument(
    key="[1]", url="", fingerprint="http://db.example.com/1", digest=DELETION_SENT
)
MOVED = SentDocument(key='"http://db.example.com/old"', url="")


@pytest.fixture
def keys() -> Iterator[KeySets]:
    keys = KeySets()
    yield keys
    keys.close()


def state_of(folder: Path, *knowns: SentDocument) -> SourceState:
    path = folder / "state"
    seen = [StateChange(known=known) for known in knowns]
    update_state(path, seen, before=0, stamp=StateHead(source="people.yaml"))
    return open_state(path)


def compared(state: SourceState, keys: KeySets) -> list[ListingEntry]:
    return list(list_deletions(state, keys, compares_keys=True, is_refresh=False))


def asked(state: SourceState, keys: KeySets) -> list[ListingEntry]:
    return list(list_deletions(state, keys, compares_keys=False, is_refresh=False))


def from_scratch(state: SourceState, keys: KeySets) -> list[ListingEntry]:
    return list(list_deletions(state, keys, compares_keys=False, is_refresh=True))


def gone_at(key: str, url: str) -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.GONE, url=url, known=SentDocument(key=key, url=url))


def gone(known: SentDocument) -> ListingEntry:
    return gone_at(known.key, known.url)


def forgotten(known: SentDocument) -> ListingEntry:
    return gone_at(known.key, "")


def test_a_key_that_no_row_has_is_gone(tmp_path: Path, keys: KeySets) -> None:
    keys.add_existing(["[1]", "[3]"])
    with state_of(tmp_path, ANNA, BERT, CARL) as state:
        assert compared(state, keys) == [gone(BERT)]


def test_a_key_without_a_url_is_only_forgotten(tmp_path: Path, keys: KeySets) -> None:
    tombstone = SentDocument(key="[1]", url="", digest="a")
    with state_of(tmp_path, tombstone) as state:
        assert compared(state, keys) == [forgotten(tombstone)]


def test_a_deleted_key_is_gone_at_the_url_that_was_sent(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey(key="[1]", url="http://db.example.com/other")])
    with state_of(tmp_path, ANNA, BERT) as state:
        assert asked(state, keys) == [gone(ANNA)]


def test_a_deleted_key_that_is_not_known_is_gone_at_the_url_that_is_made(
    tmp_path: Path, keys: KeySets
) -> None:
    keys.add_deleted([DeletedKey(key="[9]", url="http://db.example.com/9")])
    with state_of(tmp_path, ANNA) as state:
        assert asked(state, keys) == [gone_at("[9]", "http://db.example.com/9")]


def test_a_deleted_key_without_any_url_is_rejected(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey(key="[9]", reason="url: 'slug'; expected a column: id")])
    with state_of(tmp_path, ANNA) as state:
        assert asked(state, keys) == [
            ListingEntry(
                key="[9]",
                kind=EntryKind.REJECTED,
                code="unknown-key",
                reason="[9] is deleted, and its URL is not known: url: 'slug'; expected a "
                "column: id",
            )
        ]


def test_a_deleted_key_that_a_row_has_is_rejected(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey(key="[1]")])
    keys.add_existing(["[1]"])
    with state_of(tmp_path, ANNA) as state:
        assert asked(state, keys) == [
            ListingEntry(
                key="[1]",
                kind=EntryKind.REJECTED,
                code="key-in-both",
                reason="[1] is in the query for deletes, and a row has it; expected one of both",
            )
        ]


def test_a_key_that_was_deleted_before_is_not_deleted_again(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey(key="[1]", url="http://db.example.com/1")])
    with state_of(tmp_path, GONE_ANNA) as state:
        assert asked(state, keys) == [
            ListingEntry(
                key="[1]",
                kind=EntryKind.FILTERED,
                url="http://db.example.com/1",
                code="gone-before",
            )
        ]


def test_a_refresh_deletes_it_again(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey(key="[1]")])
    with state_of(tmp_path, GONE_ANNA) as state:
        assert from_scratch(state, keys) == [gone(ANNA)]


def test_a_key_that_the_query_no_longer_returns_is_forgotten(tmp_path: Path, keys: KeySets) -> None:
    with state_of(tmp_path, GONE_ANNA, BERT) as state:
        assert asked(state, keys) == [forgotten(GONE_ANNA)]


def test_a_url_that_a_row_had_is_gone(tmp_path: Path, keys: KeySets) -> None:
    with state_of(tmp_path, ANNA, MOVED) as state:
        assert asked(state, keys) == [
            gone_at('"http://db.example.com/old"', "http://db.example.com/old")
        ]


def test_a_url_that_another_row_has_now_is_not_gone(tmp_path: Path, keys: KeySets) -> None:
    taken = SentDocument(key="[2]", url="http://db.example.com/old", digest="b")
    with state_of(tmp_path, ANNA, taken, MOVED) as state:
        assert asked(state, keys) == [forgotten(MOVED)]


def test_a_url_of_two_rows_is_kept_with_one_of_them(tmp_path: Path, keys: KeySets) -> None:
    twin = SentDocument(key="[2]", url=ANNA.url, digest="b")
    keys.add_existing(["[2]"])
    with state_of(tmp_path, ANNA, twin) as state:
        assert compared(state, keys) == [forgotten(ANNA)]


def test_a_url_of_two_rows_goes_with_both(tmp_path: Path, keys: KeySets) -> None:
    twin = SentDocument(key="[2]", url=ANNA.url, digest="b")
    with state_of(tmp_path, ANNA, twin) as state:
        assert compared(state, keys) == [gone(ANNA), gone(twin)]


def test_a_url_that_a_row_has_is_not_deleted(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey(key="[9]", url=ANNA.url)])
    with state_of(tmp_path, ANNA) as state:
        assert asked(state, keys) == [gone_at("[9]", "")]


def test_lines_are_in_the_order_of_the_bytes_of_their_keys(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted(
        [DeletedKey(key=key, url=f"http://db.example.com/{key}") for key in ("[9]", "[10]")]
    )
    with state_of(tmp_path, ANNA, BERT, CARL, MOVED) as state:
        lines = compared(state, keys)
    assert [line.key for line in lines] == [
        '"http://db.example.com/old"',
        "[10]",
        "[1]",
        "[2]",
        "[3]",
        "[9]",
    ]


def test_too_many_keys_that_are_gone_stop_the_run(tmp_path: Path, keys: KeySets) -> None:
    keys.add_existing(["[1]"])
    with state_of(tmp_path, ANNA, BERT) as state, pytest.raises(StoppedError) as raised:
        list(check_deletions(compared(state, keys), state, keys, Safety()))
    assert str(raised.value) == (
        "1 of 2 documents in the state are gone; expected at most 20% of them; no document "
        "was read: check whether the source is complete; if it is, --max-delete-percent allows more"
    )


def test_the_keys_of_the_query_do_not_count(tmp_path: Path, keys: KeySets) -> None:
    keys.add_deleted([DeletedKey(key="[2]")])
    keys.add_existing(["[1]"])
    with state_of(tmp_path, ANNA, BERT) as state:
        lines = check_deletions(compared(state, keys), state, keys, Safety())
        assert list(lines) == [gone(BERT)]


@pytest.fixture
def people(tmp_path: Path) -> Database:
    return Database(tmp_path, "CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT, slug TEXT)")


def read(people: Database, query: str) -> list[DeletedKey]:
    mapping = people.mapping
    return list(read_deleted(open_rows(mapping, connect(mapping)), query))


def test_a_query_can_end_in_a_comment(people: Database) -> None:
    assert read(people, "SELECT 7 AS id -- :all") == [
        DeletedKey(key="[7]", url="http://db.example.com/7")
    ]


def test_a_row_that_lacks_a_column_of_the_url_has_none(people: Database) -> None:
    people.remap(url="http://db.example.com/{slug}")
    assert read(people, "SELECT 7 AS id") == [
        DeletedKey(key="[7]", reason="url: 'slug'; expected a column: id")
    ]


def test_a_url_can_be_a_column(people: Database) -> None:
    people.remap(url=ColumnReference(column="slug"))
    assert read(people, "SELECT 7 AS id, 'http://x.example.com/7' AS slug") == [
        DeletedKey(key="[7]", url="http://x.example.com/7")
    ]


def test_a_row_with_null_in_its_key_has_no_key(people: Database) -> None:
    assert read(people, "SELECT NULL AS id") == [
        DeletedKey(key="[null]", reason="NULL in the key; expected a value in each column")
    ]


def test_a_query_without_the_key_is_refused(people: Database) -> None:
    with pytest.raises(ConfigError) as raised:
        read(people, "SELECT 7 AS number, 8 AS ident")
    assert str(raised.value) == ("incremental: deletes: 'id'; expected a column: number, ident")


def test_a_query_that_is_no_sql_is_refused(people: Database) -> None:
    with pytest.raises(ConfigError) as raised:
        read(people, "SELEC 7")
    assert str(raised.value) == (
        f'sqlite:///{people.folder}/people.db, the query for deletes: near "7": syntax '
        "error; expected SQL that this database understands"
    )
