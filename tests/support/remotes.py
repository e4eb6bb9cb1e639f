"""Servers of remote trees for tests, on loopback: S3, SFTP and HTTP.

While a server runs, the environment and a home folder have the credentials for it.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import asyncssh
import boto3  # type: ignore[import-untyped]  # it has no types of its own
import pytest
from fsspec.implementations.http import HTTPFileSystem
from moto.backends import get_backend
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.server import ThreadedMotoServer

from feedferry.transforms.sources.remote import open_remote
from feedferry.transforms.sources.remote.sftp import PASSWORD as PASSWORD_VARIABLE
from feedferry.transforms.sources.remote.sftp import StrictSftp
from feedferry.transforms.storage.objects.requests import clients

USER = "feeder"
PASSWORD = "s3same/0pen@up"
BUCKET = "documents"

_T = TypeVar("_T")
_Handler = SimpleHTTPRequestHandler
Answer = Callable[[_Handler], bool]
"""Answers a request instead of the server; returns False to leave it to the server."""


def put_all(folder: Path, *names: str) -> None:
    """Write files below a folder; the content of each is its name."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))


def error_of(path: str) -> OSError:
    """Return the error of reading a remote file."""
    try:
        with open_remote(path) as stream:
            stream.read()
    except OSError as exc:
        return exc
    raise AssertionError(f"{path} is read to its end")


def read(path: str) -> bytes:
    """Return the content of a remote file."""
    with open_remote(path) as stream:
        return stream.read()


@contextmanager
def s3_server() -> Iterator[Any]:  # boto3 makes its classes when it runs
    """Run an S3 server with one bucket; yield a client of it."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with s3_at(f"http://{host}:{port}") as client:
        client.create_bucket(Bucket=BUCKET)
        yield client
    server.stop()
    get_backend("s3").reset()


def fill_bucket(*keys: str) -> None:
    """Put small objects into the bucket without requests, which are slow."""
    bucket = get_backend("s3")[DEFAULT_ACCOUNT_ID]["aws"]
    for key in keys:
        bucket.put_object(BUCKET, key, b"text")


@contextmanager
def s3_at(endpoint: str) -> Iterator[Any]:  # the same
    """Use a server for s3:// in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_ACCESS_KEY_ID", USER)
        patch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.delenv("AWS_PROFILE", raising=False)
        clients.cache_clear()
        client = _session().client("s3")
        yield client
        client.close()
    clients.cache_clear()


def empty_bucket(client: Any) -> None:  # the same
    """Remove all objects of the bucket, and abort its uploads."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        if keys := [{"Key": item["Key"]} for item in page.get("Contents", ())]:
            client.delete_objects(Bucket=BUCKET, Delete={"Objects": keys, "Quiet": True})
    for upload in client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()):
        names = {"Key": upload["Key"], "UploadId": upload["UploadId"]}
        client.abort_multipart_upload(Bucket=BUCKET, **names)


@cache
def _session() -> Any:  # the same
    """Return the session of all clients: it reads the description of S3 once."""
    return boto3.session.Session()


class SftpServer:
    """An SFTP server with a folder as its `/`, a user with a key, and a known host key.

    A read at or after the first offset in `cuts` ends the connection, and removes the offset. No
    user may open or list the path `closed`.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.cuts: list[int] = []
        self.closed = b""
        self.logins = 0
        self.home = home
        self._folder = folder
        self._connections: list[asyncssh.SSHServerConnection] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._listening = self._run(self._listen(self._put_keys()))
        self.port = self._listening.get_port()
        self.know(self._host_key)

    @property
    def root(self) -> str:
        return f"sftp://{USER}@127.0.0.1:{self.port}"

    @property
    def fingerprint(self) -> str:
        return str(self._host_key.get_fingerprint())

    def know(self, key: asyncssh.SSHKey) -> None:
        """Make this the only known host key of the server."""
        line = f"[127.0.0.1]:{self.port} {key.export_public_key().decode()}"
        (self.home / ".ssh/known_hosts").write_text(line)

    def stop_listening(self) -> None:
        """Accept no more connections."""
        self._loop.call_soon_threadsafe(self._listening.close)
        self._run(self._listening.wait_closed())

    def drop(self) -> None:
        """End all connections; new ones are accepted."""
        self._run(self._drop())

    def close(self) -> None:
        self.stop_listening()
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _put_keys(self) -> asyncssh.SSHAuthorizedKeys:
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")
        user_key = asyncssh.generate_private_key("ssh-ed25519")
        (self.home / ".ssh").mkdir(parents=True)
        user_key.write_private_key(str(self.home / ".ssh/id_ed25519"))
        return asyncssh.import_authorized_keys(user_key.export_public_key().decode())

    async def _listen(self, keys: asyncssh.SSHAuthorizedKeys) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=partial(_Login, self),
            server_host_keys=[self._host_key],
            authorized_client_keys=keys,
            sftp_factory=partial(_Files, self, self._folder),
        )

    async def _drop(self) -> None:
        for connection in self._connections:
            connection.abort()
            await connection.wait_closed()
        self._connections.clear()

    def _run(self, call: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def add_connection(self, connection: asyncssh.SSHServerConnection) -> None:
        self.logins += 1
        self._connections.append(connection)


class _Login(asyncssh.SSHServer):
    def __init__(self, server: SftpServer) -> None:
        self._server = server

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._server.add_connection(conn)

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, PASSWORD)


