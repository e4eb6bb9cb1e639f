"""Scopes: which rows they leave, and their way through the context of a span."""

from pathlib import Path

import pytest

from support.database_runs import Database
from transforms.sources.database.filters import Scope, encode_share, scope_of, scoped
from transforms.sources.database.keys import Key
from transforms.sources.database.ranges import KeyRange, decode_range
from transforms.sources.database.table_query import connect, open_rows
from transforms.sources.database.watermark import Kind, Mark

SEVEN = Mark(kind=Kind.INTEGER, text="7")
EIGHT = Mark(kind=Kind.INTEGER, text="8")
RANGE = KeyRange(after="[1]", upto="[7]", rows=6, size=600)


@pytest.fixture
def people(tmp_path: Path) -> Database:
    return Database(
        tmp_path,
        "CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT, updated INTEGER)",
        "INSERT INTO people VALUES (1, '', 7), (2, '', 8), (3, '', 9), (4, '', NULL)",
    )


def keys(people: Database, scope: Scope) -> list[Key]:
    mapping = people.mapping
    rows = open_rows(mapping, connect(mapping))
    return list(scoped(rows, scope).keys_only())


def test_a_scope_that_says_nothing_has_all_rows(people: Database) -> None:
    assert keys(people, Scope()) == [(1,), (2,), (3,), (4,)]


def test_a_scope_above_a_timestamp_is_without_it(people: Database) -> None:
    people.remap(title="updated")
    assert keys(people, Scope(timestamp="updated", above=SEVEN)) == [(2,), (3,)]


def test_a_scope_up_to_a_timestamp_has_it(people: Database) -> None:
    people.remap(title="updated")
    assert keys(people, Scope(timestamp="updated", above=SEVEN, upto=EIGHT)) == [(2,)]


def test_a_scope_of_no_timestamp_has_those_with_null(people: Database) -> None:
    people.remap(title="updated")
    assert keys(people, Scope(timestamp="UPDATED", is_null=True)) == [(4,)]


def test_a_scope_of_keys_has_those_that_are_there(people: Database) -> None:
    assert keys(people, Scope(keys=("[1]", "[4]", "[9]"))) == [(1,), (4,)]


def test_a_scope_of_keys_may_be_narrower_by_a_timestamp(people: Database) -> None:
    people.remap(title="updated")
    assert keys(people, Scope(timestamp="updated", upto=SEVEN, keys=("[1]", "[2]"))) == [(1,)]


def test_a_thousand_keys_are_asked_for_at_once(people: Database) -> None:
    asked = tuple(f"[{number}]" for number in range(3, 1003))
    assert keys(people, Scope(keys=asked)) == [(3,), (4,)]


def test_a_context_gives_back_the_scope() -> None:
    scope = Scope(timestamp="updated", above=SEVEN, upto=EIGHT, keys=("[1]",), anew=True)
    assert scope_of(encode_share(RANGE, scope)) == scope


def test_a_context_gives_back_the_range() -> None:
    assert decode_range(encode_share(RANGE, Scope(anew=True))) == RANGE


def test_a_context_of_a_range_alone_has_a_scope_of_all_rows() -> None:
    assert scope_of(b'{"after":"[1]"}') == Scope()
