"""Scenarios: how a rehearsal appliance misbehaves, as a list of rules in a YAML file.

::

    - {door: xmlfeed, requests: 3-5, disk_full: true}
    - {after: 1m, until: 2m, status: 503}
    - {every: 10, reset: before-reply}
    - {backlog: {ramp: {0s: 0, 30s: 6000, 2m: 0}}}

Nothing is random: the same requests at the same moments meet the same behaviour. All keys are
described in docs/scenarios.md.
"""

import re
import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml  # type: ignore[import-untyped]  # the types would be another package, for one function

from schemas.delivery import Door
from schemas.errors import ConfigError
from schemas.spelling import did_you_mean
from transforms.sources.yaml_keys import load_yaml, parse_duration

BACKLOG_DOOR = "getbacklogcount"
DOORS = (*(door.value for door in Door), BACKLOG_DOOR)

Reset = Literal["at-once", "in-body", "before-reply"]
Count = Annotated[int, msgspec.Meta(ge=0)]

_REQUESTS = re.compile(r"([1-9][0-9]*)(?:(-)([1-9][0-9]*)?)?", re.ASCII)
_ANSWERS = ("status", "text", "disk_full", "reset", "refuse_urls", "backlog")
_ONLY_AT = {
    "disk_full": (Door.FEED.value, Door.GROUPS.value),
    "refuse_urls": (Door.FEED.value, Door.DATA.value),
    "backlog": (BACKLOG_DOOR,),
}


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one request; without any value, what an appliance in good order does.

    With `status`, `text` or `is_disk_full` the body is read and not kept. `reset` closes the
    connection with a reset: before the body, in the middle of it, or when the reply is due.
    `delay_seconds` pass before the reply. `backlog` replaces the real count.
    """

    status: int | None = None
    text: str | None = None
    is_disk_full: bool = False
    delay_seconds: float = 0.0
    reset: Reset | None = None
    refuse_urls: frozenset[str] = frozenset()
    backlog: int | None = None


IN_ORDER = Behaviour()


class BacklogCurve(msgspec.Struct, frozen=True, kw_only=True):
    """A backlog that follows a list of counts, one for each request, or a ramp over seconds.

    The last count stays. A ramp is a straight line from one point to the next.
    """

    counts: tuple[int, ...] = ()
    ramp: tuple[tuple[float, int], ...] = ()

    def value(self, request: int, now: float) -> int:
        """Return the backlog at a request, numbered from 1, `now` seconds after the start."""
        if self.counts:
            return self.counts[min(request, len(self.counts)) - 1]
        index = bisect_right(self.ramp, now, key=lambda point: point[0])
        if index in {0, len(self.ramp)}:
            return self.ramp[max(index - 1, 0)][1]
        (begin, before), (end, after) = self.ramp[index - 1], self.ramp[index]
        return round(before + (after - before) * (now - begin) / (end - begin))


class ScenarioRule(msgspec.Struct, frozen=True, kw_only=True):
    """When a behaviour applies; a `curve` makes the rule about the backlog.

    Requests at `doors` are numbered from 1. The rule applies to those from `first` to `last`, from
    `after_seconds` until before `until_seconds`; of these, to every `every`-th.
    """

    doors: frozenset[str]
    first: int = 1
    last: int | None = None
    after_seconds: float = 0.0
    until_seconds: float | None = None
    every: int = 1
    behaviour: Behaviour = IN_ORDER
    curve: BacklogCurve | None = None


class Scenario:
    """Chooses the behaviour for each request; safe from several threads."""

    def __init__(self, rules: Iterable[ScenarioRule] = ()) -> None:
        self._lock = threading.Lock()
        self._counters = tuple(RuleCounter(rule) for rule in rules)

    def next(self, door: Door | None, now: float) -> Behaviour:
        """Return the behaviour for the next request, `now` seconds after the start.

        A `door` of None is a request for the backlog.
        """
        name = BACKLOG_DOOR if door is None else door.value
        with self._lock:
            # Every rule counts the requests at its doors, whichever rule applies first.
            active = [counter for counter in self._counters if counter.applies(name, now)]
        behaviours = (one.rule.behaviour for one in active if one.rule.curve is None)
        backlogs = (one.rule.curve.value(one.requests, now) for one in active if one.rule.curve)
        return msgspec.structs.replace(next(behaviours, IN_ORDER), backlog=next(backlogs, None))


class RuleCounter:
    """A rule, and the number of requests at its doors."""

    def __init__(self, rule: ScenarioRule) -> None:
        self.rule = rule
        self.requests = self._eligible = 0

    def applies(self, door: str, now: float) -> bool:
        """Count a request; return whether the rule applies to it."""
        rule = self.rule
        if door not in rule.doors:
            return False
        self.requests += 1
        is_numbered = rule.first <= self.requests <= (rule.last or self.requests)
        is_timely = rule.after_seconds <= now < (rule.until_seconds or float("inf"))
        if not (is_numbered and is_timely):
            return False
        self._eligible += 1
        return self._eligible % rule.every == 0


class _Ramp(msgspec.Struct, forbid_unknown_fields=True):
    ramp: dict[str, Count]


class _RuleKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a rule, as a user writes them."""

    door: str | tuple[str, ...] | None = None
    requests: str | int = "1-"
    after: str | None = None
    until: str | None = None
    every: Annotated[int, msgspec.Meta(ge=1)] = 1
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] | None = None
    text: str | None = None
    disk_full: bool | None = None
    reset: Reset | None = None
    refuse_urls: Annotated[frozenset[str], msgspec.Meta(min_length=1)] | None = None
    delay: str | None = None
    backlog: Count | Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)] | _Ramp | None = None


