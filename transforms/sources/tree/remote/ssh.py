"""SFTP sessions of this process, one for each server; one that has died is opened again once."""

import errno
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import paramiko  # type: ignore[import-untyped]  # it has no types of its own
from paramiko.hostkeys import InvalidHostKey  # type: ignore[import-untyped]  # the same

from schemas.errors import SourceError

PASSWORD = "FEEDFERRY_SFTP_PASSWORD"
DIED = (OSError, EOFError, paramiko.SSHException)
"""What is raised when a session has died; an OSError may be an answer as well."""

_KNOWN_HOSTS = "~/.ssh/known_hosts"
_CONFIG = "~/.ssh/config"
_PORT = 22
_TIMEOUT_SECONDS = 60.0
_Answer = TypeVar("_Answer")


class _Session(NamedTuple):
    client: paramiko.SSHClient
    sftp: paramiko.SFTPClient


class _Host(NamedTuple):
    name: str
    port: int
    user: str
    keys: list[str]

    def __str__(self) -> str:
        return f"sftp://{self.name}" + (f":{self.port}" if self.port != _PORT else "")


_sessions: dict[tuple[int, str], _Session] = {}


def ask(authority: str, question: Callable[[paramiko.SFTPClient], _Answer]) -> _Answer:
    """Return what a server answers; ask again, once, if the session has died over it.

    Raise OSError where it refuses, and SourceError where there can be no session.
    """
    session = _session(authority)
    with _told():
        try:
            return question(session.sftp)
        except DIED as exc:
            if is_answer(session.sftp, exc):
                raise
    _drop(authority)
    with _told():
        return question(_session(authority).sftp)


def is_answer(sftp: paramiko.SFTPClient, exc: Exception) -> bool:
    """Whether the server has said this, in a session that lives."""
    is_said = isinstance(exc, OSError) and not isinstance(exc, TimeoutError)
    return is_said and not sftp.get_channel().closed


def close_sessions() -> None:
    """Close all sessions of this process."""
    for _, authority in [key for key in _sessions if key[0] == os.getpid()]:
        _drop(authority)


@contextmanager
def _told() -> Iterator[None]:
    """Raise OSError for what else paramiko raises."""
    try:
        yield
    except (EOFError, paramiko.SSHException) as exc:
        raise OSError(errno.EIO, str(exc) or "the connection ended") from exc


def _session(authority: str) -> _Session:
    """Return the session with a server; the one of a parent process is not ours."""
    key = (os.getpid(), authority)
    if key not in _sessions:
        _sessions[key] = _connect(_look_up(authority))
    return _sessions[key]


def _drop(authority: str) -> None:
    session = _sessions.pop((os.getpid(), authority), None)
    if session is not None:
        session.client.close()


def _look_up(authority: str) -> _Host:
    """Return the host that is meant, by what the uri and ~/.ssh/config say."""
    said = urlsplit(f"//{authority}")
    found = _configured(said.hostname or "")
    try:
        port = said.port or int(found.get("port", _PORT))
    except ValueError as exc:
        raise SourceError(f"sftp://{authority}: {exc}; expected a port up to 65535") from exc
    return _Host(
        name=found["hostname"],
        port=port,
        user=unquote(said.username or "") or found.get("user") or getuser(),
        keys=[key for key in found.get("identityfile", []) if Path(key).exists()],
    )


def _configured(host: str) -> Mapping[str, Any]:
    path = Path(_CONFIG).expanduser()
    try:
        config = paramiko.SSHConfig.from_path(path) if path.exists() else paramiko.SSHConfig()
        found: Mapping[str, Any] = config.lookup(host)
    except (paramiko.SSHException, OSError) as exc:
        raise SourceError(f"{_CONFIG}: {exc}; expected a configuration of OpenSSH") from exc
    return found


def _connect(host: _Host) -> _Session:
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what it logs, it raises as well
    client = paramiko.SSHClient()
    try:
        _log_in(client, host)
        sftp = client.open_sftp()
    except BaseException as exc:
        client.close()
        if isinstance(exc, DIED):
            raise _unreached(host, exc) from exc
        raise
    sftp.get_channel().settimeout(_TIMEOUT_SECONDS)
    return _Session(client, sftp)


def _log_in(client: paramiko.SSHClient, host: _Host) -> None:
    try:
        client.load_system_host_keys()
    except InvalidHostKey as exc:
        raise SourceError(f"{_KNOWN_HOSTS}: {exc}; expected the keys of hosts") from exc
    client.set_missing_host_key_policy(_Unknown(host))
    client.connect(
        host.name,
        host.port,
        host.user,
        os.environ.get(PASSWORD) or None,
        key_filename=host.keys,
        timeout=_TIMEOUT_SECONDS,
        banner_timeout=_TIMEOUT_SECONDS,
        auth_timeout=_TIMEOUT_SECONDS,
    )


class _Unknown(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]  # of a library without types
    """Lets no server be talked to that is not known, where paramiko could come to know it."""

    def __init__(self, host: _Host) -> None:
        self._host = host

    def missing_host_key(self, _client: paramiko.SSHClient, _name: str, key: paramiko.PKey) -> None:
        port = f"-p {self._host.port} " if self._host.port != _PORT else ""
        raise SourceError(
            f"{self._host}: its host key, {key.fingerprint}, is not in {_KNOWN_HOSTS}; expected it"
            f" there: `ssh-keyscan {port}{self._host.name} >> {_KNOWN_HOSTS}`, when you have made"
            " sure that it is the right one"
        )


def _unreached(host: _Host, exc: Exception) -> SourceError:
    if isinstance(exc, paramiko.BadHostKeyException):
        return SourceError(
            f"{host}: its host key is {exc.key.fingerprint}; expected"
            f" {exc.expected_key.fingerprint}, which {_KNOWN_HOSTS} has: this may be another server"
        )
    if isinstance(exc, paramiko.AuthenticationException):
        return SourceError(
            f"{host}: {host.user!r} is not let in; expected a key that it knows, by the agent,"
            f" ~/.ssh or {_CONFIG}, or a password in {PASSWORD}"
        )
    words = getattr(exc, "strerror", None) or str(exc) or "no answer"
    return SourceError(f"{host}: {words}; expected an SFTP server")
