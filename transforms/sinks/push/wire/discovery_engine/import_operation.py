"""The import of the files of a run: one request, and an operation that ends later."""

from collections.abc import Sequence

import msgspec

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError, TargetError
from feedferry.schemas.feed import FULL
from feedferry.transforms.sinks.push.model import (
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
    count_records,
)
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.discovery_engine.data_store_options import (
    DataStoreOptions,
)
from feedferry.transforms.sinks.push.wire.protocol import Appliance, RunSession
from feedferry.transforms.sinks.push.wire.responses import describe, quote, verdict_on
from feedferry.transforms.storage.run_folders.mirrors import shown

MAX_FILES = 100
"""The most files of an import."""

TRUST = "the identity of ⟦auth⟧ needs the role Discovery Engine Editor"
_FIXES = {401: "expected an access token that is valid: check ⟦auth⟧", 403: TRUST}
_IMPORT = "/branches/default_branch/documents:import"
_STORAGE = "gs://"
_DONE = "done: "


class _RpcStatus(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class _ImportResponse(msgspec.Struct, frozen=True, rename="camel"):
    error_samples: list[_RpcStatus] = []


class _ImportCounts(msgspec.Struct, frozen=True, rename="camel"):
    """The counts of an operation, which are texts in JSON, as all integers of 64 bits."""

    success_count: int = 0
    failure_count: int = 0


class _Operation(msgspec.Struct, frozen=True):
    name: str
    done: bool = False
    error: _RpcStatus | None = None
    metadata: _ImportCounts = _ImportCounts()
    response: _ImportResponse = _ImportResponse()


class _ServiceError(msgspec.Struct, frozen=True):
    error: _RpcStatus


class _DataStore(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    acl_enabled: bool = False


class ImportResult(msgspec.Struct, frozen=True):
    """The counts of an import that is done, and a sample of its errors."""

    imported: int
    failed: int
    sample: str = ""


def check_feeds(appliance: Appliance, chunks: Sequence[Chunk]) -> None:
    """Raise ConfigError for chunks that no import can have."""
    where = f"⟦url⟧ {appliance.url}"
    datasources = {chunk.datasource for chunk in chunks}
    if len(datasources) > 1:
        names = ", ".join(sorted(filter(None, datasources)))
        raise ConfigError(
            f"{where}: the datasources {names}; expected one for a data store, as a full import"
            " removes the documents of others"
        )
    if len(chunks) > MAX_FILES:
        raise ConfigError(
            f"{where}: {len(chunks)} files; expected {MAX_FILES} at most for an import:"
            " ⟦max_chunk_bytes⟧ makes larger ones"
        )
    if any(chunk.feedtype == FULL for chunk in chunks) and not sum(map(count_records, chunks)):
        raise ConfigError(f"{where}: a full feed without documents; expected documents to import")


def begin(session: RunSession) -> None:
    """Raise TargetError unless the data store has access control, and files can be imported."""
    uris_of(session)
    problem = acl_problem(session.request(""))
    if problem:
        raise TargetError(f"{session.appliance.url}: {problem}")


def finish(session: RunSession) -> None:
    """Import the files of a run, and wait for the operation; raise TargetError if it fails."""
    name = session.step("import", lambda: session.send(_IMPORT, _import_body(session)))
    done = session.step(
        "operation",
        lambda: session.send(f"/v1/{name}", None, method="GET", is_below_address=False),
    )
    result = msgspec.json.decode(done.removeprefix(_DONE), type=ImportResult)
    expected = sum(map(count_records, session.chunks))
    if result.failed or result.imported != expected:
        sample = f", such as {result.sample}" if result.sample else ""
        raise TargetError(
            f"{session.appliance.url}: {result.imported} documents imported, {result.failed}"
            f" failed{sample}; expected {expected}: their earlier versions stay in the data store"
            " until a run with documents that it accepts"
        )


def uris_of(session: RunSession) -> list[str]:
    """Return the URIs of the chunks; raise ConfigError for a run that is not in Cloud Storage."""
    folder = session.appliance.of(DataStoreOptions).import_from
    paths = [chunk.path for chunk in session.chunks]
    if folder is not None:
        return [f"{folder.rstrip('/')}/{path.rpartition('/')[2]}" for path in paths]
    uris = [shown(session.root / path) for path in paths]
    if not all(uri.startswith(_STORAGE) for uri in uris):
        raise ConfigError(
            f"{shown(session.root)}: a run on this machine; expected one in gs://BUCKET/RUN, or"
            " target.import_from with the folder of copies of its chunks"
        )
    return uris


def _import_body(session: RunSession) -> RequestBody:
    is_full = any(chunk.feedtype == FULL for chunk in session.chunks)
    data = msgspec.json.encode(
        {
            "gcsSource": {"inputUris": uris_of(session), "dataSchema": "document"},
            "reconciliationMode": "FULL" if is_full else "INCREMENTAL",
        }
    )
    return RequestBody(content_type="application/json", length=len(data), before=data)


def judge(response: ApplianceResponse, _part: ChunkPart | None) -> Verdict | None:
    """Return the meaning of a response; None lets its status decide.

    The message of an import is the name of its operation, and that of an operation has its result.
    """
    if not response.is_success:
        return _judge_failure(response)
    try:
        operation = msgspec.json.decode(response.body, type=_Operation, strict=False)
    except msgspec.DecodeError:
        return None
    if response.url.endswith(_IMPORT):
        return Verdict(meaning=ResponseMeaning.ACCEPTED, message=operation.name)
    if not operation.done:
        counts = operation.metadata
        words = f"{counts.success_count} documents imported; expected the operation to be done"
        return verdict_on(response, ResponseMeaning.UNFINISHED, words)
    if operation.error is not None:
        words = f"the operation failed: {quote(operation.error.message)}; expected an import"
        return verdict_on(response, ResponseMeaning.FATAL, words)
    samples = operation.response.error_samples
    result = ImportResult(
        imported=operation.metadata.success_count,
        failed=operation.metadata.failure_count,
        sample=quote(samples[0].message) if samples else "",
    )
    text = msgspec.json.encode(result).decode()
    return Verdict(meaning=ResponseMeaning.ACCEPTED, message=f"{_DONE}{text}")


def acl_problem(response: ApplianceResponse) -> str:
    """Return why a data store cannot be used, "" if it has access control."""
    if not response.is_success:
        fix = _FIXES.get(response.status or 0, "expected a data store")
        return f"{response.status}, {_words_of(response)}; {fix}"
    try:
        store = msgspec.json.decode(response.body, type=_DataStore)
    except msgspec.DecodeError:
        return f"{describe(response)}; expected a data store"
    if store.acl_enabled:
        return ""
    return (
        "a data store without access control, which shows all documents to all users; expected"
        " aclEnabled, which is stated when a data store is made"
    )


def _judge_failure(response: ApplianceResponse) -> Verdict | None:
    if response.status in _FIXES:
        words = f"{response.status}, {_words_of(response)}; {_FIXES[response.status]}"
        return verdict_on(response, ResponseMeaning.FATAL, words)
    return None


def _words_of(response: ApplianceResponse) -> str:
    """Return the words of the service for a request that failed."""
    try:
        return quote(msgspec.json.decode(response.body, type=_ServiceError).error.message)
    except msgspec.DecodeError:
        return describe(response)
