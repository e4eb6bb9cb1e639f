"""Databases of all three kinds, for each test a new one on a server that all of them share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import Server, Sqlite, mariadb, postgresql


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    with postgresql() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[Server]:
    with mariadb() as server:
        yield server


@pytest.fixture
def sqlite_server(tmp_path: Path) -> Sqlite:
    return Sqlite(tmp_path)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Server | Sqlite:
    """Each of them in turn."""
    found: Server | Sqlite = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture(params=["postgresql", "mariadb"])
def remote(request: pytest.FixtureRequest) -> Server:
    """Those whose connections can be lost."""
    found: Server = request.getfixturevalue(f"{request.param}_server")
    return found
