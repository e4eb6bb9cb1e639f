"""How a rehearsal appliance misbehaves: a list of rules, in a YAML file that its user writes.

::

    - {door: xmlfeed, requests: 3-5, disk_full: true}
    - {after: 1m, until: 2m, status: 503}
    - {every: 10, tear: before-reply}
    - {backlog: {ramp: {0s: 0, 30s: 6000, 2m: 0}}}

Nothing is left to chance: the same requests at the same moments meet the same behaviour.
docs/scenarios.md has all keys.
"""

import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import yaml  # type: ignore[import-untyped]  # types would be one more package, for one function

from pipelines.serve.appliance_replies import DISK_FULL, INTERNAL_ERROR, UNAUTHORIZED
from schemas.delivery import Door
from schemas.errors import ConfigError
from schemas.spelling import did_you_mean
from transforms.sources.yaml_keys import (
    Parser,
    load_yaml,
    parse_count,
    parse_duration,
    parse_keys,
    parse_retries,
    parse_size,
    parse_text,
    parse_words,
)

COUNT_DOOR = "getbacklogcount"
DOORS = (*(door.value for door in Door), COUNT_DOOR)

Tear = Literal["", "at-once", "in-body", "before-reply"]

_TEXTS = {500: INTERNAL_ERROR, 401: UNAUTHORIZED}
_TEARS = tuple(filter(None, get_args(Tear)))
_REQUESTS = re.compile(r"([1-9][0-9]*)(?:(-)([1-9][0-9]*)?)?", re.ASCII)
_CONTENT_TYPE = re.compile(r"[!-~]+(?: [!-~]+)*")
_ONLY_AT = {
    "disk_full": (Door.FEED.value, Door.GROUPS.value),
    "refuse_urls": (Door.FEED.value, Door.DATA.value),
    "backlog": (COUNT_DOOR,),
}
_ANSWERS = {"status": 0, "text": 0, "disk_full": 1, "tear": 2, "refuse_urls": 3}


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one request; nothing set: what an appliance in good order does.

    `status` and `text` are both set or both None; the request's body is read but not kept where
    they are. `tear` closes the connection with a reset: before the body is read, in the middle
    of it, or when all was read and the answer is due. `delay_seconds` pass before the answer.
    `bytes_per_second` is how fast the body is read. `backlog` is what is counted instead of what
    is there.
    """

    status: int | None = None
    text: str | None = None
    content_type: str = "text/plain"
    delay_seconds: float = 0.0
    tear: Tear = ""
    refuse_urls: frozenset[str] = frozenset()
    backlog: int | None = None
    bytes_per_second: int | None = None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A count that changes over seconds since the start, or over requests, numbered from 1.

    `points` rise in their first number. Before the first and behind the last, the count stays.
    A ramp goes in a straight line from one point to the next, steps stay until there.
    """

    points: tuple[tuple[float, int], ...]
    over_requests: bool = False
    is_ramp: bool = False

    def at(self, place: float) -> int:
        index = bisect_right(self.points, place, key=lambda point: point[0])
        before, count = self.points[max(index - 1, 0)]
        if not self.is_ramp or index in {0, len(self.points)}:
            return count
        behind, then = self.points[index]
        return round(count + (then - count) * (place - before) / (behind - before))


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """When something happens, and what; a `curve` makes it one of the backlog.

    Requests at `doors` are numbered from 1; those from `from_request` to `to_request` and from
    `after_seconds` until before `until_seconds` are eligible. Of these, each `every`-th is taken,
    and at most the `first` so many.
    """

    doors: frozenset[str]
    from_request: int = 1
    to_request: int | None = None
    after_seconds: float = 0.0
    until_seconds: float | None = None
    every: int = 1
    first: int | None = None
    behaviour: Behaviour = Behaviour()
    curve: Curve | None = None


