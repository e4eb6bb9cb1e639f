"""The rows of a span as records, and the unchanged rows that are filtered."""

from collections.abc import Iterable, Sequence

import pytest
from msgspec.structs import replace

from schemas.acl import Access, Acl, Principal, Scope
from schemas.errors import ConfigError, SourceError
from schemas.record import Action, Arrival, Content, Meta, Provenance, Record
from schemas.reject import Filtered, Reject
from schemas.sent_document import SentDocument, StateChange
from schemas.span import KeyRange, Span
from support.databases import Server, Sqlite
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.database.connection import connect
from transforms.sources.database.key_ranges import cut_rows
from transforms.sources.database.mapping import (
    DATABASE,
    AclSource,
    ActionColumn,
    ContentSource,
    IncrementalReading,
    MetadataColumn,
    RowMapping,
)
from transforms.sources.database.read import read_rows
from transforms.sources.database.table_query import open_rows

DOCS = (
    "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body VARCHAR(40), state VARCHAR(9), rev INT)",
    "INSERT INTO docs VALUES (1, 'a', 'live', 7), (2, 'b', 'delete', 8), (3, NULL, 'live', 9)",
    "CREATE TABLE tags (doc INT, tag VARCHAR(40))",
    "INSERT INTO tags VALUES (1, 'y'), (1, 'x'), (3, 'w')",
    "CREATE TABLE readers (doc INT, name VARCHAR(40))",
    "INSERT INTO readers VALUES (1, 'anna')",
)
MAPPING = RowMapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentSource(column="body"),
    mimetype="text/plain",
    action=ActionColumn(column="state"),
    incremental=IncrementalReading(timestamp="rev"),
    page_rows=2,
)
WHOLE = KeyRange()
ORIGIN = Provenance(source="people", span=4)
ONE = Record(
    url="https://docs.example.com/1",
    action=Action.ADD,
    arrival=Arrival.PUSHED,
    content=Content(b"a"),
    mimetype="text/plain",
    charset="utf-8",
    provenance=ORIGIN,
)
TWO = Record(url="https://docs.example.com/2", action=Action.DELETE, provenance=ORIGIN)


def made(server: Server | Sqlite, *statements: str, mapping: RowMapping = MAPPING) -> RowMapping:
    """A mapping of a new database."""
    return replace(mapping, connection=server.url(server.new_database(*statements)))


def span(key_range: KeyRange = WHOLE) -> Span:
    return Span(source="people", ordinal=4, format=DATABASE, position=key_range)


def read(mapping: RowMapping, key_range: KeyRange = WHOLE) -> list[ReadResult]:
    return list(read_rows(span(key_range), mapping=mapping))


def urls(found: Iterable[ReadResult]) -> list[str | None]:
    return [one.url for one in found if isinstance(one, Record | Reject | Filtered)]


def test_a_row_becomes_a_record(server: Server | Sqlite) -> None:
    assert read(made(server, *DOCS))[0] == ONE


def test_a_marked_row_becomes_a_deletion(server: Server | Sqlite) -> None:
    assert read(made(server, *DOCS))[1] == TWO


def test_lookup_queries_run_for_each_page(server: Server | Sqlite) -> None:
    tags = MetadataColumn(name="tag", query="SELECT doc, tag FROM tags")
    mapping = replace(MAPPING, metadata=(tags,), content=ContentSource(is_none=True))
    found = [one for one in read(made(server, *DOCS, mapping=mapping)) if isinstance(one, Record)]
    assert [one.metadata for one in found] == [
        (Meta("tag", "x"), Meta("tag", "y")),
        (),
        (Meta("tag", "w"),),
    ]


def test_readers_come_from_a_query(server: Server | Sqlite) -> None:
    query = "SELECT doc, name, 'user' AS scope, 'permit' AS access FROM readers"
    first, *_ = read(made(server, *DOCS, mapping=replace(MAPPING, acl=AclSource(query=query))))
    anna = Principal(name="anna", scope=Scope.USER, access=Access.PERMIT)
    assert isinstance(first, Record)
    assert first.acl == Acl(principals=(anna,))


