"""The settings of a receiver, and the flags of `feedferry serve`."""

from typing import Annotated

from pipelines.options.display_options import LogOptions
from pipelines.options.flags import Flag, Section
from pipelines.options.value_parsers import FIELDS, OUTPUT_FOLDER, PORT, SIZE, TIMEOUT, count_of
from pipelines.serve.worker_process import DEFAULT_LIMIT_SECONDS
from schemas.content import MAX_CONTENT_BYTES
from transforms.sinks.push.model import REQUEST_BYTES_LIMIT

FEEDERGATE_PORT = 19900
LOOPBACK = ("127.0.0.0/8", "::1")
_RECEIVER = Section.RECEIVER


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

    spool: Annotated[str, Flag("Folder for received feeds.", _RECEIVER, OUTPUT_FOLDER)]
    host: Annotated[str, Flag("Address to listen on.", _RECEIVER, metavar="ADDRESS")] = "127.0.0.1"
    port: Annotated[int, Flag("Port to listen on; 0 is any free one.", _RECEIVER, PORT)] = (
        FEEDERGATE_PORT
    )
    certificate: Annotated[
        str | None,
        Flag("Certificate in PEM; serves HTTPS.", _RECEIVER, names=("--tls-cert",), metavar="FILE"),
    ] = None
    key: Annotated[
        str | None,
        Flag(
            "Private key, if it is not in the certificate file.",
            _RECEIVER,
            names=("--tls-key",),
            metavar="FILE",
        ),
    ] = None
    trusted: Annotated[
        tuple[str, ...],
        Flag(
            "Clients to accept in addition to loopback: an address, a network, or all.",
            _RECEIVER,
            names=("--trust",),
            metavar="IP",
            default="none",
        ),
    ] = LOOPBACK
    profiles: Annotated[
        tuple[str, ...],
        Flag(
            "Thunderstone profile that exists.",
            _RECEIVER,
            names=("--receive-profile",),
            metavar="NAME",
            default="any",
        ),
    ] = ()
    min_free_bytes: Annotated[
        int, Flag("Disk space to keep free.", _RECEIVER, SIZE, names=("--min-free",))
    ] = 2 * REQUEST_BYTES_LIMIT
    max_request_bytes: int = REQUEST_BYTES_LIMIT
    max_connections: Annotated[
        int, Flag("Most connections at a time.", _RECEIVER, count_of("connections", minimum=1))
    ] = 64
    head_seconds: float = 20.0
    idle_seconds: float = 60.0
    grace_seconds: float = 30.0
    min_rate: int = 1024
    linger_seconds: float = 10.0
    linger_idle_seconds: float = 1.0
    scenario: Annotated[
        str | None,
        Flag("Faults to simulate in a rehearsal, in YAML.", _RECEIVER, metavar="FILE"),
    ] = None
    max_content_bytes: Annotated[
        int, Flag("Most bytes of one document, decoded.", _RECEIVER, SIZE)
    ] = MAX_CONTENT_BYTES
    feed_seconds: Annotated[
        float,
        Flag(
            "Set a feed aside after this time, plus 1 s for each MB.",
            _RECEIVER,
            TIMEOUT,
            names=("--feed-timeout",),
        ),
    ] = DEFAULT_LIMIT_SECONDS
    retry: Annotated[
        str | None,
        Flag(
            "Process feeds again that were set aside, and exit.",
            _RECEIVER,
            metavar="N|NAME|all",
        ),
    ] = None
    accept_loss: Annotated[
        frozenset[str],
        Flag("Forward without these fields, even acl and content.", Section.GATEWAY, FIELDS),
    ] = frozenset()
