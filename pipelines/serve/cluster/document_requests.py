"""Requests about documents: changes, counts and searches."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Literal

import msgspec

from feedferry.pipelines.serve.cluster.bulk_actions import BulkActions
from feedferry.pipelines.serve.cluster.cluster_documents import (
    ORDER_COLUMNS,
    DocumentFields,
    FoundDocument,
    SortValue,
)
from feedferry.pipelines.serve.cluster.cluster_error import bad_argument, not_played
from feedferry.pipelines.serve.cluster.cluster_indexes import ClusterIndex
from feedferry.pipelines.serve.cluster.cluster_request import (
    ClusterRequest,
    Handlers,
    stream_reply,
)
from feedferry.pipelines.serve.cluster.cluster_store import ClusterStore
from feedferry.pipelines.serve.cluster.search_query import Decides, parse_query
from feedferry.transforms.access.index_fields import field_names

_ACCESS = frozenset(field_names())
_WINDOW = 10_000
_decode = msgspec.json.Decoder(DocumentFields).decode


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    order: str = "asc"
    missing: str = "_last"


_SortPart = str | dict[str, str | _Order]


class _CountBody(msgspec.Struct, forbid_unknown_fields=True):
    query: dict[str, object] = msgspec.field(default_factory=lambda: {"match_all": {}})


class _SearchBody(_CountBody, forbid_unknown_fields=True):
    size: int = 10
    sort: _SortPart | list[_SortPart] = []
    search_after: list[SortValue] = []
    source: bool | str | list[str] = msgspec.field(default=True, name="_source")
    docvalue_fields: list[str] = []
    track_total_hits: bool | int = True


class _TrialScript(msgspec.Struct, forbid_unknown_fields=True):
    source: Literal["ctx.op = 'none'"]
    lang: str = "painless"


class _Trial(msgspec.Struct, forbid_unknown_fields=True):
    """An update that changes nothing, by which a push finds out whether scripts are run."""

    script: _TrialScript
    upsert: DocumentFields
    scripted_upsert: Literal[True]


class DocumentRequests:
    """Answers the requests about documents, in a transaction of the store."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self.handlers: Handlers = {
            ("POST", "_bulk"): self._bulk,
            ("PUT", "_bulk"): self._bulk,
            ("POST", "_update"): self._try_update,
            ("GET", "_refresh"): self._refresh,
            ("POST", "_refresh"): self._refresh,
            ("GET", "_count"): self._count,
            ("POST", "_count"): self._count,
            ("GET", "_search"): self._search,
            ("POST", "_search"): self._search,
        }

    def _bulk(self, request: ClusterRequest) -> object:
        begun = time.monotonic()
        actions = BulkActions(
            self._store,
            requires_alias=_requires_alias(request),
            faults=request.faults,
        )
        has_errors = False

        def items() -> Iterator[object]:
            nonlocal has_errors
            for item in actions.results(request.stream, request.name):
                has_errors = has_errors or any("error" in result for result in item.values())
                yield item

        def frame() -> dict[str, object]:
            return {"took": _milliseconds(begun), "errors": has_errors}

        return stream_reply(frame, ("items",), items(), request.paths)

    def _try_update(self, request: ClusterRequest) -> object:
        request.read(_Trial)
        requires_alias = _requires_alias(request)
        index = self._store.indexes.written_to(request.name, requires_alias=requires_alias)
        return {
            "_index": index.name,
            "_id": request.below,
            "_version": -1,
            "result": "noop",
            "_shards": {"total": 0, "successful": 0, "failed": 0},
            "get": {"found": False},
        }

    def _refresh(self, request: ClusterRequest) -> object:
        count = len(self._store.indexes.named(request.names))
        return {"_shards": {"total": 2 * count, "successful": count, "failed": 0}}

    def _count(self, request: ClusterRequest) -> object:
        indexes = self._store.indexes.named(request.names)
        decides = _decision(request.read(_CountBody), indexes)
        return {"count": self._count_found(indexes, decides), "_shards": _shards(indexes)}

    def _search(self, request: ClusterRequest) -> object:
        """Write hits to a file as they are found."""
        begun = time.monotonic()
        indexes, wanted = self._store.indexes.named(request.names), request.read(_SearchBody)
        decides = _decision(wanted, indexes)
        if wanted.size > _WINDOW:
            raise bad_argument(
                "Result window is too large, from + size must be less than or equal to:"
                f" [{_WINDOW}] but was [{wanted.size}]."
            )
        order, after = _order_of(wanted.sort), wanted.search_after
        if after and len(after) != len(order):
            raise bad_argument(f"search_after has {len(after)} value(s) but sort has {len(order)}.")
        hits: dict[str, object] = {"max_score": None}
        if wanted.track_total_hits is not False:
            total = {"value": self._count_found(indexes, decides), "relation": "eq"}
            hits = {"total": total, **hits}
        names, ids = [index.name for index in indexes], _ids_of(wanted.query)
        if ids is None:
            listed = self._store.documents.listed(names, order, after)
        else:
            listed = self._store.documents.of_ids(names, ids, order, after)
        found = (
            _hit(document, wanted)
            for document in listed
            if decides is None or decides(_fields_of(document))
        )

        def frame() -> dict[str, object]:
            took = _milliseconds(begun)
            return {"took": took, "timed_out": False, "_shards": _shards(indexes), "hits": hits}

        return stream_reply(frame, ("hits", "hits"), islice(found, wanted.size), request.paths)

    def _count_found(self, indexes: list[ClusterIndex], decides: Decides | None) -> int:
        documents, names = self._store.documents, [index.name for index in indexes]
        if decides is None:
            return documents.count(names)
        return sum(decides(_fields_of(document)) for document in documents.listed(names))


