"""The kind of appliance `solr`: a collection with the documents of all datasources.

**Spec:** Solr Reference Guide 9: "Indexing with Update Handlers", "Schema API", "JSON Request API",
"Pagination of Results".
"""

import re

from feedferry.schemas.check import CheckLine, fail, fail_of, ok
from feedferry.schemas.feed import FULL, INCREMENTAL
from feedferry.schemas.units import counted
from feedferry.transforms.formats import SOLR
from feedferry.transforms.formats.solr.solr_format import SolrOptions
from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.protocol import (
    Address,
    ApplianceProtocol,
    Endpoint,
    SendContext,
)
from feedferry.transforms.sinks.push.wire.search_index.listed_documents import LISTED_FIELDS
from feedferry.transforms.sinks.push.wire.solr.collection_scan import (
    as_listed,
    check,
    find_versions,
    list_documents,
    probe,
)
from feedferry.transforms.sinks.push.wire.solr.commands import (
    RunOfCollection,
    make_hiding,
    make_request,
)
from feedferry.transforms.sinks.push.wire.solr.replies import (
    TRUST,
    CollectionReply,
    fix_of,
    read_reply,
    words_of,
)
from feedferry.transforms.sinks.push.wire.solr.results import judge
from feedferry.transforms.sinks.push.wire.solr.runs import (
    begin,
    check_feeds,
    exchange_text,
    finish,
    guard,
)

_PATH = re.compile(r"/solr/[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", re.ASCII)
_NOT_FOUND = 404
_ADDRESSES = "http://HOST:8983/solr/COLLECTION"
_MAX_REQUEST_BYTES = 90 << 20


def _find_url(address: Address) -> str | None:
    scheme, host, port, path = address
    path = path.rstrip("/")
    return f"{scheme}://{host}{port}{path}" if _PATH.fullmatch(path) else None


def _request(part: ChunkPart, context: SendContext) -> tuple[str, RequestBody]:
    return make_request(part, _run(context))


def _hide(
    urls: list[tuple[int, str]], part: ChunkPart, context: SendContext
) -> tuple[str, RequestBody]:
    return make_hiding(urls, part, _run(context))


def _run(context: SendContext) -> RunOfCollection:
    if not isinstance(context.begun, RunOfCollection):
        raise AssertionError("a request before the run has begun")
    return context.begun


def _judge_probe(response: ApplianceResponse) -> CheckLine:
    if response.is_success:
        found = read_reply(response, CollectionReply, "a collection").response.num_found
        return ok("collection", counted(found, "document"))
    if response.status == _NOT_FOUND:
        return fail("collection", words_of(response), "make the collection, or correct its name")
    return fail_of("access", f"{words_of(response)}; {fix_of(response, 'expected a collection')}")


SOLR_COLLECTION = ApplianceProtocol(
    name="solr",
    endpoints=(
        Endpoint(
            name="update",
            formats=(SOLR.name,),
            source_field="datasource",
            feedtypes=(INCREMENTAL, FULL),
            default_feedtype=INCREMENTAL,
        ),
    ),
    options=SolrOptions,
    addresses=_ADDRESSES,
    find_url=_find_url,
    acceptance="status 0, with the errors of single documents",
    fix_server="expected Solr there",
    fix_address=f"check ⟦url⟧: expected {_ADDRESSES}",
    fix_trust=TRUST,
    make_request=_request,
    hide=_hide,
    guard=guard,
    judge=judge,
    judge_probe=_judge_probe,
    check=check,
    exchange=exchange_text,
    check_feeds=check_feeds,
    begin=begin,
    finish=finish,
    list_documents=list_documents,
    listed_fields=LISTED_FIELDS,
    as_listed=as_listed,
    find_versions=find_versions,
    probe=probe,
    probe_path="/select?q=url:*&rows=0",
    max_records=50_000,
    max_request_bytes=_MAX_REQUEST_BYTES,
)
