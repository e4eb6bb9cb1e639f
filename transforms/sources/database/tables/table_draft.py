"""A draft of a mapping file for a table that a database describes."""

from pathlib import Path

import sqlalchemy as sa

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sources.database.connection.session import Session
from feedferry.transforms.sources.database.mapping.connection_url import check_connection
from feedferry.transforms.sources.database.mapping.mapping_draft import TableColumn, draft_mapping
from feedferry.transforms.sources.database.mapping.row_mapping import RowMapping


def draft_table(
    connection: str, *, table: str | None = None, schema: str | None = None
) -> tuple[str, str]:
    """Return the name of a table and its draft.

    Raises ConfigError unless a table is named or there is only one.
    """
    try:
        check_connection(connection)
    except ValueError as exc:
        raise ConfigError(f"URL: {exc}") from None
    mapping = RowMapping(connection=connection, folder=str(Path.cwd()), schema=schema)
    session = Session(mapping)
    with session.translate_errors("its tables"), session.engine.connect() as opened:
        inspector = sa.inspect(opened)
        name = table or _only_table(inspector, schema)
        if not inspector.has_table(name, schema):
            raise ConfigError(f"⟦table⟧: {name!r}; expected one of {_tables(inspector, schema)}")
        columns = [
            TableColumn(column["name"], str(column["type"]), is_nullable=bool(column["nullable"]))
            for column in inspector.get_columns(name, schema)
        ]
        key = inspector.get_pk_constraint(name, schema)["constrained_columns"]
    return name, draft_mapping(columns, connection=connection, table=name, schema=schema, key=key)


def _only_table(inspector: sa.Inspector, schema: str | None) -> str:
    names = inspector.get_table_names(schema)
    if len(names) != 1:
        raise ConfigError(f"⟦table⟧: missing; expected one of {_tables(inspector, schema)}")
    return names[0]


def _tables(inspector: sa.Inspector, schema: str | None) -> str:
    names = [*inspector.get_table_names(schema), *inspector.get_view_names(schema)]
    return ", ".join(sorted(names)) or "the tables, of which there are none"
