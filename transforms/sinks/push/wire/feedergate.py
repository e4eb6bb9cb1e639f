"""The protocol of a Google Search Appliance: forms to /xmlfeed and /xmlgroups, and its responses.

**Spec:** Feeds Protocol Developer's Guide 7.x, "How a Feed Client Pushes a Feed", "Insufficient
Disk Space Rejects Feeds", "Creating a Groups Feed Client". `Error - Unauthorized Request` and
`Internal Error` are known from the connector manager.

A status of 200 means nothing: an appliance with a full disk sends it too. Only `Success` is
acceptance, in upper or lower case, with any line breaks and type, as clients find it. We deviate
from the adaptor library, which accepts `Success` with a status of 500.
"""

import re

from feedferry.schemas.check import CheckLine, fail_of, ok, warn
from feedferry.schemas.feed import CLEANUP, FEEDTYPES, FULL, INCREMENTAL, METADATA_AND_URL, REPLACE
from feedferry.transforms.formats import GSA_FEED, GSA_GROUPS, by_name
from feedferry.transforms.sinks.push.model import (
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from feedferry.transforms.sinks.push.throttle.backlog import BacklogCount
from feedferry.transforms.sinks.push.wire.body import RequestBody, multipart
from feedferry.transforms.sinks.push.wire.protocol import (
    Address,
    ApplianceProtocol,
    Endpoint,
    SendContext,
)
from feedferry.transforms.sinks.push.wire.rehearsal_documents import LISTED_FIELDS, list_documents
from feedferry.transforms.sinks.push.wire.responses import (
    describe,
    is_html,
    quote,
    status_verdict,
    text_of,
)

BACKLOG_PATH = "/getbacklogcount"
GZIP_BYTES = 1 << 20
"""Longer bodies are not compressed: "GSA only allows request content up to 1 MB to be compressed"
(adaptor library)."""

XMLFEED = Endpoint(
    name="xmlfeed",
    formats=(GSA_FEED.name,),
    path="/xmlfeed",
    source_field="datasource",
    feedtypes=FEEDTYPES,
    feedtypes_of={"web": (METADATA_AND_URL, INCREMENTAL)},
)
XMLGROUPS = Endpoint(
    name="xmlgroups",
    formats=(GSA_GROUPS.name,),
    path="/xmlgroups",
    source_field="groupsource",
    feedtypes=(FULL, INCREMENTAL, REPLACE, CLEANUP),
    default_feedtype=INCREMENTAL,  # a full feed would delete the other groups of its source
)
_ENDPOINTS = XMLFEED, XMLGROUPS
_PATHS = ("", BACKLOG_PATH, *(endpoint.path for endpoint in _ENDPOINTS))
_DEFAULT_PORTS = {"http": ":19900", "https": ":19902"}
_PORTS = "a feedergate listens on port 19900, with TLS on 19902"
_TRUST = (
    "add the address of this machine to the List of Trusted IP Addresses "
    "in Content Sources > Feeds of the Admin Console"
)
_KNOWN_ERRORS = (
    ("error - unauthorized", ResponseMeaning.FATAL, f"expected Success: {_TRUST}"),
    (
        "feed not accepted due to insufficient disk space",
        ResponseMeaning.FULL_DISK,
        "expected Success: it has space again when it has digested feeds, or when an administrator "
        "makes some",
    ),
    (
        "error: group db at capacity",
        ResponseMeaning.FATAL,
        "expected Success: the groups of all groupsources may have 1 GB; remove some first",
    ),
    ("internal error", ResponseMeaning.RETRY, "expected Success"),
)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


def _request(part: ChunkPart, context: SendContext) -> tuple[str, RequestBody]:
    name, source = part.chunk.format or GSA_FEED.name, part.chunk.datasource or ""
    endpoint = XMLGROUPS if name in XMLGROUPS.formats else XMLFEED
    feedtype = context.feedtype or part.chunk.feedtype or METADATA_AND_URL
    if feedtype == REPLACE:
        return endpoint.path, multipart([(REPLACE, source)], part)
    if feedtype == CLEANUP:
        feedtype = INCREMENTAL  # a request before this one has removed the groups
    fields = [(endpoint.source_field, source), ("feedtype", feedtype)]
    return endpoint.path, multipart(fields, part, content_type=by_name(name).content_type)


def _cleanup(groupsource: str) -> tuple[str, RequestBody]:
    return XMLGROUPS.path, multipart([(CLEANUP, groupsource)])


def _find_url(address: Address) -> str | None:
    if address.path.rstrip("/") not in _PATHS:
        return None
    port = address.port or _DEFAULT_PORTS[address.scheme]
    return f"{address.scheme}://{address.host}{port}"


def _judge(response: ApplianceResponse, _part: ChunkPart | None) -> Verdict | None:
    if is_html(response):
        return None
    text = text_of(response)
    if response.is_success and re.sub("[\r\n]", "", text).casefold() == "success":
        return Verdict(meaning=ResponseMeaning.ACCEPTED, message=text)
    words = " ".join(text.casefold().split())
    for beginning, meaning, fix in _KNOWN_ERRORS:
        if words.startswith(beginning):
            return status_verdict(response, meaning, fix)
    return None


def _read_backlog(response: ApplianceResponse) -> BacklogCount:
    if response.error:
        return response.error
    if response.status == 404:
        return None
    text = text_of(response)
    if response.is_success and _NUMBER.fullmatch(text):
        return int(text)
    found = quote(text) if text and not is_html(response) else describe(response)
    trust = f": {_TRUST}" if response.status in (401, 403) else ""
    origin = response.url or "the appliance"
    return f"{origin}: {response.status}, {found}; expected a number of feeds{trust}"


def _judge_probe(response: ApplianceResponse) -> CheckLine:
    count = _read_backlog(response)
    if isinstance(count, int):
        return ok("trust", "requests of this machine are answered")
    if count is None:
        cure = "if a push is refused, add the address of this machine to those that it trusts"
        return warn("trust", "not known: the appliance reports no backlog (404)", cure)
    verdict = _judge(response, None)
    return fail_of("trust", count if verdict is None else verdict.message)


FEEDERGATE = ApplianceProtocol(
    name="feedergate",
    endpoints=_ENDPOINTS,
    addresses="http://HOST[:19900], https://HOST[:19902]",
    find_url=_find_url,
    acceptance="Success",
    fix_server=_PORTS,
    fix_address=f"check host and port of ⟦url⟧; {_PORTS}",
    fix_trust=_TRUST,
    make_request=_request,
    make_cleanup=_cleanup,
    judge=_judge,
    judge_probe=_judge_probe,
    list_documents=list_documents,
    listed_fields=LISTED_FIELDS,
    probe_path=BACKLOG_PATH,
    read_backlog=_read_backlog,
    gzip_bytes=GZIP_BYTES,
)
