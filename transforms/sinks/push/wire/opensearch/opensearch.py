"""The kind of appliance `opensearch`: an index for each datasource, behind aliases.

**Spec:** OpenSearch 2.19 and 3, Elasticsearch 7.17: "Bulk API", "Aliases", "Index settings".
"""

import re

from msgspec.structs import replace

from feedferry.schemas.check import CheckLine, fail_of, ok, warn
from feedferry.schemas.feed import FULL, INCREMENTAL
from feedferry.transforms.formats import OPENSEARCH
from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.bulk_request import make_hiding, make_request
from feedferry.transforms.sinks.push.wire.opensearch.decision_lines import access_lines
from feedferry.transforms.sinks.push.wire.opensearch.groups_index import (
    check_groups_index,
    find_groups,
    takes_groups,
    write_groups,
)
from feedferry.transforms.sinks.push.wire.opensearch.index_options import IndexOptions
from feedferry.transforms.sinks.push.wire.opensearch.indexes import (
    RunIndexes,
    begin,
    check_feeds,
    exchange_text,
    finish,
)
from feedferry.transforms.sinks.push.wire.opensearch.probes import probe
from feedferry.transforms.sinks.push.wire.opensearch.results import (
    TRUST,
    documents_text,
    fix_of,
    judge,
    words_of,
)
from feedferry.transforms.sinks.push.wire.opensearch.scan import (
    LISTED_FIELDS,
    as_listed,
    check,
    find_versions,
    list_documents,
)
from feedferry.transforms.sinks.push.wire.opensearch.tightening import (
    compare_access,
    forget,
    tighten,
)
from feedferry.transforms.sinks.push.wire.protocol import (
    Address,
    ApplianceProtocol,
    Endpoint,
    RunSession,
    SendContext,
)
from feedferry.transforms.sinks.push.wire.responses import describe

_INDEX = re.compile(r"/[a-z0-9][a-z0-9._-]{0,99}", re.ASCII)
_NO_INDEX_YET = 404
_EXPECTED = "expected the number of documents of an index"
MAX_REQUEST_BYTES = 90 << 20
"""A larger request, 100 MB by default, ends the connection."""

GZIP_BYTES = 16 << 20


def _find_url(address: Address) -> str | None:
    scheme, host, port, path = address
    path = path.rstrip("/")
    return f"{scheme}://{host}{port}{path}" if _INDEX.fullmatch(path) else None


def _begin(session: RunSession) -> RunIndexes:
    check_groups_index(session)
    indexes = begin(session)
    return replace(indexes, superseded=tighten(session, indexes))


def _finish(session: RunSession) -> None:
    finish(session)
    forget(session)


def _request(part: ChunkPart, context: SendContext) -> tuple[str, RequestBody]:
    return make_request(part, _indexes(context))


def _hide(
    urls: list[tuple[int, str]], part: ChunkPart, context: SendContext
) -> tuple[str, RequestBody]:
    return make_hiding(urls, part, _indexes(context))


def _indexes(context: SendContext) -> RunIndexes:
    if not isinstance(context.begun, RunIndexes):
        raise AssertionError("a request before the run has begun")
    return context.begun


def _judge_probe(response: ApplianceResponse) -> CheckLine:
    if response.is_success:
        return ok("index", documents_text(response) or describe(response))
    if response.status == _NO_INDEX_YET:
        return warn("index", "there is no index yet", "the first run makes it")
    return fail_of("access", f"{words_of(response)}; {fix_of(response, _EXPECTED)}")


OPENSEARCH_CLUSTER = ApplianceProtocol(
    name="opensearch",
    endpoints=(
        Endpoint(
            name="bulk",
            formats=(OPENSEARCH.name,),
            source_field="datasource",
            feedtypes=(INCREMENTAL, FULL),
            default_feedtype=INCREMENTAL,
        ),
    ),
    options=IndexOptions,
    path_option="index",
    addresses="http://HOST:9200/INDEX",
    find_url=_find_url,
    takes_any_path=True,
    acceptance="a result for each action",
    fix_server="expected OpenSearch or Elasticsearch there",
    fix_address="check ⟦url⟧: expected http://HOST:9200/INDEX",
    fix_trust=TRUST,
    make_request=_request,
    hide=_hide,
    judge=judge,
    judge_probe=_judge_probe,
    check=check,
    exchange=exchange_text,
    check_feeds=check_feeds,
    compare_access=compare_access,
    access_lines=access_lines,
    begin=_begin,
    finish=_finish,
    list_documents=list_documents,
    listed_fields=LISTED_FIELDS,
    as_listed=as_listed,
    find_versions=find_versions,
    probe=probe,
    takes_groups=takes_groups,
    write_groups=write_groups,
    find_groups=find_groups,
    probe_path="/_count",
    max_records=50_000,
    max_request_bytes=MAX_REQUEST_BYTES,
    gzip_bytes=GZIP_BYTES,
)
