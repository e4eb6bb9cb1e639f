"""A check of an index shows what a run would not survive, or show to the wrong people."""

import json

import pytest
from msgspec.structs import replace

from feedferry.schemas.check import CheckLine, Level
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.address import parse_target
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.index_options import IndexOptions
from feedferry.transforms.sinks.push.wire.opensearch.mapping import mapping
from feedferry.transforms.sinks.push.wire.opensearch.opensearch import OPENSEARCH_CLUSTER
from feedferry.transforms.sinks.push.wire.opensearch.scan import check

DISK = "/_cat/allocation"
PIPELINE = "/_ingest/pipeline/a%2Fb"
TRIAL = "-docs/_update/feedferry-trial"
PAINLESS = "/_scripts/painless/_execute"
RIGHT: dict[str, object] = {
    "/_mapping": {"intranet-docs-1": {"mappings": mapping("docs")}},
    "/_alias": {"intranet-docs-1": {"aliases": {"intranet": {}, "intranet-docs": {}}}},
    TRIAL: {"result": "noop"},
    "/_count": {"count": 9, "_shards": {"failed": 0}},
    "/_stats/docs": {"_all": {"primaries": {"docs": {"count": 9}}}},
    DISK: [{"node": "n1", "disk.percent": "40"}, {"node": "n2", "disk.percent": None}],
}


class Reader:
    """Returns the body of a path as status 200, or a status."""

    def __init__(self, replies: dict[str, object]) -> None:
        self.appliance = parse_target("http://127.0.0.1:9200/intranet")
        self._replies = replies

    def request(
        self,
        path: str,
        _body: RequestBody | None = None,
        *,
        method: str = "GET",
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        name = path.partition("?")[0]
        assert method == ("POST" if name in (TRIAL, PAINLESS) else "GET")
        assert is_below_address is (name not in (DISK, PAINLESS, PIPELINE))
        reply = self._replies[name]
        if isinstance(reply, int):
            return ApplianceResponse(status=reply, body=b'{"error": "no permissions"}')
        return ApplianceResponse(status=200, body=json.dumps(reply).encode())

    def pause(self, _seconds: float) -> None: ...


def lines(changed: dict[str, object]) -> dict[str, CheckLine]:
    return {line.what: line for line in check(Reader({**RIGHT, **changed}))}


def test_an_index_that_is_right_has_no_finding() -> None:
    found = lines({})
    assert [*found] == ["alias", "scripts", "cluster disk"]
    assert {line.level.value for line in found.values()} == {"ok"}
    assert found["cluster disk"].found == "40 % of the disk of n1 is used"


def test_documents_that_the_user_does_not_find_are_a_finding() -> None:
    few = {"count": 5, "_shards": {"failed": 0}}
    assert lines({"/_count": few})["documents"].found == "the user finds 5 of 9 documents"
    assert "documents" not in lines({"/_count": few, "/_stats/docs": 403})


@pytest.mark.parametrize(
    ("changed", "name", "level"),
    [
        ({"/_mapping": {"i": {"mappings": {"dynamic": "true"}}}}, "index", "fail"),
        ({"/_mapping": 403}, "index", "fail"),
        ({"/_alias": {"intranet": {"aliases": {}}}}, "alias", "fail"),
        ({"/_alias": 403}, "alias", "fail"),
        ({TRIAL: 400}, "scripts", "fail"),
        ({TRIAL: 403}, "scripts", "fail"),
        ({TRIAL: 429}, "scripts", "ok"),
        ({"/_alias": {"intranet-docs-1": {"aliases": {"intranet": {}}}}}, "scripts", "warn"),
        ({"/_mapping": 404, PAINLESS: 400}, "scripts", "fail"),
        ({DISK: 403}, "cluster disk", "warn"),
        ({DISK: [{"node": "n1", "disk.percent": "88"}]}, "cluster disk", "warn"),
        ({DISK: [{"node": "n1", "disk.percent": "95"}]}, "cluster disk", "fail"),
    ],
)
def test_what_is_wrong_has_a_fix(changed: dict[str, object], name: str, level: str) -> None:
    line = lines(changed)[name]
    assert line.level.value == level
    assert line.cure or level == "ok"


@pytest.mark.parametrize(("reply", "level"), [({}, "ok"), (404, "fail"), (403, "warn")])
def test_the_pipeline_of_the_job_must_be_there(reply: object, level: str) -> None:
    reader = Reader({**RIGHT, PIPELINE: reply})
    reader.appliance = replace(reader.appliance, own=IndexOptions(pipeline="a/b"))
    line = next(iter(check(reader)))
    assert (line.what, line.level.value) == ("pipeline", level)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, b"{}", ("index", "warn", "there is no index yet")),
        (200, b'{"count": 1200}', ("index", "ok", "1,200 documents")),
    ],
)
def test_the_index_has_one_line(status: int, body: bytes, expected: tuple[str, str, str]) -> None:
    """The probe states that there is no index; the check has nothing to add."""
    line = OPENSEARCH_CLUSTER.judge_probe(ApplianceResponse(status=status, body=body))
    assert (line.what, line.level.value, line.found) == expected


def test_credentials_or_privileges_that_are_missing_have_one_line() -> None:
    assert lines({"/_mapping": 401}) == {}
    refused = ApplianceResponse(status=401, body=b"Unauthorized")
    assert OPENSEARCH_CLUSTER.judge_probe(refused) == CheckLine(
        Level.FAIL,
        "access",
        "401, 'Unauthorized'",
        "expected credentials that the cluster accepts: check ⟦auth⟧",
    )
    (line,) = lines({"/_mapping": 403}).values()
    assert (line.level, line.found) == (Level.FAIL, "403, no permissions")
    assert line.cure == (
        "the user of ⟦auth⟧ needs the privileges `read`, `write` and `manage` on the indexes"
    )


@pytest.mark.parametrize(("status", "names"), [(200, []), (403, []), (400, ["scripts"])])
def test_a_cluster_without_an_index_may_not_show_whether_it_runs_scripts(
    status: int, names: list[str]
) -> None:
    reply: object = status if status != 200 else {"result": "true"}
    assert [*lines({"/_mapping": 404, PAINLESS: reply})] == names
