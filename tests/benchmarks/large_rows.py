"""Measure the memory of reading large documents from a database.

The arguments are the URL of a database and, to fill the table `docs`, a number of rows of 20 MB.
"""

import resource
import sys

import sqlalchemy as sa

from feedferry.schemas.record import Record
from feedferry.schemas.span import KeyRange, Span
from feedferry.transforms.sources.database.connection.session import connect
from feedferry.transforms.sources.database.mapping.row_mapping import ContentSource, RowMapping
from feedferry.transforms.sources.database.read import read_rows

DOCUMENT_BYTES = 20 << 20


def fill(url: str, count: int) -> None:
    """Create the table with binary documents."""
    mapping = RowMapping(connection=url)
    engine = sa.create_engine(connect(mapping).url)
    column_type = "BYTEA" if engine.dialect.name == "postgresql" else "LONGBLOB"
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS docs")
        connection.exec_driver_sql(f"CREATE TABLE docs (id INT PRIMARY KEY, body {column_type})")
        insert = sa.text("INSERT INTO docs VALUES (:id, :body)")
        for number in range(count):
            body = bytes(range(256)) * (DOCUMENT_BYTES >> 8)
            connection.execute(insert, {"id": number, "body": body})


def read(url: str) -> int:
    """Read all documents; return the sum of their bytes."""
    mapping = RowMapping(
        connection=url,
        table="docs",
        url="https://docs.example.com/{id}",
        content=ContentSource(column="body"),
        mimetype="application/octet-stream",
    )
    size = 0
    for result in read_rows(Span(position=KeyRange()), mapping=mapping):
        if isinstance(result, Record) and result.content is not None:
            size += len(result.content.data)
    return size


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    url, *counts = sys.argv[1:]
    if counts:
        fill(url, int(counts[0]))
    else:
        before = peak_bytes()
        size = read(url)
        print(f"{size} bytes read, {(peak_bytes() - before) >> 20} MiB above {before >> 20}")
