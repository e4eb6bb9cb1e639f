"""The metadata of rows: all columns or some, renamed, parted, or by queries of their own."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from schemas.errors import ConfigError, RecordError
from schemas.record import Meta
from transforms.sources.database.column_index import Key, Row, Rows
from transforms.sources.database.mapping import Columns, Mapping
from transforms.sources.database.metadata import metadata_maker

ROWS = Rows(names=("id", "title", "tags", "born"), key=("id",))
ANNA = (7, "Chief", "a; b;;a", date(1990, 1, 31))
PHONES = Columns(name="phone", query="SELECT id, number FROM phones")


def plain(name: str) -> Columns:
    return Columns(name=name, column=name)


def of(*columns: Columns, all_metadata: bool = False, **more: Any) -> Mapping:
    return Mapping(connection="sqlite://", metadata=columns, all_metadata=all_metadata, **more)


def no_sides(query: str, key: Key) -> Sequence[Row]:
    raise AssertionError(f"{query!r} was asked for {key!r}")


def made(mapping: Mapping, row: Row = ANNA, *, without: tuple[int, ...] = ()) -> list[Meta]:
    return list(metadata_maker(mapping, ROWS, no_sides, without=without)(row))


def with_phones(mapping: Mapping, *numbers: Row) -> list[Meta]:
    def sides(query: str, key: Key) -> Sequence[Row]:
        assert (query, key) == ("SELECT id, number FROM phones", (7,))
        return numbers

    return list(metadata_maker(mapping, ROWS, sides)(ANNA))


def test_without_any_there_is_none() -> None:
    assert made(of()) == []


def test_columns_stand_in_the_order_of_the_list() -> None:
    assert made(of(plain("title"), plain("id"))) == [Meta("title", "Chief"), Meta("id", "7")]


def test_a_column_may_have_another_name() -> None:
    assert made(of(Columns(name="Job", column="title"))) == [Meta("Job", "Chief")]


def test_null_is_no_metadata() -> None:
    assert made(of(plain("title"), plain("id")), (7, None, None, None)) == [Meta("id", "7")]


def test_an_empty_text_is_metadata() -> None:
    assert made(of(plain("title")), (7, "", None, None)) == [Meta("title", "")]


def test_a_long_text_is_all_there() -> None:
    assert made(of(plain("title")), (7, "x" * 100_000, None, None)) == [
        Meta("title", "x" * 100_000)
    ]


def test_bytes_stay_bytes() -> None:
    assert made(of(plain("title")), (7, b"\xff", None, None)) == [Meta("title", "", b"\xff")]


def test_an_array_has_many_values() -> None:
    assert made(of(plain("title")), (7, ["a", "b"], None, None)) == [
        Meta("title", "a"),
        Meta("title", "b"),
    ]


def test_a_separator_parts_a_column() -> None:
    assert made(of(Columns(name="tag", column="tags", separator=";"))) == [
        Meta("tag", "a"),
        Meta("tag", "b"),
        Meta("tag", "a"),
    ]


def test_a_separator_parts_bytes_of_text() -> None:
    tags = Columns(name="tag", column="tags", separator=";")
    assert made(of(tags), (7, None, b"a;b", None)) == [Meta("tag", "a"), Meta("tag", "b")]


def test_a_separated_column_of_null_is_no_metadata() -> None:
    assert made(of(Columns(name="tag", column="tags", separator=";")), (7, None, None, None)) == []


def test_all_columns_stand_in_their_order() -> None:
    assert made(of(all_metadata=True)) == [
        Meta("id", "7"),
        Meta("title", "Chief"),
        Meta("tags", "a; b;;a"),
        Meta("born", "1990-01-31"),
    ]


def test_of_all_columns_some_are_used_otherwise() -> None:
    assert made(of(all_metadata=True), without=(1, 2)) == [
        Meta("id", "7"),
        Meta("born", "1990-01-31"),
    ]


def test_of_all_columns_some_can_be_said_otherwise() -> None:
    mapping = of(
        PHONES,
        Columns(name="tag", column="tags", separator=";"),
        Columns(name="Job", column="title"),
        all_metadata=True,
    )
    assert with_phones(mapping, ("+41",)) == [
        Meta("id", "7"),
        Meta("Job", "Chief"),
        Meta("tag", "a"),
        Meta("tag", "b"),
        Meta("tag", "a"),
        Meta("born", "1990-01-31"),
        Meta("phone", "+41"),
    ]


def test_a_column_that_is_used_otherwise_can_be_named_as_well() -> None:
    mapping = of(plain("title"), all_metadata=True)
    assert made(mapping, without=(0, 1, 2)) == [
        Meta("title", "Chief"),
        Meta("born", "1990-01-31"),
    ]


def test_of_all_columns_the_title_is_not_there_twice() -> None:
    mapping = of(all_metadata=True, title="title")
    assert [meta.name for meta in made(mapping)] == ["id", "tags", "born"]


def test_a_title_by_another_name_is_metadata_as_well() -> None:
    mapping = of(all_metadata=True, title="tags")
    assert [meta.name for meta in made(mapping)] == ["id", "title", "tags", "born"]


def test_the_language_is_metadata() -> None:
    assert made(of(language="title")) == [Meta("language", "Chief")]


def test_the_language_is_not_there_twice() -> None:
    mapping = of(Columns(name="Language", column="title"), language="title")
    assert made(mapping) == [Meta("Language", "Chief")]


def test_a_query_has_many_values_and_they_stand_where_it_is_listed() -> None:
    mapping = of(plain("id"), PHONES, plain("title"))
    assert with_phones(mapping, ("+41",), (None,), (42,)) == [
        Meta("id", "7"),
        Meta("phone", "+41"),
        Meta("phone", "42"),
        Meta("title", "Chief"),
    ]


def test_a_query_may_have_nothing() -> None:
    assert with_phones(of(PHONES)) == []


def test_a_query_of_two_values_is_refused() -> None:
    with pytest.raises(RecordError) as caught:
        with_phones(of(PHONES), ("+41", "home"))

    expected = "phone: 2 columns behind the key, of its query; expected one"
    assert (caught.value.code, caught.value.reason) == ("bad-query", expected)


def test_a_value_that_has_no_text_is_told_with_its_name() -> None:
    with pytest.raises(RecordError) as caught:
        made(of(plain("title")), (7, object(), None, None))

    expected = (
        "title: a value of the type object; expected text, a number, a date, bytes, JSON or an "
        "array of these"
    )
    assert (caught.value.code, caught.value.reason) == ("bad-value", expected)


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        made(of(Columns(name="Job", column="titel")))

    expected = (
        "metadata: Job: 'titel'; expected a column: id, title, tags, born; did you mean 'title'?"
    )
    assert str(caught.value) == expected
