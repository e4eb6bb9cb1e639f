"""`feedferry init`: a first mapping file for a database, to be edited by its user."""

from pathlib import Path

import click
import sqlalchemy as sa

from schemas.errors import ConfigError
from transforms.sources.database.connection_url import hide_password, parse_connection
from transforms.sources.database.draft import Column, draft_mapping
from transforms.sources.database.errors import told
from transforms.sources.database.mapping import DATABASE, Mapping
from transforms.sources.database.table_query import connect


def run(connection: str, *, from_format: str | None, table: str | None, schema: str | None) -> int:
    """Print a mapping of a table; raise ConfigError if there is none, or more than one."""
    if from_format not in (None, DATABASE):
        raise ConfigError(f"--from {from_format}: not for init; expected {DATABASE}")
    mapping = Mapping(
        connection=parse_connection("URL", connection), folder=str(Path.cwd()), schema=schema
    )
    with told(mapping, where="its tables"), connect(mapping).connect() as opened:
        inspector = sa.inspect(opened)
        name = table or _only_table(inspector, schema)
        if not inspector.has_table(name, schema):
            raise ConfigError(f"--table: {name!r}; expected one of {_tables(inspector, schema)}")
        columns = [
            Column(one["name"], str(one["type"]), is_nullable=bool(one["nullable"]))
            for one in inspector.get_columns(name, schema)
        ]
        key = inspector.get_pk_constraint(name, schema)["constrained_columns"]
    click.echo(
        draft_mapping(
            columns, connection=hide_password(connection), table=name, schema=schema, key=key
        ),
        nl=False,
    )
    return 0


def _only_table(inspector: sa.Inspector, schema: str | None) -> str:
    names = inspector.get_table_names(schema)
    if len(names) != 1:
        raise ConfigError(f"--table: not given; expected one of {_tables(inspector, schema)}")
    return names[0]


def _tables(inspector: sa.Inspector, schema: str | None) -> str:
    names = [*inspector.get_table_names(schema), *inspector.get_view_names(schema)]
    return ", ".join(sorted(names)) or "the tables, of which there are none"
