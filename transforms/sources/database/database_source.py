"""The source `database`: every row is a document.

SQLAlchemy takes a while to load, so it is loaded where a database is read.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from feedferry.schemas.account import Account
from feedferry.schemas.check import Check
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import Span
from feedferry.transforms.config.yaml_structs import read_yaml
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources.base import Source, SourceRun, SpanRequest, SpanSize
from feedferry.transforms.sources.database.mapping.row_mapping import DATABASE, RowMapping, rules_of
from feedferry.transforms.sources.state_changes import read_changes
from feedferry.transforms.storage.run_folders.mirrors import shown
from feedferry.transforms.storage.state import StateHead, open_state, update_state


class DatabaseSource(Source[RowMapping]):
    """A database, read as a YAML file maps its rows."""

    name = DATABASE
    title = "rows of a database, each a document (a YAML file)"
    noun = "a database"
    span_formats = frozenset({DATABASE})
    makes_urls = True
    has_state = True
    config_type = RowMapping
    keeps_rejected = True
    counts_contents = True

    def load(self, span: Span, options: SourceOptions) -> RowMapping:
        """Return the mapping in a YAML file; raise ConfigError, with all errors and no secret."""
        path = Path(span.path)
        mapping = replace(read_yaml(path, RowMapping), folder=str(path.absolute().parent))
        if mapping.content.template is not None:
            from feedferry.transforms.sources.database.records.content import load_template

            load_template(mapping.resolve(mapping.content.template))
        return mapping

    def check_config(self, config: RowMapping) -> None:
        from feedferry.transforms.sources.database.connection.session import connect

        connect(config)  # opens no connection

    def fingerprint(self, config: RowMapping) -> str:
        return rules_of(config)

    def may_inherit(self, span: Span, config: RowMapping | None) -> bool:
        return config is None or (config.acl is not None and config.acl.inherit_from is not None)

    def checks(self, runs: Sequence[SourceRun[RowMapping]]) -> Iterator[Check]:
        from feedferry.transforms.sources.database.checks import check_database

        for run in runs:
            yield Check("database", partial(check_database, run.config, run.reading.zone))

    def split(self, run: SourceRun[RowMapping]) -> Iterator[Span]:
        """Yield the spans of deletions, then those of the rows that the run reads."""
        from feedferry.transforms.sources.database.plan import plan_rows
        from feedferry.transforms.sources.database.tables.table import open_table

        path = run.options.state
        try:
            table = open_table(run.config)
            with nullcontext() if path is None else open_state(Path(path)) as state:
                yield from plan_rows(table, state, run).spans
        except ConfigError as exc:
            raise ConfigError(f"{run.span.source}: {exc.text}") from exc

    def size(self, span: Span) -> SpanSize:
        from feedferry.transforms.sources.database.read import range_of

        return SpanSize(documents=range_of(span).rows)

    def read(self, request: SpanRequest[RowMapping]) -> Generator[ReadResult, None, None]:
        from feedferry.transforms.sources.database.read import read_rows

        if request.config is None:
            raise TypeError("a database is read with its mapping")
        path = request.state
        with nullcontext() if path is None else open_state(Path(path)) as state:
            yield from read_rows(
                request.span,
                mapping=request.config,
                options=request.options,
                see=request.see,
                state=state,
            )

    def remember(self, run: SourceRun[RowMapping], account: Account, *, generation: int) -> None:
        from feedferry.transforms.sources.database.changes.deletions import advance_state
        from feedferry.transforms.sources.database.changes.watermark import encode_mark
        from feedferry.transforms.sources.database.plan import read_plan

        path = Path(run.options.state or "")
        plan = read_plan(run)
        with open_state(path) as state:
            changes = advance_state(
                read_changes(run.work, account.files),
                state=state,
                incremental=run.config.reading,
                mark=plan.mark,
                path=run.work / "state-changes.jsonl",
            )
        mark, name = encode_mark(plan.mark), shown(run.work)
        stamp = StateHead(
            source=run.span.path, rules=plan.rules, mark=mark, run=name, secret=plan.secret
        )
        update_state(path, changes, before=generation, stamp=stamp)

    def draft_mapping(
        self, connection: str, *, table: str | None = None, schema: str | None = None
    ) -> tuple[str, str]:
        """Return the name of a table and the draft of its mapping file.

        Raises ConfigError unless a table is named or there is only one.
        """
        from feedferry.transforms.sources.database.tables.table_draft import draft_table

        return draft_table(connection, table=table, schema=schema)


ROWS = DatabaseSource()
