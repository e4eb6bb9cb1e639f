"""The tests that `feedferry.testing` has for appliances, of all of ours."""

import json
import re
from collections.abc import Collection, Sequence
from urllib.parse import unquote_plus

import pytest

from feedferry.testing import ApplianceKit, ApplianceTests, ScriptedReply, ScriptedRequest
from feedferry.transforms.formats import GSA_FEED, OPENSEARCH, SOLR, THUNDERSTONE
from feedferry.transforms.formats.solr.solr_format import SolrOptions
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.opensearch.mapping import mapping
from feedferry.transforms.sinks.push.wire.opensearch.opensearch import OPENSEARCH_CLUSTER
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA
from feedferry.transforms.sinks.push.wire.solr.schema import HeldSchema, missing_fields
from feedferry.transforms.sinks.push.wire.solr.solr import SOLR_COLLECTION


def urls_of_feed(body: bytes) -> list[str]:
    return re.findall(r'<record url="([^"]*)"', body.decode())


def urls_of_items(body: bytes) -> list[str]:
    return re.findall("<Url>([^<]*)</Url>", unquote_plus(body.decode()))


def results(*statuses: str) -> ScriptedReply:
    """A result with the status of each Item."""
    items = "".join(f"<ItemResult><Status>{status}</Status></ItemResult>" for status in statuses)
    text = f"<ThunderstoneReplicationResult>{items}<Rows>{len(statuses)}</Rows>"
    return ScriptedReply(body=f"{text}</ThunderstoneReplicationResult>".encode())


def refuse_items(urls: Sequence[str], refused: object) -> ScriptedReply:
    assert isinstance(refused, set)
    return results(*("fail" if url in refused else "OK" for url in urls))


def urls_of_actions(body: bytes) -> list[str]:
    """The URLs of documents, but not of those that are only hidden."""
    lines = [json.loads(line) for line in body.splitlines()] if body.endswith(b"}\n") else []
    return [line["index"]["_id"] for line in lines if "index" in line]


def json_reply(value: object, *, status: int = 200) -> ScriptedReply:
    return ScriptedReply(status, json.dumps(value).encode(), content_type="application/json")


def error(status: int, kind: str, reason: str) -> dict[str, object]:
    return {"status": status, "error": {"type": kind, "reason": reason}}


def actions(
    urls: Sequence[str], failed: Collection[str] = (), failure: object = None
) -> ScriptedReply:
    """A result for each action: a failure for some."""
    done = {"status": 201, "result": "created"}
    items = [{"index": failure if url in failed else done} for url in urls]
    return json_reply({"errors": bool(failed), "items": items})


BUSY_ITEM = error(429, "es_rejected_execution_exception", "rejected execution of a thread")
BAD_ITEM = error(400, "mapper_parsing_exception", "failed to parse field [size]")
TOO_LARGE_REQUEST = json_reply(error(413, "", "Request Entity Too Large"), status=413)
ILL_FORMED = json_reply(error(400, "illegal_argument_exception", "Malformed action"), status=400)


def reply_to_step(request: ScriptedRequest) -> ScriptedReply:
    """The index of the datasource is there, without documents; documents are hidden."""
    if request.path.endswith("/_mapping"):
        return json_reply({"intranet-docs-1": {"mappings": mapping("docs")}})
    if request.path.endswith("/_alias"):
        return json_reply({"intranet-docs-1": {"aliases": {"intranet-docs": {}}}})
    if request.path.endswith("/_count"):
        return json_reply({"count": 0})
    if "/_bulk" in request.path:
        items = [{"update": {"status": 200}} for line in request.body.splitlines()[::2]]
        return json_reply({"errors": False, "items": items})
    return json_reply({"acknowledged": True})


def urls_of_commands(body: bytes) -> list[str]:
    """The URLs of documents, but not of those that are only hidden."""
    lines = [json.loads(line) for line in body.splitlines()] if body.endswith(b"}\n") else []
    documents = [line["add"]["doc"] for line in lines if "add" in line]
    return [document["url"] for document in documents if "_version_" not in document]


