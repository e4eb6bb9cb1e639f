"""The check of a database: connection, time zone, the columns of a mapping, and rows."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from feedferry.schemas.check import CheckLine, ok, warn
from feedferry.transforms.sources.database.connection.dialects import dialect_of
from feedferry.transforms.sources.database.connection.session import Session
from feedferry.transforms.sources.database.mapping.row_mapping import RowMapping
from feedferry.transforms.sources.database.tables.table import open_table


def check_database(mapping: RowMapping, zone: str, _seconds: float) -> Iterator[CheckLine]:
    """Connect, compare the time zones of server, machine and `--zone`, and count the rows."""
    with closing(Session(mapping)) as session:
        version, server_zone = session.run(_read_server, where="connecting")
    yield ok("database", f"{session.engine.dialect.name} {version}, connected")
    if server_zone:
        yield _compare_zones(server_zone, zone)
    table = open_table(mapping)
    columns = ", ".join(column.name for column in table.columns)
    yield ok("columns", f"key {', '.join(table.key)}; columns {columns}")
    with closing(table.session):
        ((rows,),) = table.run(sa.select(sa.func.count()).select_from(table.selectable))
    if rows:
        yield ok("rows", f"{rows:,}")
    else:
        yield warn("rows", "none", "check table, query and login; ⟦min_records⟧ stops such a run")


def _compare_zones(server_zone: str, zone: str) -> CheckLine:
    ours = datetime.now().astimezone()
    found = f"database {server_zone}, this machine {ours.tzname()}, dates without zone {zone}"
    if len({_offset(server_zone, ours), ours.utcoffset(), _offset(zone, ours)}) == 1:
        return ok("time zones", found)
    cure = "⟦zone⟧ states the zone of the columns without one; others are read exactly"
    return warn("time zones", found, cure)


def _read_server(connection: sa.Connection) -> tuple[str, str]:
    """Return the version of the server, and its time zone if it has one."""
    dialect = connection.dialect
    version = ".".join(map(str, getattr(dialect, "server_version_info", None) or ()))
    query = dialect_of(dialect.name).zone_query
    return version, str(connection.scalar(sa.text(query))) if query else ""


def _offset(name: str, now: datetime) -> object:
    """Return the present offset of a zone, or its name if it is unknown here."""
    try:
        zone: tzinfo = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return name
    return now.astimezone(zone).utcoffset()
