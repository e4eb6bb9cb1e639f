"""At a real server, a run takes permissions away before it gives any, wherever it ends.

19 places where a push can end, for 10 nights, and 30 kills, take some minutes for each server::

    FEEDFERRY_STORM=full pytest -n0 -m "" tests/search/test_tightening_first.py -k "2.19"
"""

import random
from pathlib import Path

import pytest

from feedferry.transforms.access.index_fields import search_filter, tokens_of
from feedferry.transforms.rules.acl_changes import ACL_CHANGES, read_changes
from support.forks import forks
from support.narrowing_nights import (
    GROUPS,
    HOST,
    USERS,
    Pairs,
    Seen,
    State,
    Watch,
    check_samples,
    converted,
    members,
    next_state,
    pairs_of,
    pushed,
    write_feeds,
)
from support.runs import chosen
from support.search_proxies import search_proxy
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


def seen_by(server: SearchServer, *, refreshes: bool = False) -> Seen:
    """Return a function that searches as all users, of changes before the next refresh, too."""

    def seen() -> Pairs:
        if refreshes:
            server.call("POST", "/intranet/_refresh")
        return {
            (user, id.removeprefix(HOST))
            for user in USERS
            for id in server.ids("intranet", search_filter(tokens_of(members(user))))
        }

    return seen


@pytest.mark.parametrize("refreshes", [False, True])
def test_wherever_a_push_ends_nothing_is_wider_while_something_is_to_be_narrowed(
    server: SearchServer, tmp_path: Path, *, refreshes: bool
) -> None:
    choice = random.Random(SEED)
    state = next_state(choice, {})
    assert pushed(converted(tmp_path / "first", {}, state), f"{server.url}/intranet").exit_code == 0
    settings = {"index": {"refresh_interval": "-1"}}
    server.call("PUT", "/intranet-docs/_settings", settings)
    server.call("PUT", "/intranet-web/_settings", settings)
    with search_proxy(server) as proxy:
        for night in range(NIGHTS):
            following = next_state(choice, state)
            before, after = pairs_of(state), pairs_of(following)
            watch = Watch(proxy, seen_by(server, refreshes=refreshes))
            proxy.answer = watch
            between = next_state(choice, {})
            run = converted(tmp_path / f"{refreshes}-{night}", state, following, between)
            for requests in ENDS:
                watch.last = watch.count + requests
                pushed(run, f"{proxy.url}/intranet")
            watch.last = -1
            result = pushed(run, f"{proxy.url}/intranet")
            assert result.exit_code == 0, result.reason
            check_samples(watch.samples, before, after)
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
        watch = proxy.answer = Watch(proxy, seen_by(server, refreshes=True))
        kills = 0
        while kills < KILLS:
            following = next_state(choice, state)
            write_feeds(tmp_path, state, following, next_state(choice, {}))
            run = runs.run(*words, last=choice.randrange(1, first.operations))
            kills += run.returncode == -9
            for _ in range(2):  # the unfinished run, and a run of what has changed since
                run = runs.run(*words)
                assert run.returncode == 0, run.output
            check_samples(watch.samples, pairs_of(state), pairs_of(following))
            assert watch.seen() == pairs_of(following)
            watch.samples.clear()
            state = following


def test_the_changes_of_a_run_are_listed_and_a_limit_stops_it_before_anything_is_sent(
    server: SearchServer, tmp_path: Path
) -> None:
    staff, both = (frozenset[str](), frozenset({"staff"})), (frozenset[str](), {*GROUPS[:2]})
    before: State = {"docs/0": staff, "docs/1": staff, "docs/2": None, "web/0": staff}
    after: State = {"docs/0": (both[0], frozenset(both[1])), "docs/1": staff, "docs/2": staff}
    assert pushed(converted(tmp_path / "1", {}, before), f"{server.url}/intranet").exit_code == 0
    run = converted(tmp_path / "2", before, after)
    versions = server.documents("intranet")
    result = pushed(run, f"{server.url}/intranet", max_widened="20%")
    assert result.exit_code == 3
    assert "1 of 4 documents would be seen by more users; expected at most 20%" in str(
        result.reason
    )
    assert server.documents("intranet") == versions
    result = pushed(run, f"{server.url}/intranet", max_widened="25%")
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