def commands(urls: Sequence[str], failed: Collection[str] = ()) -> ScriptedReply:
    """The errors of some documents."""
    errors = [
        {"type": "ADD", "id": f"docs {url}", "message": "Error adding field 'size'='x'"}
        for url in urls
        if url in failed
    ]
    return json_reply({"responseHeader": {"status": 0, "errors": errors}})


NEWEST: dict[str, int] = {}
SOLR_TYPES = [
    *({"name": f"feedferry_{name}"} for name in ("string", "text", "date")),
    {"name": "feedferry_tokens", "class": "solr.StrField", "multiValued": True},
    {"name": "feedferry_long", "class": "solr.LongPointField"},
]


def schema_of_solr() -> dict[str, object]:
    """All fields of feedferry, as strings, but for the run."""
    names = missing_fields(HeldSchema(), SolrOptions())
    fields: list[dict[str, object]] = [
        {"name": name, "type": "feedferry_long" if name == "run" else "feedferry_tokens"}
        for name in names
    ]
    held = {"uniqueKey": "id", "fieldTypes": SOLR_TYPES, "fields": fields}
    return {"schema": {**held, "dynamicFields": [{"name": "meta_*"}, {"name": "field_*"}]}}


def reply_to_step_of_solr(request: ScriptedRequest) -> ScriptedReply:
    """The collection has all fields and no documents; it keeps the newest run."""
    path = request.path.partition("?")[0].rpartition("/")[2]
    if path == "schema":
        return json_reply(schema_of_solr())
    if path == "get":
        return json_reply({"doc": NEWEST})
    if path == "select":
        return json_reply({"response": {"numFound": 0, "docs": []}})
    if b'"feedferry-run: docs"' in request.body:
        NEWEST["run"] = json.loads(request.body)["add"]["doc"]["run"]
    return commands([])


FEEDERGATE_KIT = ApplianceKit(
    appliance=FEEDERGATE,
    format=GSA_FEED,
    settings={"datasource": "docs", "feedtype": "incremental"},
    urls_of=urls_of_feed,
    accept=lambda _urls: ScriptedReply(body=b"Success"),
)
RECVDATA_KIT = ApplianceKit(
    appliance=RECVDATA,
    format=THUNDERSTONE,
    path="/texis/dowalk/recvdata.xml",
    profile="intranet",
    urls_of=urls_of_items,
    accept=lambda urls: results(*["OK"] * len(urls)),
    refuse=refuse_items,
    others=lambda _request: results("OK"),
)
OPENSEARCH_KIT = ApplianceKit(
    appliance=OPENSEARCH_CLUSTER,
    format=OPENSEARCH,
    path="/intranet",
    settings={"datasource": "docs", "feedtype": "incremental"},
    urls_of=urls_of_actions,
    accept=actions,
    refuse=lambda urls, refused: actions(urls, refused, BAD_ITEM),
    ill_formed=ILL_FORMED,
    busy=(
        ScriptedReply(503, b"busy", headers={"Retry-After": "0"}),
        json_reply(BUSY_ITEM, status=429),
        json_reply({"errors": True, "items": [{"index": BUSY_ITEM}] * 4}),
    ),
    too_large=TOO_LARGE_REQUEST,
    others=reply_to_step,
)


SOLR_KIT = ApplianceKit(
    appliance=SOLR_COLLECTION,
    format=SOLR,
    path="/solr/intranet",
    settings={"datasource": "docs", "feedtype": "incremental"},
    urls_of=urls_of_commands,
    accept=commands,
    refuse=commands,
    ill_formed=json_reply({"error": {"msg": "JSON Parse Error", "code": 400}}, status=400),
    busy=(
        ScriptedReply(503, b"busy", headers={"Retry-After": "0"}),
        json_reply({"error": {"msg": "busy", "code": 429}}, status=429),
    ),
    too_large=ScriptedReply(413, b"too large"),
    others=reply_to_step_of_solr,
)


@pytest.mark.slow
class TestAppliances(ApplianceTests):
    kits = FEEDERGATE_KIT, RECVDATA_KIT, OPENSEARCH_KIT, SOLR_KIT
