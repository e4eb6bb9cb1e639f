"""The decisions of the documents of an index, as they are compared and narrowed before a run."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from feedferry.transforms.access.index_fields import AccessFields, field_names
from feedferry.transforms.formats.opensearch.bulk_writer import acl_lines
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.bulk_request import (
    bulk_path,
    numbered,
    version_before,
)
from feedferry.transforms.sinks.push.wire.opensearch.decision_lines import decisions_of
from feedferry.transforms.sinks.push.wire.opensearch.indexes import RunIndexes, own_indexes
from feedferry.transforms.sinks.push.wire.opensearch.mapping import alias_suffix
from feedferry.transforms.sinks.push.wire.opensearch.replies import (
    CountReply,
    DecisionReply,
    read_reply,
)
from feedferry.transforms.sinks.push.wire.opensearch.results import failure
from feedferry.transforms.sinks.push.wire.protocol import ComparedRun, RunSession
from feedferry.transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES
from feedferry.transforms.sinks.push.wire.search_index.json_request import json_body
from feedferry.transforms.sinks.push.wire.search_index.stored_decisions import stored_decision

_FILTER = "filter_path=hits.hits._id,hits.hits.fields,_shards.failed,timed_out"
_EXPECTED = "the decisions of documents"
_MISSING = 404


class PlannedDecisions:
    """The decisions of documents by datasource, as a `ComparedIndex`; nothing is refreshed."""

    exchanges_full_feeds: ClassVar[bool] = True

    def __init__(self, run: ComparedRun) -> None:
        self._run = run

    def decisions_of(self, lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        return decisions_of(lines)

    def is_faulty(self, datasource: str) -> bool:
        return any(index.fault for index in own_indexes(self._run, datasource).values())

    def count(self, datasource: str) -> int:
        response = self._run.request(f"{alias_suffix(datasource)}/_count")
        if response.status == _MISSING:
            return 0
        return read_reply(response, CountReply, _EXPECTED).count

    def held(self, datasource: str, ids: Sequence[str]) -> dict[str, bytes]:
        query = {
            "query": {"ids": {"values": ids}},
            "size": len(ids),
            "_source": False,
            "docvalue_fields": field_names(),
            "track_total_hits": False,
        }
        path = f"{alias_suffix(datasource)}/_search?{_FILTER}"
        response = self._run.request(path, json_body(query), method="POST")
        if len(response.body) >= MAX_RESPONSE_BYTES and len(ids) > 1:
            middle = len(ids) // 2
            halves = ids[:middle], ids[middle:]
            return {id: key for half in halves for id, key in self.held(datasource, half).items()}
        hits = read_reply(response, DecisionReply, _EXPECTED).hits.hits
        return {hit.id: stored_decision(hit.fields) for hit in hits}


class ClusterDecisions(PlannedDecisions):
    """The same as a `DecisionIndex`, for a run that has begun."""

    def __init__(self, session: RunSession, indexes: RunIndexes) -> None:
        super().__init__(session)
        self._session, self._indexes = session, indexes

    def count(self, datasource: str) -> int:
        refreshed = self._session.request(f"{alias_suffix(datasource)}/_refresh", method="POST")
        if refreshed.status == _MISSING:
            return 0
        if not refreshed.is_success:
            raise failure(refreshed, _EXPECTED)
        return super().count(datasource)

    def narrow(self, datasource: str, decisions: Sequence[tuple[str, AccessFields]]) -> None:
        version = version_before(self._indexes)
        actions = (numbered([acl_lines(id, fields)], version) for id, fields in decisions)
        data = b"".join(line for action in actions for line in action)
        body = RequestBody(content_type="application/x-ndjson", length=len(data), before=data)
        self._session.send(bulk_path(datasource, self._indexes), body)

    def show(self, datasource: str) -> None:
        self._session.send(f"{alias_suffix(datasource)}/_refresh", None)
