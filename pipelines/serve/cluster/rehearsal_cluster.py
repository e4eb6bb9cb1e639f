"""Answers the requests of a cluster that the appliance `opensearch` sends, and some for a search.

A request that is not played has the status 501 and an error that states what is played.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any
from urllib.parse import parse_qs, unquote

import msgspec

from feedferry.pipelines.serve.cluster.bulk_actions import BulkAction, BulkActions
from feedferry.pipelines.serve.cluster.cluster_error import (
    ClusterError,
    bad_argument,
    invalid,
    no_alias,
    no_index,
    not_played,
)
from feedferry.pipelines.serve.cluster.cluster_store import ClusterStore
from feedferry.pipelines.serve.cluster.filter_path import Paths, keep, parse_paths
from feedferry.pipelines.serve.cluster.search_query import Decides, parse_query
from feedferry.pipelines.serve.cluster.strict_mapping import check_mapping

MAX_BODY_BYTES = 100 << 20
"""A real server closes the connection or answers 413 above this size."""

_MAX_OBJECT_BYTES = 16 << 20
_MEMORY_BYTES = 1 << 20
_WINDOW = 10_000
_ACKNOWLEDGED = {"acknowledged": True}
_SETTINGS = ("refresh_interval", "number_of_replicas", "number_of_shards")
_SEARCH_KEYS = ("query", "size", "sort", "search_after", "_source", "track_total_hits")
_ORDER_COLUMNS = {"version": "rank", "url": "url"}
_INDEX_NAME = re.compile(r"[^_+\-\\/*?\"<>| ,#:][^\\/*?\"<>| ,#:]*")
_PATH = re.compile(r"/(?:(?P<name>[^_/][^/]*)(?:/|$))?(?P<verb>_[a-z_]+)?(?:/(?P<below>[^/]+))?")


class ItemFaults(msgspec.Struct, frozen=True, kw_only=True):
    """The faults of a scenario in the results of a `_bulk` request.

    Documents of `refused_ids` are refused; an update that hides one is done.
    """

    refused_ids: frozenset[str] = frozenset()
    is_throttled: bool = False
    is_full: bool = False

    def error_of(self, action: BulkAction, index: str) -> ClusterError | None:
        if self.is_full:
            reason = (
                f"index [{index}] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage"
                " watermark, index has read-only-allow-delete block];"
            )
            return ClusterError(429, "cluster_block_exception", reason)
        if self.is_throttled:
            reason = "rejected execution of coordinating operation: a fault of the scenario"
            return ClusterError(429, "rejected_execution_exception", reason)
        if action.kind in ("index", "create") and action.id in self.refused_ids:
            reason = "failed to parse: a fault of the scenario"
            return ClusterError(400, "mapper_parsing_exception", reason)
        return None


class ClusterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request; `below` follows the verb in its path, as the name of an alias."""

    name: str
    below: str
    query: dict[str, list[str]]
    stream: IO[bytes]
    faults: ItemFaults

    @property
    def paths(self) -> Paths:
        return parse_paths(",".join(self.query.get("filter_path", [])))

    def read_object(self) -> dict[str, Any]:
        """Return the body, {} if there is none; raise ClusterError unless it is an object."""
        data = self.stream.read(_MAX_OBJECT_BYTES + 1)
        if len(data) > _MAX_OBJECT_BYTES:
            raise not_played(f"a body of more than {_MAX_OBJECT_BYTES} bytes", "a smaller one")
        try:
            return msgspec.json.decode(data, type=dict[str, Any]) if data.strip() else {}
        except msgspec.MsgspecError as exc:
            raise ClusterError(400, "json_parse_exception", str(exc)) from exc


class ClusterReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply in JSON; a stream is sent from its start, and closed."""

    status: int = 200
    body: bytes | IO[bytes] = b""


class RehearsalCluster:
    """The cluster of a receiver; safe from several threads."""

    def __init__(self, folder: Path) -> None:
        self._store = ClusterStore(folder)
        self._verbs: dict[tuple[str, str], Callable[[ClusterRequest], object]] = {
            ("PUT", ""): self._make_index,
            ("DELETE", ""): self._remove_indexes,
            ("HEAD", ""): self._find,
            ("GET", "_alias"): self._aliases_of,
            ("HEAD", "_alias"): self._aliases_of,
            ("GET", "_mapping"): self._mappings,
            ("HEAD", "_mapping"): self._mappings,
            ("GET", "_settings"): self._settings,
            ("PUT", "_settings"): self._set_settings,
            ("POST", "_aliases"): self._change_aliases,
            ("POST", "_update"): self._try_update,
            ("POST", "_bulk"): self._bulk,
            ("PUT", "_bulk"): self._bulk,
            ("GET", "_refresh"): self._refresh,
            ("POST", "_refresh"): self._refresh,
            ("GET", "_count"): self._count,
            ("POST", "_count"): self._count,
            ("GET", "_search"): self._search,
            ("POST", "_search"): self._search,
        }

    def plays(self, method: str, path: str) -> bool:
        """Whether a path is one of a cluster; that of an index alone is with some methods only."""
        match = _PATH.fullmatch(path)
        return match is not None and (bool(match["verb"]) or (method, "") in self._verbs)

    def answer(
        self, method: str, path: str, query: str, stream: IO[bytes], faults: ItemFaults
    ) -> ClusterReply:
        """Answer a request, whose body is in a file."""
        match = _PATH.fullmatch(path)
        if match is None:
            raise AssertionError(f"{path}: answered without `plays`")
        verb = match["verb"] or ""
        request = ClusterRequest(
            name=unquote(match["name"] or ""),
            below=unquote(match["below"] or ""),
            query=parse_qs(query, keep_blank_values=True),
            stream=stream,
            faults=faults,
        )
        try:
            with self._store.transaction():
                found = self._verb(method, verb, path)(request)
        except ClusterError as exc:
            return ClusterReply(status=exc.status, body=msgspec.json.encode(exc.body))
        if isinstance(found, ClusterReply):
            return found
        return ClusterReply(body=msgspec.json.encode(keep(found, request.paths)))

    def totals(self) -> list[tuple[str, int]]:
        """Return the name of each index and the number of its documents."""
        return self._store.totals()

    def close(self) -> None:
        self._store.close()

    def _verb(self, method: str, verb: str, path: str) -> Callable[[ClusterRequest], object]:
        found = self._verbs.get((method, verb))
        if found is not None:
            return found
        known = sorted({name for name in (verb for _, verb in self._verbs) if name})
        allowed = sorted(method for method, name in self._verbs if name == verb)
        expected = f"{', '.join(allowed)}" if allowed else ", ".join(known)
        raise not_played(f"{method} {path}", expected)

    def _make_index(self, request: ClusterRequest) -> object:
        name, wanted = request.name, request.read_object()
        self._check_name(name)
        mapping = wanted.get("mappings", {})
        check_mapping(mapping)
        self._store.make_index(name, mapping, _settings_of(wanted.get("settings", {})))
        for alias in wanted.get("aliases", {}):
            self._add_alias(name, alias)
        return _ACKNOWLEDGED | {"shards_acknowledged": True, "index": name}

    def _check_name(self, name: str) -> None:
        if (held := self._store.index(name)) is not None:
            raise ClusterError(
                400,
                "resource_already_exists_exception",
                f"index [{name}/{held.uuid}] already exists",
                index=name,
                index_uuid=held.uuid,
            )
        reason = ""
        if self._store.is_alias(name):
            reason = "already exists as alias"
        elif name != name.lower():
            reason = "must be lowercase"
        elif not _INDEX_NAME.fullmatch(name):
            reason = 'must not contain the following characters [ , ", *, \\, <, |, ,, >, /, ?]'
        if reason:
            kind = "invalid_index_name_exception"
            words = f"Invalid index name [{name}], {reason}"
            raise ClusterError(400, kind, words, index=name, index_uuid="_na_")

    def _remove_indexes(self, request: ClusterRequest) -> object:
        if "*" in request.name or request.name == "_all":
            raise not_played("the removal of several indexes by a pattern", "names of indexes")
        for name in request.name.split(","):
            if self._store.index(name) is None and self._store.is_alias(name):
                raise bad_argument(
                    f"The provided expression [{name}] matches an alias, specify the corresponding"
                    " concrete indices instead."
                )
            for index in self._store.named(name):
                self._store.remove_index(index)
        return _ACKNOWLEDGED

    def _find(self, request: ClusterRequest) -> object:
        self._store.named(request.name)
        return ClusterReply()

    def _aliases_of(self, request: ClusterRequest) -> object:
        names = self._store.named(request.name or "_all")
        held = {name: self._store.aliases_of(name) for name in names}
        if request.below:
            held = {name: [request.below] for name in held if request.below in held[name]}
            if not held:
                body = {"error": f"alias [{request.below}] missing", "status": 404}
                return ClusterReply(status=404, body=msgspec.json.encode(body))
        return {
            name: {"aliases": {alias: {} for alias in aliases}} for name, aliases in held.items()
        }

    def _mappings(self, request: ClusterRequest) -> object:
        names = self._store.named(request.name or "_all")
        found = ((name, self._store.index(name)) for name in names)
        return {name: {"mappings": index.mapping} for name, index in found if index is not None}

    def _settings(self, request: ClusterRequest) -> object:
        names = self._store.named(request.name or "_all")
        found = ((name, self._store.index(name)) for name in names)
        return {
            name: {"settings": {"index": index.settings}}
            for name, index in found
            if index is not None
        }

    def _set_settings(self, request: ClusterRequest) -> object:
        wanted = request.read_object()
        if not wanted.get("index", wanted):
            raise invalid("no settings to update")
        for name in self._store.named(request.name):
            index = self._store.index(name)
            held = index.settings if index is not None else {}
            self._store.set_settings(name, _settings_of(wanted, held))
        return _ACKNOWLEDGED

    def _change_aliases(self, request: ClusterRequest) -> object:
        """Do all actions, or none."""
        actions = request.read_object().get("actions", [])
        if not actions:
            raise bad_argument("No action specified")
        removed = [
            action["remove_index"]["index"] for action in actions if "remove_index" in action
        ]
        for action in actions:
            for kind, stated in action.items():
                if kind == "add":
                    for name in self._store.named(stated["index"]):
                        self._add_alias(name, stated["alias"], going=removed)
                elif kind == "remove":
                    self._remove_alias(stated)
                elif kind == "remove_index":
                    if self._store.index(stated["index"]) is None:
                        raise no_index(stated["index"])
                else:
                    raise not_played(f"the action {kind!r}", "add, remove or remove_index")
        for name in removed:
            self._store.remove_index(name)
        return _ACKNOWLEDGED

    def _remove_alias(self, stated: dict[str, str]) -> None:
        alias = stated["alias"]
        for name in self._store.named(stated["index"]):
            if not self._store.remove_alias(name, alias) and stated.get("must_exist"):
                raise ClusterError(
                    404,
                    "aliases_not_found_exception",
                    f"aliases [{alias}] missing",
                    **{"resource.id": alias, "resource.type": "aliases"},
                )

    def _add_alias(self, name: str, alias: str, going: Iterable[str] = ()) -> None:
        held = self._store.index(alias)
        if held is not None and alias not in going:
            raise ClusterError(
                400,
                "invalid_alias_name_exception",
                f"Invalid alias name [{alias}], an index exists with the same name as the alias",
                index=alias,
                index_uuid=held.uuid,
            )
        self._store.add_alias(name, alias)

    def _try_update(self, request: ClusterRequest) -> object:
        """Answer the trial of a push, by an update that changes nothing."""
        wanted = request.read_object()
        if wanted.get("script", {}).get("source") != "ctx.op = 'none'":
            raise not_played("an update of one document", "the trial of a push, or _bulk")
        if not self._store.is_alias(request.name):
            raise no_alias(request.name)
        (name,) = self._store.named(request.name)
        return {
            "_index": name,
            "_id": request.below,
            "_version": -1,
            "result": "noop",
            "_shards": {"total": 0, "successful": 0, "failed": 0},
            "get": {"found": False},
        }

    def _bulk(self, request: ClusterRequest) -> object:
        begun, paths = time.monotonic(), request.paths
        actions = BulkActions(
            self._store,
            requires_alias=request.query.get("require_alias", ["false"])[0] in ("true", ""),
            fault=request.faults.error_of,
        )
        has_errors = False

        def items() -> Iterator[object]:
            nonlocal has_errors
            for item in actions.results(request.stream, request.name):
                has_errors = has_errors or any("error" in result for result in item.values())
                yield item

        def frame() -> dict[str, Any]:
            return {"took": int((time.monotonic() - begun) * 1000), "errors": has_errors}

        return _stream(frame, ("items",), items(), paths)

    def _refresh(self, request: ClusterRequest) -> object:
        count = len(self._store.named(request.name or "_all"))
        return {"_shards": {"total": 2 * count, "successful": count, "failed": 0}}

    def _count(self, request: ClusterRequest) -> object:
        names, wanted = self._store.named(request.name or "_all"), request.read_object()
        for key in wanted:
            if key != "query":
                raise not_played(f"{key!r} of a count", "query")
        return {
            "count": self._count_found(names, self._query(names, wanted)),
            "_shards": _shards(len(names)),
        }

    def _search(self, request: ClusterRequest) -> object:
        """Write hits to a file as they are found."""
        begun = time.monotonic()
        names, wanted = self._store.named(request.name or "_all"), request.read_object()
        for key in wanted:
            if key not in _SEARCH_KEYS:
                raise not_played(f"{key!r} of a search", ", ".join(_SEARCH_KEYS))
        decides, size = self._query(names, wanted), int(wanted.get("size", 10))
        if size > _WINDOW:
            raise bad_argument(
                "Result window is too large, from + size must be less than or equal to:"
                f" [{_WINDOW}] but was [{size}]."
            )
        order, after = _order_of(wanted.get("sort", [])), wanted.get("search_after", [])
        if after and len(after) != len(order):
            raise bad_argument(f"search_after has {len(after)} value(s) but sort has {len(order)}.")
        hits: dict[str, Any] = {"max_score": None}
        if wanted.get("track_total_hits", True) is not False:
            total = {"value": self._count_found(names, decides), "relation": "eq"}
            hits = {"total": total, **hits}
        rows = self._store.documents(names, order, after)
        found = (
            _hit(row, order, wanted.get("_source", True))
            for row in rows
            if decides is None or decides(msgspec.json.decode(row[3]))
        )

        def frame() -> dict[str, Any]:
            took = int((time.monotonic() - begun) * 1000)
            shards = _shards(len(names))
            return {"took": took, "timed_out": False, "_shards": shards, "hits": hits}

        return _stream(frame, ("hits", "hits"), islice(found, size), request.paths)

    def _query(self, names: list[str], wanted: dict[str, Any]) -> Decides | None:
        """Return the decision of a query, None if it finds all documents."""
        query = wanted.get("query", {"match_all": {}})
        index = self._store.index(names[0]) if names else None
        properties = index.mapping.get("properties", {}) if index is not None else {}
        decides = parse_query(query, properties)
        return None if "match_all" in query else decides

    def _count_found(self, names: list[str], decides: Decides | None) -> int:
        if decides is None:
            return self._store.count(names)
        rows = self._store.documents(names, [], [])
        return sum(decides(msgspec.json.decode(source)) for *_, source in rows)


def _settings_of(wanted: dict[str, Any], held: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return settings after a change; null is the default."""
    settings = {"number_of_shards": "1", "number_of_replicas": "1"} | (held or {})
    for stated, value in wanted.get("index", wanted).items():
        name = stated.removeprefix("index.")
        if name not in _SETTINGS:
            raise not_played(f"the setting {name!r}", ", ".join(_SETTINGS))
        if value is not None:
            settings[name] = str(value)
        elif name == "number_of_replicas":
            settings[name] = "1"
        else:
            settings.pop(name, None)
    return settings