def test_rows_of_a_join_become_records(server: Server | Sqlite) -> None:
    query = "SELECT t.tag, d.id, d.body, d.state, d.rev FROM docs d JOIN tags t ON t.doc = d.id"
    mapping = replace(MAPPING, table=None, query=query, key=("id", "tag"))
    mapping = replace(mapping, url="https://docs.example.com/{id}/{tag}")
    assert urls(read(made(server, *DOCS, mapping=mapping))) == [
        "https://docs.example.com/1/x",
        "https://docs.example.com/1/y",
        "https://docs.example.com/3/w",
    ]


def test_a_row_with_null_in_its_key_is_rejected(server: Server | Sqlite) -> None:
    table = "CREATE TABLE docs (id INT, body VARCHAR(40), state VARCHAR(9), rev INT)"
    row = "INSERT INTO docs VALUES (NULL, 'a', 'live', 7)"
    mapping = made(server, table, row, mapping=replace(MAPPING, key=("id",)))
    assert read(mapping, KeyRange(has_null_keys=True)) == [
        Reject(
            code="null-key",
            reason="id=NULL: NULL in the key; expected a value in each key column",
            stage="read",
            source="people",
            span=4,
            length=12,
            data=b'{"id": null}',
        )
    ]


def test_a_row_that_cannot_be_read_is_rejected(postgresql_server: Server) -> None:
    view = "CREATE VIEW torn AS SELECT id, body, state, 6 / (id - 2) AS rev FROM docs WHERE id < 3"
    mapping = replace(MAPPING, table="torn", key=("id",))
    assert read(made(postgresql_server, *DOCS, view, mapping=mapping)) == [
        ONE,
        Reject(
            code="unreadable",
            reason="id=2: division by zero; expected values that can be read",
            stage="read",
            source="people",
            span=4,
            length=9,
            data=b'{"id": 2}',
        ),
    ]


def large(server: Server | Sqlite, state: str = "live") -> RowMapping:
    """A row with a document of 100,000 letters."""
    sort = "LONGTEXT" if server.scheme == "mariadb" else "TEXT"
    table = f"CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body {sort}, state TEXT, rev INT)"
    letters = "repeat('x', 100000)"
    if server.scheme == "sqlite":
        letters = "replace(hex(zeroblob(100000)), '00', 'x')"
    return made(server, table, f"INSERT INTO docs VALUES (1, {letters}, '{state}', 7)")


def test_a_large_document_is_read_whole(server: Server | Sqlite) -> None:
    (found,) = read(large(server))
    assert isinstance(found, Record)
    assert found.content == Content(b"x" * 100_000)


def test_a_document_that_is_too_large_is_rejected(server: Server | Sqlite) -> None:
    options = ReadOptions(max_content_bytes=99_999)
    assert list(read_rows(span(), mapping=large(server), options=options)) == [
        Reject(
            code="content-too-large",
            reason="id=1: body has 100000 bytes; expected at most 99999 bytes; raise "
            "--max-content-bytes to read it",
            stage="read",
            source="people",
            span=4,
            url="https://docs.example.com/1",
            action="ADD",
            length=36,
            data=b'{"id": 1, "state": "live", "rev": 7}',
        )
    ]


def test_a_deletion_needs_no_document(server: Server | Sqlite) -> None:
    options = ReadOptions(max_content_bytes=99_999)
    (found,) = read_rows(span(), mapping=large(server, "delete"), options=options)
    assert isinstance(found, Record)
    assert found.action is Action.DELETE


def remembered(mapping: RowMapping) -> list[StateChange]:
    seen: list[StateChange] = []
    list(read_rows(span(), mapping=mapping, see=seen.append))
    return seen


def test_a_row_is_seen_with_key_url_and_timestamp(server: Server | Sqlite) -> None:
    seen = remembered(made(server, *DOCS))
    assert [(one.known.key, one.known.url, one.known.fingerprint, one.is_gone) for one in seen] == [
        ("[1]", "https://docs.example.com/1", "7", False),
        ("[2]", "https://docs.example.com/2", "8", True),
        ("[3]", "https://docs.example.com/3", "9", False),
    ]


