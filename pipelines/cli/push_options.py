"""What says how an appliance is pushed to, from the words of a command line to settings.

Every parser returns its value or raises ConfigError; no file is opened but that of --ca-file.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec

from pipelines.cli.convert_options import ProgressStyle, ReportFormat
from pipelines.cli.value_parsers import choice, number_of, parse_word
from schemas.errors import ConfigError
from schemas.feed import FEEDTYPES, check_datasource
from transforms.sinks.push.existing_feeds import SeveralFull
from transforms.sinks.push.model import Appliance, ApplianceProtocol
from transforms.sinks.push.settings import GroupsMode, Keep, OnRefusal, PushSettings
from transforms.sinks.push.throttle.backlog import BacklogLimits
from transforms.sinks.push.throttle.backoff import Backoff
from transforms.sinks.push.throttle.schedule import (
    Rate,
    SendWindow,
    parse_deadline,
    parse_duration,
    parse_rate,
    parse_window,
)
from transforms.sinks.push.wire.address import parse_target

Told = TypeVar("Told")


class ApplianceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an appliance is pushed to; durations are in seconds."""

    url: str
    profile: str | None = None
    ca_file: str | None = None
    proxy: str | None = None
    connect_timeout: float = 10.0
    write_timeout: float = 60.0
    reply_timeout: float = 15 * 60.0
    on_refusal: OnRefusal = OnRefusal.BISECT
    attempts: int = 8
    backlog_ceiling: int = 4000
    backlog_floor: int = 1000
    backlog_interval: float = 120.0
    max_wait: float = 24 * 3600.0
    max_rate: Rate | None = None
    window: SendWindow | None = None
    deadline: float | None = None
    gzip: bool = False


class PushOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `push` is told beside how its appliance is reached."""

    inputs: tuple[str, ...]
    output: str | None = None
    datasource: str | None = None
    feedtype: str | None = None
    several_full: SeveralFull = SeveralFull.REFUSE
    allow_empty_full: bool = False
    replay: bool = False
    keep: Keep = Keep.ALL
    dry_run: bool = False
    max_rejects: int | None = None
    jobs: int = 1
    groups_mode: GroupsMode = GroupsMode.AS_STATED
    progress: ProgressStyle = ProgressStyle.AUTO
    report_format: ReportFormat = ReportFormat.TEXT
    verbosity: int = 0


def parse_push(words: Mapping[str, object]) -> tuple[PushOptions, ApplianceOptions]:
    """Return what `push` is told; raise ConfigError at the first word that cannot be used."""
    if not words.get("inputs"):
        raise ConfigError("INPUT: none given; expected the folder of a run, or feed files")
    options = _told(words, PushOptions)
    if options.datasource is not None:
        check_datasource(options.datasource)
    return options, parse_appliance(words, flag="--to")


def parse_appliance(words: Mapping[str, object], *, flag: str) -> ApplianceOptions:
    """Return how an appliance is pushed to; `flag` is the one that names it."""
    if words.get("url") is None:
        raise ConfigError(f"{flag}: not given; expected the url of an appliance")
    options = _told(words, ApplianceOptions)
    appliance_of(options)
    backlog_of(options)
    return options


def appliance_of(options: ApplianceOptions) -> Appliance:
    """Return the appliance that is meant; raise ConfigError where there can be none."""
    target = parse_target(
        options.url, profile=options.profile, ca_file=options.ca_file, proxy=options.proxy
    )
    if options.gzip and target.protocol is not ApplianceProtocol.FEEDERGATE:
        raise ConfigError("--gzip: not for Thunderstone data; expected it beside http://HOST:19900")
    return msgspec.structs.replace(
        target,
        gzip=options.gzip,
        connect_seconds=options.connect_timeout,
        write_seconds=options.write_timeout,
        reply_seconds=options.reply_timeout,
    )


def backlog_of(options: ApplianceOptions) -> BacklogLimits:
    return BacklogLimits(
        ceiling=options.backlog_ceiling,
        floor=options.backlog_floor,
        interval_seconds=options.backlog_interval,
    )


def push_settings(options: ApplianceOptions) -> PushSettings:
    """Return the settings of a push to an appliance."""
    return PushSettings(
        appliance=appliance_of(options),
        on_refusal=options.on_refusal,
        backlog=backlog_of(options),
        backoff=Backoff(attempts=options.attempts),
        window=options.window,
        rate=options.max_rate,
        deadline=options.deadline,
        max_wait_seconds=options.max_wait,
    )


def parse_push_to(
    words: Mapping[str, object], *, flag: str = "--push-to"
) -> ApplianceOptions | None:
    """Return how an appliance is pushed to, None if none is named; then no flag may be about it."""
    if words.get("url") is not None:
        return parse_appliance(words, flag=flag)
    for name in ApplianceOptions.__struct_fields__:
        if words.get(name) is not None:
            raise ConfigError(
                f"{_PARSERS[name][0]}: of no appliance; expected {flag} URL beside it"
            )
    return None


def without_appliance(words: Mapping[str, object]) -> dict[str, object]:
    """Return what is said of a conversion alone."""
    names = ApplianceOptions.__struct_fields__
    return {name: word for name, word in words.items() if name not in names}


def _told(words: Mapping[str, object], told: type[Told]) -> Told:
    fields = {field.name for field in msgspec.structs.fields(told)}  # type: ignore[arg-type]  # structs only
    given = {
        name: parse_word(name, word, _PARSERS)
        for name, word in words.items()
        if word is not None and name in fields
    }
    return msgspec.convert(given, told)


def _parse_deadline(text: str) -> float:
    return parse_deadline(text, now=datetime.now().astimezone()).timestamp()


def parse_timeout(text: str) -> float:
    """Return a duration in seconds, which is more than none."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ConfigError(f"{text!r}; expected more than no time")
    return seconds


_PARSERS: dict[str, tuple[str, Callable[..., object]]] = {
    "profile": ("--profile", str),
    "ca_file": ("--ca-file", str),
    "proxy": ("--proxy", str),
    "connect_timeout": ("--connect-timeout", parse_timeout),
    "write_timeout": ("--write-timeout", parse_timeout),
    "reply_timeout": ("--reply-timeout", parse_timeout),
    "on_refusal": ("--on-refusal", choice(*(way.value for way in OnRefusal))),
    "attempts": ("--attempts", number_of("times", least=1)),
    "backlog_ceiling": ("--backlog-ceiling", number_of("feeds")),
    "backlog_floor": ("--backlog-floor", number_of("feeds")),
    "backlog_interval": ("--backlog-interval", parse_timeout),
    "max_wait": ("--max-wait", parse_duration),
    "max_rate": ("--max-rate", parse_rate),
    "window": ("--window", parse_window),
    "deadline": ("--deadline", _parse_deadline),
    "feedtype": ("--feedtype", choice(*FEEDTYPES)),
    "several_full": ("--several-full", choice("first", "each")),
    "keep": ("--keep", choice(*(way.value for way in Keep))),
    "max_rejects": ("--max-rejects", number_of("records")),
    "jobs": ("--jobs", number_of("datasources", least=1)),
    "groups_mode": ("--groups-mode", choice(*(mode.value for mode in GroupsMode))),
    "gzip": ("--gzip", bool),
    "progress": ("--progress", choice(*(style.value for style in ProgressStyle))),
    "report_format": ("--format", choice(*(format_.value for format_ in ReportFormat))),
}
