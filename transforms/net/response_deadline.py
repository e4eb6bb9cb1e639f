"""A time limit for a whole HTTP response, which a read timeout is not.

A read timeout limits each read on its own. A server that sends a byte now and then, or `102
Processing` over and over, can keep a client waiting for ever. Here the head of a response and its
body each have a limit. Then the connection is shut down, which ends the read that waits for it.
"""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

_LIMITED_STEPS = (".receive_response_headers", ".receive_response_body")
_CONNECTED = (".connect_tcp.complete", ".start_tls.complete")


class ResponseDeadline:
    """Limits one request of httpx2 while its block runs; pass `trace` as the extension `trace`.

    `is_exceeded` says that it has shut down the connection.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self.is_exceeded = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:  # Any: each event has its own
        """Follow the steps of a request."""
        step, _, state = event.rpartition(".")
        if event.endswith(_CONNECTED):
            self._socket = info["return_value"].get_extra_info("socket")
        elif step.endswith(_LIMITED_STEPS):
            self._cancel()
            if state == "started":
                self._timer = threading.Timer(self._seconds, self._shut_down)
                self._timer.daemon = True
                self._timer.start()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _shut_down(self) -> None:
        self.is_exceeded = True
        with suppress(OSError):  # it is closed already
            # A TLS socket would first say goodbye to a server that does not read.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # type: ignore[arg-type]