def load(path: Path) -> Scenario:
    """Return the scenario of a YAML file; raise ConfigError at the first rule with an error."""
    rules = load_yaml(path)
    if not isinstance(rules, list) or not rules:
        raise ConfigError(f"{path}: {rules!r}; expected a list of rules, with `-` before each")
    nodes = yaml.compose(path.read_bytes(), Loader=yaml.SafeLoader).value
    return Scenario(
        _read_rule(rule, f"{path}:{node.start_mark.line + 1}")
        for rule, node in zip(rules, nodes, strict=True)
    )


def _read_rule(rule: object, where: str) -> ScenarioRule:
    try:
        known = _RuleKeys.__struct_fields__
        for key in rule if isinstance(rule, Mapping) else ():
            if key not in known:
                hint = did_you_mean(key, known)
                raise ConfigError(f"{key!r}; expected one of {', '.join(known)}{hint}")
        return _make_rule(msgspec.convert(rule, _RuleKeys))
    except (ConfigError, msgspec.ValidationError) as exc:
        raise ConfigError(f"{where}: {exc}") from exc


def _make_rule(keys: _RuleKeys) -> ScenarioRule:
    answers = [name for name in _ANSWERS if getattr(keys, name) is not None]
    if not answers and keys.delay is None:
        raise ConfigError(f"no behaviour; expected one of {', '.join(_ANSWERS)}, delay")
    if len(answers) > 1 and answers != ["status", "text"]:
        raise ConfigError(f"{', '.join(answers)}; expected one of them: a request has one reply")
    if keys.backlog is not None and keys.delay is not None:
        raise ConfigError("backlog, delay; expected a rule for each")
    first, last = _parse_requests(keys.requests)
    after = 0.0 if keys.after is None else _parse_moment("after", keys.after)
    until = None if keys.until is None else _parse_moment("until", keys.until)
    if until is not None and until <= after:
        raise ConfigError(f"until: {keys.until!r}; expected a moment later than {after:g}s")
    return ScenarioRule(
        doors=_doors_of(keys, answers),
        first=first,
        last=last,
        after_seconds=after,
        until_seconds=until,
        every=keys.every,
        behaviour=Behaviour(
            status=keys.status,
            text=keys.text,
            is_disk_full=bool(keys.disk_full),
            delay_seconds=0.0 if keys.delay is None else parse_duration("delay", keys.delay),
            reset=keys.reset,
            refuse_urls=keys.refuse_urls or frozenset(),
        ),
        curve=None if keys.backlog is None else _make_curve(keys.backlog),
    )


def _doors_of(keys: _RuleKeys, answers: list[str]) -> frozenset[str]:
    possible = next((_ONLY_AT[name] for name in answers if name in _ONLY_AT), DOORS)
    if keys.door is None:
        return frozenset(possible)
    doors = (keys.door,) if isinstance(keys.door, str) else keys.door
    unknown = next((door for door in doors if door not in possible), None)
    if unknown is not None or not doors:
        hint = did_you_mean(unknown or "", possible)
        raise ConfigError(f"door: {unknown!r}; expected one of {', '.join(possible)}{hint}")
    return frozenset(doors)


def _parse_requests(value: str | int) -> tuple[int, int | None]:
    match = _REQUESTS.fullmatch(str(value))
    first = int(match[1]) if match else 0
    last = (int(match[3]) if match[3] else None if match[2] else first) if match else 0
    if not match or (last is not None and last < first):
        raise ConfigError(
            f"requests: {value!r}; expected numbers from 1, the lower number first, such as 3, 3-5"
            " or 3-"
        )
    return first, last


def _parse_moment(key: str, text: str) -> float:
    return 0.0 if text == "0s" else parse_duration(key, text)


def _make_curve(backlog: int | tuple[int, ...] | _Ramp) -> BacklogCurve:
    if isinstance(backlog, int):
        return BacklogCurve(counts=(backlog,))
    if isinstance(backlog, tuple):
        return BacklogCurve(counts=backlog)
    points = {_parse_moment("backlog.ramp", at): count for at, count in backlog.ramp.items()}
    if not points or len(points) < len(backlog.ramp):
        raise ConfigError("backlog.ramp: expected each moment once, such as {0s: 0, 30s: 6000}")
    return BacklogCurve(ramp=tuple(sorted(points.items())))
