"""Random nights of two datasources, and what searches may find at any time of a run."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from msgspec.structs import replace

from feedferry.pipelines.observer.observer import Observer
from feedferry.pipelines.options.push_options import parse_push
from feedferry.pipelines.push.engine import push
from feedferry.pipelines.push.record import PushResult
from feedferry.schemas.acl import Scope
from feedferry.schemas.membership import Member
from feedferry.testing import ScriptedReply, ScriptedRequest
from feedferry.transforms.net.retry import RetryPolicy
from support.runs import convert
from support.search_proxies import SearchProxy

HOST = "http://docs.example.com/"
GROUPS = ("staff", "board", "guests")
USERS = [frozenset(names) for count in range(4) for names in combinations(GROUPS, count)]
Acl = tuple[frozenset[str], frozenset[str]] | None
"""Groups that are denied and permitted; None for a document that everyone may see."""

State = Mapping[str, Acl]
"""The documents of both datasources by their names, which begin with that of the datasource."""

NO_STATE: State = {}
Pairs = set[tuple[frozenset[str], str]]
Seen = Callable[[], Pairs]
"""Searches as all users; returns which documents each of them finds."""

BUSY = ScriptedReply(503, b"busy", headers={"Retry-After": "0"})
SOME_ACLS: Sequence[Acl] = (
    None,
    *((frozenset[str](), frozenset(names)) for names in combinations(GROUPS, 1)),
    *((frozenset[str](), frozenset(names)) for names in combinations(GROUPS, 2)),
    (frozenset({"guests"}), frozenset({"staff", "board"})),
    (frozenset({"staff"}), frozenset({"board"})),
)


def permits(acl: Acl, user: frozenset[str]) -> bool:
    return acl is None or bool(acl[1] & user and not acl[0] & user)


def pairs_of(state: State) -> Pairs:
    return {(user, name) for user in USERS for name, acl in state.items() if permits(acl, user)}


def record(name: str, acl: Acl) -> str:
    stated = ""
    if acl is not None:
        entries = zip(("deny", "permit"), acl, strict=True)
        stated = "".join(
            f'<principal scope="group" access="{access}">{group}</principal>'
            for access, groups in entries
            for group in sorted(groups)
        )
        stated = f"<acl>{stated}</acl>"
    return f'<record url="{HOST}{name}" mimetype="text/plain">{stated}<content>x</content></record>'


def write_feeds(folder: Path, before: State, after: State, between: State) -> list[str]:
    """Write the feeds that lead from one state to another; return their paths.

    They have older versions of the documents `between`.
    """
    paths = []
    for datasource in ("docs", "web"):
        names = [name for name in {**after, **before} if name.startswith(datasource)]
        older = (name for name in names if name in between)
        records = "".join(record(name, between[name]) for name in older) + "".join(
            record(name, after[name])
            if name in after
            else f'<record url="{HOST}{name}" action="delete" mimetype="text/plain"/>'
            for name in sorted(names)
        )
        path = folder / f"{datasource}.xml"
        path.write_text(
            f"<gsafeed><header><datasource>{datasource}</datasource>"
            f"<feedtype>incremental</feedtype></header><group>{records}</group></gsafeed>"
        )
        paths.append(str(path))
    return paths


def converted(
    folder: Path, before: State, after: State, between: State = NO_STATE, *, to: str = "opensearch"
) -> Path:
    """Return the run that leads from one state to another; its chunks have three records."""
    folder.mkdir()
    feeds = write_feeds(folder, before, after, between)
    flags = ("--to", to, "--max-chunk-records", "3")
    assert convert(*feeds, "-o", str(folder / "run"), *flags) == 0
    return folder / "run"


def pushed(run: Path, url: str, **words: str) -> PushResult:
    options, settings = parse_push({"inputs": (str(run),), "url": url, **words})
    policy = RetryPolicy(first_seconds=0.0, max_attempts=1)
    (result,) = push(options, replace(settings, retry=policy), Observer())
    return result


def members(user: frozenset[str]) -> Iterator[Member]:
    return (Member(name=name, scope=Scope.GROUP) for name in sorted(user))


def check_samples(samples: Sequence[Pairs], before: Pairs, after: Pairs) -> None:
    """Nothing is shown that neither state permits, and nothing is given before all is taken."""
    for sample in samples:
        assert sample <= before | after
        assert not (sample - before and sample - after), (sample - before, sample - after)


def next_state(choice: random.Random, state: State) -> State:
    names = [f"{datasource}/{number}" for datasource in ("docs", "web") for number in range(7)]
    kept = {name for name in names if choice.random() < 0.85}
    return {
        name: state[name] if name in state and choice.random() < 0.3 else choice.choice(SOME_ACLS)
        for name in names
        if name in kept
    }


class Watch:
    """Searches as all users after each request, and ends the push after `last` requests."""

    def __init__(self, proxy: SearchProxy, seen: Seen) -> None:
        self._proxy, self.seen = proxy, seen
        self.count = 0
        self.last = -1
        self.samples: list[Pairs] = []

    def __call__(self, request: ScriptedRequest) -> ScriptedReply | None:
        if self.count == self.last:
            return BUSY
        self.count += 1
        self._proxy.answer = lambda _request: None
        reply = self._proxy(request)
        self._proxy.answer = self
        self.samples.append(self.seen())
        return reply
