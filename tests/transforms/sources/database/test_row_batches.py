"""Rows in batches are converted to the same bytes, rejects and counts as single rows."""

import sqlite3
import tempfile
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.record import Record
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ContentOptions, ReadOptions
from feedferry.transforms.formats.fast_path.columns.column_kinds import ColumnKind
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sources.database.mapping.columns import ColumnReference
from feedferry.transforms.sources.database.mapping.row_mapping import (
    AclSource,
    ActionColumn,
    ContentSource,
    IncrementalReading,
    MetadataColumn,
    RowMapping,
)
from feedferry.transforms.sources.database.read import read_rows
from support.batches import SIZES, conversion
from support.database_runs import AnyServer, new_mapping

COLUMNS = ("slug", "title", "body", "tags", "at", "link", "users", "op", "kind")
NEUTRAL: dict[str, tuple[object, ...]] = {
    "slug": ("a", "a b", "Z\u00fcrich", 7, "x/y"),
    "title": ("a", "a & b", '<b>"x"</b>', "it's", "\u6771\u4eac", 3, None),
    "body": ("text", "<p>a & b</p>", "a\n\tb ", '"', "\u6771\u4eac" * 99, "x" * 700, "a\r\nb"),
    "tags": ("a;b", "a", "", None, "a & b; c"),
    "at": (
        *("2026-01-31 08:30:00", "2026-01-31T08:30:00.123456Z", "2026-01-31", None),
        *("2026-01-31 08:30:00+00:00", "2026-01-31 08:30:00+01:00"),
    ),
    "link": ("http://www.example.com/a?b=1&c=2", "https://www.example.com/\u00fc"),
    "users": ("anna, ben", "anna", r"CORP\anna", None),
    "op": ("I", "U", None),
    "kind": ("text/plain", "text/html", None),
}
HOSTILE = (
    *("", " ", " a", "a ", "&amp;", "&#65;", "\t", "\n", "a\nb", "\r", "\x00", "\x07", "\x7f"),
    *("\x85", "\u00a0", "a\u00a0", "\u2028", "\ufffd", "\ufffe", "\uffff", "\u200f", "\u202e"),
    *("]]>", "\U0001f600", "~hole-0001~", ".", "..", "http://intranet/a", "doc-7", "file:///etc"),
    *(b"\xff\x00", b"text", 7, -1, 1.5, "0000-00-00", "yesterday", "D", "delete", '["a"]', "[]"),
    *("http://hole-0000.example.com/~", "2026-01-31 08:30:00.5", '{"a": 1}', "text/html; a=b"),
)
MAPPINGS: dict[str, dict[str, Any]] = {
    "texts": {
        "url": "http://www.example.com/{slug}/{id}",
        "title": "title",
        "metadata": (MetadataColumn(column="kind"), MetadataColumn(column="title")),
        "modified": "at",
        "mimetype": "text/plain",
    },
    "all": {
        "url": ColumnReference(column="link"),
        "title": "title",
        "description": "title",
        "metadata": "all",
        "modified": "at",
        "mimetype": ColumnReference(column="kind"),
        "display_url": "http://www.example.com/{slug}",
        "acl": AclSource(users="users", deny_groups="op", inherit_from="http://a.example.com/"),
    },
    "deletions": {
        "url": "http://www.example.com/{id}",
        "action": ActionColumn(column="op", delete=("D", "delete")),
        "metadata": (MetadataColumn(column="tags", separator=";"), MetadataColumn(column="at")),
        "acl": AclSource(users="users", inherit_from=ColumnReference(column="link")),
    },
    "marks": {
        "url": "http://www.example.com/{id}",
        "title": "title",
        "metadata": (
            MetadataColumn(column="title", name="~hole-0001~"),
            MetadataColumn(column="kind", name="http://hole-0000.example.com/~"),
        ),
        "mimetype": "~hole-0002~",
        "acl": AclSource(
            users="users",
            namespace="~hole-0003~",
            inherit_from="http://hole-0000.example.com/~",
        ),
    },
    "pages": {"url": "http://www.example.com/{id}", "content": ContentSource(), "title": "title"},
    "URLs": {"url": ColumnReference(column="link"), "content": ContentSource(is_none=True)},
}
TARGETS: dict[str, dict[str, Any]] = {
    "gsa-feed": {"datasource": "d", "feedtype": "incremental"},
    "gsa-feed, base64": {
        "datasource": "d",
        "feedtype": "full",
        "own": (ContentOptions(content_encoding="base64"),),
    },
    "thunderstone": {},
    "avro": {},
    "jsonl": {},
}


