"""SFTP sessions that only talk to servers whose host key is known.

Host name, port, user and keys are looked up in `~/.ssh/config`, host keys in `~/.ssh/known_hosts`,
to which no key is ever added. A password is only taken from `FEEDFERRY_SFTP_PASSWORD`.
"""

import logging
import os
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import paramiko  # type: ignore[import-untyped]  # it has no types of its own
from fsspec.implementations.sftp import SFTPFileSystem
from paramiko.hostkeys import InvalidHostKey  # type: ignore[import-untyped]  # the same

from schemas.errors import SourceError

PASSWORD = "FEEDFERRY_SFTP_PASSWORD"

_KNOWN_HOSTS = "~/.ssh/known_hosts"
_CONFIG = "~/.ssh/config"
_PORT = 22
_TIMEOUT_SECONDS = 60.0
_PREFETCHED_BLOCKS = 64  # of 32 KiB: requests under way at once


class SftpHost(NamedTuple):
    """A server, and who logs in there."""

    name: str
    port: int
    user: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"sftp://{self.name}" + (f":{self.port}" if self.port != _PORT else "")


class StrictSftp(SFTPFileSystem):  # type: ignore[misc]  # of a library without types
    """fsspec's SFTP, with strict host keys: fsspec itself accepts any key of an unknown host."""

    client: paramiko.SSHClient
    ftp: paramiko.SFTPClient

    def __init__(self, host: SftpHost) -> None:
        self._sftp_host = host
        super().__init__(host.name)

    def reconnect(self) -> None:
        """Log in again if the connection has ended."""
        transport = self.client.get_transport()
        is_open = transport is not None and transport.is_active()
        if not is_open or self.ftp.get_channel().closed:
            self.client.close()
            self._connect()

    def iter_folder(self, path: str) -> Iterator[paramiko.SFTPAttributes]:
        """Yield the entries of a folder, without holding all of them in memory."""
        return iter(self.ftp.listdir_iter(path))

    def _connect(self) -> None:
        logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its errors are raised as well
        host, self.client = self._sftp_host, paramiko.SSHClient()
        try:
            self.client.load_system_host_keys()
            self.client.set_missing_host_key_policy(_RefuseUnknownHost(host))
            self.client.connect(
                host.name,
                host.port,
                host.user,
                os.environ.get(PASSWORD) or None,
                key_filename=list(host.keys),
                timeout=_TIMEOUT_SECONDS,
                banner_timeout=_TIMEOUT_SECONDS,
                auth_timeout=_TIMEOUT_SECONDS,
            )
            self.ftp = self.client.open_sftp()
            self.ftp.get_channel().settimeout(_TIMEOUT_SECONDS)
        except (OSError, EOFError, paramiko.SSHException, InvalidHostKey) as exc:
            self.client.close()
            raise _connection_error(host, exc) from exc
        except SourceError:
            self.client.close()
            raise

    def _open(
        self, path: str, mode: str = "rb", *, offset: int = 0, **_: object
    ) -> paramiko.SFTPFile:
        """Open a file at an offset; its next blocks are requested ahead, a few at a time."""
        file = self.ftp.open(path, mode)
        file.seek(offset)
        file.prefetch(file.stat().st_size, max_concurrent_requests=_PREFETCHED_BLOCKS)
        return file


class _RefuseUnknownHost(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]  # the same
    def __init__(self, host: SftpHost) -> None:
        self._host = host

    def missing_host_key(self, _client: paramiko.SSHClient, _name: str, key: paramiko.PKey) -> None:
        port = f"-p {self._host.port} " if self._host.port != _PORT else ""
        raise SourceError(
            f"{self._host}: its host key, {key.fingerprint}, is not in {_KNOWN_HOSTS}; expected it"
            f" there: `ssh-keyscan {port}{self._host.name} >> {_KNOWN_HOSTS}`, after you have"
            " verified the fingerprint"
        )


def connect(authority: str) -> StrictSftp:
    """Return the session of this thread with a server; a session that has ended is renewed."""
    session = StrictSftp(_look_up(authority))
    session.reconnect()
    return session


def _look_up(authority: str) -> SftpHost:
    """Return the server and user of a URI, completed by ~/.ssh/config."""
    uri = urlsplit(f"//{authority}")
    path = Path(_CONFIG).expanduser()
    try:
        config = paramiko.SSHConfig.from_path(path) if path.exists() else paramiko.SSHConfig()
        configured = config.lookup(uri.hostname or "")
    except (paramiko.SSHException, OSError) as exc:
        raise SourceError(f"{_CONFIG}: {exc}; expected a configuration of OpenSSH") from exc
    try:
        port = uri.port or int(configured.get("port", _PORT))
    except ValueError as exc:
        raise SourceError(f"sftp://{authority}: {exc}; expected a port up to 65535") from exc
    return SftpHost(
        name=configured["hostname"],
        port=port,
        user=unquote(uri.username or "") or configured.get("user") or getuser(),
        keys=tuple(key for key in configured.get("identityfile", ()) if Path(key).exists()),
    )


def _connection_error(host: SftpHost, exc: Exception) -> SourceError:
    if isinstance(exc, InvalidHostKey):
        return SourceError(f"{_KNOWN_HOSTS}: {exc}; expected the keys of hosts")
    if isinstance(exc, paramiko.BadHostKeyException):
        return SourceError(
            f"{host}: its host key is {exc.key.fingerprint}; expected"
            f" {exc.expected_key.fingerprint}, as in {_KNOWN_HOSTS}: this may be another server"
        )
    if isinstance(exc, paramiko.AuthenticationException):
        return SourceError(
            f"{host}: login of {host.user!r} refused; expected a key that the server accepts, from"
            f" the agent, ~/.ssh or {_CONFIG}, or a password in {PASSWORD}"
        )
    text = getattr(exc, "strerror", None) or str(exc) or "no answer"
    return SourceError(f"{host}: {text}; expected an SFTP server")
