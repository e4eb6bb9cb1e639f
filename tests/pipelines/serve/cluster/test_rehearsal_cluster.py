from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from feedferry.pipelines.serve.cluster.bulk_actions import ItemFaults
from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from feedferry.transforms.access.index_fields import search_filter, tokens_of
from support.cluster_requests import (
    VERSION,
    Ask,
    asking,
    bulk,
    delete,
    document,
    hide,
    index,
    make_index,
)

EVERYONE = search_filter(tokens_of([]))
ORDER = [
    {"version": {"order": "asc", "missing": "_first"}},
    {"url": "asc"},
    {"datasource": "asc"},
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RehearsalCluster]:
    with closing(RehearsalCluster(tmp_path)) as cluster:
        yield cluster


@pytest.fixture
def ask(cluster: RehearsalCluster) -> Ask:
    ask = asking(cluster)
    make_index(ask)
    return ask


def urls_found(ask: Ask, query: object = EVERYONE) -> list[str]:
    _, reply = ask("POST", "/docs/_search", {"query": query, "sort": ["url"], "_source": False})
    return [hit["_id"] for hit in reply["hits"]["hits"]]


def test_a_later_version_wins_and_an_older_one_is_a_conflict(ask: Ask) -> None:
    assert bulk(ask, index(1, 5), index(1, 5), index(1, 4)) == [
        (201, "created"),
        (200, "updated"),
        (409, "version_conflict_engine_exception"),
    ]
    assert bulk(ask, delete(1, 6), index(1, 5), delete(2, 6)) == [
        (200, "deleted"),
        (409, "version_conflict_engine_exception"),
        (404, "not_found"),
    ]


def test_a_document_that_is_hidden_is_found_by_no_search(ask: Ask) -> None:
    bulk(ask, index(1), index(2))
    assert urls_found(ask) == ["http://h/1", "http://h/2"]

    assert bulk(ask, hide(1, 2), hide(1, 2), hide(3, 2)) == [
        (200, "updated"),
        (200, "noop"),
        (404, "document_missing_exception"),
    ]

    assert urls_found(ask) == ["http://h/2"]
    assert ask("GET", "/docs/_count")[1]["count"] == 2
    changed = {"range": {"version": {"gte": VERSION + 2}}}
    assert urls_found(ask, changed) == ["http://h/1"]


def test_a_search_by_words_finds_documents_that_are_shown(ask: Ask) -> None:
    bulk(ask, index(1, title="Annual Report"), index(2, body="a report"), index(3, title="else"))
    bulk(ask, hide(2, 2))
    either = {"should": [{"match": {name: "report"}} for name in ("title", "body")]}
    both = ["http://h/1", "http://h/3"]
    assert urls_found(ask, {"bool": {**either, "filter": [EVERYONE]}}) == both
    needed = {**either, "minimum_should_match": 1}
    assert urls_found(ask, {"bool": {**needed, "filter": [EVERYONE]}}) == ["http://h/1"]


def test_a_document_with_an_unknown_field_is_refused_and_its_neighbours_are_stored(
    ask: Ask,
) -> None:
    assert bulk(ask, index(1), index(2, owner="bob"), index(3, size="many"), index(4)) == [
        (201, "created"),
        (400, "strict_dynamic_mapping_exception"),
        (400, "mapper_parsing_exception"),
        (201, "created"),
    ]


def test_fields_are_added_to_an_index_and_keep_their_types(ask: Ask) -> None:
    fields = {"author": {"type": "text"}, "attachment": {"properties": {"a": {"type": "text"}}}}
    assert ask("PUT", "/docs-web/_mapping", {"properties": fields})[0] == 200
    changed = {"properties": {"author": {"type": "long"}}}
    status, reply = ask("PUT", "/docs-web/_mapping", changed)
    reason = "mapper [author] cannot be changed from type [text] to [long]"
    assert (status, reply["error"]["reason"]) == (400, reason)
    assert bulk(ask, index(1, author="Ann", attachment={"a": "b"})) == [(201, "created")]


def test_a_search_by_ids_and_a_range_find_documents(ask: Ask) -> None:
    bulk(ask, index(1), index(2, 3))
    assert urls_found(ask, {"ids": {"values": ["http://h/2", "http://h/3"]}}) == ["http://h/2"]
    assert urls_found(ask, {"range": {"version": {"gte": VERSION + 2}}}) == ["http://h/2"]