def _order_of(sort: object) -> list[str]:
    """Return the columns of an order; raise ClusterError for another one."""
    columns = []
    for part in sort if isinstance(sort, list) else [sort]:
        ((field, stated),) = part.items() if isinstance(part, dict) else ((part, "asc"),)
        how = stated if isinstance(stated, dict) else {"order": stated}
        is_first = field != "version" or how.get("missing") == "_first"
        if field not in _ORDER_COLUMNS or how.get("order", "asc") != "asc" or not is_first:
            raise not_played(f"the order {part!r}", "version, missing first, or url, ascending")
        columns.append(_ORDER_COLUMNS[field])
    return columns


def _hit(
    row: tuple[str, str, dict[str, Any], bytes], order: list[str], wanted: object
) -> dict[str, Any]:
    name, id, values, source = row
    hit: dict[str, Any] = {"_index": name, "_id": id, "_score": None if order else 1.0}
    if wanted is True:
        hit["_source"] = msgspec.json.decode(source)
    elif wanted is not False:
        fields = [wanted] if isinstance(wanted, str) else wanted
        if not isinstance(fields, list) or any("*" in str(field) for field in fields):
            raise not_played(f"_source {wanted!r}", "true, false or names of fields")
        document = msgspec.json.decode(source)
        hit["_source"] = {field: document[field] for field in fields if field in document}
    if order:
        hit["sort"] = [values[column] for column in order]
    return hit


