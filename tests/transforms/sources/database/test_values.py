"""Values of all types of the drivers of SQLite, PostgreSQL and MariaDB, as texts and as times."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import KeyRange, Span
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources.database.mapping.row_mapping import (
    ContentSource,
    MetadataColumn,
    RowMapping,
)
from feedferry.transforms.sources.database.mapping.values import (
    row_json,
    text_of,
    time_converter,
    values_of,
)
from feedferry.transforms.sources.database.read import read_rows
from support.database_runs import AnyServer, new_mapping
from support.databases import Server, Sqlite

PLUS_TWO = timezone(timedelta(hours=2))
OFFSETS = st.builds(lambda hours: timezone(timedelta(hours=hours)), st.integers(-12, 14))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (True, "true"),
        (0.1, "0.1"),
        (1e16, "1e+16"),
        (float("nan"), "nan"),
        (Decimal("12.50"), "12.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("1E-10"), "0.0000000001"),
        (Decimal("NaN"), "NaN"),
        (date(2026, 1, 31), "2026-01-31"),
        (time(8, 30, 0, 1), "08:30:00.000001"),
        (time(8, 30, tzinfo=PLUS_TWO), "08:30:00+02:00"),
        (datetime(2026, 1, 31, 8, 30, 0, 123456), "2026-01-31T08:30:00.123456"),
        (datetime(2026, 1, 31, 8, 30, tzinfo=UTC), "2026-01-31T08:30:00Z"),
        (datetime(2026, 1, 31, 8, 30, 0, 5, tzinfo=PLUS_TWO), "2026-01-31T06:30:00.000005Z"),
        (datetime(1, 1, 1, tzinfo=PLUS_TWO), "0001-01-01T00:00:00+02:00"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (b"caf\xc3\xa9", "café"),
        ([1, "b"], '[1,"b"]'),
        ("(1,2)", "(1,2)"),
    ],
    ids=repr,
)
def test_a_value_has_one_text(value: object, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (None, ()),
        ("a,b", ("a,b",)),
        (7, ("7",)),
        (b"\xff\x00", (b"\xff\x00",)),
        (b"text", (b"text",)),
        (["a", None, 7], ("a", "7")),
        (("a", b"\xff"), ("a", b"\xff")),
        ([["a", "b"], "c"], ('["a","b"]', "c")),
        ([], ()),
    ],
    ids=repr,
)
def test_an_array_has_many_values(value: object, values: tuple[str | bytes, ...]) -> None:
    assert values_of(value) == values


def test_a_row_of_any_values_can_be_shown() -> None:
    row = {"id": 7, "name": "Zoë", "at": date(2026, 1, 31), "photo": b"\xff\x00", "x": object()}
    expected = (
        '{"id": 7, "name": "Zoë", "at": "2026-01-31", "photo": "ff00", '
        '"x": "a value of the type object"}'
    )
    assert row_json(row) == expected.encode()


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_digit_of_a_number_is_lost(value: Decimal) -> None:
    assert Decimal(text_of(value) or "") == value


@given(st.text())
def test_a_text_stays_as_it_is(value: str) -> None:
    assert text_of(value) == value


@given(st.datetimes(timezones=OFFSETS))
def test_a_moment_stays_the_same(value: datetime) -> None:
    assert datetime.fromisoformat(text_of(value) or "") == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff\xfe", "bytes that are not UTF-8; expected text, a number or a date"),
        (
            object(),
            "a value of the type object; expected text, a number, a date, bytes or an array of "
            "these",
        ),
    ],
)
def test_a_value_without_a_text_is_rejected(value: object, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        text_of(value)
    assert (caught.value.code, caught.value.reason) == ("bad-value", reason)


def time_of(value: object, zone: str = "UTC") -> datetime | None:
    return time_converter("updated_at", zone)(value)


def utc(*parts: int) -> datetime:
    return datetime(*parts).replace(tzinfo=UTC)  # type: ignore[arg-type]  # year, month, day, …


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (datetime(2026, 1, 31, 8, 30, tzinfo=UTC), utc(2026, 1, 31, 8, 30)),
        (datetime(2026, 1, 31, 8, 30, 0, 5, tzinfo=PLUS_TWO), utc(2026, 1, 31, 6, 30, 0, 5)),
        (date(2026, 1, 31), utc(2026, 1, 31)),
        ("2026-01-31T08:30:00.123456+02:00", utc(2026, 1, 31, 6, 30, 0, 123456)),
        (b"2026-01-31", utc(2026, 1, 31)),
        (1_700_000_000, utc(2023, 11, 14, 22, 13, 20)),
        (1_700_000_000_123, utc(2023, 11, 14, 22, 13, 20, 123000)),
        (1_700_000_000_123_456, utc(2023, 11, 14, 22, 13, 20, 123456)),
        (1_700_000_000_123_456_789, utc(2023, 11, 14, 22, 13, 20, 123456)),
        (1_700_000_000.5, utc(2023, 11, 14, 22, 13, 20, 500000)),
        (Decimal("1700000000.000001"), utc(2023, 11, 14, 22, 13, 20, 1)),
        (-1, utc(1969, 12, 31, 23, 59, 59)),
        (None, None),
        (" ", None),
        ("0000-00-00 00:00:00", None),
    ],
    ids=repr,
)
def test_a_value_is_a_time_in_utc(value: object, moment: datetime | None) -> None:
    result = time_of(value)
    assert result == moment
    assert result is None or result.tzinfo is UTC


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (datetime(2026, 7, 1, 8, 30), utc(2026, 7, 1, 6, 30)),
        (date(2026, 1, 31), utc(2026, 1, 30, 23)),
        ("2026-07-01 08:30:00", utc(2026, 7, 1, 6, 30)),
        (datetime(2026, 7, 1, 8, 30, tzinfo=UTC), utc(2026, 7, 1, 8, 30)),
    ],
    ids=repr,
)
def test_a_time_without_a_zone_is_in_the_zone_of_the_options(
    value: object, moment: datetime
) -> None:
    assert time_of(value, "Europe/Zurich") == moment


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("yesterday", "yesterday"),
        ("2026-02-30", "2026-02-30"),
        (True, "true"),
        (10**30, "1000000000000000000000000000000"),
        (float("nan"), "nan"),
        (Decimal("Infinity"), "Infinity"),
        (datetime(1, 1, 1, tzinfo=PLUS_TWO), "0001-01-01T00:00:00+02:00"),
        (b"\xff", "ff"),
    ],
    ids=repr,
)
def test_a_value_that_is_no_time_is_rejected(value: object, shown: str) -> None:
    with pytest.raises(RecordError) as caught:
        time_of(value)
    expected = f"updated_at={shown!r}; expected a date, a time or seconds since 1970"
    assert (caught.value.code, caught.value.reason) == ("bad-date", expected)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("20260131083000", datetime(2026, 1, 31, 7, 30, tzinfo=UTC)),
        (" 20260131083000 ", datetime(2026, 1, 31, 7, 30, tzinfo=UTC)),
        (20260131083000, datetime(2026, 1, 31, 7, 30, tzinfo=UTC)),
        (datetime(2026, 1, 31, 8, 30), datetime(2026, 1, 31, 7, 30, tzinfo=UTC)),
        ("00000000000000", None),
        ("", None),
        (0, None),
        (None, None),
    ],
    ids=repr,
)
def test_a_date_of_a_format_is_a_time(value: object, moment: datetime | None) -> None:
    assert time_converter("at", "Europe/Zurich", "%Y%m%d%H%M%S")(value) == moment


@pytest.mark.parametrize("value", ["2026-01-31", "99991332000000", 1769846400, True], ids=repr)
def test_a_date_of_another_format_is_rejected(value: object) -> None:
    with pytest.raises(RecordError, match=r"^at='.*'; expected the format %Y%m%d%H%M%S$"):
        time_converter("at", "UTC", "%Y%m%d%H%M%S")(value)


@pytest.mark.parametrize(
    ("text", "form", "moment"),
    [
        ("1.2.2026", "%d.%m.%Y", datetime(2026, 2, 1, tzinfo=UTC)),
        ("20260131083000123", "%Y%m%d%H%M%S%f", datetime(2026, 1, 31, 8, 30, 0, 123000, UTC)),
    ],
)
def test_numbers_may_be_short_where_a_separator_ends_them(
    text: str, form: str, moment: datetime
) -> None:
    assert time_converter("at", "UTC", form)(text) == moment


def test_a_zone_in_a_format_counts() -> None:
    moment = time_converter("at", "UTC", "%d.%m.%Y %H:%M %z")("31.01.2026 08:30 +0200")
    assert moment == datetime(2026, 1, 31, 6, 30, tzinfo=UTC)


SEVEN = "00000000-0000-0000-0000-000000000007"
MAPPING = RowMapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentSource(is_none=True),
    metadata=(MetadataColumn(name="it", column="it"),),
)


def read(server: AnyServer, *statements: str) -> ReadResult:
    """The outcome of the only row of a new database."""
    mapping = new_mapping(server, MAPPING, *statements)
    (outcome,) = read_rows(Span(position=KeyRange()), mapping=mapping)
    return outcome


def outcome_of(server: AnyServer, type_: str, value: str) -> ReadResult:
    """The outcome of a row with a value, written in SQL, of a type."""
    table = f"CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, it {type_})"
    return read(server, table, f"INSERT INTO docs VALUES (1, {value})")


def metadata(outcome: ReadResult) -> list[str | bytes]:
    assert isinstance(outcome, Record), outcome
    return [meta.value if meta.data is None else meta.data for meta in outcome.metadata]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("SMALLINT", "-32768", ["-32768"]),
        ("INT", "2147483647", ["2147483647"]),
        ("BIGINT", "-9223372036854775808", ["-9223372036854775808"]),
        ("NUMERIC", "12345678901234567890.000000000100", ["12345678901234567890.000000000100"]),
        ("NUMERIC(6,2)", "1.5", ["1.50"]),
        ("NUMERIC", "'NaN'", ["NaN"]),
        ("REAL", "0.1", ["0.1"]),
        ("DOUBLE PRECISION", "0.1", ["0.1"]),
        ("DOUBLE PRECISION", "'-Infinity'", ["-inf"]),
        ("MONEY", "'12.34'", ["$12.34"]),
        ("BOOLEAN", "true", ["true"]),
        ("CHAR(5)", "'ab'", ["ab   "]),
        ("VARCHAR(9)", "'Zoë 🎉'", ["Zoë 🎉"]),
        ("TEXT", "'a' || chr(10) || 'b'", ["a\nb"]),
        ("TEXT", "''", [""]),
        ("TEXT", "NULL", []),
        ('"char"', "'x'", ["x"]),
        ("NAME", "'x'", ["x"]),
        ("BYTEA", r"'\x00ff'", [b"\x00\xff"]),
        ("DATE", "'2026-01-31'", ["2026-01-31"]),
        ("TIME", "'08:30:00.000001'", ["08:30:00.000001"]),
        ("TIMETZ", "'08:30:00+02'", ["08:30:00+02:00"]),
        ("TIMESTAMP", "'2026-01-31 08:30:00.000001'", ["2026-01-31T08:30:00.000001"]),
        ("TIMESTAMPTZ", "'2026-01-31 08:30:00+02'", ["2026-01-31T06:30:00Z"]),
        ("INTERVAL", "'2 days 03:04:05.6'", ["2 days 03:04:05.6"]),
        ("UUID", f"'{SEVEN}'", [SEVEN]),
        ("JSON", """'{"a":  1.10}'""", ['{"a":  1.10}']),
        ("JSONB", """'{"a":  1.10}'""", ['{"a": 1.10}']),
        ("INT[]", "'{1,NULL,3}'", ["1", "3"]),
        ("TEXT[]", """'{a,"b c"}'""", ["a", "b c"]),
        ("TIMESTAMP[]", "'{2026-01-31}'", ["2026-01-31T00:00:00"]),
        ("INT[]", "'{}'", []),
        ("INT4RANGE", "'[1,5)'", ["[1,5)"]),
        ("TSTZRANGE", "'[2026-01-31 00:00+00,)'", ['["2026-01-31 00:00:00+00",)']),
        ("INET", "'10.0.0.1'", ["10.0.0.1"]),
        ("CIDR", "'10.0.0.0/8'", ["10.0.0.0/8"]),
        ("MACADDR", "'08:00:2b:01:02:03'", ["08:00:2b:01:02:03"]),
        ("BIT(3)", "B'101'", ["101"]),
        ("POINT", "'(1,2)'", ["(1,2)"]),
        ("TSVECTOR", "'a b'::tsvector", ["'a' 'b'"]),
        ("OID", "7", ["7"]),
    ],
)
def test_every_type_of_postgresql_is_metadata(
    postgresql_server: Server, type_: str, value: str, expected: list[str | bytes]
) -> None:
    assert metadata(outcome_of(postgresql_server, type_, value)) == expected


def test_an_enum_of_postgresql_is_metadata(postgresql_server: Server) -> None:
    kind = "CREATE TYPE mood AS ENUM ('sad', 'glad')"
    table = "CREATE TABLE docs (id INT PRIMARY KEY, it mood)"
    outcome = read(postgresql_server, kind, table, "INSERT INTO docs VALUES (1, 'glad')")
    assert metadata(outcome) == ["glad"]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("DATE", "'infinity'", ["infinity"]),
        ("DATE", "'0044-03-15 BC'", ["0044-03-15 BC"]),
        ("TIME", "'24:00'", ["24:00:00"]),
        ("TIMETZ", "'24:00+02'", ["24:00:00+02"]),
        ("TIMESTAMP", "'-infinity'", ["-infinity"]),
        ("TIMESTAMPTZ", "'20260-01-31 00:00+00'", ["20260-01-31 00:00:00+00"]),
        ("TIMESTAMP[]", "'{infinity,2026-01-31}'", ["infinity", "2026-01-31T00:00:00"]),
    ],
)
def test_a_date_that_python_cannot_hold_is_text(
    postgresql_server: Server, type_: str, value: str, expected: list[str]
) -> None:
    assert metadata(outcome_of(postgresql_server, type_, value)) == expected


def test_a_modified_that_python_cannot_hold_is_rejected(postgresql_server: Server) -> None:
    table = "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, it TIMESTAMP)"
    mapping = new_mapping(
        postgresql_server,
        replace(MAPPING, modified="it"),
        table,
        "INSERT INTO docs VALUES (1, '2026-01-31'), (2, 'infinity'), (3, '2026-01-31')",
    )
    first, second, third = read_rows(Span(position=KeyRange()), mapping=mapping)
    assert isinstance(second, Reject)
    assert (second.code, second.key) == ("bad-date", "id=2")
    assert second.reason == "it='infinity'; expected a date, a time or seconds since 1970"
    assert [item.modified for item in (first, third) if isinstance(item, Record)] == [
        datetime(2026, 1, 31, tzinfo=UTC),
        datetime(2026, 1, 31, tzinfo=UTC),
    ]


def test_a_key_of_infinity_is_read(postgresql_server: Server) -> None:
    mapping = new_mapping(
        postgresql_server,
        replace(MAPPING, page_rows=1),
        "CREATE TABLE docs (id TIMESTAMP PRIMARY KEY, it INT)",
        "INSERT INTO docs VALUES ('0044-03-15 BC', 1), ('2026-01-31', 2), ('infinity', 3)",
    )
    outcomes = [*read_rows(Span(position=KeyRange()), mapping=mapping)]
    assert [metadata(outcome) for outcome in outcomes] == [["1"], ["2"], ["3"]]
    first, second, third = (item.url for item in outcomes if isinstance(item, Record))
    assert first.endswith("/0044-03-15%2000%3A00%3A00%20BC")
    assert (second.rpartition("/")[2], third.rpartition("/")[2]) == (
        "2026-01-31T00%3A00%3A00",
        "infinity",
    )


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("TINYINT", "-128", ["-128"]),
        ("BOOLEAN", "true", ["1"]),
        ("SMALLINT UNSIGNED", "65535", ["65535"]),
        ("MEDIUMINT", "-8388608", ["-8388608"]),
        ("INT", "2147483647", ["2147483647"]),
        ("BIGINT UNSIGNED", "18446744073709551615", ["18446744073709551615"]),
        ("DECIMAL(20,2)", "123456789012345678.9", ["123456789012345678.90"]),
        ("FLOAT", "0.1", ["0.1"]),
        ("DOUBLE", "0.1", ["0.1"]),
        ("BIT(9)", "b'100000001'", [b"\x01\x01"]),
        ("CHAR(5)", "'ab'", ["ab"]),
        ("VARCHAR(9)", "'Zoë 🎉'", ["Zoë 🎉"]),
        ("VARCHAR(9) CHARACTER SET latin1", "'Zoë'", ["Zoë"]),
        ("TINYTEXT", "'x'", ["x"]),
        ("TEXT", "''", [""]),
        ("MEDIUMTEXT", "NULL", []),
        ("LONGTEXT", "'a\\0b'", ["a\0b"]),
        ("BINARY(3)", "x'00ff'", [b"\x00\xff\x00"]),
        ("VARBINARY(3)", "x'00ff'", [b"\x00\xff"]),
        ("BLOB", "x'00ff'", [b"\x00\xff"]),
        ("LONGBLOB", "x'00ff'", [b"\x00\xff"]),
        ("DATE", "'2026-01-31'", ["2026-01-31"]),
        ("TIME", "'-838:59:59'", ["-838:59:59"]),
        ("TIME(6)", "'08:30:00.000001'", ["08:30:00.000001"]),
        ("DATETIME", "'2026-01-31 08:30:00'", ["2026-01-31T08:30:00"]),
        ("DATETIME(6)", "'2026-01-31 08:30:00.000001'", ["2026-01-31T08:30:00.000001"]),
        ("YEAR", "2026", ["2026"]),
        ("ENUM('sad','glad')", "'glad'", ["glad"]),
        ("SET('a','b','c')", "'c,a'", ["a,c"]),
        ("JSON", """'{"a":  1.10}'""", ['{"a":  1.10}']),
        ("UUID", f"'{SEVEN}'", [SEVEN]),
        ("INET6", "'::1'", ["::1"]),
    ],
)
def test_every_type_of_mariadb_is_metadata(
    mariadb_server: Server, type_: str, value: str, expected: list[str | bytes]
) -> None:
    assert metadata(outcome_of(mariadb_server, type_, value)) == expected


@pytest.mark.parametrize(
    ("type_", "setting", "value", "expected"),
    [
        (
            "TIMESTAMP(6) NULL",
            "time_zone = '+02:00'",
            "2026-01-31 08:30:00.000001",
            "2026-01-31T06:30:00.000001Z",
        ),
        ("DATETIME", "sql_mode = ''", "0000-00-00", "0000-00-00 00:00:00"),
    ],
)
def test_a_time_of_mariadb_does_not_depend_on_the_session_of_its_writer(
    mariadb_server: Server, type_: str, setting: str, value: str, expected: str
) -> None:
    table = f"CREATE TABLE docs (id INT PRIMARY KEY, it {type_})"
    insert = f"INSERT INTO docs VALUES (1, '{value}')"
    assert metadata(read(mariadb_server, table, f"SET {setting}", insert)) == [expected]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("INTEGER", "9223372036854775807", ["9223372036854775807"]),
        ("REAL", "0.1", ["0.1"]),
        ("NUMERIC(6,2)", "1.5", ["1.5"]),
        ("TEXT", "'Zoë 🎉'", ["Zoë 🎉"]),
        ("TEXT", "''", [""]),
        ("TEXT", "NULL", []),
        ("TEXT", "'a' || char(0) || 'b'", ["a\0b"]),
        ("BLOB", "x'00ff'", [b"\x00\xff"]),
        ("DATE", "'2026-01-31'", ["2026-01-31"]),
        ("DATETIME", "'2026-01-31 08:30:00'", ["2026-01-31 08:30:00"]),
        ("BOOLEAN", "true", ["1"]),
        ("INTEGER", "'a text'", ["a text"]),
        ("", "x'00ff'", [b"\x00\xff"]),
    ],
)
def test_every_type_of_sqlite_is_metadata(
    sqlite_server: Sqlite, type_: str, value: str, expected: list[str | bytes]
) -> None:
    assert metadata(outcome_of(sqlite_server, type_, value)) == expected
