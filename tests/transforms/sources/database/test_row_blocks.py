"""Rows that vary are converted in blocks of elements, to the result of single rows."""

import io
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Inheritance, Principal, Scope
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions, by_name
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements import element_shapes
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.formats.fast_path.learning.learning_budget import RECORDS_A_PLAN
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sources.database.mapping.columns import ColumnReference
from feedferry.transforms.sources.database.mapping.row_mapping import (
    AclSource,
    ActionColumn,
    ContentSource,
    MetadataColumn,
    RowMapping,
)
from feedferry.transforms.sources.database.read import read_rows
from feedferry.transforms.sources.database.records.record_maker import RecordMaker
from feedferry.transforms.sources.database.records.row_blocks import RowBlocks
from support.batches import SIZES, Conversion, conversion

COLUMNS = ("title", "body", "type", "tags", "at", "readers", "denied", "folder", "op")
Row = tuple[object, ...]


def varied_row(number: int) -> Row:
    """A row with lists of any length and with NULLs; its principals and its parent are its own."""
    return (
        f"title {number}" if number % 3 else None,
        f"<p>{number} & more \u00fc</p>" * (number % 5 + 1),
        ("text/plain", "text/html")[number % 2],
        ";".join(f"tag{number}.{tag}" for tag in range(number % 4)) or None,
        f"2026-01-31 08:{number % 60:02}:00+00:00" if number % 7 else None,
        ", ".join(f"reader{number}.{reader}" for reader in range(number % 5)) or None,
        f"denied{number}" if number % 6 == 0 else None,
        f"https://a.example.com/folders/{number}/" if number % 11 else None,
        "I",
    )


def mapping_of(folder: Path, rows: Sequence[Row], **keys: Any) -> RowMapping:
    path = folder / "rows.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {', '.join(COLUMNS)})")
        values = ", ".join("?" * len(COLUMNS))
        connection.executemany(f"INSERT INTO t ({', '.join(COLUMNS)}) VALUES ({values})", rows)
        connection.execute("CREATE TABLE entries (id, name, scope, access, namespace)")
        for number in range(1, len(rows) + 1):
            entries = [
                (
                    number,
                    f"entry{number}.{entry}",
                    ("user", "group")[entry % 2],
                    ("permit", "deny")[number % 3 == 0],
                    ("", "ldap", "ad & co")[entry % 3],
                )
                for entry in range(number % 4)
            ]
            connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", entries)
    usual: dict[str, Any] = {
        "table": "t",
        "url": "https://www.example.com/{id}",
        "content": ContentSource(column="body"),
        "mimetype": ColumnReference(column="type"),
        "title": "title",
        "metadata": (MetadataColumn(column="tags", separator=";"), MetadataColumn(column="type")),
        "modified": "at",
        "action": ActionColumn(column="op", delete=("D",)),
        "acl": AclSource(
            users="readers",
            deny_groups="denied",
            inherit_from=ColumnReference(column="folder"),
            namespace="ldap",
        ),
    }
    return RowMapping(connection=f"sqlite:///{path}", **{**usual, **keys})


BY_QUERY = AclSource(
    query="SELECT id, name, scope, access, namespace FROM entries",
    inherit_from=ColumnReference(column="folder"),
    inheritance="and-both-permit",
)


def outcomes(mapping: RowMapping, *, batch_records: int) -> list[Any]:
    options = ReadOptions(batch_records=batch_records)
    return list(read_rows(Span(source="f"), mapping=mapping, options=options))


def converted(mapping: RowMapping, to: str, *, batch_records: int) -> Conversion:
    datasource = "d" if to == "gsa-feed" else None
    return conversion(
        b"",
        Target(format=to, datasource=datasource, feedtype=datasource and "incremental"),
        batch_records=batch_records,
        format_="database",
        sources={"f": mapping},
    )


def changed(number: int, name: str, value: object) -> Row:
    row = [*varied_row(number)]
    row[COLUMNS.index(name)] = value
    return tuple(row)


HOSTILE: dict[str, Row] = {
    "a NUL in a title": changed(7, "title", "a\0b"),
    "a control character in a list": changed(7, "tags", "a;\x07;b"),
    "binary metadata": changed(7, "tags", b"\xff\xfe"),
    "a name in quotes": changed(7, "readers", 'a, "b"'),
    "a parent with a query": changed(7, "folder", "https://a.example.com/?id=7"),
    "no parent and no reader": changed(5, "folder", None),
    "no document": changed(7, "body", None),
    "a deletion": changed(7, "op", "D"),
    "no date": changed(7, "at", "yesterday"),
    "principals that are no list": changed(7, "readers", '{"a": 1}'),
}
ROWS = [varied_row(number) for number in range(1, 400)]
RARE = (changed(7, "body", "a]]>b"), changed(7, "body", "x & y\r\n" * 5_000))
MIXED = [*ROWS[:200], *HOSTILE.values(), *RARE, *ROWS[200:]]


@pytest.mark.parametrize("to", ["gsa-feed", "thunderstone", "avro", "jsonl"])
@pytest.mark.parametrize("acl", [None, BY_QUERY], ids=["columns", "query"])
def test_blocks_of_any_size_have_the_result_of_single_rows(
    tmp_path: Path, to: str, acl: AclSource | None
) -> None:
    mapping = mapping_of(tmp_path, MIXED, **({} if acl is None else {"acl": acl}))
    single = converted(mapping, to, batch_records=0)
    for size in (*SIZES, 64):
        assert converted(mapping, to, batch_records=size) == single


