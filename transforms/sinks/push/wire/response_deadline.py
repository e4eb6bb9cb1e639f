"""An end to answers that never end.

A read timeout bounds each read alone: whoever says a byte now and then, or `102 Processing` over
and over, has for ever. Here the head of an answer, and what follows it, have so long each; then the
connection is shut down, which wakes whoever reads from it.
"""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

_STEPS = (".receive_response_headers", ".receive_response_body")
_CONNECTED = (".connect_tcp.complete", ".start_tls.complete")


class ResponseDeadline:
    """Watches one request while its block runs; `is_over` if it has ended its connection."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self.is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:  # Any: each event has its own
        """Hear how a request goes on; httpx2 calls it, as its extension `trace`."""
        step, _, state = event.rpartition(".")
        if event.endswith(_CONNECTED):
            self._socket = info["return_value"].get_extra_info("socket")
        elif step.endswith(_STEPS):
            self._cancel()
            if state == "started":
                self._begin()

    def _begin(self) -> None:
        self._timer = threading.Timer(self._seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self.is_over = True
        with suppress(OSError):  # it is closed already
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # type: ignore[arg-type]
