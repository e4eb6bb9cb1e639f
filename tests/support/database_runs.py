"""Successive runs of a database, with the target that they fill."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.sent_document import StateChange
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.sources import SpanRequest, read_span
from feedferry.transforms.sources.base import SourceRun
from feedferry.transforms.sources.database.changes.deletions import advance_state
from feedferry.transforms.sources.database.changes.watermark import encode_mark
from feedferry.transforms.sources.database.mapping.row_mapping import (
    DATABASE,
    ContentSource,
    RowMapping,
)
from feedferry.transforms.sources.database.plan import RowPlan, plan_rows
from feedferry.transforms.sources.database.tables.table import TableQuery, open_table
from feedferry.transforms.sources.state_changes import rejected
from feedferry.transforms.storage.state import StateHead, open_state, update_state
from support.databases import Server, Sqlite

Refuses = Callable[[Record], bool]
AnyServer = Server | Sqlite
USUAL = SourceOptions(to_format="gsa-feed", min_records=0, max_delete_percent=Decimal(100))


def new_mapping(server: AnyServer, mapping: RowMapping, *statements: str) -> RowMapping:
    """Return a mapping of a new database, in which these statements were run."""
    return replace(mapping, connection=server.url(server.new_database(*statements)))


def new_table(server: AnyServer, mapping: RowMapping, *statements: str) -> TableQuery:
    """Return the rows of a mapping in a new database."""
    return open_table(new_mapping(server, mapping, *statements))


class Database:
    """A file `people.db` of SQLite, the documents of its target, and the state between runs."""

    def __init__(self, folder: Path, *statements: str, **keys: Any) -> None:  # keys of a mapping
        self.folder = folder
        self.state = folder / "state"
        self.mapping = RowMapping(
            **{
                "connection": "sqlite:///people.db",
                "table": "people",
                "url": "http://db.example.com/{id}",
                "content": ContentSource(column="body"),
                "mimetype": "text/plain",
                "folder": str(folder),
                **keys,
            },
        )
        self.target: dict[str, str] = {}
        self.runs = 0
        self.execute(*statements)

    def execute(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.folder / "people.db")) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str) -> dict[str, str]:
        with closing(sqlite3.connect(self.folder / "people.db")) as connection:
            return dict(connection.execute(query).fetchall())

    def remap(self, **keys: Any) -> None:  # keys of a mapping
        self.mapping = replace(self.mapping, **keys)

    def plan(self, *, is_refresh: bool = False, options: SourceOptions = USUAL) -> RowPlan:
        """Return the plan of the next run."""
        folder = self.folder / f"run{self.runs}"
        folder.mkdir(exist_ok=True)
        run = SourceRun(
            span=Span(source="people.yaml", path="people.yaml", format=DATABASE),
            config=self.mapping,
            work=folder,
            reading=ReadOptions(),
            options=replace(options, span_bytes=200, refresh=is_refresh),
        )
        with open_state(self.state) as state:
            return plan_rows(open_table(self.mapping), state, run)

    def run(
        self,
        *,
        is_refresh: bool = False,
        refuses: Refuses = lambda record: False,
    ) -> list[str]:
        """Run successfully; return the outcomes that are not filtered."""
        plan = self.plan(is_refresh=is_refresh)
        seen: list[StateChange] = []
        lines = [line for span in plan.spans for line in self._read(span, seen, refuses)]
        with open_state(self.state) as state:
            path = self.folder / f"run{self.runs}" / "changes"
            changes = advance_state(
                seen,
                state=state,
                incremental=self.mapping.reading,
                mark=plan.mark,
                path=path,
            )
            before = state.head.generation
        stamp = StateHead(
            source="people.yaml",
            rules=plan.rules,
            mark=encode_mark(plan.mark),
            secret=plan.secret,
        )
        update_state(self.state, changes, before=before, stamp=stamp)
        self.runs += 1
        return lines

    def run_without_publishing(self) -> list[str]:
        """Run without changing the target and the state."""
        before = self.target.copy()
        spans, accept = self.plan().spans, lambda record: False
        lines = [line for span in spans for line in self._read(span, [], accept)]
        self.target = before
        self.runs += 1
        return lines

    def known(self) -> list[str]:
        """Return the keys of the state."""
        with open_state(self.state) as state:
            return [known.key for known in state.documents()]

    def _read(self, span: Span, seen: list[StateChange], refuses: Refuses) -> Iterator[str]:
        request = SpanRequest(
            span=span, config=self.mapping, see=seen.append, state=str(self.state)
        )
        for result in read_span(request):
            if isinstance(result, Record) and refuses(result):
                seen[-1] = rejected(seen[-1])
                yield f"refused {result.url}"
            elif not isinstance(result, Filtered):
                yield self._sent(result)

    def _sent(self, result: ReadResult) -> str:
        if isinstance(result, Reject):
            return result.code
        if not isinstance(result, Record):
            raise TypeError(result)
        if result.action is Action.DELETE:
            self.target.pop(result.url, None)
        else:
            self.target[result.url] = result.content.data.decode() if result.content else ""
        return f"{result.action.value} {result.url}"


class ServedDatabase(Database):
    """A database on a server."""

    def __init__(
        self, server: Server, folder: Path, *statements: str, **keys: Any
    ) -> None:  # keys of a mapping
        self._server = server
        self._name = server.new_database(*statements)
        super().__init__(folder, connection=server.url(self._name), **keys)

    def execute(self, *statements: str) -> None:
        if statements:
            self._server.execute(self._name, statements)
