"""The groups of a job as an index, so that an application finds the groups of its users.

It has a document for each member of a group::

    {"user": "us:Default:bob", "groups": ["gs:Default:staff", "gi:Default:staff"]}

`user` is the token of the member, a user or a group. `groups` are the tokens of all its groups,
those of its groups included.

Changed groups are written to a new index, which replaces the old one in one request. The mapping of
an index has the digest of its groups, by which a run finds out whether they have changed, and the
name of its job: jobs with one index would replace each other's groups in turns.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Scope
from feedferry.schemas.errors import TargetError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.units import counted
from feedferry.transforms.access.index_fields import principal_of_token, token, tokens_of
from feedferry.transforms.access.user_groups import GroupGraph
from feedferry.transforms.sinks.push.model import ApplianceResponse, ResponseMeaning
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.index_options import IndexOptions
from feedferry.transforms.sinks.push.wire.opensearch.json_request import json_body
from feedferry.transforms.sinks.push.wire.opensearch.mapping import Owner, held_mappings
from feedferry.transforms.sinks.push.wire.opensearch.replies import (
    CountReply,
    SearchReply,
    read_reply,
)
from feedferry.transforms.sinks.push.wire.opensearch.results import (
    BULK_FILTER,
    check_index,
    failure,
    judge,
)
from feedferry.transforms.sinks.push.wire.protocol import (
    Appliance,
    ApplianceReader,
    RunSession,
)

_FORM = b"1"
"""Changes when the documents of the same groups change."""

_REQUEST_BYTES = 4 << 20
_MOST_TOKENS = 4096
_MISSING = 404
_EVERY_CASE = "gs:"
_EXPECTED = "an index of groups"


def takes_groups(appliance: Appliance) -> bool:
    """Whether groups are written to an index."""
    return appliance.of(IndexOptions).groups_index is not None


def check_groups_index(session: RunSession) -> None:
    """Raise TargetError, before a run sends anything, if the index has something else."""
    name = session.appliance.of(IndexOptions).groups_index
    if name is None:
        return
    if session.appliance.url.endswith(f"/{name}"):
        raise TargetError(
            f"target.groups_index: {name!r}, the name of the indexes of documents; expected another"
            " name"
        )
    _owners(session.request(f"/{name}/_mapping", is_below_address=False))


def write_groups(
    reader: ApplianceReader, memberships: Sequence[Membership] | None, job: str
) -> Iterator[str]:
    """Write the groups of a job where they have changed; yield notices.

    Without groups, the index is removed: requests of applications fail. Raise TargetError if the
    index has the groups of another job.
    """
    index = _GroupsIndex(reader, job)
    if memberships is None:
        index.replace_by(None)
        yield f"{index.name}: removed, so that no user is searched for without all groups"
        return
    digest = _digest(memberships)
    if index.held == digest:
        return
    graph = GroupGraph(memberships)
    count = index.write(graph, digest)
    cycles = index.groups_in_each_other
    yield f"{index.name}: {counted(count, 'member')} of groups"
    if cycles:
        yield f"{index.name}: {counted(cycles, 'group')} in groups that contain each other"


def find_groups(reader: ApplianceReader, members: Sequence[Member]) -> list[Member]:
    """Return the groups of users and groups; the address of the reader is that of the index.

    Raise ConfigError if there is no such index.
    """
    _owners(reader.request("/_mapping"))
    tokens = tokens_of(members)
    found: dict[str, None] = {}
    for first in range(0, len(tokens), _MOST_TOKENS):
        wanted = tokens[first : first + _MOST_TOKENS]
        query = {"size": len(wanted), "query": {"terms": {"user": wanted}}, "_source": ["groups"]}
        response = reader.request("/_search", json_body(query), method="POST")
        check_index(response, reader.appliance.url, "the address of target.groups_index")
        for hit in read_reply(response, SearchReply, _EXPECTED).hits.hits:
            found |= dict.fromkeys(msgspec.convert(hit.source["groups"], list[str]))
    principals = (
        principal_of_token(stated, Access.PERMIT)
        for stated in found
        if stated.startswith(_EVERY_CASE)
    )
    return [Member(name=of.name, scope=of.scope, namespace=of.namespace) for of in principals]


class _GroupsIndex:
    """The index of groups of a job; `held` is the digest of the groups in it."""

    def __init__(self, reader: ApplianceReader, job: str) -> None:
        self.name = reader.appliance.of(IndexOptions).groups_index or ""
        self.groups_in_each_other = 0
        self._reader = reader
        self._job = job
        response = self._request("GET", f"{self.name}/_mapping")
        owners = _owners(response)
        for other in {owner.job for owner in owners} - {job, None}:
            raise TargetError(
                f"{response.url}: groups of the job {other!r}; expected those of {job!r}: give"
                " another target.groups_index, or delete the index if that job has another name"
            )
        # An index without a job is written again.
        self.held = owners[0].groups if [owner.job for owner in owners] == [job] else None

    def write(self, graph: GroupGraph, digest: str) -> int:
        """Write the groups to a new index in place of the old one; return the number of members."""
        new = f"{self.name}{datetime.now(UTC).strftime('-%Y%m%d-%H%M%S%f')}"
        self._done("PUT", new, json_body({"mappings": _mapping(digest, self._job)}))
        count = 0
        for data, documents in _batches(self._documents(graph)):
            body = RequestBody(content_type="application/x-ndjson", length=len(data), before=data)
            _check_written(self._done("POST", f"{new}/_bulk?{BULK_FILTER}", body))
            count += documents
        self._done("POST", f"{new}/_refresh")
        reply = self._request("GET", f"{new}/_count")
        written = read_reply(reply, CountReply, "the number of members").count
        if written != count:
            raise TargetError(
                f"{reply.url}: {counted(written, 'member')}; expected {count:,}: try again"
            )
        self.replace_by(new)
        return count

    def replace_by(self, new: str | None) -> None:
        """Remove all indexes of groups but a new one, and give it the name, in one request."""
        response = self._done("GET", f"{self.name}-*/_alias")
        is_own = re.compile(re.escape(self.name) + "-[0-9]{8}-[0-9]{12}").fullmatch
        held = msgspec.json.decode(response.body, type=dict[str, object])
        actions: list[dict[str, dict[str, str]]] = [
            {"remove_index": {"index": name}} for name in held if is_own(name) and name != new
        ]
        if new is not None:
            actions.append({"add": {"index": new, "alias": self.name}})
        if actions:
            self._done("POST", "_aliases", json_body({"actions": actions}))

    def _documents(self, graph: GroupGraph) -> Iterator[bytes]:
        cycles = set[str]()
        for member, groups in graph.groups_of_members():
            user, tokens = token(member), tokens_of(groups)[1:]
            if member.scope is Scope.GROUP and user in tokens:
                cycles.add(token(replace(member, case_sensitive=False)))
            id = blake2b(user.encode(), digest_size=16).hexdigest()
            action = msgspec.json.encode({"index": {"_id": id}})
            yield action + b"\n" + msgspec.json.encode({"user": user, "groups": tokens}) + b"\n"
        self.groups_in_each_other = len(cycles)

    def _request(
        self, method: str, path: str, body: RequestBody | None = None
    ) -> ApplianceResponse:
        return self._reader.request(f"/{path}", body, method=method, is_below_address=False)

    def _done(self, method: str, path: str, body: RequestBody | None = None) -> ApplianceResponse:
        response = self._request(method, path, body)
        if not response.is_success:
            raise failure(response, _EXPECTED)
        return response


def _batches(documents: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the bodies of requests, with the number of documents in each."""
    batch: list[bytes] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document)
        if size >= _REQUEST_BYTES:
            yield b"".join(batch), len(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch), len(batch)


