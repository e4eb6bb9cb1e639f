"""A tree and a database with the same number of documents."""

import sqlite3
from contextlib import closing
from pathlib import Path

from support.archives import put

_PLAN = "plan " * 1_000


def plans(folder: Path, count: int) -> list[tuple[str, ...]]:
    """Make both, and return them as inputs of `convert`."""
    for number in range(count):
        put(folder / f"docs/{number % 7}/{number}.txt", _PLAN.encode())
    with closing(sqlite3.connect(folder / "plans.db")) as connection, connection:
        connection.execute("CREATE TABLE plans (id INTEGER PRIMARY KEY, body TEXT)")
        rows = [(number, _PLAN) for number in range(count)]
        connection.executemany("INSERT INTO plans VALUES (?, ?)", rows)
    mapping = f"connection: sqlite:///{folder}/plans.db\ntable: plans\nurl: https://p.example.com/{{id}}\n"
    put(folder / "plans.yaml", mapping.encode())
    return [
        (str(folder / "docs"), "--base-url", "https://docs.example.com/"),
        (str(folder / "plans.yaml"), "--from", "database"),
    ]
