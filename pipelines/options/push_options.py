"""Options of `feedferry push`, and of the appliance that `convert` and `serve` push to as well."""

from collections.abc import Mapping

import msgspec

from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.flags import Flag, declare, decode, flags_of, shared_options
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import (
    AUTH,
    DEADLINE,
    DURATION,
    OUTPUT_FOLDER,
    PATH,
    TIMEOUT,
    WINDOW,
    choice,
    choice_of,
    count_of,
    share_limit_of,
)
from feedferry.schemas.choices import GROUPS
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.feed import CLEANUP, FEEDTYPES, REPLACE, check_datasource
from feedferry.schemas.own_key import own_options_of
from feedferry.schemas.share_limit import ShareLimit
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.settings import Keep, OnRefusal, PushSettings, SeveralFull
from feedferry.transforms.sinks.push.throttle.backlog import BacklogLimits
from feedferry.transforms.sinks.push.throttle.window import SendWindow
from feedferry.transforms.sinks.push.wire.auth import Auth
from feedferry.transforms.sinks.push.wire.protocol import ApplianceProtocol

PUSH_TO = Flag(
    "Push the output to this appliance, as `feedferry push --to`.",
    section=Section.APPLIANCE,
    names=("--push-to",),
    metavar="URL",
)
"""How `convert` names an appliance."""

FORWARD = Flag(
    "Convert received feeds and push them to this appliance.",
    section=Section.GATEWAY,
    names=("--forward",),
    metavar="URL",
)
"""How `serve` names an appliance."""

DRY_RUN = Flag(
    "Show what would be done, as `feedferry plan`.", section=Section.RUN, names=("-n", "--dry-run")
)
"""The flag of `convert` and `run`, whose dry run is a plan."""


CONNECTION = ("ca_file", "proxy", "auth")
"""The options of an appliance that `verify` has, too."""


class ApplianceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an appliance is pushed to; durations are in seconds."""

    url: str
    profile: str | None = None
    ca_file: str | None = None
    proxy: str | None = None
    auth: Auth | None = None
    connect_timeout: float = 10.0
    write_timeout: float = 60.0
    reply_timeout: float = 15 * 60.0
    on_refusal: OnRefusal = OnRefusal.BISECT
    gzip: bool = False
    attempts: int = 8
    backlog_ceiling: int = 4000
    backlog_floor: int = 1000
    backlog_interval: float = 120.0
    window: SendWindow | None = None
    max_wait: float = 24 * 3600.0
    deadline: float | None = None
    withhold: bool = True


declare(
    ApplianceOptions,
    Section.APPLIANCE,
    url=Flag(
        "Address of the appliance, which also states its kind.",
        metavar="URL",
        key="target.url",
    ),
    profile=Flag(
        "Profile that receives the data, of an appliance with profiles.",
        metavar="NAME",
        key="target.profile",
    ),
    ca_file=Flag(
        "Certificates to trust.", PATH, default="those of the system", key="target.ca_file"
    ),
    proxy=Flag(
        "HTTP proxy; environment variables have no effect.",
        metavar="URL",
        default="none",
        key="target.proxy",
    ),
    auth=Flag(
        "Credentials by reference: ${env:NAME} or ${file:PATH}.",
        AUTH,
        default="none",
        key="target.auth",
    ),
    connect_timeout=Flag("Time limit to connect.", TIMEOUT, key="push.timeout.connect"),
    write_timeout=Flag(
        "Time limit to send a block of a request.", TIMEOUT, key="push.timeout.write"
    ),
    reply_timeout=Flag("Time limit to wait for a reply.", TIMEOUT, key="push.timeout.read"),
    on_refusal=Flag("Search a refused chunk for the bad records, stop, or skip it."),
    gzip=Flag("Compress small requests, for an appliance that takes compressed ones."),
    attempts=Flag("Times to try a chunk.", count_of("times", minimum=1)),
)
declare(
    ApplianceOptions,
    Section.SCHEDULE,
    backlog_ceiling=Flag(
        "Pause above this backlog.", count_of("feeds"), key="push.backlog.ceiling"
    ),
    backlog_floor=Flag(
        "Resume below this backlog.", count_of("feeds", minimum=1), key="push.backlog.floor"
    ),
    backlog_interval=Flag(
        "Least time between two requests for the backlog.", TIMEOUT, key="push.backlog.interval"
    ),
    window=Flag("Send only at these times.", WINDOW),
    max_wait=Flag("Most time to wait for the backlog, in total.", DURATION, key="push.max_wait"),
    deadline=Flag("Begin no chunk after this time.", DEADLINE),
)


class PushOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a push, apart from its appliance."""

    inputs: tuple[str, ...]
    output: str | None = None
    datasource: str | None = None
    feedtype: str | None = None
    several_full: SeveralFull = SeveralFull.REFUSE
    accepted_rejects: str | None = None
    allow_empty_full: bool = False
    groups_mode: str | None = None
    replay: bool = False
    allow_older: bool = False
    keep: Keep = Keep.ALL
    withhold: bool = True
    max_widened: ShareLimit | None = None
    dry_run: bool = False
    max_rejects: int | None = None
    jobs: int = 1


