"""Nights at a real Solr: permissions are taken away first, wherever a push ends."""

import random
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.transforms.access.index_fields import tokens_of
from support.forks import forks
from support.narrowing_nights import (
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
from support.runs import chosen, convert
from support.search_proxies import search_proxy
from support.solr_servers import SolrServer, solr_server

pytestmark = pytest.mark.slow

SEED = 38
NIGHTS = chosen(usual=2, full=10)
ENDS = chosen(usual=(5, 9, 14, 20, 27, 33), full=tuple(range(3, 50, 3)))
"""After how many requests the pushes of a night end."""

KILLS = chosen(usual=2, full=30)
JOB = """\
version: 1
job: nights
source: {type: gsa-feed, path: [docs.xml, web.xml]}
target: {type: solr, url: "URL/solr/docs"}
verify: target
"""


def seen_by(server: SolrServer, *, commits: bool) -> Seen:
    """Return a function that searches as all users, of changes before the next commit, too."""

    def seen() -> Pairs:
        if commits:
            server.call("/update?commit=true", {"commit": {}})
        return {
            (user, url.removeprefix(HOST))
            for user in USERS
            for url in server.found_by(tokens_of(members(user)))
        }

    return seen


@pytest.mark.parametrize("commits", [False, True])
def test_wherever_a_push_ends_nothing_is_wider_while_something_is_to_be_narrowed(
    solr: SolrServer, tmp_path: Path, *, commits: bool
) -> None:
    choice = random.Random(SEED)
    state = next_state(choice, {})
    run = converted(tmp_path / "first", {}, state, to="solr")
    assert pushed(run, solr.collection).exit_code == 0
    with search_proxy(solr) as proxy:
        for night in range(NIGHTS):
            following = next_state(choice, state)
            watch = Watch(proxy, seen_by(solr, commits=commits))
            proxy.answer = watch
            between = next_state(choice, {})
            folder = tmp_path / f"night-{night}"
            run = converted(folder, state, following, between, to="solr")
            for requests in ENDS:
                watch.last = watch.count + requests
                pushed(run, f"{proxy.url}/solr/docs")
            watch.last = -1
            result = pushed(run, f"{proxy.url}/solr/docs")
            assert result.exit_code == 0, result.reason
            check_samples(watch.samples, pairs_of(state), pairs_of(following))
            assert watch.seen() == pairs_of(following)
            state = following


def test_a_job_that_is_killed_at_any_operation_takes_permissions_away_first(
    solr: SolrServer, tmp_path: Path
) -> None:
    choice = random.Random(SEED)
    state = next_state(choice, {})
    words = ("run", "job.yaml", "--progress", "none", "--set", "chunk.max_records=5")
    with search_proxy(solr) as proxy, forks(tmp_path) as runs:
        (tmp_path / "job.yaml").write_text(JOB.replace("URL", proxy.url))
        write_feeds(tmp_path, {}, state, {})
        first = runs.run(*words)
        assert first.returncode == 0, first.output
        watch = proxy.answer = Watch(proxy, seen_by(solr, commits=True))
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


STAFF = (frozenset[str](), frozenset({"staff"}))
BOARD = (frozenset[str](), frozenset({"board"}))


def full(feed: Path) -> None:
    text = feed.read_text()
    feed.write_text(text.replace(">incremental<", ">full<"))


def converted_full(folder: Path, after: State) -> Path:
    """Return a run with a full feed of `docs`; documents that are gone are not in it."""
    folder.mkdir()
    write_feeds(folder, {}, after, {})
    full(folder / "docs.xml")
    words = ("-o", str(folder / "run"), "--to", "solr", "--max-chunk-records", "3")
    assert convert(str(folder / "docs.xml"), *words) == 0
    return folder / "run"


def test_a_full_feed_that_ends_anywhere_shows_nothing_to_others_and_is_continued(
    solr: SolrServer, tmp_path: Path
) -> None:
    choice = random.Random(SEED)
    state = next_state(choice, {})
    run = converted(tmp_path / "first", {}, state, to="solr")
    assert pushed(run, solr.collection).exit_code == 0
    docs = {name: acl for name, acl in next_state(choice, state).items() if name[:4] == "docs"}
    after = {**docs, **{name: acl for name, acl in state.items() if name[:3] == "web"}}
    assert {*state} - {*after}, "some documents are gone"
    run = converted_full(tmp_path / "full", docs)
    with search_proxy(solr) as proxy:
        watch = proxy.answer = Watch(proxy, seen_by(solr, commits=True))
        for requests in ENDS:
            watch.last = watch.count + requests
            assert pushed(run, f"{proxy.url}/solr/docs").exit_code in (0, 4)
        watch.last = -1
        result = pushed(run, f"{proxy.url}/solr/docs")
        assert result.exit_code == 0, result.reason
    for sample in watch.samples:
        assert sample <= pairs_of(state) | pairs_of(after)
    assert watch.seen() == pairs_of(after)


def test_a_full_feed_deletes_what_it_leaves_out_in_its_datasource_only(
    solr: SolrServer, tmp_path: Path
) -> None:
    first: State = {"docs/0": STAFF, "docs/1": None, "web/0": STAFF}
    assert pushed(converted(tmp_path / "1", {}, first, to="solr"), solr.collection).exit_code == 0
    second: State = {"docs/0": BOARD, "docs/2": None}
    run = converted_full(tmp_path / "2", second)
    assert pushed(run, solr.collection).exit_code == 0
    assert sorted(solr.documents()) == [f"{HOST}docs/0", f"{HOST}docs/2", f"{HOST}web/0"]
    seen = seen_by(solr, commits=True)()
    assert seen == pairs_of({**second, "web/0": STAFF})
    assert main(["verify", str(run), "--against", solr.collection]) == 0


def test_a_document_that_solr_refuses_is_a_reject_and_its_older_version_is_hidden(
    solr: SolrServer, tmp_path: Path
) -> None:
    # metadata with a field of their own, of numbers
    number = {"name": "feedferry_number", "class": "solr.IntPointField", "docValues": True}
    field = {"name": "meta_Pages", "type": "feedferry_number"}
    solr.call("/schema", {"add-field-type": number, "add-field": field})
    first: State = {"docs/0": STAFF, "docs/1": STAFF}
    assert pushed(converted(tmp_path / "1", {}, first, to="solr"), solr.collection).exit_code == 0
    (tmp_path / "2").mkdir()
    write_feeds(tmp_path / "2", {}, {"docs/0": None, "docs/1": BOARD}, {})
    feed = tmp_path / "2" / "docs.xml"
    metadata = '<metadata><meta name="Pages" content="many"/></metadata>'
    feed.write_text(feed.read_text().replace("<content>", f"{metadata}<content>", 1))
    words = (str(feed), "-o", str(tmp_path / "run"), "--to", "solr")
    assert convert(*words, "--push-to", solr.collection) == 1
    assert seen_by(solr, commits=True)() == pairs_of({"docs/1": BOARD})
    update = {"id": f"docs {HOST}docs/0", "_version_": 1, "acl_1_permit_1": {"set": ["*"]}}
    solr.call("/update?commit=true", {"add": {"doc": update}})
    assert seen_by(solr, commits=True)() == pairs_of({"docs/1": BOARD})
    following = converted(tmp_path / "3", {}, {"docs/0": STAFF}, to="solr")
    assert pushed(following, solr.collection).exit_code == 0
    assert seen_by(solr, commits=True)() == pairs_of({"docs/0": STAFF, "docs/1": BOARD})


def test_an_earlier_run_sends_nothing_after_a_newer_one_has_begun(
    solr: SolrServer, tmp_path: Path
) -> None:
    states: list[State] = [{f"docs/{number}": acl for number in range(9)} for acl in (None, STAFF)]
    older = converted(tmp_path / "1", {}, states[0], to="solr")
    newer = converted(tmp_path / "2", {}, states[1], to="solr")
    with search_proxy(solr) as proxy:
        watch = proxy.answer = Watch(proxy, seen_by(solr, commits=True))
        watch.last = 12
        assert pushed(older, f"{proxy.url}/solr/docs").exit_code == 4
        assert pushed(newer, solr.collection).exit_code == 0
        watch.last = -1
        result = pushed(older, f"{proxy.url}/solr/docs")
    assert result.exit_code == 4
    assert "a newer run has begun to write 'docs'" in str(result.reason)
    assert seen_by(solr, commits=True)() == pairs_of(states[1])


def test_without_the_tolerant_processor_nothing_is_sent(tmp_path: Path) -> None:
    run = converted(tmp_path / "run", {}, {"docs/0": None}, to="solr")
    folder = tmp_path / "solr"
    folder.mkdir()
    with solr_server(folder, is_tolerant=False) as server:
        result = pushed(run, server.collection)
        assert result.exit_code == 4
        assert "expected an update processor `tolerant`" in str(result.reason)
        assert server.call("/select?q=*:*")["response"]["numFound"] == 0
