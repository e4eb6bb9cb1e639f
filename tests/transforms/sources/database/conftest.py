"""Databases of all three kinds: a new one for each test, on servers that all tests share.

Tests with a server of PostgreSQL or MariaDB are slow.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.databases import RestartingServer, Server, Sqlite, mariadb, postgresql

SERVERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgresql", "mariadb")]


@pytest.fixture(scope="session")
def servers_of_postgresql() -> Iterator[RestartingServer]:
    with closing(RestartingServer(postgresql)) as servers:
        yield servers


@pytest.fixture(scope="session")
def servers_of_mariadb() -> Iterator[RestartingServer]:
    with closing(RestartingServer(mariadb)) as servers:
        yield servers


@pytest.fixture
def postgresql_server(servers_of_postgresql: RestartingServer) -> Server:
    return servers_of_postgresql.get()


@pytest.fixture
def mariadb_server(servers_of_mariadb: RestartingServer) -> Server:
    return servers_of_mariadb.get()


@pytest.fixture
def sqlite_server(tmp_path: Path) -> Sqlite:
    return Sqlite(tmp_path)


@pytest.fixture(params=["sqlite", *SERVERS])
def server(request: pytest.FixtureRequest) -> Server | Sqlite:
    """Each database in turn."""
    server: Server | Sqlite = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture(params=SERVERS)
def remote(request: pytest.FixtureRequest) -> Server:
    """The databases whose connections can be lost, in turn."""
    server: Server = request.getfixturevalue(f"{request.param}_server")
    return server
