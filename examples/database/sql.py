"""Run a file of SQL in people.db, in place of the program that changes the table."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

with closing(sqlite3.connect("people.db")) as connection:
    connection.executescript(Path(sys.argv[1]).read_text("utf-8"))