def _requires_alias(request: ClusterRequest) -> bool:
    return request.query.get("require_alias", ["false"])[0] in ("true", "")


def _fields_of(document: FoundDocument) -> DocumentFields:
    return {"_id": document.id, **_decode(document.source)}


def _decision(wanted: _CountBody, indexes: list[ClusterIndex]) -> Decides | None:
    """Return the decision of a query, None if it finds all documents."""
    decides = parse_query(wanted.query, indexes[0].fields if indexes else {})
    return None if "match_all" in wanted.query else decides


def _order_of(sort: _SortPart | list[_SortPart]) -> list[str]:
    """Return the fields of an order; raise ClusterError for another one."""
    fields = []
    for part in sort if isinstance(sort, list) else [sort]:
        for field, stated in (part if isinstance(part, dict) else {part: "asc"}).items():
            how = stated if isinstance(stated, _Order) else _Order(order=stated)
            is_first = field != "version" or how.missing == "_first"
            if field not in ORDER_COLUMNS or how.order != "asc" or not is_first:
                known = "version, missing first, url or datasource, ascending"
                raise not_played(f"the order {field!r}", known)
            fields.append(field)
    return fields


def _ids_of(query: dict[str, object]) -> list[str] | None:
    """Return the ids of a query that finds no other documents, None for another query."""
    found = query.get("ids")
    ids = found.get("values") if isinstance(found, dict) else None
    return [str(id) for id in ids] if isinstance(ids, list) else None


def _hit(found: FoundDocument, search: _SearchBody) -> dict[str, object]:
    score, wanted = None if found.sort else 1.0, search.source
    hit: dict[str, object] = {"_index": found.index, "_id": found.id, "_score": score}
    if wanted is True:
        hit["_source"] = _decode(found.source)
    elif wanted is not False:
        fields = [wanted] if isinstance(wanted, str) else wanted
        if any("*" in field for field in fields):
            raise not_played(f"_source {wanted!r}", "true, false or names of fields")
        document = _decode(found.source)
        hit["_source"] = {field: document[field] for field in fields if field in document}
    if search.docvalue_fields and (values := _doc_values(found, search.docvalue_fields)):
        hit["fields"] = values
    if found.sort:
        hit["sort"] = found.sort
    return hit


def _doc_values(found: FoundDocument, names: list[str]) -> dict[str, list[str]]:
    """Return the values of fields as an index has them: sorted, each once."""
    document = _decode(found.source)
    values = {}
    for name in names:
        if name not in _ACCESS:
            raise not_played(f"the doc values of {name!r}", "fields of a decision")
        stated = document.get(name)
        if texts := stated if isinstance(stated, list) else [stated] * (stated is not None):
            values[name] = sorted({str(text) for text in texts})
    return values


def _shards(indexes: list[ClusterIndex]) -> dict[str, int]:
    count = len(indexes)
    return {"total": count, "successful": count, "skipped": 0, "failed": 0}


def _milliseconds(begun: float) -> int:
    return int((time.monotonic() - begun) * 1000)