def _owners(response: ApplianceResponse) -> list[Owner]:
    """Return what the mappings of an index state about its groups; nothing without an index.

    Raise TargetError for an index of something else.
    """
    if response.status == _MISSING:
        return []
    if not response.is_success:
        raise failure(response, _EXPECTED)
    owners = [held.meta.feedferry for held in held_mappings(response.body).values()]
    if any(owner.groups is None for owner in owners):
        raise TargetError(
            f"{response.url}: an index that has no groups; expected another name, which no index"
            " of documents has"
        )
    return owners


def _check_written(response: ApplianceResponse) -> None:
    """Raise TargetError for a bulk of which not all actions were done."""
    verdict = judge(response, None)
    words = "" if verdict is None else verdict.message
    if verdict is not None and verdict.meaning is ResponseMeaning.ACCEPTED:
        if not verdict.refused:
            return
        words = verdict.refused[0].words
    raise TargetError(f"{response.url}: {words}; expected all members of groups to be written")


def _mapping(digest: str, job: str) -> dict[str, object]:
    """Return the mapping of an index; only members are searched."""
    keyword = {"type": "keyword"}
    return {
        "dynamic": "strict",
        "_meta": {"feedferry": {"groups": digest, "job": job}},
        "properties": {"user": keyword, "groups": keyword | {"index": False, "doc_values": False}},
    }


def _digest(memberships: Iterable[Membership]) -> str:
    found = blake2b(_FORM, digest_size=16)
    for membership in memberships:
        found.update(msgspec.msgpack.encode((membership.group, membership.members)))
    return found.hexdigest()
