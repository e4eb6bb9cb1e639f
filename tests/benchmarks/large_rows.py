"""Reads rows with large documents of a database, for its memory to be measured.

Its arguments are the url of a database and how many rows of 20 MB the table `docs` is filled with.
"""

import resource
import sys

import sqlalchemy as sa

from schemas.record import Record
from schemas.span import KeyRange, Span
from transforms.sources.database.connection import connect
from transforms.sources.database.mapping import ContentSource, RowMapping
from transforms.sources.database.read import read_rows

DOCUMENT_BYTES = 20 << 20


def fill(url: str, count: int) -> None:
    """Make the table anew; most of its bytes are no text."""
    mapping = RowMapping(connection=url)
    engine = sa.create_engine(connect(mapping).url)
    sort = "BYTEA" if engine.dialect.name == "postgresql" else "LONGBLOB"
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS docs")
        connection.exec_driver_sql(f"CREATE TABLE docs (id INT PRIMARY KEY, body {sort})")
        insert = sa.text("INSERT INTO docs VALUES (:id, :body)")
        for number in range(count):
            body = bytes(range(256)) * (DOCUMENT_BYTES >> 8)
            connection.execute(insert, {"id": number, "body": body})


def read(url: str) -> int:
    """Return how many bytes all documents have."""
    mapping = RowMapping(
        connection=url,
        table="docs",
        url="https://docs.example.com/{id}",
        content=ContentSource(column="body"),
        mimetype="application/octet-stream",
    )
    size = 0
    for found in read_rows(Span(position=KeyRange()), mapping=mapping):
        if isinstance(found, Record) and found.content is not None:
            size += len(found.content.data)
    return size


def held_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    url, *counts = sys.argv[1:]
    if counts:
        fill(url, int(counts[0]))
    else:
        before = held_bytes()
        size = read(url)
        print(f"{size} bytes read, {(held_bytes() - before) >> 20} MiB held above {before >> 20}")