def _shards(count: int) -> dict[str, int]:
    return {"total": count, "successful": count, "skipped": 0, "failed": 0}


def _stream(
    frame: Callable[[], dict[str, Any]],
    names: tuple[str, ...],
    items: Iterable[object],
    paths: Paths,
) -> ClusterReply:
    """Return an object with a list of items, which are not kept in memory.

    `names` are those of the list and of the object that has it. `frame` returns the other fields
    when all items are known.
    """
    with ExitStack() as opened:
        body = opened.enter_context(SpooledTemporaryFile(_MEMORY_BYTES))
        body.write(b"".join(b'{"%s":' % name.encode() for name in names) + b"[")
        is_empty = True
        for item in items:
            found: Any = [item]
            for name in reversed(names):
                found = {name: found}
            found = keep(found, paths)
            for name in names:
                found = found.get(name, {})
            if found:
                body.write((b"" if is_empty else b",") + msgspec.json.encode(found[0]))
                is_empty = False
        kept = keep(frame(), paths)
        if is_empty and paths:
            return ClusterReply(body=msgspec.json.encode(kept))
        body.write(b"]")
        inner = [kept.pop(name, {}) for name in names[:-1]]
        for fields in (*inner, kept):
            body.write((b"," if fields else b"") + msgspec.json.encode(fields)[1:])
        opened.pop_all()
    return ClusterReply(body=body)
