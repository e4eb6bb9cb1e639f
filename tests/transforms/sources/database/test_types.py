"""Every SQL type of the three databases, as metadata, as a part of urls, and as a key."""

import pytest
from msgspec.structs import replace

from schemas.record import Meta, Record
from schemas.reject import Reject
from schemas.span import KeyRange, Span
from support.databases import Server, Sqlite
from transforms.formats.base import ReadResult
from transforms.sources.database.mapping import ContentSource, MetadataColumn, RowMapping
from transforms.sources.database.read import read_rows

MAPPING = RowMapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentSource(is_none=True),
    metadata=(MetadataColumn(name="it", column="it"),),
)
SEVEN = "00000000-0000-0000-0000-000000000007"


def outcome_of(server: Server | Sqlite, sort: str, value: str) -> ReadResult:
    """The outcome of a row with a value, written in SQL, of a type."""
    table = f"CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, it {sort})"
    database = server.new_database(table, f"INSERT INTO docs VALUES (1, {value})")
    mapping = replace(MAPPING, connection=server.url(database))
    (outcome,) = read_rows(Span(position=KeyRange()), mapping=mapping)
    return outcome


def metadata(server: Server | Sqlite, sort: str, value: str) -> list[str | bytes]:
    outcome = outcome_of(server, sort, value)
    assert isinstance(outcome, Record), outcome
    return [text_of(meta) for meta in outcome.metadata]


def text_of(meta: Meta) -> str | bytes:
    return meta.value if meta.data is None else meta.data


@pytest.mark.parametrize(
    ("sort", "value", "expected"),
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
        ("INTERVAL", "'2 days 03:04:05.6'", ["P2DT3H4M5.6S"]),
        (
            "UUID",
            f"'{'0' * 8}-0000-0000-0000-{'0' * 11}7'",
            [f"{'0' * 8}-0000-0000-0000-{'0' * 11}7"],
        ),
        ("JSON", """'{"a":  1.10}'""", ['{"a":  1.10}']),
        ("JSONB", """'{"a":  1.10}'""", ['{"a": 1.10}']),
        ("INT[]", "'{1,NULL,3}'", ["1", "3"]),
        ("TEXT[]", """'{a,"b c"}'""", ["a", "b c"]),
        ("TIMESTAMP[]", "'{2026-01-31}'", ["2026-01-31T00:00:00"]),
        ("INT[]", "'{}'", []),
        ("INT4RANGE", "'[1,5)'", ["[1,5)"]),
        ("TSTZRANGE", "'[2026-01-31 00:00+00,)'", ["[2026-01-31T00:00:00Z,)"]),
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
    postgresql_server: Server, sort: str, value: str, expected: list[str | bytes]
) -> None:
    assert metadata(postgresql_server, sort, value) == expected


def test_an_enum_of_postgresql_is_metadata(postgresql_server: Server) -> None:
    kind = "CREATE TYPE mood AS ENUM ('sad', 'glad')"
    table = "CREATE TABLE docs (id INT PRIMARY KEY, it mood)"
    values = "INSERT INTO docs VALUES (1, 'glad')"
    database = postgresql_server.new_database(kind, table, values)
    mapping = replace(MAPPING, connection=postgresql_server.url(database))
    (found,) = read_rows(Span(position=KeyRange()), mapping=mapping)
    assert isinstance(found, Record)
    assert found.metadata == (Meta("it", "glad"),)


@pytest.mark.parametrize(
    ("sort", "value"),
    [
        ("DATE", "'infinity'"),
        ("DATE", "'0044-03-15 BC'"),
        ("TIME", "'24:00'"),
        ("TIMESTAMPTZ", "'20260-01-31 00:00+00'"),
        ("TIMESTAMP[]", "'{infinity}'"),
    ],
)
def test_a_time_that_python_cannot_hold_is_rejected(
    postgresql_server: Server, sort: str, value: str
) -> None:
    outcome = outcome_of(postgresql_server, sort, value)
    assert isinstance(outcome, Reject)
    assert (outcome.code, outcome.data) == ("unreadable", b'{"id": 1}')


@pytest.mark.parametrize(
    ("sort", "value", "expected"),
    [
        ("TINYINT", "-128", ["-128"]),
        ("BOOLEAN", "true", ["1"]),
        ("SMALLINT UNSIGNED", "65535", ["65535"]),
        ("MEDIUMINT", "-8388608", ["-8388608"]),
        ("INT", "2147483647", ["2147483647"]),
        ("BIGINT UNSIGNED", "18446744073709551615", ["18446744073709551615"]),
        (
            "DECIMAL(40,12)",
            "12345678901234567890.0000000001",
            ["12345678901234567890.000000000100"],
        ),
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
        ("TIME", "'-838:59:59'", ["-P34DT22H59M59S"]),
        ("TIME(6)", "'08:30:00.000001'", ["PT8H30M0.000001S"]),
        ("DATETIME", "'2026-01-31 08:30:00'", ["2026-01-31T08:30:00"]),
        ("DATETIME(6)", "'2026-01-31 08:30:00.000001'", ["2026-01-31T08:30:00.000001"]),
        ("YEAR", "2026", ["2026"]),
        ("ENUM('sad','glad')", "'glad'", ["glad"]),
        ("SET('a','b','c')", "'c,a'", ["a,c"]),
        ("JSON", """'{"a":  1.10}'""", ['{"a":  1.10}']),
        (
            "UUID",
            f"'{'0' * 8}-0000-0000-0000-{'0' * 11}7'",
            [f"{'0' * 8}-0000-0000-0000-{'0' * 11}7"],
        ),
        ("INET6", "'::1'", ["::1"]),
    ],
)
def test_every_type_of_mariadb_is_metadata(
    mariadb_server: Server, sort: str, value: str, expected: list[str | bytes]
) -> None:
    assert metadata(mariadb_server, sort, value) == expected


def test_a_timestamp_of_mariadb_is_a_time_in_utc(mariadb_server: Server) -> None:
    """Whatever the zone of who wrote it."""
    table = "CREATE TABLE docs (id INT PRIMARY KEY, it TIMESTAMP(6) NULL)"
    zone = "SET time_zone = '+02:00'"
    values = "INSERT INTO docs VALUES (1, '2026-01-31 08:30:00.000001')"
    database = mariadb_server.new_database(table, zone, values)
    mapping = replace(MAPPING, connection=mariadb_server.url(database))
    (found,) = read_rows(Span(position=KeyRange()), mapping=mapping)
    assert isinstance(found, Record)
    assert found.metadata == (Meta("it", "2026-01-31T06:30:00.000001Z"),)


def test_a_zero_date_is_the_text_of_mariadb(mariadb_server: Server) -> None:
    table = "CREATE TABLE docs (id INT PRIMARY KEY, it DATETIME)"
    mode = "SET sql_mode = ''"
    values = "INSERT INTO docs VALUES (1, '0000-00-00')"
    database = mariadb_server.new_database(table, mode, values)
    mapping = replace(MAPPING, connection=mariadb_server.url(database))
    (found,) = read_rows(Span(position=KeyRange()), mapping=mapping)
    assert isinstance(found, Record)
    assert found.metadata == (Meta("it", "0000-00-00 00:00:00"),)


@pytest.mark.parametrize(
    ("sort", "value", "expected"),
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
    sqlite_server: Sqlite, sort: str, value: str, expected: list[str | bytes]
) -> None:
    assert metadata(sqlite_server, sort, value) == expected
