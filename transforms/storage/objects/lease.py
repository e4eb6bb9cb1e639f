"""A lease on a run in object storage: the lock of a driver that may be killed, on any host.

It is an object that is put if absent, and renewed every 20 seconds on the condition that no other
process has replaced it. One that was not renewed for 60 seconds, by the clock of the server, is
taken over; one of a process of this host that has ended, at once.
"""

import logging
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self
from uuid import uuid4

import msgspec

from feedferry.schemas.errors import BusyError, FatalError
from feedferry.transforms.storage.objects.object_storage import ObjectStorage, Version

RENEWED_SECONDS = 20.0
EXPIRY_SECONDS = 60.0
_log = logging.getLogger(__name__)


class _Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a lease.

    `processes` is where `pid` is one; `renewals` changes the object, and so its ETag, each time.
    """

    host: str = ""
    pid: int = 0
    processes: str = ""
    token: str = ""
    renewals: int = 0


class Lease:
    """A lease that is renewed by a thread until `release`; making it raises BusyError."""

    def __init__(self, storage: ObjectStorage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._holder = _Holder(
            host=socket.gethostname(),
            pid=os.getpid(),
            processes=_processes(),
            token=uuid4().hex,
        )
        self._changing = threading.Lock()
        self._ended = threading.Event()
        self._version = self._take()
        self._is_lost = False
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def check(self) -> None:
        """Renew the lease; raise BusyError if another process has it."""
        with self._changing:
            self._renew()
        if self._is_lost:
            raise BusyError(
                f"{self._storage.locate(self._name)}: taken over by another process, because it was"
                f" not renewed for {EXPIRY_SECONDS:.0f} s; nothing is published by this one"
            )

    def release(self) -> None:
        """Let others have it at once."""
        self._ended.set()
        self._thread.join()
        if not self._is_lost:
            with suppress(FatalError, BusyError):  # it expires, or another process has it
                self.check()
                self._storage.remove(self._name)

    def _take(self) -> Version:
        while True:
            data = msgspec.json.encode(self._holder)
            if self._storage.put_if_absent(self._name, data):
                version = self._storage.version(self._name)
            elif (found := self._storage.version(self._name)) is not None:
                self._check_expired(found)
                version = self._storage.replace_if(self._name, data, found)
            else:
                continue  # it was just released
            if version is not None and self._storage.get(self._name) == data:
                return version

    def _check_expired(self, found: Version) -> None:
        """Raise BusyError if a process has the lease."""
        holder = _decode(self._storage.get(self._name))
        age = (self._server_time().modified - found.modified).total_seconds()
        if age > EXPIRY_SECONDS or _has_ended(holder):
            _log.info("lease of process %d on %s: taken over", holder.pid, holder.host)
            return
        raise BusyError(
            f"{self._storage.locate('')}: in use by process {holder.pid} on {holder.host}; expected"
            f" to wait until it ends, or {EXPIRY_SECONDS:.0f} s if it was killed"
        )

    def _server_time(self) -> Version:
        """Return the version of an object that is written now."""
        name = f"{self._name}.{self._holder.token}"
        self._storage.put(name, b"")
        written = self._storage.version(name)
        self._storage.remove(name)
        if written is None:
            raise FatalError(f"{self._storage.locate(name)}: removed; expected what was written")
        return written

    def _keep(self) -> None:
        while not self._ended.wait(RENEWED_SECONDS) and not self._is_lost:
            with self._changing, suppress(FatalError):  # it is tried again
                self._renew()

    def _renew(self) -> None:
        """Renew it once; an error of the storage is raised, and leaves it as it is."""
        if self._is_lost:
            return
        self._holder = msgspec.structs.replace(self._holder, renewals=self._holder.renewals + 1)
        data = msgspec.json.encode(self._holder)
        version = self._storage.replace_if(self._name, data, self._version)
        if version is None:
            found = _decode(self._storage.get(self._name))
            current = self._storage.version(self._name)
            if found.token == self._holder.token and current is not None:
                version = current  # an earlier renewal, whose answer was lost
        if version is None:
            self._is_lost = True
        else:
            self._version = version


def _decode(data: bytes | None) -> _Holder:
    try:
        return msgspec.json.decode(data or b"{}", type=_Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Holder()


def _processes() -> str:
    """Return what only processes that see each other have in common, if the system tells it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _has_ended(holder: _Holder) -> bool:
    """Whether the holder is a process of this host that is over."""
    is_here = holder.processes and holder.processes == _processes()
    if not is_here or holder.pid <= 0:
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