@st.composite
def similar_rows(draw: st.DrawFn) -> list[tuple[object, ...]]:
    """Rows with the same types, and NULLs and hostile values now and then."""
    rows = []
    usual = {name: draw(st.sampled_from(values)) for name, values in NEUTRAL.items()}
    rarely = draw(st.sampled_from((0, 30, 200)))
    for _ in range(draw(st.integers(1, 30))):
        row: list[object] = []
        for name, values in NEUTRAL.items():
            luck = draw(st.integers(0, rarely)) if rarely else -1
            others = HOSTILE if luck == 0 else values
            row.append(usual[name] if luck > 8 else draw(st.sampled_from(others)))
        rows.append(tuple(row))
    return rows


def mapping_of(rows: list[tuple[object, ...]], folder: str, name: str, **keys: Any) -> RowMapping:
    path = Path(folder, "rows.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {', '.join(COLUMNS)})")
        values = ", ".join("?" * len(COLUMNS))
        connection.executemany(f"INSERT INTO t ({', '.join(COLUMNS)}) VALUES ({values})", rows)
    usual = {"table": "t", "content": ContentSource(column="body"), **MAPPINGS[name], **keys}
    return RowMapping(connection=f"sqlite:///{path}", **usual)


@pytest.mark.parametrize("name", MAPPINGS)
@pytest.mark.parametrize("to", TARGETS)
@settings(max_examples=8)
@given(
    rows=similar_rows(),
    sizes=st.tuples(
        st.sampled_from(SIZES), st.sampled_from((1, 7, 1000)), st.sampled_from((2500, 1 << 20))
    ),
)
def test_batches_of_any_size_give_the_result_of_single_rows(
    name: str, to: str, rows: list[tuple[object, ...]], sizes: tuple[int, int, int]
) -> None:
    size, page_rows, chunk = sizes
    target = Target(format=to.partition(",")[0], **TARGETS[to])
    with tempfile.TemporaryDirectory() as folder:
        mapping = mapping_of(rows, folder, name, page_rows=page_rows)
        single, batched = (
            conversion(
                b"",
                target,
                batch_records=records,
                format_="database",
                sources={"f": mapping},
                max_chunk_bytes=chunk,
            )
            for records in (0, size)
        )
    assert batched == single


@pytest.mark.parametrize("size", SIZES)
def test_a_state_has_the_same_changes_with_batches(tmp_path: Path, size: int) -> None:
    rows: list[tuple[object, ...]] = [tuple(values[0] for values in NEUTRAL.values())] * 9
    incremental = IncrementalReading(deletes="compare")
    mapping = mapping_of(rows, str(tmp_path), "texts", incremental=incremental)
    single, batched = (
        conversion(
            b"",
            Target(format="avro"),
            batch_records=records,
            format_="database",
            sources={"f": mapping},
            state=str(tmp_path / "state"),
        )
        for records in (0, size)
    )
    assert batched == single
    assert any(name.endswith("seen.jsonl") for name in batched.files)


def outcomes(mapping: RowMapping, *, batch_records: int) -> list[Any]:
    options = ReadOptions(batch_records=batch_records)
    return list(read_rows(Span(source="f"), mapping=mapping, options=options))


def records_of(items: list[Any]) -> list[Any]:
    return [*singly(items)]


