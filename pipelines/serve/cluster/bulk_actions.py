"""Do the actions of a `_bulk` request: index, create, update and delete.

All actions of a request are done, or none if its lines cannot be read. The result of each action
has its own status. An update is by document, or by the script of ACLs, which is known by its text.
"""

from collections.abc import Callable, Iterator
from typing import IO, Any

import msgspec

from feedferry.pipelines.serve.cluster.cluster_error import (
    ClusterError,
    bad_argument,
    invalid,
    no_alias,
    not_played,
)
from feedferry.pipelines.serve.cluster.cluster_store import (
    ClusterIndex,
    ClusterStore,
    StoredDocument,
)
from feedferry.pipelines.serve.cluster.strict_mapping import check_document
from feedferry.transforms.sinks.push.wire.opensearch import ACL_SCRIPT, MAX_ID_BYTES

EXTERNAL = "external_gte"
_ACTIONS = ("create", "delete", "index", "update")
_KNOWN = ("_id", "_index", "version", "version_type", "pipeline", "require_alias")
_SHARDS = {"total": 2, "successful": 1, "failed": 0}
_OK, _CREATED, _NOT_FOUND = 200, 201, 404
_PREFIX = "acl_"


class BulkAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action, with the line of its document; a deletion has none."""

    kind: str
    index: str
    id: str
    version: int | None = None
    line: bytes = b""


Fault = Callable[[BulkAction, str], ClusterError | None]
"""Returns the error of a scenario for an action on an index, None to do it."""


class BulkActions:
    """Does the actions of one request in a transaction of the store."""

    def __init__(self, store: ClusterStore, *, requires_alias: bool, fault: Fault) -> None:
        self._store = store
        self._requires_alias = requires_alias
        self._fault = fault
        self._indexes: dict[str, ClusterIndex | ClusterError] = {}

    def results(self, stream: IO[bytes], default_index: str) -> Iterator[dict[str, Any]]:
        """Yield the result of each action; raise ClusterError for a line that is none."""
        for action in read_actions(stream, default_index):
            yield {action.kind: self._result(action)}

    def _result(self, action: BulkAction) -> dict[str, Any]:
        name = action.index
        try:
            index = self._index_of(name)
            name = index.name
            if (fault := self._fault(action, name)) is not None:
                raise fault
            if not action.id:
                raise bad_argument("if _id is specified it must not be empty")
            done = getattr(self, f"_{action.kind}")(action, index)
            return {"_index": name, "_id": action.id, **done}
        except ClusterError as exc:
            if exc.status == 501:
                raise
            return {"_index": name, "_id": action.id, "status": exc.status, "error": exc.cause}

    def _index_of(self, name: str) -> ClusterIndex:
        """Return the index that is written to by a name; raise ClusterError if there is none."""
        if name not in self._indexes:
            try:
                self._indexes[name] = self._find_index(name)
            except ClusterError as exc:
                self._indexes[name] = exc
        found = self._indexes[name]
        if isinstance(found, ClusterError):
            raise found
        return found

    def _find_index(self, name: str) -> ClusterIndex:
        if self._requires_alias and not self._store.is_alias(name):
            raise no_alias(name)
        held = self._store.index(name)
        if held is None and not self._store.is_alias(name):
            raise not_played("an index that makes itself", "a request that makes the index first")
        names = self._store.named(name)
        if len(names) > 1:
            raise bad_argument(
                f"no write index is defined for alias [{name}]. The write index may be explicitly"
                " disabled using is_write_index=false or the alias points to multiple indices"
                " without one being designated as a write index"
            )
        index = held or self._store.index(names[0])
        if index is None:
            raise AssertionError(f"{name}: an alias without an index")
        return index

    def _index(self, action: BulkAction, index: ClusterIndex) -> dict[str, Any]:
        fields = _decode_document(action.line)
        check_document(fields, index.mapping, action.id)
        held = self._store.document(index.name, action.id)
        version = _next_version(action, held, index)
        is_new = held is None or held.source is None
        sequence = self._put(index, action, version, action.line, fields)
        return _done("created" if is_new else "updated", version, sequence, is_new=is_new)

    def _create(self, action: BulkAction, index: ClusterIndex) -> dict[str, Any]:
        held = self._store.document(index.name, action.id)
        if held is not None and held.source is not None:
            words = f"document already exists (current version [{held.version}])"
            raise _conflict(action, index, words)
        return self._index(action, index)

    def _delete(self, action: BulkAction, index: ClusterIndex) -> dict[str, Any]:
        held = self._store.document(index.name, action.id)
        version = _next_version(action, held, index)
        is_there = held is not None and held.source is not None
        sequence = self._put(index, action, version, None, {})
        done = _done("deleted" if is_there else "not_found", version, sequence, is_new=False)
        return done if is_there else done | {"status": _NOT_FOUND}

    def _update(self, action: BulkAction, index: ClusterIndex) -> dict[str, Any]:
        stated = _decode_document(action.line)
        held = self._store.document(index.name, action.id)
        if held is None or held.source is None:
            upsert = stated.get("doc") if stated.get("doc_as_upsert") else stated.get("upsert")
            if upsert is None:
                reason = f"[{action.id}]: document missing"
                raise _at_shard(404, "document_missing_exception", reason, index)
            made = msgspec.structs.replace(action, line=msgspec.json.encode(upsert))
            return self._index(made, index)
        old = msgspec.json.decode(held.source)
        fields = _updated(old, stated)
        if fields == old:
            return _done("noop", held.version, held.sequence, is_new=False)
        check_document(fields, index.mapping, action.id)
        line = msgspec.json.encode(fields)
        sequence = self._put(index, action, held.version + 1, line, fields)
        return _done("updated", held.version + 1, sequence, is_new=False)

    def _put(
        self,
        index: ClusterIndex,
        action: BulkAction,
        version: int,
        source: bytes | None,
        fields: dict[str, Any],
    ) -> int:
        return self._store.put(index.name, action.id, version=version, source=source, fields=fields)


def read_actions(stream: IO[bytes], default_index: str) -> Iterator[BulkAction]:
    """Yield the actions of a body; raise ClusterError for a body that a server refuses."""
    number = count = 0
    while line := _line_of(stream):
        number += 1
        if not line.strip():
            continue
        kind, stated = _parse_action(line, number)
        id = stated.get("_id")
        if id is None:
            raise not_played(f"the action of line {number}, which has no _id", "an _id")
        size = len(str(id).encode("utf-8", "surrogatepass"))
        if size > MAX_ID_BYTES:
            raise invalid(
                f"id [{id}] is too long, must be no longer than {MAX_ID_BYTES} bytes but was:"
                f" {size}"
            )
        document = b""
        if kind != "delete":
            document = _line_of(stream)
            number += 1
            if not document:
                break  # a real server ignores it
        count += 1
        yield BulkAction(
            kind=kind,
            index=str(stated.get("_index") or default_index),
            id=str(id),
            version=stated.get("version"),
            line=document.rstrip(b"\r\n"),
        )
    if not number:
        raise ClusterError(400, "parse_exception", "request body is required")
    if not count:
        raise invalid("no requests added")


def _line_of(stream: IO[bytes]) -> bytes:
    line = stream.readline()
    if line and not line.endswith(b"\n"):
        raise bad_argument("The bulk request must be terminated by a newline [\\n]")
    return line


def _parse_action(line: bytes, number: int) -> tuple[str, dict[str, Any]]:
    try:
        ((kind, stated),) = msgspec.json.decode(line, type=dict[str, dict[str, Any]]).items()
    except (msgspec.MsgspecError, ValueError) as exc:
        raise bad_argument(f"Malformed action/metadata line [{number}]: {exc}") from exc
    if kind not in _ACTIONS:
        raise bad_argument(
            f"Malformed action/metadata line [{number}], expected one of [create, delete, index,"
            f" update] but found [{kind}]"
        )
    for name in stated:
        if name not in _KNOWN:
            raise bad_argument(
                f"Action/metadata line [{number}] contains an unknown parameter [{name}]"
            )
    if "version" in stated and kind == "update":
        raise bad_argument(
            "Update requests do not support versioning. Please use `if_seq_no` and"
            " `if_primary_term` instead"
        )
    if "version" in stated and stated.get("version_type") != EXTERNAL:
        raise not_played(f"version_type {stated.get('version_type')!r}", EXTERNAL)
    return kind, stated


def _decode_document(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError as exc:
        cause = {"type": "json_parse_exception", "reason": str(exc)}
        kind = "mapper_parsing_exception"
        raise ClusterError(400, kind, "failed to parse", caused_by=cause) from exc


def _updated(old: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a document after an update."""
    script, doc = stated.get("script"), stated.get("doc")
    if isinstance(doc, dict) and script is None:
        return _merged(old, doc)
    if not isinstance(script, dict) or script.get("source") != ACL_SCRIPT:
        raise not_played("this update", "`doc`, or the script that changes an ACL")
    params = script["params"]
    if old.get("version") is not None and old["version"] >= params["version"]:
        return old
    kept = {name: value for name, value in old.items() if not name.startswith(_PREFIX)}
    return {**kept, **params["fields"], "version": params["version"]}


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for name, value in new.items():
        held = old.get(name)
        if isinstance(held, dict) and isinstance(value, dict):
            merged[name] = _merged(held, value)
        else:
            merged[name] = value
    return merged


def _next_version(action: BulkAction, held: StoredDocument | None, index: ClusterIndex) -> int:
    if action.version is None:
        return 1 if held is None else held.version + 1
    if held is not None and held.version > action.version:
        words = (
            f"current version [{held.version}] is higher than the one provided [{action.version}]"
        )
        raise _conflict(action, index, words)
    return action.version


def _conflict(action: BulkAction, index: ClusterIndex, words: str) -> ClusterError:
    reason = f"[{action.id}]: version conflict, {words}"
    return _at_shard(409, "version_conflict_engine_exception", reason, index)


def _at_shard(status: int, kind: str, reason: str, index: ClusterIndex) -> ClusterError:
    return ClusterError(status, kind, reason, index=index.name, shard="0", index_uuid=index.uuid)


def _done(result: str, version: int, sequence: int, *, is_new: bool) -> dict[str, Any]:
    return {
        "_version": version,
        "result": result,
        "_shards": _SHARDS,
        "_seq_no": sequence,
        "_primary_term": 1,
        "status": _CREATED if is_new else _OK,
    }
