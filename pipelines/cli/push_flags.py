"""The flags of `push`, those of them that `convert --push-to` has as well, and those of `serve`."""

from pipelines.cli.convert_flags import section

_WHERE = section("The appliance")
_PACE = section("When, and how fast")
_WHAT = section("What is pushed")
_DOOR = section("The door")

APPLIANCE = (
    _WHERE("--profile", metavar="NAME", help="Profile that Thunderstone data goes to."),
    _WHERE("--ca-file", metavar="FILE", help="Certificates to trust.  [default: the system's]"),
    _WHERE("--proxy", metavar="URL", help="Way to it.  [default: none, whatever is set]"),
    _WHERE("--connect-timeout", metavar="TIME", help="To connect.  [default: 10s]"),
    _WHERE("--write-timeout", metavar="TIME", help="For each block sent.  [default: 60s]"),
    _WHERE("--reply-timeout", metavar="TIME", help="Until it has answered.  [default: 15m]"),
    _WHERE(
        "--on-refusal", metavar="bisect|stop|skip", help="Of a refused chunk.  [default: bisect]"
    ),
    _WHERE("--gzip", is_flag=True, default=None, help="Compress requests below 1 MiB, for a GSA."),
    _WHERE("--attempts", metavar="N", help="Times that a chunk is tried.  [default: 8]"),
    _PACE("--backlog-ceiling", metavar="N", help="Pause above so many feeds.  [default: 4000]"),
    _PACE("--backlog-floor", metavar="N", help="Go on below so many.  [default: 1000]"),
    _PACE("--backlog-interval", metavar="TIME", help="Ask no more often.  [default: 120s]"),
    _PACE("--max-rate", metavar="N/m|SIZE/s", help="Feeds, or bytes, in a time.  [default: none]"),
    _PACE("--window", metavar='"DAYS HH:MM-HH:MM ZONE"', help="Send only then."),
)
"""What says how an appliance is pushed to, for all verbs."""

ENDS = (
    _PACE("--max-wait", metavar="TIME", help="In all, for the backlog.  [default: 1d]"),
    _PACE("--deadline", metavar="HH:MM|TIME", help="Begin no chunk behind it."),
)
"""When a push gives up; a gateway does not."""

PUSHED = (
    _WHERE("--to", "url", metavar="URL", help="http://HOST:19900, or …/recvdata.xml."),
    _WHAT("-o", "--output", metavar="DIR", help="Run folder of single feed files."),
    _WHAT("--datasource", metavar="NAME", help="Of single files; a groupsource, of groups."),
    _WHAT("--feedtype", metavar="TYPE", help="Of single files: full, incremental, ..."),
    _WHAT("--several-full", metavar="first|each", help="Full files of one datasource."),
    _WHAT("--allow-empty-full", is_flag=True, help="Let a full feed empty its datasource."),
    _WHAT(
        "--groups-mode",
        metavar="replace|cleanup",
        help="Of the groups that a groupsource has: replace them, or remove them before.",
    ),
    _WHAT("--replay", is_flag=True, help="Send again what was accepted."),
    _WHAT("--keep", metavar="all|refused", help="Chunks that stay.  [default: all]"),
    _WHAT("-n", "--dry-run", is_flag=True, help="Say what would be sent; send nothing."),
    _WHAT("--max-rejects", metavar="N", help="Stop beyond so many.  [default: none]"),
    _PACE("--jobs", metavar="N", help="Datasources side by side.  [default: 1]"),
)

PROGRESS = _PACE("--progress", metavar="auto|bar|plain|none", help="On stderr.  [default: auto]")

BEHIND = (_WHERE("--push-to", "url", metavar="URL", help="Push what is written: as push --to."),)
"""What makes a conversion push what it wrote."""

SERVED = (
    _DOOR("--spool", metavar="DIR", help="Folder that takes what comes."),
    _DOOR("--host", metavar="ADDRESS", help="Where to listen.  [default: 127.0.0.1]"),
    _DOOR("--port", metavar="N", help="0 takes a free one.  [default: 19900]"),
    _DOOR("--tls-cert", "certificate", metavar="FILE", help="Certificate: serve https."),
    _DOOR("--tls-key", "key", metavar="FILE", help="Its key, if not in the same file."),
    _DOOR("--trust", "trusted", multiple=True, metavar="IP", help="Address, net, glob, or all."),
    _DOOR("--receive-profile", "profiles", multiple=True, metavar="NAME", help="That exists."),
    _DOOR(
        "--max-content-bytes",
        metavar="SIZE",
        help="Most bytes of one document, decoded.  [default: 20MiB]",
    ),
    _DOOR("--min-free", "min_free_bytes", metavar="SIZE", help="Of the disk.  [default: 2GB]"),
    _DOOR("--max-connections", metavar="N", help="At a time.  [default: 64]"),
    _DOOR(
        "--feed-timeout",
        "feed_seconds",
        metavar="TIME",
        help="Set a feed aside after this, and 1s per MB.  [default: 5m]",
    ),
    _DOOR("--retry", metavar="N|NAME|all", help="Try again what is set aside; do not serve."),
    _DOOR("--scenario", metavar="FILE", help="How to misbehave, for rehearsals."),
)

_ON = section("The gateway")
TOLD = (
    _ON("--forward", "url", metavar="URL", help="Push on what comes, as it comes."),
    _ON("--accept-loss", metavar="FIELD,...", help="Go on without these, even acl, content."),
    _ON("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors."),
    _ON("-v", "--verbose", count=True, help="Say more; twice: much more."),
)
"""What makes a receiver a gateway."""
