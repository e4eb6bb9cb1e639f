"""Scenarios: how a rehearsal appliance misbehaves, as a list of rules in a YAML file.

::

    - {endpoint: xmlfeed, requests: 3-5, disk_full: true}
    - {after: 1m, until: 2m, status: 503}
    - {every: 10, reset: before-reply}
    - {backlog: [0, 6000, 6000, 0]}

Nothing is random: the same requests at the same moments meet the same behaviour. All keys are
described in docs/scenarios.md.
"""

import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from feedferry.transforms.config.yaml_structs import (
    Duration,
    Natural,
    Positive,
    Value,
    read_yaml_list,
)
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.opensearch.opensearch import OPENSEARCH_CLUSTER
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA

BACKLOG = "getbacklogcount"
_OF_GSA = tuple(endpoint.name for endpoint in FEEDERGATE.endpoints)
BULK = OPENSEARCH_CLUSTER.endpoints[0].name
CLUSTER = "cluster"
"""All other requests to a cluster."""

_OF_DOCUMENTS = tuple(kind.endpoints[0].name for kind in (FEEDERGATE, RECVDATA, OPENSEARCH_CLUSTER))
ENDPOINTS = (
    *_OF_GSA,
    *(endpoint.name for endpoint in RECVDATA.endpoints),
    BULK,
    BACKLOG,
    CLUSTER,
)
"""The names of the endpoints of all appliances that a receiver plays, and of other requests."""

Reset = Literal["at-once", "in-body", "before-reply"]

_REQUESTS = re.compile(r"([1-9][0-9]*)(?:(-)([1-9][0-9]*)?)?", re.ASCII)
_ANSWERS = ("status", "text", "disk_full", "reset", "refuse_urls", "throttle", "backlog")
_ONLY_AT = {
    "disk_full": (*_OF_GSA, BULK),
    "refuse_urls": _OF_DOCUMENTS,
    "throttle": (BULK,),
    "backlog": (BACKLOG,),
}


class RequestRange(NamedTuple):
    """The numbers of the first and the last request, from 1; None for no last one."""

    first: int
    last: int | None


def parse_requests(value: object) -> RequestRange:
    """Return the range of `3`, `3-5` or `3-`."""
    match = _REQUESTS.fullmatch(str(value))
    if not match:
        raise ValueError
    first = int(match[1])
    last = int(match[3]) if match[3] else None if match[2] else first
    if last is not None and last < first:
        raise ValueError
    return RequestRange(first, last)


def parse_status(value: object) -> int:
    if not isinstance(value, int) or not 400 <= value <= 599:
        raise ValueError
    return value


def parse_endpoint(value: object) -> str:
    if value not in ENDPOINTS:
        raise ValueError
    return str(value)


EndpointName = Annotated[str, Value(parse_endpoint, " or ".join(ENDPOINTS))]


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour for one request; without any value, that of an appliance in good order.

    With `status`, `text` or `disk_full` the body is read and not kept. With `throttle` each action
    of a bulk is answered by 429. `reset` closes the
    connection with a reset: before the body, in the middle of it, or when the reply is due. `delay`
    is the time in seconds before the reply. `backlog` replaces the real count: in a rule, it may be
    one count for each request, and the last one stays.
    """

    status: Annotated[int, Value(parse_status, "400 to 599")] | None = None
    text: str | None = None
    disk_full: bool | None = None
    delay: Duration | None = None
    reset: Reset | None = None
    refuse_urls: tuple[str, ...] | None = None
    throttle: bool | None = None
    backlog: Natural | tuple[Natural, ...] | None = None


IN_ORDER = Behaviour()


class ScenarioRule(Behaviour, frozen=True, kw_only=True):
    """The keys of a rule, as a user writes them: when it applies, and the behaviour then."""

    endpoint: EndpointName | tuple[EndpointName, ...] | None = None
    requests: Annotated[
        RequestRange, Value(parse_requests, "numbers from 1, such as 3, 3-5 or 3-")
    ] = RequestRange(1, None)
    after: Duration = 0.0
    until: Duration | None = None
    every: Positive = 1

    def check(self) -> None:
        """Raise ValueError for keys that cannot be combined."""
        answers = self._answers()
        if not answers and self.delay is None:
            raise ValueError(f"no behaviour; expected one of {', '.join(_ANSWERS)}, delay")
        if len(answers) > 1 and answers != ["status", "text"]:
            raise ValueError(f"{', '.join(answers)}; expected one of them: a request has one reply")
        if self.backlog is not None and self.delay is not None:
            raise ValueError("backlog, delay; expected a rule for each")
        if () in (self.backlog, self.refuse_urls, self.endpoint):
            raise ValueError("an empty list; expected one value or more")
        if self.until is not None and self.until <= self.after:
            raise ValueError("until: not later than `after`; expected a later moment")
        possible = self._possible_endpoints()
        for name in self.endpoints - {*possible}:
            raise ValueError(f"endpoint: {name!r}; expected one of {', '.join(possible)}")

    @property
    def endpoints(self) -> frozenset[str]:
        """The endpoints whose requests the rule counts."""
        if self.endpoint is None:
            return frozenset(self._possible_endpoints())
        return frozenset((self.endpoint,) if isinstance(self.endpoint, str) else self.endpoint)

    def _answers(self) -> list[str]:
        return [name for name in _ANSWERS if getattr(self, name) is not None]

    def _possible_endpoints(self) -> tuple[str, ...]:
        limits = (_ONLY_AT[name] for name in self._answers() if name in _ONLY_AT)
        return next(limits, ENDPOINTS)


class RuleCounter:
    """A rule, and the number of requests at its endpoints."""

    def __init__(self, rule: ScenarioRule) -> None:
        self.rule = rule
        self._endpoints = rule.endpoints
        self._requests = self._eligible = 0

    def applies(self, endpoint: str, now: float) -> bool:
        """Count a request; return whether the rule applies to it."""
        if endpoint not in self._endpoints:
            return False
        self._requests += 1
        rule, (first, last) = self.rule, self.rule.requests
        if not first <= self._requests <= (last or self._requests):
            return False
        if now < rule.after or (rule.until is not None and now >= rule.until):
            return False
        self._eligible += 1
        return self._eligible % rule.every == 0

    def count_backlog(self) -> int | None:
        """Return the backlog that the rule reports for the request that was counted last."""
        backlog = self.rule.backlog
        if isinstance(backlog, tuple):
            return backlog[min(self._requests, len(backlog)) - 1]
        return backlog


class Scenario:
    """Chooses the behaviour for each request; safe from several threads."""

    def __init__(self, rules: Iterable[ScenarioRule] = ()) -> None:
        self._lock = threading.Lock()
        self._rules = tuple(map(RuleCounter, rules))

    def next(self, endpoint: str, now: float) -> Behaviour:
        """Return the behaviour for the next request, `now` seconds after the start."""
        with self._lock:
            # Every rule counts the requests at its endpoints, whichever rule applies first.
            active = [rule for rule in self._rules if rule.applies(endpoint, now)]
            backlogs = [rule.count_backlog() for rule in active if rule.rule.backlog is not None]
        behaviours = (rule.rule for rule in active if rule.rule.backlog is None)
        backlog = backlogs[0] if backlogs else None
        return msgspec.structs.replace(next(behaviours, IN_ORDER), backlog=backlog)


def load(path: Path) -> Scenario:
    """Return the scenario of a YAML file; raise ConfigError with a line for each error."""
    return Scenario(read_yaml_list(path, ScenarioRule))
