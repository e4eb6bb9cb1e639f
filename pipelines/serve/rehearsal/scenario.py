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
from transforms.sources.yaml_structs import load_yaml, parse_duration

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
    """The behaviour for one request; without any value, that of an appliance in good order.

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


class _Ramp(msgspec.Struct, forbid_unknown_fields=True):
    ramp: dict[str, Count]


class ScenarioRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a rule, as a user writes them; docs/scenarios.md describes them."""

    door: str | tuple[str, ...] | None = None
    requests: str | int = "1-"
    after: str = "0s"
    until: str | None = None
    every: Annotated[int, msgspec.Meta(ge=1)] = 1
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    text: str | None = None
    disk_full: bool | None = None
    reset: Reset | None = None
    refuse_urls: Annotated[frozenset[str], msgspec.Meta(min_length=1)] | None = None
    delay: str | None = None
    backlog: Count | Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)] | _Ramp | None = None


class Scenario:
    """Chooses the behaviour for each request; safe from several threads."""

    def __init__(self, rules: Iterable["RuleCounter"] = ()) -> None:
        self._lock = threading.Lock()
        self._rules = tuple(rules)

    def next(self, door: Door | None, now: float) -> Behaviour:
        """Return the behaviour for the next request, `now` seconds after the start.

        A `door` of None is a request for the backlog.
        """
        name = BACKLOG_DOOR if door is None else door.value
        with self._lock:
            # Every rule counts the requests at its doors, whichever rule applies first.
            active = [rule for rule in self._rules if rule.applies(name, now)]
        behaviours = (rule.behaviour for rule in active if rule.curve is None)
        backlogs = (rule.curve.value(rule.requests, now) for rule in active if rule.curve)
        return msgspec.structs.replace(next(behaviours, IN_ORDER), backlog=next(backlogs, None))


class RuleCounter:
    """A rule, checked and parsed, and the number of requests at its doors.

    Raises ConfigError for keys that cannot be combined, and for texts that cannot be parsed.
    """

    def __init__(self, rule: ScenarioRule) -> None:
        answers = [name for name in _ANSWERS if getattr(rule, name) is not None]
        _check_combination(rule, answers)
        self.requests = self._eligible = 0
        self._doors = _doors_of(rule, answers)
        self._first, self._last = _parse_requests(rule.requests)
        self._after = _parse_seconds("after", rule.after)
        self._until = float("inf") if rule.until is None else _parse_seconds("until", rule.until)
        self._every = rule.every
        if self._until <= self._after:
            raise ConfigError(f"until: {rule.until!r}; expected a moment later than {rule.after}")
        self.curve = None if rule.backlog is None else _make_curve(rule.backlog)
        self.behaviour = Behaviour(
            status=rule.status,
            text=rule.text,
            is_disk_full=bool(rule.disk_full),
            delay_seconds=0.0 if rule.delay is None else _parse_seconds("delay", rule.delay),
            reset=rule.reset,
            refuse_urls=rule.refuse_urls or frozenset(),
        )

    def applies(self, door: str, now: float) -> bool:
        """Count a request; return whether the rule applies to it."""
        if door not in self._doors:
            return False
        self.requests += 1
        is_numbered = self._first <= self.requests <= (self._last or self.requests)
        if not (is_numbered and self._after <= now < self._until):
            return False
        self._eligible += 1
        return self._eligible % self._every == 0


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


def _read_rule(rule: object, where: str) -> RuleCounter:
    known = ScenarioRule.__struct_fields__
    try:
        for key in rule if isinstance(rule, Mapping) else ():
            if key not in known:
                hint = did_you_mean(key, known)
                raise ConfigError(f"{key!r}; expected one of {', '.join(known)}{hint}")
        return RuleCounter(msgspec.convert(rule, ScenarioRule))
    except (ConfigError, msgspec.ValidationError) as exc:
        raise ConfigError(f"{where}: {exc}") from exc


def _check_combination(rule: ScenarioRule, answers: list[str]) -> None:
    if not answers and rule.delay is None:
        raise ConfigError(f"no behaviour; expected one of {', '.join(_ANSWERS)}, delay")
    if len(answers) > 1 and answers != ["status", "text"]:
        raise ConfigError(f"{', '.join(answers)}; expected one of them: a request has one reply")
    if rule.backlog is not None and rule.delay is not None:
        raise ConfigError("backlog, delay; expected a rule for each")


def _doors_of(rule: ScenarioRule, answers: list[str]) -> frozenset[str]:
    possible = next((_ONLY_AT[name] for name in answers if name in _ONLY_AT), DOORS)
    if rule.door is None:
        return frozenset(possible)
    doors = (rule.door,) if isinstance(rule.door, str) else rule.door
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


def _parse_seconds(key: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        raise ConfigError(
            f"{key}: {text!r}; expected a duration such as 200ms, 90s or 2h"
        ) from None


def _make_curve(backlog: int | tuple[int, ...] | _Ramp) -> BacklogCurve:
    if isinstance(backlog, int):
        return BacklogCurve(counts=(backlog,))
    if isinstance(backlog, tuple):
        return BacklogCurve(counts=backlog)
    points = {_parse_seconds("backlog.ramp", at): count for at, count in backlog.ramp.items()}
    if not points or len(points) < len(backlog.ramp):
        raise ConfigError("backlog.ramp: expected each moment once, such as {0s: 0, 30s: 6000}")
    return BacklogCurve(ramp=tuple(sorted(points.items())))
