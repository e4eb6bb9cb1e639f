"""At a real server, a run takes permissions away before it gives any, wherever it ends.

19 places where a push can end, for 10 nights, and 30 kills, take some minutes for each server::

    FEEDFERRY_STORM=full pytest -n0 -m "" tests/search/test_tightening_first.py -k "2.19"
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.observer.observer import Observer
from feedferry.pipelines.options.push_options import parse_push
from feedferry.pipelines.push.engine import push
from feedferry.pipelines.push.record import PushResult
from feedferry.schemas.acl import Scope
from feedferry.schemas.membership import Member
from feedferry.testing import ScriptedReply, ScriptedRequest
from feedferry.transforms.access.index_fields import search_filter, tokens_of
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.rules.acl_changes import ACL_CHANGES, read_changes
from support.forks import forks
from support.runs import chosen, convert
from support.search_proxies import SearchProxy, search_proxy
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow

SEED = 37
NIGHTS = chosen(usual=1, full=10)
ENDS = chosen(usual=(8, 17, 23, 29, 36), full=tuple(range(4, 60, 3)))
"""After how many requests the pushes of a night end."""

KILLS = chosen(usual=1, full=30)
JOB = """\
version: 1
job: nights
source: {type: gsa-feed, path: [docs.xml, web.xml]}
target: {type: opensearch, url: "URL/intranet"}
"""
HOST = "http://docs.example.com/"
GROUPS = ("staff", "board", "guests")
USERS = [frozenset(names) for count in range(4) for names in combinations(GROUPS, count)]
BUSY = ScriptedReply(503, b"busy", headers={"Retry-After": "0"})
Acl = tuple[frozenset[str], frozenset[str]] | None
"""Groups that are denied and permitted; None for a document that everyone may see."""

State = Mapping[str, Acl]
"""The documents of both datasources by their names, which begin with that of the datasource."""

NO_STATE: State = {}
Pairs = set[tuple[frozenset[str], str]]
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


def converted(folder: Path, before: State, after: State, between: State = NO_STATE) -> Path:
    """Return the run that leads from one state to another; its chunks have three records."""
    folder.mkdir()
    feeds = write_feeds(folder, before, after, between)
    flags = ("--to", "opensearch", "--max-chunk-records", "3")
    assert convert(*feeds, "-o", str(folder / "run"), *flags) == 0
    return folder / "run"


def pushed(run: Path, url: str, **words: str) -> PushResult:
    options, settings = parse_push({"inputs": (str(run),), "url": f"{url}/intranet", **words})
    policy = RetryPolicy(first_seconds=0.0, max_attempts=1)
    (result,) = push(options, replace(settings, retry=policy), Observer())
    return result


class Watch:
    """Searches as all users after each request, and ends the push after `last` requests."""

    def __init__(self, server: SearchServer, proxy: SearchProxy, *, refreshes: bool) -> None:
        self._server, self._proxy, self._refreshes = server, proxy, refreshes
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

    def seen(self) -> Pairs:
        if self._refreshes:
            self._server.call("POST", "/intranet/_refresh")
        return {
            (user, id.removeprefix(HOST))
            for user in USERS
            for id in self._server.ids("intranet", search_filter(tokens_of(members(user))))
        }


def members(user: frozenset[str]) -> Iterator[Member]:
    return (Member(name=name, scope=Scope.GROUP) for name in sorted(user))


def check(samples: Sequence[Pairs], before: Pairs, after: Pairs) -> None:
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


@pytest.mark.parametrize("refreshes", [False, True])
def test_wherever_a_push_ends_nothing_is_wider_while_something_is_to_be_narrowed(
    server: SearchServer, tmp_path: Path, *, refreshes: bool
) -> None:
    choice = random.Random(SEED)
    state = next_state(choice, {})
    assert pushed(converted(tmp_path / "first", {}, state), server.url).exit_code == 0
    settings = {"index": {"refresh_interval": "-1"}}
    server.call("PUT", "/intranet-docs/_settings", settings)
    server.call("PUT", "/intranet-web/_settings", settings)
    with search_proxy(server) as proxy:
        for night in range(NIGHTS):
            following = next_state(choice, state)
            before, after = pairs_of(state), pairs_of(following)
            watch = Watch(server, proxy, refreshes=refreshes)
            proxy.answer = watch
            between = next_state(choice, {})
            run = converted(tmp_path / f"{refreshes}-{night}", state, following, between)
            for requests in ENDS:
                watch.last = watch.count + requests
                pushed(run, proxy.url)
            watch.last = -1
            result = pushed(run, proxy.url)
            assert result.exit_code == 0, result.reason
            check(watch.samples, before, after)
            assert watch.seen() == after
            state = following


def test_a_job_that_is_killed_at_any_operation_takes_permissions_away_first(
    server: SearchServer, tmp_path: Path
) -> None:
    choice = random.Random(SEED)
    state = next_state(choice, {})
    words = ("run", "job.yaml", "--progress", "none", "--set", "chunk.max_records=5")
    with search_proxy(server) as proxy, forks(tmp_path) as runs:
        (tmp_path / "job.yaml").write_text(JOB.replace("URL", proxy.url))
        write_feeds(tmp_path, {}, state, {})
        first = runs.run(*words)
        assert first.returncode == 0, first.output
        watch = proxy.answer = Watch(server, proxy, refreshes=True)
        kills = 0
        while kills < KILLS:
            following = next_state(choice, state)
            write_feeds(tmp_path, state, following, next_state(choice, {}))
            run = runs.run(*words, last=choice.randrange(1, first.operations))
            kills += run.returncode == -9
            for _ in range(2):  # the unfinished run, and a run of what has changed since
                run = runs.run(*words)
                assert run.returncode == 0, run.output
            check(watch.samples, pairs_of(state), pairs_of(following))
            assert watch.seen() == pairs_of(following)
            watch.samples.clear()
            state = following


def test_the_changes_of_a_run_are_listed_and_a_limit_stops_it_before_anything_is_sent(
    server: SearchServer, tmp_path: Path
) -> None:
    staff, both = (frozenset[str](), frozenset({"staff"})), (frozenset[str](), {*GROUPS[:2]})
    before: State = {"docs/0": staff, "docs/1": staff, "docs/2": None, "web/0": staff}
    after: State = {"docs/0": (both[0], frozenset(both[1])), "docs/1": staff, "docs/2": staff}
    assert pushed(converted(tmp_path / "1", {}, before), server.url).exit_code == 0
    run = converted(tmp_path / "2", before, after)
    versions = server.documents("intranet")
    result = pushed(run, server.url, max_widened="20%")
    assert result.exit_code == 3
    assert "1 of 4 documents would be seen by more users; expected at most 20%" in str(
        result.reason
    )
    assert server.documents("intranet") == versions
    result = pushed(run, server.url, max_widened="25%")
    assert result.exit_code == 0, result.reason
    listed = [
        (line.url.removeprefix(HOST), line.change, *line.gained, "|", *line.lost)
        for line in read_changes(result.receipts / ACL_CHANGES)
    ]
    assert sorted(listed) == [
        ("docs/0", "wider", "gs:Default:board", "|"),
        ("docs/2", "narrower", "|", "*"),
    ]
    assert result.account.steps["compare who sees documents"] == (
        "wider 1, narrower 1, gone 1, same 1, narrowed 2"
    )