class _Files(asyncssh.SFTPServer):
    def __init__(
        self, server: SftpServer, folder: Path, chan: asyncssh.SSHServerChannel[bytes]
    ) -> None:
        super().__init__(chan, chroot=str(folder).encode())
        self._server = server
        self._chan = chan
        self._is_cut = False

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> Any:  # may be awaitable
        self._check(path)
        return super().open(path, pflags, attrs)

    def scandir(self, path: bytes) -> Any:  # an iterator of a private type
        self._check(path)
        return super().scandir(path)

    def read(self, file_obj: object, offset: int, size: int) -> Any:  # may be awaitable
        cuts = self._server.cuts
        if cuts and offset >= cuts[0] and not self._is_cut:
            self._is_cut = True
            cuts.pop(0)
            self._chan.get_connection().abort()
        return super().read(file_obj, offset, size)

    def _check(self, path: bytes) -> None:
        if path == self._server.closed:
            raise asyncssh.SFTPPermissionDenied("Permission denied")


@contextmanager
def sftp_server(folder: Path, home: Path) -> Iterator[SftpServer]:
    """Serve a folder by SFTP to the user with the home folder `home`; create both folders."""
    folder.mkdir(parents=True, exist_ok=True)
    server = SftpServer(folder, home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        patch.delenv(PASSWORD_VARIABLE, raising=False)
        yield server
        StrictSftp.clear_instance_cache()
    server.close()


class WebServer(ThreadingHTTPServer):
    """The web server of Python; requests that `answer` takes are answered by it.

    `asked` has the method and the path of each request.
    """

    request_queue_size = 128

    def __init__(self, folder: Path, answer: Answer | None) -> None:
        self.asked: list[str] = []
        self.answer = answer
        super().__init__(("127.0.0.1", 0), partial(_Pages, directory=str(folder)))

    def handle_error(self, *_: object) -> None:
        """Ignore clients that close the connection early."""

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Pages(_Handler):
    protocol_version = "HTTP/1.1"
    server: WebServer

    def do_GET(self) -> None:  # noqa: N802  # the name that http.server calls
        if not self._answered():
            super().do_GET()

    def do_HEAD(self) -> None:  # noqa: N802  # the same
        if not self._answered():
            super().do_HEAD()

    def _answered(self) -> bool:
        self.server.asked.append(f"{self.command} {self.path}")
        return self.server.answer is not None and self.server.answer(self)

    def log_message(self, *_: object) -> None:
        """Do not log requests."""


@contextmanager
def web_server(folder: Path, answer: Answer | None = None) -> Iterator[WebServer]:
    """Serve a folder by HTTP."""
    with WebServer(folder, answer) as server, pytest.MonkeyPatch.context() as patch:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        patch.setenv("NO_PROXY", "*")
        yield server
        HTTPFileSystem.clear_instance_cache()
        server.shutdown()
        thread.join()


def break_off(handler: _Handler) -> bool:
    """State 2000 bytes, and end the connection after 1000; answer later ranges without bytes."""
    ranged = handler.headers["Range"]
    headers = {"ETag": '"1"', "Content-Range": "bytes 1000-1999/2000"}
    body = b"" if ranged else b"x" * 1000
    send(handler, body, headers, status=206 if ranged else 200, length=1000 if ranged else 2000)
    return True


def send(
    handler: _Handler, body: bytes, headers: dict[str, str], *, status: int = 200, length: int = -1
) -> None:
    """Send an answer that states `length` bytes, and close the connection."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body) if length < 0 else length))
    handler.send_header("Connection", "close")
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