class Scenario:
    """Tells how to meet each request; may be asked from several threads."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._lock = threading.Lock()
        self._watches = tuple(_Watch(rule) for rule in rules)

    def next(self, door: Door | None, now: float) -> Behaviour:
        """Return what becomes of the next request, `now` seconds after the start.

        A `door` of None asks for the backlog.
        """
        name = COUNT_DOOR if door is None else door.value
        with self._lock:
            # All of them, for each counts the requests that it is about, whichever comes first.
            held = [watch for watch in self._watches if watch.holds(name, now)]
            behaviour = next((one.behaviour for one in held if one.curve is None), _IN_ORDER)
            backlog = next((one.count(one.curve, now) for one in held if one.curve), None)
        return msgspec.structs.replace(behaviour, backlog=backlog)


def load(path: Path) -> Scenario:
    """Return what a YAML file says; raise ConfigError at the first line that cannot be used."""
    said = load_yaml(path)
    if not isinstance(said, list) or not said:
        raise ConfigError(f"{path}: {said!r}; expected a list of rules, with `-` before each")
    rules = yaml.compose(path.read_bytes(), Loader=yaml.SafeLoader).value
    return Scenario(_read_rule(path, one, rule) for one, rule in zip(said, rules, strict=True))


class _Watch:
    """A rule, and the requests that it has seen."""

    def __init__(self, rule: Rule) -> None:
        self.behaviour, self.curve = rule.behaviour, rule.curve
        self._rule = rule
        self._seen = self._eligible = 0

    def holds(self, door: str, now: float) -> bool:
        """Count a request; return whether the rule is about it."""
        rule = self._rule
        if door not in rule.doors:
            return False
        self._seen += 1
        if not self._is_due(now):
            return False
        self._eligible += 1
        taken, left = divmod(self._eligible, rule.every)
        return left == 0 and (rule.first is None or taken <= rule.first)

    def count(self, curve: Curve, now: float) -> int:
        return curve.at(self._seen if curve.over_requests else now)

    def _is_due(self, now: float) -> bool:
        rule = self._rule
        last = self._seen if rule.to_request is None else rule.to_request
        end = rule.until_seconds
        return rule.from_request <= self._seen <= last and (
            rule.after_seconds <= now and (end is None or now < end)
        )


def _read_rule(path: Path, said: Any, node: Any) -> Rule:
    """Return what a rule says; `node` knows the lines."""
    with _placed(path, _line(node)):
        if not isinstance(said, dict):
            parse_keys(said, _PARSERS)
    keys = _read_keys(path, said, node)
    with _placed(path, _line(node)):
        _check_consequences(said)
        _check_moments(said, keys)
        return _make_rule(keys, _doors(said, keys))


def _read_keys(path: Path, said: Mapping[str, Any], node: Any) -> dict[str, Any]:
    lines = {key.value: _line(key) for key, _ in node.value}
    keys: dict[str, Any] = {}
    for key, value in said.items():
        with _placed(path, lines.get(key, _line(node))):
            keys |= parse_keys({key: value}, _PARSERS)
    return keys


@contextmanager
def _placed(path: Path, line: int) -> Iterator[None]:
    """Say where, of what cannot be used."""
    try:
        yield
    except ConfigError as exc:
        raise ConfigError(f"{path}:{line}: {exc}") from exc


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _check_consequences(said: Mapping[str, Any]) -> None:
    told = [key for key in said if key in _CONSEQUENCES]
    if not told:
        among = ", ".join(_CONSEQUENCES)
        raise ConfigError(f"{said!r}; expected what happens then: one of {among}")
    if "backlog" in told and len(told) > 1:
        raise ConfigError(f"{', '.join(told)}; expected backlog in a rule of its own")
    if len({_ANSWERS[key] for key in told if key in _ANSWERS}) > 1:
        answers = ", ".join(key for key in told if key in _ANSWERS)
        raise ConfigError(f"{answers}; expected one of them: a request has one answer")
    if "content_type" in told and not {"status", "text"} & {*told}:
        raise ConfigError("content_type: of no text; expected text beside it")


def _check_moments(said: Mapping[str, Any], keys: Mapping[str, Any]) -> None:
    until = keys.get("until_seconds")
    if until is not None and until <= keys.get("after_seconds", 0):
        after = repr(said["after"]) if "after" in said else "the start"
        raise ConfigError(f"until: {said['until']!r}; expected a moment that is later than {after}")


def _doors(said: Mapping[str, Any], keys: Mapping[str, Any]) -> frozenset[str]:
    key = next((key for key in said if key in _ONLY_AT), None)
    possible = _ONLY_AT[key] if key else DOORS
    doors: frozenset[str] = keys.get("doors", frozenset(possible))
    if not doors <= {*possible}:
        among = " or ".join(possible)
        raise ConfigError(f"door: {said['door']!r}; expected {among} beside {key}, or no door")
    return doors


def _make_rule(keys: Mapping[str, Any], doors: frozenset[str]) -> Rule:
    when = {key: value for key, value in keys.items() if key in Rule.__struct_fields__}
    met = {key: value for key, value in keys.items() if key in Behaviour.__struct_fields__}
    if "disk_full" in keys:
        met |= {"status": 200, "text": DISK_FULL}
    if "status" in met or "text" in met:
        met["status"] = met.get("status", 200)
        met["text"] = met.get("text", _text_of(met["status"]))
    return Rule(**{**when, **keys.get("requests", {}), "doors": doors}, behaviour=Behaviour(**met))


def _text_of(status: int) -> str:
    return ({one.value: one.phrase for one in HTTPStatus} | _TEXTS).get(status, "")


def _parse_doors(key: str, value: Any) -> frozenset[str]:
    names = parse_words(key, value) if isinstance(value, list) else (parse_text(key, value),)
    known = (*DOORS, "all")
    strange = next((name for name in names if name not in known), None)
    if strange is not None or not names:
        found = value if strange is None else strange
        among = f"{', '.join(known)}{did_you_mean(found, known)}"
        raise ConfigError(f"{key}: {found!r}; expected one of {among}")
    return frozenset(DOORS if "all" in names else names)


def _parse_requests(key: str, value: Any) -> dict[str, int | None]:
    match = _REQUESTS.fullmatch(str(value))
    if match is None:
        raise ConfigError(f"{key}: {value!r}; expected numbers from 1, such as 3, 3-5 or 3-")
    first = int(match[1])
    last = int(match[3]) if match[3] else None if match[2] else first
    if last is not None and last < first:
        raise ConfigError(f"{key}: {value!r}; expected the lower number first")
    return {"from_request": first, "to_request": last}


def _parse_moment(key: str, value: Any) -> float:
    return 0.0 if value == "0s" else parse_duration(key, value)


def _parse_status(key: str, value: Any) -> int:
    if type(value) is not int or not 200 <= value <= 599:
        raise ConfigError(f"{key}: {value!r}; expected a status of HTTP, from 200 to 599")
    return value


def _parse_content_type(key: str, value: Any) -> str:
    text = parse_text(key, value)
    if not _CONTENT_TYPE.fullmatch(text):
        raise ConfigError(f"{key}: {text!r}; expected a type such as text/html")
    return text


def _parse_tear(key: str, value: Any) -> str:
    if value not in _TEARS:
        among = f"{', '.join(_TEARS)}{did_you_mean(value, _TEARS)}"
        raise ConfigError(f"{key}: {value!r}; expected one of {among}")
    return str(value)


def _parse_true(key: str, value: Any) -> bool:
    if value is not True:
        raise ConfigError(f"{key}: {value!r}; expected true, or no such key")
    return True


def _parse_urls(key: str, value: Any) -> frozenset[str]:
    urls = parse_words(key, value)
    if not urls:
        raise ConfigError(f"{key}: []; expected the urls that are refused")
    return frozenset(urls)


def _parse_backlog(key: str, value: Any) -> Curve:
    if isinstance(value, list):
        return _parse_steps(key, value)
    if not isinstance(value, dict):
        return Curve(points=((0, parse_retries(key, value)),))
    kind = next(iter(value), None)
    if len(value) != 1 or kind not in _CURVES:
        raise ConfigError(f"{key}: {value!r}; expected a number, a list of them, steps or ramp")
    return _CURVES[kind](f"{key}.{kind}", value[kind])


def _parse_ramp(key: str, value: Any) -> Curve:
    return msgspec.structs.replace(_parse_steps(key, value), is_ramp=True)


def _parse_steps(key: str, value: Any) -> Curve:
    said = dict(enumerate(value, start=1)) if isinstance(value, list) else value
    if not isinstance(said, dict) or not said:
        raise ConfigError(
            f"{key}: {value!r}; expected counts by moment or by request, such as "
            "{0s: 0, 30s: 6000} or {1: 0, 10: 6000}"
        )
    over_requests = all(str(place).isdecimal() for place in said)  # JSON has quotes around keys
    parse = _parse_place if over_requests else _parse_moment
    points = {parse(key, at): parse_retries(f"{key}.{at}", n) for at, n in said.items()}
    if len(points) < len(said):
        raise ConfigError(f"{key}: {value!r}; expected each moment once")
    return Curve(points=tuple(sorted(points.items())), over_requests=over_requests)


def _parse_place(key: str, value: Any) -> float:
    return parse_count(key, int(value))


# Last, for they name what stands above.
NONE = Scenario(())
"""An appliance in good order."""

_IN_ORDER = Behaviour()
_CURVES: dict[object, Callable[[str, Any], Curve]] = {"steps": _parse_steps, "ramp": _parse_ramp}
_PARSERS: dict[str, tuple[str, Parser]] = {
    "door": ("doors", _parse_doors),
    "requests": ("requests", _parse_requests),
    "after": ("after_seconds", _parse_moment),
    "until": ("until_seconds", parse_duration),
    "every": ("every", parse_count),
    "first": ("first", parse_count),
    "status": ("status", _parse_status),
    "text": ("text", parse_text),
    "content_type": ("content_type", _parse_content_type),
    "disk_full": ("disk_full", _parse_true),
    "tear": ("tear", _parse_tear),
    "refuse_urls": ("refuse_urls", _parse_urls),
    "delay": ("delay_seconds", parse_duration),
    "slow": ("bytes_per_second", parse_size),
    "backlog": ("curve", _parse_backlog),
}
_CONSEQUENCES = tuple(_PARSERS)[6:]
