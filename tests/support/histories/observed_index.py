"""A search server that is observed: after each request that changes it, all log-ins search it."""

import gzip
import io
import json
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from feedferry import access
from feedferry.pipelines.serve.cluster.bulk_actions import ItemFaults
from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from feedferry.schemas.acl import Scope
from feedferry.schemas.membership import Member
from feedferry.testing import ScriptedReply, ScriptedRequest
from support.cluster_requests import NO_FAULTS
from support.histories.changes import HOST, Fault, Night, applied, repeated
from support.histories.source_state import Key, Login, Pair, SourceState

INDEX = "intranet"
GROUPS_INDEX = f"{INDEX}-groups"
_MOST_HITS = 500
_UNAVAILABLE = ScriptedReply(503, b'{"error":{"type":"fault"},"status":503}', "application/json")
_REFRESHING = ("/_refresh", "/_aliases")
_CHANGES = ("/_bulk", *_REFRESHING)


class Backend(Protocol):
    """Returns the status and the body of the reply to a request."""

    def __call__(
        self, method: str, path: str, body: bytes, faults: ItemFaults = NO_FAULTS
    ) -> tuple[int, bytes]: ...


class Finding(NamedTuple):
    """What is wrong after a request."""

    text: str
    pairs: tuple[Pair, ...]
    request: str


def stand_in(cluster: RehearsalCluster) -> Backend:
    """Return a backend without a server."""

    def answer(
        method: str, path: str, body: bytes, faults: ItemFaults = NO_FAULTS
    ) -> tuple[int, bytes]:
        path, _, query = path.partition("?")
        reply = cluster.answer(method, path, query, io.BytesIO(body), faults)
        if isinstance(reply.body, bytes):
            return reply.status, reply.body
        reply.body.seek(0)
        with reply.body:
            return reply.status, reply.body.read()

    return answer


