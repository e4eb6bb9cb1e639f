"""SFTP sessions that only talk to servers whose host key is known.

Host name, port, user and keys are looked up in `~/.ssh/config`, host keys in `~/.ssh/known_hosts`,
to which no key is ever added. A password is only taken from `FEEDFERRY_SFTP_PASSWORD`.
"""

import logging
import os
from getpass import getuser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import paramiko  # type: ignore[import-untyped]  # it has no types of its own
from fsspec.implementations.sftp import SFTPFileSystem

from feedferry.schemas.errors import SourceError

PASSWORD = "FEEDFERRY_SFTP_PASSWORD"

_KNOWN_HOSTS = "~/.ssh/known_hosts"
_CONFIG = "~/.ssh/config"
_PORT = 22
_TIMEOUT_SECONDS = 60.0
_PREFETCHED_BLOCKS = 64  # of 32 KiB: requests under way at once


class StrictSftp(SFTPFileSystem):  # type: ignore[misc]  # of a library without types
    """fsspec's SFTP, with strict host keys: fsspec itself knows no keys, and accepts any key."""

    client: paramiko.SSHClient
    ftp: paramiko.SFTPClient

    def reconnect(self) -> None:
        """Log in again if the connection has ended."""
        transport = self.client.get_transport()
        is_open = transport is not None and transport.is_active()
        if not is_open or self.ftp.get_channel().closed:
            self.client.close()
            self._connect()

    def _connect(self) -> None:
        logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its errors are raised as well
        port, self.client = self.ssh_kwargs["port"], paramiko.SSHClient()
        server = f"sftp://{self.host}" + (f":{port}" if port != _PORT else "")
        try:
            self.client.load_system_host_keys()
            self.client.set_missing_host_key_policy(_RefuseUnknownHost(server, port))
            self.client.connect(
                self.host,
                password=os.environ.get(PASSWORD) or None,
                timeout=_TIMEOUT_SECONDS,
                banner_timeout=_TIMEOUT_SECONDS,
                auth_timeout=_TIMEOUT_SECONDS,
                **self.ssh_kwargs,
            )
            self.ftp = self.client.open_sftp()
            self.ftp.get_channel().settimeout(_TIMEOUT_SECONDS)
        except (OSError, EOFError, paramiko.SSHException) as exc:
            self.client.close()
            raise SourceError(f"{server}: {_reason(exc, self.ssh_kwargs['username'])}") from exc
        except BaseException:
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
    def __init__(self, server: str, port: int) -> None:
        self._server = server
        self._flag = f"-p {port} " if port != _PORT else ""

    def missing_host_key(self, client: paramiko.SSHClient, name: str, key: paramiko.PKey) -> None:
        host = urlsplit(self._server).hostname
        raise SourceError(
            f"{self._server}: its host key, {key.fingerprint}, is not in {_KNOWN_HOSTS}; expected"
            f" it there: `ssh-keyscan {self._flag}{host} >> {_KNOWN_HOSTS}`, after you have"
            " verified the fingerprint"
        )


def connect(authority: str) -> StrictSftp:
    """Return the session of this thread with a server; a session that has ended is renewed.

    Server and user of the URI are completed by ~/.ssh/config.
    """
    uri = urlsplit(f"//{authority}")
    path = Path(_CONFIG).expanduser()
    config = paramiko.SSHConfig.from_path(path) if path.exists() else paramiko.SSHConfig()
    configured = config.lookup(uri.hostname or "")
    session = StrictSftp(
        configured["hostname"],
        port=uri.port or int(configured.get("port", _PORT)),
        username=unquote(uri.username or "") or configured.get("user") or getuser(),
        key_filename=[key for key in configured.get("identityfile", ()) if Path(key).exists()],
    )
    session.reconnect()
    return session


def _reason(exc: Exception, user: str) -> str:
    if isinstance(exc, paramiko.BadHostKeyException):
        return (
            f"its host key is {exc.key.fingerprint}; expected {exc.expected_key.fingerprint}, as in"
            f" {_KNOWN_HOSTS}: this may be another server"
        )
    if isinstance(exc, paramiko.AuthenticationException):
        return (
            f"login of {user!r} refused; expected a key that the server accepts, from the agent,"
            f" ~/.ssh or {_CONFIG}, or a password in {PASSWORD}"
        )
    text = getattr(exc, "strerror", None) or str(exc) or "no answer"
    return f"{text}; expected an SFTP server"
