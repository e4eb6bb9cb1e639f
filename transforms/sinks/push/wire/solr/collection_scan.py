"""The documents of a collection, page by page, for a comparison; probes; and lines of a check."""

from collections.abc import Iterator
from datetime import UTC

from msgspec.structs import replace

from feedferry.schemas.check import CheckLine, fail, fail_of, ok, warn
from feedferry.schemas.errors import TargetError
from feedferry.schemas.record import Provenance, Record
from feedferry.schemas.units import counted
from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.access.solr_filter import WITHHELD_FIELD, solr_filter
from feedferry.transforms.formats.search_document.document_encoder import id_of
from feedferry.transforms.formats.solr.command_reader import solr_document
from feedferry.transforms.formats.solr.command_writer import solr_id
from feedferry.transforms.formats.solr.solr_format import SolrOptions
from feedferry.transforms.sinks.push.wire.protocol import (
    ApplianceReader,
    FailedProbe,
    ListedDocument,
)
from feedferry.transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES
from feedferry.transforms.sinks.push.wire.search_index import listed_documents
from feedferry.transforms.sinks.push.wire.search_index.json_request import json_body
from feedferry.transforms.sinks.push.wire.search_index.probes import probe_as
from feedferry.transforms.sinks.push.wire.solr.replies import (
    COMMIT,
    COMMIT_BODY,
    CollectionReply,
    count,
    failure,
    fix_of,
    of_datasource,
    read_reply,
    words_of,
)
from feedferry.transforms.sinks.push.wire.solr.schema import faults, missing_fields, read_schema
from feedferry.transforms.sinks.push.wire.solr.trials import (
    fault_of_tolerance,
    is_cloud,
    try_tolerance,
)

_PAGE_DOCUMENTS = 1000
_ANY = "url:[* TO *]"
_EXPECTED = "a list of documents"


def list_documents(reader: ApplianceReader, datasource: str | None) -> Iterator[ListedDocument]:
    """Yield the documents of a datasource, or of all.

    Raise TargetError if documents are removed meanwhile.
    """
    committed = reader.request(COMMIT, COMMIT_BODY, method="POST")
    if not committed.is_success:
        raise failure(committed, _EXPECTED)
    wanted = _ANY if datasource is None else of_datasource(datasource)
    expected, listed, mark, size = count(reader, wanted), 0, "*", _PAGE_DOCUMENTS
    while True:
        query = {"query": "*:*", "filter": [wanted], "sort": "id asc", "limit": size}
        body = json_body({**query, "params": {"cursorMark": mark}})
        response = reader.request("/select", body, method="POST")
        if len(response.body) >= MAX_RESPONSE_BYTES:
            if size == 1:
                raise TargetError(
                    f"{response.url}: a document of more than {MAX_RESPONSE_BYTES >> 20} MiB after"
                    f" {listed:,} others; expected smaller ones: compare another input"
                )
            size = max(size // 8, 1)
            continue
        reply = read_reply(response, CollectionReply, _EXPECTED)
        for document in reply.response.docs:
            yield listed_documents.listed(as_listed(_record_of(document)))
        listed += len(reply.response.docs)
        if reply.next_cursor_mark in ("", mark):
            break
        mark = reply.next_cursor_mark
    if listed < expected:
        raise TargetError(
            f"{reader.appliance.url}: {listed:,} documents of {expected:,} were listed; expected"
            " all: verify again when nothing writes to the collection"
        )


def as_listed(record: Record) -> Record:
    """Return a record of the format as a list has it: times in milliseconds, metadata by name."""
    record = listed_documents.as_listed(record)
    modified = record.modified
    if modified is not None:
        microseconds = modified.microsecond // 1000 * 1000
        modified = modified.astimezone(UTC).replace(microsecond=microseconds)
    return replace(
        record,
        modified=modified,
        metadata=tuple(sorted(record.metadata, key=lambda meta: meta.name)),
        fields=tuple(sorted(record.fields, key=lambda field: field.name)),
    )


def find_versions(reader: ApplianceReader, url: str) -> Iterator[Record]:
    """Yield the document of a URL in each datasource, with its ACL only, as searches find it."""
    body = json_body(
        {
            "query": "{!term f=url v=$feedferry_url}",
            "limit": _PAGE_DOCUMENTS,
            "fields": ["id", "url", "datasource", WITHHELD_FIELD, *field_names()],
            "params": {"feedferry_url": url},
        }
    )
    response = reader.request("/select", body, method="POST")
    for document in read_reply(response, CollectionReply, "a document").response.docs:
        yield _record_of(document)


def probe(reader: ApplianceReader, record: Record) -> Iterator[FailedProbe]:
    """Search for a document as three people; yield the searches that do not follow its ACL."""
    return probe_as(reader, record, _is_found)


def check(reader: ApplianceReader) -> Iterator[CheckLine]:
    """Check the schema, and that a document that is refused does not stop others."""
    options = reader.appliance.of(SolrOptions)
    response = reader.request("/schema")
    if response.status in (401, 404):
        return  # a line of the probe has it
    if not response.is_success:
        yield fail_of("schema", f"{words_of(response)}; {fix_of(response, 'expected the schema')}")
        return
    held = read_schema(response)
    wrong, missing = [*faults(held, options)], missing_fields(held, options)
    if wrong:
        yield fail("schema", wrong[0], "correct the schema, or give another collection")
    elif missing:
        found = f"missing: {counted(len(missing), 'field')}"
        yield warn("schema", found, "the first run makes them, if the schema is a managed one")
    else:
        yield ok("schema", "the fields of documents and decisions")
    fault = fault_of_tolerance(try_tolerance(reader))
    yield fail_of("processor", fault) if fault else ok("processor", "errors by document")
    if is_cloud(reader):
        yield warn("cloud", "full feeds are refused", "send incremental feeds")


def _record_of(document: dict[str, object]) -> Record:
    return solr_document(document, str(document["id"]), Provenance())


def _is_found(reader: ApplianceReader, record: Record, tokens: list[str]) -> bool:
    request = solr_filter(tokens)
    name = record.provenance.datasource
    query, value = "{!term f=url v=$feedferry_key}", record.url
    if name is not None:
        query, value = "{!term f=id v=$feedferry_key}", solr_id(name, id_of(record.url))
    params = {**_params(request), "feedferry_key": value}
    body = json_body({**request, "query": query, "limit": 0, "params": params})
    response = reader.request("/select", body, method="POST")
    return bool(read_reply(response, CollectionReply, "a search").response.num_found)


def _params(request: dict[str, object]) -> dict[str, object]:
    params = request["params"]
    return params if isinstance(params, dict) else {}
