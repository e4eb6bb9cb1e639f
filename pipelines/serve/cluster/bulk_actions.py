"""Do the actions of a `_bulk` request: index, create, update and delete.

All actions of a request are done, or none if its lines cannot be read. The result of each action
has its own status. An update is by document, or by the script of ACLs, which is known by its text.
"""

from collections.abc import Iterator
from typing import IO, TypeVar

import msgspec

from feedferry.pipelines.serve.cluster.cluster_documents import DocumentFields, StoredDocument
from feedferry.pipelines.serve.cluster.cluster_error import (
    ClusterError,
    bad_argument,
    invalid,
    not_played,
    parse_body,
)
from feedferry.pipelines.serve.cluster.cluster_indexes import ClusterIndex
from feedferry.pipelines.serve.cluster.cluster_store import ClusterStore
from feedferry.pipelines.serve.cluster.strict_mapping import check_document
from feedferry.transforms.access.index_fields import EVERYONE
from feedferry.transforms.sinks.push.wire.opensearch import ACL_SCRIPT, MAX_ID_BYTES

EXTERNAL = "external_gte"
_ACTIONS = ("create", "delete", "index", "update")
_SHARDS = {"total": 2, "successful": 1, "failed": 0}
_OK, _CREATED, _NOT_FOUND = 200, 201, 404
_PREFIX = "acl_"
_Result = dict[str, object]
_Decoded = TypeVar("_Decoded")


class BulkAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action, with the line of its document; a deletion has none."""

    kind: str
    index: str
    id: str
    version: int | None = None
    line: bytes = b""


class _Address(msgspec.Struct):
    """The parameters of an action."""

    id: str | int | None = msgspec.field(default=None, name="_id")
    index: str | None = msgspec.field(default=None, name="_index")
    version: int | None = None
    version_type: str | None = None
    pipeline: str | None = None
    require_alias: bool | None = None


class _Script(msgspec.Struct):
    source: str = ""
    params: DocumentFields = {}


class _AclChange(msgspec.Struct):
    """The parameters of the script of ACLs."""

    version: int
    fields: DocumentFields


class _Update(msgspec.Struct):
    doc: DocumentFields | None = None
    doc_as_upsert: bool = False
    upsert: DocumentFields | None = None
    script: _Script | str | None = None


class ItemFaults(msgspec.Struct, frozen=True, kw_only=True):
    """The faults of a scenario in the results of a `_bulk` request.

    Documents of `refused_ids` are refused; an update that hides one is done.
    """

    refused_ids: frozenset[str] = frozenset()
    is_throttled: bool = False
    is_full: bool = False

    def error_of(self, action: BulkAction, index: str) -> ClusterError | None:
        """Return the error of an action on an index, None to do it."""
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


class BulkActions:
    """Does the actions of one request in a transaction of the store."""

    def __init__(self, store: ClusterStore, *, requires_alias: bool, faults: ItemFaults) -> None:
        self._store = store
        self._requires_alias = requires_alias
        self._faults = faults
        self._indexes: dict[str, ClusterIndex | ClusterError] = {}
        self._do = {
            "create": self._create,
            "delete": self._delete,
            "index": self._index,
            "update": self._update,
        }

    def results(self, stream: IO[bytes], default_index: str) -> Iterator[dict[str, _Result]]:
        """Yield the result of each action; raise ClusterError for a line that is none."""
        for action in read_actions(stream, default_index):
            yield {action.kind: self._result(action)}

    def _result(self, action: BulkAction) -> _Result:
        name = action.index
        try:
            index = self._index_of(name)
            name = index.name
            if (fault := self._faults.error_of(action, name)) is not None:
                raise fault
            if not action.id:
                raise bad_argument("if _id is specified it must not be empty")
            return {"_index": name, "_id": action.id, **self._do[action.kind](action, index)}
        except ClusterError as exc:
            if exc.status == 501:
                raise
            return {"_index": name, "_id": action.id, "status": exc.status, "error": exc.cause}

    def _index_of(self, name: str) -> ClusterIndex:
        """Return the index that is written to by a name; raise ClusterError if there is none."""
        if name not in self._indexes:
            try:
                self._indexes[name] = self._store.indexes.written_to(
                    name, requires_alias=self._requires_alias
                )
            except ClusterError as exc:
                self._indexes[name] = exc
        found = self._indexes[name]
        if isinstance(found, ClusterError):
            raise found
        return found

    def _index(self, action: BulkAction, index: ClusterIndex) -> _Result:
        fields = _decode(action.line, DocumentFields)
        check_document(fields, index.fields, action.id)
        held = self._store.documents.find(index.name, action.id)
        version = _next_version(action, held, index)
        is_new = held is None or held.source is None
        sequence = self._put(index, action, version, action.line, fields)
        return _done("created" if is_new else "updated", version, sequence, is_new=is_new)

    def _create(self, action: BulkAction, index: ClusterIndex) -> _Result:
        held = self._store.documents.find(index.name, action.id)
        if held is not None and held.source is not None:
            words = f"document already exists (current version [{held.version}])"
            raise _conflict(action, index, words)
        return self._index(action, index)

    def _delete(self, action: BulkAction, index: ClusterIndex) -> _Result:
        held = self._store.documents.find(index.name, action.id)
        version = _next_version(action, held, index)
        is_there = held is not None and held.source is not None
        sequence = self._put(index, action, version, None, {})
        done = _done("deleted" if is_there else "not_found", version, sequence, is_new=False)
        return done if is_there else done | {"status": _NOT_FOUND}

    def _update(self, action: BulkAction, index: ClusterIndex) -> _Result:
        stated = _decode(action.line, _Update)
        held = self._store.documents.find(index.name, action.id)
        if held is None or held.source is None:
            upsert = stated.doc if stated.doc_as_upsert else stated.upsert
            if upsert is None:
                reason = f"[{action.id}]: document missing"
                raise _at_shard(404, "document_missing_exception", reason, index)
            made = msgspec.structs.replace(action, line=msgspec.json.encode(upsert))
            return self._index(made, index)
        old = msgspec.json.decode(held.source, type=DocumentFields)
        fields = _updated(old, stated)
        if fields == old:
            return _done("noop", held.version, held.sequence, is_new=False)
        check_document(fields, index.fields, action.id)
        line = msgspec.json.encode(fields)
        sequence = self._put(index, action, held.version + 1, line, fields)
        return _done("updated", held.version + 1, sequence, is_new=False)

    def _put(
        self,
        index: ClusterIndex,
        action: BulkAction,
        version: int,
        source: bytes | None,
        fields: DocumentFields,
    ) -> int:
        put = self._store.documents.put
        return put(index.name, action.id, version=version, source=source, fields=fields)


def read_actions(stream: IO[bytes], default_index: str) -> Iterator[BulkAction]:
    """Yield the actions of a body; raise ClusterError for a body that a server refuses."""
    number = count = 0
    while line := _line_of(stream):
        number += 1
        if not line.strip():
            continue
        kind, stated = _parse_action(line, number)
        id = stated.id
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
            index=stated.index or default_index,
            id=str(id),
            version=stated.version,
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


def _parse_action(line: bytes, number: int) -> tuple[str, _Address]:
    try:
        ((kind, stated),) = msgspec.json.decode(line, type=dict[str, dict[str, object]]).items()
    except (msgspec.MsgspecError, ValueError) as exc:
        raise bad_argument(f"Malformed action/metadata line [{number}]: {exc}") from exc
    if kind not in _ACTIONS:
        raise bad_argument(
            f"Malformed action/metadata line [{number}], expected one of [create, delete, index,"
            f" update] but found [{kind}]"
        )
    for name in stated:
        if name not in _Address.__struct_encode_fields__:
            raise bad_argument(
                f"Action/metadata line [{number}] contains an unknown parameter [{name}]"
            )
    address = parse_body(stated, _Address)
    if address.version is not None and kind == "update":
        raise bad_argument(
            "Update requests do not support versioning. Please use `if_seq_no` and"
            " `if_primary_term` instead"
        )
    if address.version is not None and address.version_type != EXTERNAL:
        raise not_played(f"version_type {address.version_type!r}", EXTERNAL)
    return kind, address


def _decode(line: bytes, kind: type[_Decoded]) -> _Decoded:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as exc:
        cause = {"type": "json_parse_exception", "reason": str(exc)}
        error = "mapper_parsing_exception"
        raise ClusterError(400, error, "failed to parse", caused_by=cause) from exc


def _updated(old: DocumentFields, stated: _Update) -> DocumentFields:
    """Return the fields of a document after an update."""
    script = stated.script
    if stated.doc is not None and script is None:
        return _merged(old, stated.doc)
    if not isinstance(script, _Script) or script.source != ACL_SCRIPT:
        raise not_played("this update", "`doc`, or the script that changes an ACL")
    change, version = parse_body(script.params, _AclChange), old.get("version")
    denied = old.get("acl_1_deny_1")
    is_withheld = isinstance(denied, list) and EVERYONE in denied
    if is_withheld or (isinstance(version, int) and version >= change.version):
        return old
    kept = {name: value for name, value in old.items() if not name.startswith(_PREFIX)}
    return {**kept, **change.fields, "version": change.version}


def _merged(old: DocumentFields, new: DocumentFields) -> DocumentFields:
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


def _done(result: str, version: int, sequence: int, *, is_new: bool) -> _Result:
    return {
        "_version": version,
        "result": result,
        "_shards": _SHARDS,
        "_seq_no": sequence,
        "_primary_term": 1,
        "status": _CREATED if is_new else _OK,
    }
