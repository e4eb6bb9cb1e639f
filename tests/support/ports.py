"""Ports of loopback for tests: a kept port is not given to other programs as a free one."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_port() -> Iterator[int]:
    """Yield a port on which only the caller listens, as often as it wants."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as all servers do, too
        keeper.bind(("127.0.0.1", 0))
        yield int(keeper.getsockname()[1])
