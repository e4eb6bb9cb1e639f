"""Options of `feedferry push`, and of the appliance that `convert` and `serve` push to as well."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from pipelines.options.flags import Flag, Section, decode, flags_of
from pipelines.options.value_parsers import (
    DEADLINE,
    DURATION,
    OUTPUT_FOLDER,
    PATH,
    TIMEOUT,
    WINDOW,
    choice,
    choice_of,
    count_of,
)
from schemas.errors import ConfigError
from schemas.feed import CLEANUP, FEEDTYPES, REPLACE, check_datasource
from transforms.net.retry import RetryPolicy
from transforms.sinks.push.settings import Keep, OnRefusal, PushSettings, SeveralFull
from transforms.sinks.push.throttle.gate import BacklogLimits
from transforms.sinks.push.throttle.window import SendWindow

_APPLIANCE = Section.APPLIANCE
_SCHEDULE = Section.SCHEDULE
_PUSH = Section.PUSH

PUSH_TO = Flag(
    "Push the output to this appliance, as `feedferry push --to`.",
    _APPLIANCE,
    names=("--push-to",),
    metavar="URL",
)
"""How `convert` names an appliance."""

FORWARD = Flag(
    "Convert received feeds and push them to this appliance.",
    Section.GATEWAY,
    names=("--forward",),
    metavar="URL",
)
"""How `serve` names an appliance."""

DRY_RUN = Flag(
    "Show what would be done, as `feedferry plan`.", Section.RUN, names=("-n", "--dry-run")
)
"""What a dry run of `convert` and `run` is."""


class ApplianceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an appliance is pushed to; durations are in seconds."""

    url: Annotated[
        str,
        Flag(
            "The appliance: http://HOST:19900 or http://HOST/…/recvdata.xml.",
            _APPLIANCE,
            names=("--to",),
            metavar="URL",
            key="target.url",
        ),
    ]
    profile: Annotated[
        str | None,
        Flag(
            "Profile that receives Thunderstone data.",
            _APPLIANCE,
            metavar="NAME",
            key="target.profile",
        ),
    ] = None
    ca_file: Annotated[
        str | None,
        Flag(
            "Certificates to trust.",
            _APPLIANCE,
            PATH,
            default="those of the system",
            key="target.ca_file",
        ),
    ] = None
    proxy: Annotated[
        str | None,
        Flag(
            "HTTP proxy; environment variables have no effect.",
            _APPLIANCE,
            metavar="URL",
            default="none",
            key="target.proxy",
        ),
    ] = None
    connect_timeout: Annotated[
        float, Flag("Time limit to connect.", _APPLIANCE, TIMEOUT, key="push.timeout.connect")
    ] = 10.0
    write_timeout: Annotated[
        float,
        Flag(
            "Time limit to send a block of a request.",
            _APPLIANCE,
            TIMEOUT,
            key="push.timeout.write",
        ),
    ] = 60.0
    reply_timeout: Annotated[
        float, Flag("Time limit to wait for a reply.", _APPLIANCE, TIMEOUT, key="push.timeout.read")
    ] = 15 * 60.0
    on_refusal: Annotated[
        OnRefusal, Flag("Search a refused chunk for the bad records, stop, or skip it.", _APPLIANCE)
    ] = OnRefusal.BISECT
    gzip: Annotated[
        bool, Flag("Compress requests below 1 MiB. A GSA accepts this.", _APPLIANCE)
    ] = False
    attempts: Annotated[
        int, Flag("Times to try a chunk.", _APPLIANCE, count_of("times", minimum=1))
    ] = 8
    backlog_ceiling: Annotated[
        int,
        Flag("Pause above this backlog.", _SCHEDULE, count_of("feeds"), key="push.backlog.ceiling"),
    ] = 4000
    backlog_floor: Annotated[
        int,
        Flag(
            "Resume below this backlog.",
            _SCHEDULE,
            count_of("feeds", minimum=1),
            key="push.backlog.floor",
        ),
    ] = 1000
    backlog_interval: Annotated[
        float,
        Flag(
            "Least time between two requests for the backlog.",
            _SCHEDULE,
            TIMEOUT,
            key="push.backlog.interval",
        ),
    ] = 120.0
    window: Annotated[SendWindow | None, Flag("Send only at these times.", _SCHEDULE, WINDOW)] = (
        None
    )
    max_wait: Annotated[
        float,
        Flag(
            "Most time to wait for the backlog, in total.", _SCHEDULE, DURATION, key="push.max_wait"
        ),
    ] = 24 * 3600.0
    deadline: Annotated[
        float | None, Flag("Begin no chunk after this time.", _SCHEDULE, DEADLINE)
    ] = None


class PushOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a push, apart from its appliance."""

    inputs: tuple[str, ...]
    output: Annotated[
        str | None,
        Flag(
            "Folder for the receipts of feed files.",
            _PUSH,
            OUTPUT_FOLDER,
            names=("-o", "--output"),
        ),
    ] = None
    datasource: Annotated[
        str | None,
        Flag("Datasource of feed files; the groupsource of groups.", _PUSH, metavar="NAME"),
    ] = None
    feedtype: Annotated[str | None, Flag("Feedtype of feed files.", _PUSH, choice(*FEEDTYPES))] = (
        None
    )
    several_full: Annotated[
        SeveralFull,
        Flag(
            "Several full files of one datasource: send only the first as full, or each.",
            _PUSH,
            choice_of(SeveralFull.FIRST, SeveralFull.EACH),
            default="refuse",
        ),
    ] = SeveralFull.REFUSE
    accepted_rejects: Annotated[
        str | None,
        Flag("List of known rejects, which do not count as new.", _PUSH, metavar="FILE"),
    ] = None
    allow_empty_full: Annotated[
        bool, Flag("Send a full feed without records. It deletes all documents.", _PUSH)
    ] = False
    groups_mode: Annotated[
        str | None,
        Flag(
            "Replace the groups of a groupsource, or remove them first.",
            _PUSH,
            choice(REPLACE, CLEANUP),
            default="as the feedtype says",
            key="push.groups_mode",
        ),
    ] = None
    replay: Annotated[bool, Flag("Send accepted chunks again.", _PUSH)] = False
    allow_older: Annotated[
        bool, Flag("Push a run of a job although a newer one was pushed.", _PUSH)
    ] = False
    keep: Annotated[
        Keep, Flag("Chunk files to keep after the push.", _PUSH, key="push.keep_chunks")
    ] = Keep.ALL
    dry_run: Annotated[
        bool, Flag("Show what would be sent; send nothing.", _PUSH, names=("-n", "--dry-run"))
    ] = False
    max_rejects: Annotated[
        int | None,
        Flag(
            "Stop if more records are refused.",
            Section.RUN,
            count_of("records"),
            default="no limit",
        ),
    ] = None
    jobs: Annotated[
        int,
        Flag("Datasources to push in parallel.", Section.RUN, count_of("datasources", minimum=1)),
    ] = 1


def parse_push(words: Mapping[str, object]) -> tuple[PushOptions, PushSettings]:
    """Return the options of a push; raise ConfigError for the first word that cannot be used."""
    if not words.get("inputs"):
        raise ConfigError("INPUT: none given; expected the folder of a run, or feed files")
    options = decode(PushOptions, words)
    if options.datasource is not None:
        check_datasource(options.datasource)
    if words.get("url") is None:
        raise ConfigError("--to: not given; expected the URL of an appliance")
    return options, _push_settings(words)


def parse_push_to(words: Mapping[str, object], *, flag: str = "--push-to") -> PushSettings | None:
    """Return how an appliance is pushed to; without `flag`, None, and no flag may be about it."""
    if words.get("url") is not None:
        return _push_settings(words)
    given = [
        f"{declared.names[0]}: given without {flag} URL; expected both"
        for name, declared in flags_of(ApplianceOptions).items()
        if words.get(name) is not None
    ]
    if given:
        raise ConfigError("\n".join(given))
    return None


def _push_settings(words: Mapping[str, object]) -> PushSettings:
    """Return how an appliance is pushed to; raise ConfigError for options that do not fit it."""
    from transforms.sinks.push.wire.address import parse_target  # --help does not load the codecs

    options = decode(ApplianceOptions, words)
    backlog = BacklogLimits(
        ceiling=options.backlog_ceiling,
        floor=options.backlog_floor,
        interval_seconds=options.backlog_interval,
    )
    target = parse_target(
        options.url, profile=options.profile, ca_file=options.ca_file, proxy=options.proxy
    )
    if options.gzip and not target.protocol.can_gzip:
        raise ConfigError("--gzip: not for Thunderstone data; expected http://HOST:19900")
    appliance = msgspec.structs.replace(
        target,
        gzip=options.gzip,
        connect_seconds=options.connect_timeout,
        write_seconds=options.write_timeout,
        reply_seconds=options.reply_timeout,
    )
    return PushSettings(
        appliance=appliance,
        on_refusal=options.on_refusal,
        backlog=backlog,
        retry=RetryPolicy(max_attempts=options.attempts),
        window=options.window,
        deadline=options.deadline,
        max_wait_seconds=options.max_wait,
    )
