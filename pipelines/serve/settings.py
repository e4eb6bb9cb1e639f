"""What a receiver is told."""

import msgspec

from pipelines.serve.rehearsal.set_aside import DEFAULT_LIMIT
from schemas.content import MAX_CONTENT_BYTES
from transforms.sinks.push.model import REQUEST_BYTES_LIMIT

FEEDERGATE_PORT = 19900
LOOPBACK = ("127.0.0.0/8", "::1")


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a receiver listens, whom it trusts, and where its bounds are.

    `spool` is its folder. `port` 0 takes a free one. `trusted` are addresses, netmasks, prefixes
    and globs, as the appliances' own lists have them. `profiles` are those of Thunderstone data
    that exist; none named: any. `min_free_bytes` of the spool's disk stay free. Time-outs are in
    seconds: `idle_seconds` between two blocks of a request, `head_seconds` for a whole head;
    a body slower than `min_rate` bytes a second, past its first `grace_seconds`, is cut off.
    `scenario` is the path of a file that tells how to misbehave. A feed is set aside that is not
    digested in `feed_seconds` and a second for each megabyte.

    A feed of `max_request_bytes` or more is refused, as an appliance does. A document of more than
    `max_content_bytes` is refused when its feed is read: it would take too much memory.
    """

    spool: str
    host: str = "127.0.0.1"
    port: int = FEEDERGATE_PORT
    certificate: str | None = None
    key: str | None = None
    trusted: tuple[str, ...] = LOOPBACK
    profiles: tuple[str, ...] = ()
    min_free_bytes: int = 2 * REQUEST_BYTES_LIMIT
    max_request_bytes: int = REQUEST_BYTES_LIMIT
    max_connections: int = 64
    head_seconds: float = 20.0
    idle_seconds: float = 60.0
    grace_seconds: float = 30.0
    min_rate: int = 1024
    scenario: str | None = None
    max_content_bytes: int = MAX_CONTENT_BYTES
    feed_seconds: float = DEFAULT_LIMIT.seconds