def test_rows_of_several_shapes_are_one_batch_in_their_order(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [
        tuple((*values, None)[number % 2 * len(values)] for values in NEUTRAL.values())
        for number in range(20)
    ]
    keys = {"url": "http://www.example.com/{id}", "content": ContentSource()}
    mapping = mapping_of(rows, str(tmp_path), "texts", **keys)
    batched = outcomes(mapping, batch_records=100)
    assert [type(item) for item in batched] == [Record, RecordBatch]
    assert len(batched[1].groups) == 2
    assert records_of(batched) == outcomes(mapping, batch_records=0)


def test_a_row_that_is_not_neutral_makes_no_other_row_single(tmp_path: Path) -> None:
    neutral = tuple(values[0] for values in NEUTRAL.values())
    rows: list[tuple[object, ...]] = [neutral] * 800
    rows[500] = (*neutral[:2], "a\x07b", *neutral[3:])
    mapping = mapping_of(rows, str(tmp_path), "texts")
    batched = outcomes(mapping, batch_records=1024)
    assert [type(item) for item in batched] == [Record, ElementBlock]
    assert records_of(batched) == outcomes(mapping, batch_records=0)


def test_texts_of_documents_are_columns_as_the_driver_gives_them(tmp_path: Path) -> None:
    neutral = tuple(values[0] for values in NEUTRAL.values())
    texts = ["\u6771\u4eac <b>a & b</b>\r\n" * number for number in range(1, 9)]
    rows = [(*neutral[:2], text, *neutral[3:]) for text in texts]
    mapping = mapping_of([*rows], str(tmp_path), "texts")
    _, batch = outcomes(mapping, batch_records=100)
    assert isinstance(batch, RecordBatch)
    columns = batch.groups[0]
    assert [*columns.column(columns.shape.kinds.index(ColumnKind.DOCUMENT))] == texts[1:]
    assert batch.content_bytes == sum(len(text.encode()) for text in texts[1:])


@pytest.mark.parametrize("max_bytes", [1, 3, 4, 5, 6, 16, 100])
def test_a_text_over_the_size_limit_is_rejected_wherever_it_is(
    tmp_path: Path, max_bytes: int
) -> None:
    neutral = tuple(values[0] for values in NEUTRAL.values())
    texts = ["a", "abcd", "\u6771\u4eac", "a", "\u00fc\u00fc", "\U0001f600", "abcdef"]
    mapping = mapping_of(
        [(*neutral[:2], text, *neutral[3:]) for text in texts], str(tmp_path), "texts"
    )
    batched, singles = (
        [
            *read_rows(
                Span(source="f"),
                mapping=mapping,
                options=ReadOptions(batch_records=size, max_content_bytes=max_bytes),
            )
        ]
        for size in (100, 0)
    )
    assert records_of(batched) == singles
    assert sum(isinstance(item, Record) for item in singles) == sum(
        len(text.encode()) <= max_bytes for text in texts
    )


def test_the_types_of_each_database_are_read_in_batches(server: AnyServer) -> None:
    table = (
        "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body TEXT, at TIMESTAMP NULL,"
        " price DECIMAL(9, 2), day DATE)"
    )
    rows = ", ".join(
        f"({number}, 'text {number}', '2026-01-31 08:30:{number:02}', {number}.50, '2026-01-31')"
        for number in range(30)
    )
    mapping = RowMapping(
        connection="",
        table="docs",
        url="https://docs.example.com/{id}",
        content=ContentSource(column="body"),
        metadata="all",
        modified="at",
    )
    mapping = new_mapping(server, mapping, table, f"INSERT INTO docs VALUES {rows}")
    batched = outcomes(mapping, batch_records=1024)
    assert [type(item) for item in batched] == [Record, RecordBatch]
    singles = outcomes(mapping, batch_records=0)
    assert records_of(batched) == singles
    assert isinstance(singles[0].modified, datetime)