def test_rows_that_vary_are_one_block_whose_records_are_those_of_the_rows(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, MIXED)
    blocks = outcomes(mapping, batch_records=1024)
    assert [type(item) for item in blocks] == [Record, ElementBlock]
    assert [*singly(blocks)] == outcomes(mapping, batch_records=0)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_row_that_goes_alone_makes_no_other_row_go_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made: list[object] = []

    def note(make: Callable[..., Record | Reject]) -> Callable[..., Record | Reject]:
        def noted(maker: RecordMaker, row: Row, **options: Any) -> Record | Reject:
            made.append(row[0])
            return make(maker, row, **options)

        return noted

    usual = [row for _ in range(3) for row in ROWS]
    mapping = mapping_of(tmp_path, [*usual, HOSTILE[name], *usual])
    converted(mapping, "avro", batch_records=1024)  # of every server and every form of rows
    monkeypatch.setattr(RecordMaker, "make", note(RecordMaker.make))
    converted(mapping, "avro", batch_records=1024)
    layouts, compared = 4 * 5 * 2 * 2 * 2 * 2 * 2, 2 * len(usual) // 256 + 1
    assert len(made) < 1 + 1 + layouts + compared
    assert len(usual) + 1 in made


@pytest.mark.parametrize("to", ["gsa-feed", "avro", "jsonl"])
@pytest.mark.parametrize("size", [3, 1024])
def test_a_document_never_gets_the_acl_of_another_row(tmp_path: Path, to: str, size: int) -> None:
    rows = [row for pair in zip(ROWS, [*HOSTILE.values()] * 40, strict=False) for row in pair]
    written = converted(mapping_of(tmp_path, rows), to, batch_records=size)
    records = read_back(written, to)
    assert len(records) > len(ROWS)
    for record in records:
        row = rows[int(record.url.rpartition("/")[2]) - 1]
        assert record.action.value == ("DELETE" if row[8] == "D" else "ADD")
        if row[8] == "D":
            continue
        readers, denied, parent = row[5:8]
        expected = [(name, Scope.USER, Access.PERMIT) for name in str(readers or "").split(", ")]
        expected += [(name, Scope.GROUP, Access.DENY) for name in [str(denied or "")]]
        named = [entry for entry in expected if entry[0]]
        assert record.acl is not None
        entries = record.acl.principals
        if not named and parent is None and to == "gsa-feed":  # an ACL that permits no user
            named = [("google:fakeUserToPreventMissingAcl", Scope.USER, Access.DENY)]
            entries = tuple(replace(entry, namespace="ldap") for entry in entries)
        assert [(each.name, each.scope, each.access) for each in entries] == named
        assert {each.namespace for each in entries} <= {"ldap"}
        assert record.acl.inherit_from == parent


def read_back(written: Conversion, to: str) -> list[Record]:
    [chunk] = [
        data
        for name, data in written.files.items()
        if name.endswith((".xml", to)) and "rejects" not in name
    ]
    results = by_name(to).read(io.BytesIO(chunk))
    return [result for result in results if isinstance(result, Record)]


def test_principals_of_a_query_keep_their_entries(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, ROWS, acl=BY_QUERY)
    records: list[Any] = [*singly(outcomes(mapping, batch_records=1024))]
    for number in (2, 3, 158, 399):
        acl = records[number - 1].acl
        access = Access.DENY if number % 3 == 0 else Access.PERMIT
        stated = (("user", None), ("group", "ldap"), ("user", "ad & co"))[: number % 4]
        assert acl.inheritance is Inheritance.AND_BOTH_PERMIT
        assert acl.principals == tuple(
            Principal(
                name=f"entry{number}.{entry}",
                scope=Scope(scope.upper()),
                access=access,
                namespace=namespace,
            )
            for entry, (scope, namespace) in enumerate(stated)
        )


def test_rows_that_are_alike_are_batches_next_to_rows_that_vary(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, [*ROWS, *[ROWS[7]] * 300], page_rows=100)
    kinds = [type(item) for item in outcomes(mapping, batch_records=100)]
    assert kinds == [Record, *[ElementBlock] * 4, *[RecordBatch] * 3]


def test_signatures_that_are_met_once_are_learned_within_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[object] = []
    learn = RowBlocks._learn

    def note(blocks: RowBlocks, kind: tuple[str, Any], key: Any) -> Any:
        learned.append(key)
        return learn(blocks, kind, key)

    rows = [changed(number, "type", f"text/x-{number}") for number in range(3_000)]
    mapping = mapping_of(tmp_path, rows, page_rows=100)
    monkeypatch.setattr(RowBlocks, "_learn", note)
    single = outcomes(mapping, batch_records=0)
    assert [*singly(outcomes(mapping, batch_records=100))] == single
    paid = len(rows) // RECORDS_A_PLAN
    assert 0 < len(learned) <= element_shapes._FREE_SHAPES + paid


def test_after_pages_of_single_rows_some_pages_are_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    block = RowBlocks.block

    def note(blocks: RowBlocks, rows: Sequence[Row], *values: Any) -> ElementBlock | None:
        tried.append(len(rows))
        return block(blocks, rows, *values)

    rows = [changed(number, "title", "a\x07") for number in range(3_000)]
    monkeypatch.setattr(RowBlocks, "block", note)
    mapping = mapping_of(tmp_path, rows, page_rows=100)
    assert {type(item) for item in outcomes(mapping, batch_records=100)} == {Record}
    assert 0 < len(tried) < 6
