"""Groups are written to a new index, and only a complete one replaces that before it."""

import json

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Scope
from feedferry.schemas.errors import ConfigError, TargetError
from feedferry.schemas.membership import Member, Membership
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.address import parse_target
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.groups_index import write_groups
from feedferry.transforms.sinks.push.wire.opensearch.index_options import IndexOptions

DONE = {"errors": False, "items": [{"index": {"status": 201, "result": "created"}}]}
REFUSED = {"type": "mapper_parsing_exception", "reason": "no"}


class Reader:
    """A server without indexes, which replies to a `_bulk` and to a `_count`."""

    def __init__(self, bulk: object, count: int) -> None:
        options = IndexOptions(groups_index="groups")
        self.appliance = replace(parse_target("http://127.0.0.1:9200/docs"), own=options)
        self.requests: list[tuple[str, str]] = []
        self.documents: list[dict[str, object]] = []
        self.held: dict[str, str] | None = None
        self._replies = {"_bulk": bulk, "_count": {"count": count}}

    def request(
        self,
        path: str,
        body: RequestBody | None = None,
        *,
        method: str = "GET",
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        assert not is_below_address
        name = path.partition("?")[0].rpartition("/")[2]
        self.requests.append((method, name if name.startswith("_") else "new"))
        if name == "_mapping":
            held = {"groups-1": {"mappings": {"_meta": {"feedferry": self.held}}}}
            body_of_index = json.dumps(held).encode()
            return ApplianceResponse(status=200 if self.held else 404, body=body_of_index, url="u")
        if name == "_bulk" and body is not None:
            self.documents = [json.loads(line) for line in body.before.splitlines()[1::2]]
        return ApplianceResponse(
            status=200, body=json.dumps(self._replies.get(name, {})).encode(), url="u"
        )

    def pause(self, _seconds: float) -> None: ...


def user(name: str) -> Member:
    return Member(name=name, scope=Scope.USER)


STAFF = Member(name="staff", scope=Scope.GROUP)
GROUPS = [Membership(group=STAFF, members=(replace(user("Bob"), case_sensitive=False), STAFF))]
WRITING = [
    ("GET", "_mapping"),
    ("PUT", "new"),
    ("POST", "_bulk"),
    ("POST", "_refresh"),
    ("GET", "_count"),
    ("GET", "_alias"),
    ("POST", "_aliases"),
]


def test_each_member_is_a_document_with_the_tokens_of_its_groups() -> None:
    reader = Reader(DONE, count=2)
    notices = [*write_groups(reader, GROUPS, "nights")]
    assert reader.requests == WRITING
    tokens = ["gs:Default:staff", "gi:Default:staff"]
    assert reader.documents == [
        {"user": "gs:Default:staff", "groups": tokens},
        {"user": "ui:Default:bob", "groups": tokens},
    ]
    assert notices == [
        "groups: 2 members of groups",
        "groups: 1 group in groups that contain each other",
    ]


@pytest.mark.parametrize(
    ("bulk", "count", "words"),
    [
        ({"errors": True, "items": [{"index": {"status": 400, "error": REFUSED}}]}, 2, "no; exp"),
        ({"errors": True, "items": [{"index": {"status": 429, "error": REFUSED}}]}, 2, "all mem"),
        (DONE, 1, "u: 1 member; expected 2: try again"),
    ],
)
def test_an_incomplete_index_is_not_searched(bulk: object, count: int, words: str) -> None:
    reader = Reader(bulk, count)
    with pytest.raises(TargetError, match=words):
        [*write_groups(reader, GROUPS, "nights")]
    assert ("POST", "_aliases") not in reader.requests


def test_an_index_of_another_job_is_kept_and_one_without_a_job_is_replaced() -> None:
    reader = Reader(DONE, count=2)
    reader.held = {"groups": "digest", "job": "others"}
    for groups in (GROUPS, None):
        with pytest.raises(TargetError, match="u: groups of the job 'others'; expected those of"):
            [*write_groups(reader, groups, "nights")]
    assert reader.requests == [("GET", "_mapping")] * 2
    reader.held = {"groups": "digest"}
    notices = [*write_groups(reader, GROUPS, "nights")]
    assert notices[0] == "groups: 2 members of groups"


@pytest.mark.parametrize("name", ["Groups", "-g", "g*", ""])
def test_the_index_of_groups_has_a_name_of_an_index(name: str) -> None:
    with pytest.raises(ConfigError, match="expected letters in lower case"):
        IndexOptions(groups_index=name)
