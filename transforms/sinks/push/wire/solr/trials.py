"""Trials of a collection before anything is written: errors by document, and SolrCloud."""

import msgspec

from feedferry.schemas.errors import TargetError
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.search_index.json_request import json_body
from feedferry.transforms.sinks.push.wire.solr.replies import (
    ERRORS_BY_DOCUMENT,
    Requests,
    failure,
    fix_of,
    read_reply,
    words_of,
)

FIX = (
    "expected an update processor `tolerant` of the class `solr.TolerantUpdateProcessorFactory`,"
    " by which a document that is refused does not stop others: add it by the Config API or to"
    " solrconfig.xml"
)
_NO_DOCUMENT: dict[str, dict[str, object]] = {"add": {"doc": {}}}
"""It has no id, so that it is never written."""

_BUSY = 429, 503


class _System(msgspec.Struct):
    mode: str = ""


def try_tolerance(requests: Requests) -> ApplianceResponse:
    """Return the response to a document that is refused."""
    return requests.request(ERRORS_BY_DOCUMENT, json_body(_NO_DOCUMENT), method="POST")


def fault_of_tolerance(response: ApplianceResponse) -> str:
    """Return why errors have no documents, empty if they have, or if the server is busy."""
    if response.is_success or response.status in _BUSY:
        return ""
    return f"{words_of(response)}; {fix_of(response, FIX)}"


def check_tolerance(requests: Requests) -> None:
    """Raise TargetError if a document that is refused stops those after it."""
    response = try_tolerance(requests)
    if fault := fault_of_tolerance(response):
        raise TargetError(f"{response.url}: {fault}")


def is_cloud(requests: Requests) -> bool:
    response = requests.request("/admin/system")
    return read_reply(response, _System, "the mode of Solr").mode == "solrcloud"


def check_cloud(requests: Requests) -> None:
    """Raise TargetError for a full feed to SolrCloud."""
    if is_cloud(requests):
        raise failure(
            requests.request("/admin/system"),
            "Solr without SolrCloud for a full feed: send incremental feeds, and deletions of the"
            " documents that no longer exist",
        )