def test_a_body_with_a_bad_line_changes_nothing(ask: Ask) -> None:
    lines = b'{"index":{"_id":"http://h/1"}}\n{"url":"http://h/1"}\n{"move":{"_id":"x"}}\n{}\n'
    status, reply = ask("POST", "/docs-web/_bulk", lines)
    assert (status, reply["error"]["reason"]) == (
        400,
        "Malformed action/metadata line [3], expected one of [create, delete, index, update] but"
        " found [move]",
    )
    assert ask("GET", "/docs/_count")[1]["count"] == 0


def test_documents_are_not_written_to_a_name_that_is_no_alias(ask: Ask) -> None:
    missing = [(404, "index_not_found_exception")]
    assert bulk(ask, index(1), alias="docs-web-1") == missing
    assert bulk(ask, index(1), alias="other") == missing


def test_indexes_are_exchanged_as_a_whole_or_not_at_all(ask: Ask) -> None:
    make_index(ask, "docs-web-2", "docs-web-2-loading")
    moved = [
        {"remove": {"index": "docs-web-1", "alias": "docs-web"}},
        {"add": {"index": "docs-web-2", "alias": "docs-web"}},
    ]
    missing = {"remove": {"index": "docs-web-3", "alias": "docs-web"}}

    assert ask("POST", "/_aliases", {"actions": [*moved, missing]})[0] == 404
    assert ask("GET", "/docs-web/_alias")[1] == {
        "docs-web-1": {"aliases": {"docs": {}, "docs-web": {}}}
    }

    assert ask("POST", "/_aliases", {"actions": moved}) == (200, {"acknowledged": True})
    assert [*ask("GET", "/docs-web/_alias")[1]] == ["docs-web-2"]


def test_pages_follow_each_other_by_version_and_url(ask: Ask) -> None:
    bulk(ask, index(3, 1), index(1, 2), index(2, 2))
    found, after = [], None
    for _ in range(3):
        query = {"size": 1, "sort": ORDER} | ({"search_after": after} if after else {})
        target = "/docs/_search?filter_path=hits.hits._id,hits.hits.sort"
        (hit,) = ask("POST", target, query)[1]["hits"]["hits"]
        found.append(hit["_id"])
        after = hit["sort"]
    assert found == ["http://h/3", "http://h/1", "http://h/2"]
    assert after == [VERSION + 2, "http://h/2", "web"]


def test_what_is_not_played_is_an_error_that_states_what_is(ask: Ask) -> None:
    status, reply = ask("POST", "/docs/_search", {"query": {"fuzzy": {"title": "report"}}})
    assert (status, reply["error"]["reason"]) == (
        501,
        "a rehearsal does not play the query 'fuzzy'; expected bool, ids, term, terms, range,"
        " match or match_all",
    )
    script = {"script": {"source": "ctx._source.size = 1", "params": {}}}
    bulk(ask, index(1))
    lines = [*index(2), {"update": {"_id": "http://h/1"}}, script]
    assert ask("POST", "/docs-web/_bulk", lines)[0] == 501
    assert ask("GET", "/docs/_count")[1]["count"] == 1


@pytest.mark.parametrize(
    ("faults", "results"),
    [
        (ItemFaults(is_throttled=True), [(429, "rejected_execution_exception")] * 2),
        (ItemFaults(is_full=True), [(429, "cluster_block_exception")] * 2),
        (
            ItemFaults(refused_ids=frozenset({"http://h/2"})),
            [(201, "created"), (400, "mapper_parsing_exception")],
        ),
    ],
)
def test_a_scenario_refuses_actions(
    cluster: RehearsalCluster, faults: ItemFaults, results: list[object]
) -> None:
    ask = asking(cluster, faults)
    make_index(ask)
    assert bulk(ask, index(1), index(2)) == results


def test_documents_are_there_after_the_store_was_closed(tmp_path: Path) -> None:
    with closing(RehearsalCluster(tmp_path)) as cluster:
        make_index(asking(cluster))
        bulk(asking(cluster), index(1, title="a"))
    with closing(RehearsalCluster(tmp_path)) as cluster:
        (hit,) = asking(cluster)("GET", "/docs/_search")[1]["hits"]["hits"]
    assert hit["_source"] == document(1, title="a")
