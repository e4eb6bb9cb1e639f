"""The settings of a receiver, and the flags of `feedferry serve`."""

from feedferry.pipelines.options.display_options import LogOptions
from feedferry.pipelines.options.flags import Flag, declare
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import (
    FIELDS,
    OUTPUT_FOLDER,
    PATH,
    PORT,
    SIZE,
    TIMEOUT,
    count_of,
)
from feedferry.pipelines.serve.worker_process import DEFAULT_LIMIT_SECONDS
from feedferry.schemas.content import MAX_CONTENT_BYTES
from feedferry.transforms.sinks.push.model import REQUEST_BYTES_LIMIT

FEEDERGATE_PORT = 19900
LOOPBACK = ("127.0.0.0/8", "::1")


class ServeSettings(LogOptions, frozen=True, kw_only=True):
    """The options of `feedferry serve`: the address, the clients that are trusted, and the limits.

    `spool` is its folder. Port 0 is any free port. `trusted` are addresses and networks, or `all`.
    `profiles` are the existing profiles of Thunderstone data; if it is empty, any profile exists.
    `min_free_bytes` of the disk of the spool stay free.

    Timeouts are in seconds: `idle_seconds` between two blocks of a request, `head_seconds` for a
    whole head; a body slower than `min_rate` bytes per second is refused after `grace_seconds`.
    After a refusal, more of the request is read for `linger_seconds`, and at most
    `linger_idle_seconds` between two blocks. `scenario` is the path of a scenario file. A feed is
    set aside if its digestion takes longer than `feed_seconds`, plus a second for each megabyte.

    A feed of `max_request_bytes` or more is refused, as by an appliance. A document of more than
    `max_content_bytes` is refused when its feed is read, as it would take too much memory.
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
    linger_seconds: float = 10.0
    linger_idle_seconds: float = 1.0
    scenario: str | None = None
    max_content_bytes: int = MAX_CONTENT_BYTES
    feed_seconds: float = DEFAULT_LIMIT_SECONDS
    retry: str | None = None
    accept_loss: frozenset[str] = frozenset()
    state: str | None = None
    transform: str | None = None


declare(
    ServeSettings,
    Section.RECEIVER,
    spool=Flag("Folder for received feeds.", OUTPUT_FOLDER),
    host=Flag("Address to listen on.", metavar="ADDRESS"),
    port=Flag("Port to listen on; 0 is any free one.", PORT),
    certificate=Flag("Certificate in PEM; serves HTTPS.", metavar="FILE"),
    key=Flag("Private key, if it is not in the certificate file.", metavar="FILE"),
    trusted=Flag(
        "Clients to accept in addition to loopback: an address, a network, or all.",
        metavar="IP",
        default="none",
    ),
    profiles=Flag("Thunderstone profile that exists.", metavar="NAME", default="any"),
    min_free_bytes=Flag("Disk space to keep free.", SIZE),
    max_connections=Flag("Most connections at a time.", count_of("connections", minimum=1)),
    scenario=Flag("Faults to simulate in a rehearsal, in YAML.", metavar="FILE"),
    max_content_bytes=Flag("Most bytes of one document, decoded.", SIZE),
    feed_seconds=Flag("Set a feed aside after this time, plus 1 s for each MB.", TIMEOUT),
    retry=Flag("Process feeds again that were set aside, and exit.", metavar="N|NAME|all"),
)
declare(
    ServeSettings,
    Section.GATEWAY,
    accept_loss=Flag("Forward without these fields, even acl and content.", FIELDS),
    state=Flag("State next to which ACLs are kept for a search server.", PATH, default="in SPOOL"),
    transform=Flag("YAML file with steps that change records.", PATH),
)