class ObservedIndex:
    """Answers the requests of a push, with the faults of a night.

    If it `is_strict`, nothing becomes visible in a night before all that is to be hidden is hidden,
    and no document is shown as an older record of the same run states it.
    """

    def __init__(self, backend: Backend, *, is_strict: bool) -> None:
        self._backend = backend
        self._is_strict = is_strict
        self._logins: dict[str, Login] = {}
        self._bodies: dict[str, bytes] | None = None
        self._faults: list[Fault] = []
        self._late: list[tuple[int, ScriptedRequest]] = []
        self._allowed: set[Pair] = set()
        self._narrowed: set[Pair] = set()
        self._refreshed: set[Pair] = set()
        self._start: set[Pair] = set()
        self._bulks = 0
        self.requests = 0
        self.searches = 0
        self.findings: list[Finding] = []

    def begin(self, before: SourceState, night: Night) -> None:
        """Begin a night; the rights of log-ins are already those after it."""
        after = applied(before, night)
        self._logins, self._bodies = after.logins, None
        self._allowed = replace(before, logins=after.logins).permitted()
        self._start = self._refreshed = self.visible()
        self._faults, self._bulks = [*night.faults], 0
        self.allow(before, night, after)

    def allow(self, before: SourceState, night: Night, after: SourceState) -> None:
        """Allow the state after a night, and those that its feeds have on their way there."""
        permitted = after.permitted() | after.permitted(groups_of=before)  # replaced at the end
        self._allowed |= permitted
        for put in () if self._is_strict else repeated(before, night):
            between = after.with_item(put.key, before.items[put.key])
            self._allowed |= between.permitted() | between.permitted(groups_of=before)
        self._narrowed = {pair for pair in self._start - permitted if pair[1][0] not in night.full}

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        body = request.body
        if body[:2] == b"\x1f\x8b":
            request = request._replace(body=gzip.decompress(body))
        self._do_late()
        if "/_bulk" not in request.path:
            return self._pass_on(request)
        at, self._bulks = self._bulks, self._bulks + 1
        fault = next((fault for fault in self._faults if fault.at == at), None)
        if fault is None:
            return self._pass_on(request)
        self._faults.remove(fault)
        return self._with_fault(request, fault)

    def visible(self) -> set[Pair]:
        """Return who finds which documents."""
        found = set[Pair]()
        if self._bodies is None:
            self._bodies = self._with_groups()
        for name, body in self._bodies.items():
            path = f"/{INDEX}/_search?ignore_unavailable=true"
            status, data = self._backend("POST", path, body)
            self.searches += 1
            if status != 404:
                assert status == 200, data
                hits = json.loads(data)["hits"]["hits"]
                found.update((name, _key(hit["_source"])) for hit in hits)
        return found

    def _with_groups(self) -> dict[str, bytes]:
        """Return the searches of log-ins with their groups; without an index of groups, none."""
        bodies = {}
        for name, login in self._logins.items():
            tokens = _tokens(login)
            body = {"query": {"terms": {"user": tokens}}, "size": _MOST_HITS}
            path = f"/{GROUPS_INDEX}/_search"
            status, data = self._backend("POST", path, json.dumps(body).encode())
            self.searches += 1
            if status != 404:
                assert status == 200, data
                hits = json.loads(data)["hits"]["hits"]
                tokens += [token for hit in hits for token in hit["_source"]["groups"]]
                bodies[name] = _search(tokens)
        return bodies

    def end(self) -> None:
        """Do the requests that are late."""
        while self._late:
            self._do_late()

    def _with_fault(self, request: ScriptedRequest, fault: Fault) -> ScriptedReply:
        if fault.kind == "refuse":
            lines = (line for line in request.body.splitlines() if line.startswith(b'{"index"'))
            ids = [json.loads(line)["index"]["_id"] for line in lines]
            refused = frozenset(ids[fault.number % len(ids) :][:1]) if ids else frozenset[str]()
            return self._pass_on(request, ItemFaults(refused_ids=refused))
        if fault.kind == "throttle":
            return self._pass_on(request, ItemFaults(is_throttled=True))
        if fault.kind == "lost-reply":
            self._pass_on(request)
        elif fault.kind == "late":
            self._late.append((fault.number, request))
        return _UNAVAILABLE

    def _do_late(self) -> None:
        due = [request for left, request in self._late if left == 0]
        self._late = [(left - 1, request) for left, request in self._late if left]
        for request in due:
            self._pass_on(request)

    def _pass_on(self, request: ScriptedRequest, faults: ItemFaults = NO_FAULTS) -> ScriptedReply:
        status, body = self._backend(request.method, request.path, request.body, faults)
        is_change = request.method == "DELETE" or any(name in request.path for name in _CHANGES)
        if is_change:
            if GROUPS_INDEX in request.path or "/_aliases" in request.path:
                self._bodies = None
            self._check(request)
        return ScriptedReply(status, body, "application/json")

    def _check(self, request: ScriptedRequest) -> None:
        self.requests += 1
        seen = self.visible()
        where = f"{request.method} {request.path.partition('?')[0]}"
        if wrong := seen - self._allowed:
            text = "found, but permitted neither before the night nor after it"
            self.findings.append(Finding(text, tuple(sorted(wrong)), where))
        if any(words in request.path for words in _REFRESHING):
            self._refreshed = seen
        late, wider = self._refreshed & self._narrowed, (seen - self._start) & self._allowed
        if self._is_strict and late and wider:
            names = ", ".join(map(str, sorted(late)))
            text = f"found although this is still found: {names}"
            self.findings.append(Finding(text, tuple(sorted(wider)), where))


def _tokens(login: Login) -> list[str]:
    """Return the tokens of a log-in, without the groups of groups feeds."""
    names, groups = (
        [Member(name=name, scope=scope, namespace=namespace) for namespace, name in sorted(held)]
        for scope, held in ((Scope.USER, login.names), (Scope.GROUP, login.groups))
    )
    return [*access.tokens_of([*names, *groups])]


def _search(tokens: list[str]) -> bytes:
    """Return the body of a search of an application for a user."""
    query = {"bool": {"filter": access.search_filter(tokens)}}
    fields = ["url", "datasource"]
    return json.dumps({"query": query, "size": _MOST_HITS, "_source": fields}).encode()


def _key(source: Mapping[str, str]) -> Key:
    return source["datasource"], source["url"].removeprefix(HOST)