declare(
    PushOptions,
    Section.PUSH,
    output=Flag("Folder for the receipts of feed files.", OUTPUT_FOLDER, names=("-o", "--output")),
    datasource=Flag("Datasource of feed files; the groupsource of groups.", metavar="NAME"),
    feedtype=Flag("Feedtype of feed files.", choice(*FEEDTYPES)),
    several_full=Flag(
        "Several full files of one datasource: send only the first as full, or each.",
        choice_of(SeveralFull.FIRST, SeveralFull.EACH),
        default="refuse",
    ),
    accepted_rejects=Flag("List of known rejects, which do not count as new.", metavar="FILE"),
    allow_empty_full=Flag("Send a full feed without records. It deletes all documents."),
    groups_mode=Flag(
        "Replace the groups of a groupsource, or remove them first.",
        choice(REPLACE, CLEANUP),
        default="as the feedtype says",
        key="push.groups_mode",
    ),
    replay=Flag("Send accepted chunks again."),
    allow_older=Flag("Push a run of a job although a newer one was pushed."),
    keep=Flag("Chunk files to keep after the push.", key="push.keep_chunks"),
    withhold=Flag("Do not hide documents of a search server whose new versions it refuses."),
    max_widened=Flag(
        "Stop if more documents would be seen by more users.",
        share_limit_of("documents"),
        default="no limit",
    ),
    dry_run=Flag("Show what would be sent; send nothing.", names=("-n", "--dry-run")),
)
declare(
    PushOptions,
    Section.RUN,
    max_rejects=Flag("Stop if more records are refused.", count_of("records"), default="no limit"),
    jobs=Flag("Datasources to push in parallel.", count_of("datasources", minimum=1)),
)


def parse_push(words: Mapping[str, object]) -> tuple[PushOptions, PushSettings]:
    """Return the options of a push; raise ConfigError for the first word that cannot be used."""
    if not words.get("inputs"):
        raise ConfigError("⟦inputs⟧: none given; expected the folder of a run, or feed files")
    options = decode(PushOptions, words)
    if options.datasource is not None:
        check_datasource(options.datasource)
    return options, _push_settings(words)


def parse_push_to(words: Mapping[str, object], *, name: str = "push_to") -> PushSettings | None:
    """Return how an appliance is pushed to; without its `name`, None, and no flag is given."""
    if words.get("url") is not None:
        return _push_settings(words)
    faults = [
        f"⟦{given}⟧: given without ⟦{name} URL⟧; expected both"
        for given in flags_of(ApplianceOptions)
        if words.get(given) is not None
    ]
    if faults:
        raise ConfigError("\n".join(faults))
    return None


def check_pushed_format(options: ConvertOptions, push: PushSettings | None) -> None:
    """Raise ConfigError for formats that the appliance, if there is one, does not take."""
    if push is None:
        return
    from feedferry.transforms.formats import by_name
    from feedferry.transforms.sinks.push.push_plan import (
        pushed_formats,  # --help does not load the codecs
    )

    name, names = options.to_format, pushed_formats(push.appliance.protocol)
    if name not in names:
        raise ConfigError(
            f"⟦to_format⟧ {name}: not for {push.appliance.url}, which takes {' or '.join(names)};"
            " expected one of these formats, or the address of another appliance"
        )
    groups = by_name(name).holds.groups_feed
    if groups and groups not in names and options.groups == GROUPS[0]:
        raise ConfigError(
            f"⟦groups⟧ {options.groups}: groups would be written as {groups}, which"
            f" {push.appliance.url} does not take; expected ⟦groups {GROUPS[1]}⟧"
        )


def _push_settings(words: Mapping[str, object]) -> PushSettings:
    """Return how an appliance is pushed to; raise ConfigError for options that do not fit it."""
    from feedferry.pipelines.options.own_options import (
        own_values,  # --help does not load the codecs
    )
    from feedferry.transforms.sinks.push.wire.address import parse_target

    options = decode(ApplianceOptions, words)
    backlog = BacklogLimits(
        ceiling=options.backlog_ceiling,
        floor=options.backlog_floor,
        interval_seconds=options.backlog_interval,
    )
    target = parse_target(
        _address(options.url, own_values(words)),
        profile=options.profile,
        ca_file=options.ca_file,
        proxy=options.proxy,
        auth=options.auth,
    )
    if options.gzip and not target.protocol.gzip_bytes:
        raise ConfigError(f"⟦gzip⟧: not for {target.url}, which takes no compressed requests")
    appliance = msgspec.structs.replace(
        target,
        own=_own_options(target.protocol, words),
        gzip=options.gzip,
        connect_seconds=options.connect_timeout,
        write_seconds=options.write_timeout,
        reply_seconds=options.reply_timeout,
    )
    settings = PushSettings(
        appliance=appliance,
        backlog=backlog,
        retry=RetryPolicy(max_attempts=options.attempts),
        max_wait_seconds=options.max_wait,
    )
    return msgspec.structs.replace(settings, **shared_options(options, PushSettings))


def _address(url: str, own: Mapping[str, object]) -> str:
    """Return the address with the option that follows it, if one is stated."""
    from feedferry.transforms.sinks.push.wire.address import APPLIANCES

    parts = [str(own[kind.path_option]) for kind in APPLIANCES if kind.path_option in own]
    return "/".join([url.rstrip("/"), *parts]) if parts else url


def _own_options(kind: ApplianceProtocol, words: Mapping[str, object]) -> msgspec.Struct | None:
    """Return the options that only a kind of appliance has; it may have those of a conversion.

    A key below `target` is not an option of a conversion, also if both have one name.
    """
    from feedferry.pipelines.options.own_options import chosen_of, own_values

    if kind.options is None:
        return None
    flags, own = flags_of(ConvertOptions), {option.name for option in own_options_of(kind.options)}
    names = [name for name in kind.options.__struct_fields__ if name not in own]
    shared = {
        name: flags[name].parse(words[name])
        for name in names
        if name in flags and words.get(name) not in (None, ())
    }
    return kind.options(**shared, **chosen_of(own_values(words), kind.options))