def test_a_digest_does_not_depend_on_the_span(sqlite_server: Sqlite) -> None:
    mapping = made(sqlite_server, *DOCS)
    seen: list[StateChange] = []
    other = Span(source="elsewhere", ordinal=9, position=WHOLE)
    list(read_rows(other, mapping=mapping, see=seen.append))
    assert seen == remembered(mapping)


def test_a_digest_changes_with_lookup_queries(sqlite_server: Sqlite) -> None:
    query = "SELECT doc, name, 'user', 'permit' FROM readers"
    mapping = made(sqlite_server, *DOCS, mapping=replace(MAPPING, acl=AclSource(query=query)))
    before = remembered(mapping)
    database = mapping.connection.rpartition("/")[2].removesuffix(".db")
    sqlite_server.execute(database, ["UPDATE readers SET name = 'ben'"])
    after = remembered(mapping)
    pairs = zip(before, after, strict=True)
    same = [one.known.digest == other.known.digest for one, other in pairs]
    assert same == [False, True, True]


def test_a_row_is_seen_before_its_outcome(sqlite_server: Sqlite) -> None:
    seen: list[StateChange] = []
    found = read_rows(span(), mapping=made(sqlite_server, *DOCS), see=seen.append)
    next(found)
    assert [one.known.key for one in seen] == ["[1]"]
    found.close()


def read_again(
    mapping: RowMapping, known: Sequence[SentDocument], key_range: KeyRange = WHOLE
) -> list[ReadResult]:
    by_key = {one.key: one for one in known}
    return list(read_rows(span(key_range), mapping=mapping, known=by_key.get))


def test_an_unchanged_row_is_filtered(server: Server | Sqlite) -> None:
    mapping = made(server, *DOCS)
    first, second, third = read_again(mapping, [one.known for one in remembered(mapping)])
    assert first == Filtered(code="unchanged", url="https://docs.example.com/1", action="ADD")
    assert second == Filtered(code="unchanged", url="https://docs.example.com/2", action="DELETE")
    assert isinstance(third, Reject)


def test_a_row_with_another_digest_is_sent(sqlite_server: Sqlite) -> None:
    mapping = made(sqlite_server, *DOCS)
    known = [replace(one.known, digest="0" * 64) for one in remembered(mapping)]
    assert read_again(mapping, known)[:2] == [ONE, TWO]


def test_a_deletion_that_was_sent_has_no_url_and_is_filtered(sqlite_server: Sqlite) -> None:
    mapping = made(sqlite_server, *DOCS)
    known = [replace(one.known, url="") for one in remembered(mapping)]
    assert isinstance(read_again(mapping, known)[1], Filtered)


def test_a_refresh_filters_nothing(sqlite_server: Sqlite) -> None:
    mapping = made(sqlite_server, *DOCS)
    known = [one.known for one in remembered(mapping)]
    refresh = KeyRange(is_refresh=True)
    assert read_again(mapping, known, refresh)[:2] == [ONE, TWO]


def test_ranges_give_what_the_whole_gives(server: Server | Sqlite) -> None:
    """In any number of parts, the same records in the same order."""
    digit = " UNION ALL ".join(f"SELECT {number} AS n" for number in range(10))
    numbers = f"SELECT 10 * a.n + b.n AS i FROM ({digit}) a, ({digit}) b"
    fill = f"INSERT INTO docs SELECT i + 10, 'text', 'live', i FROM ({numbers}) ns"
    mapping = made(server, *DOCS, fill)
    rows = open_rows(mapping, connect(mapping))
    cuts = list(cut_rows(rows, span_bytes=1000))
    assert len(cuts) > 5
    assert [one for cut in cuts for one in read(mapping, cut)] == read(mapping)


def test_a_missing_database_ends_the_run(remote: Server) -> None:
    mapping = made(remote, *DOCS, mapping=replace(MAPPING, retries=0))
    read(mapping)
    database = mapping.connection.rpartition("/")[2]
    remote.execute("", [f"DROP DATABASE {database}"])
    with pytest.raises((SourceError, ConfigError)) as caught:
        read(mapping)
    assert "s3same" not in repr(caught.value)
