"""The protocol of a Google Search Appliance: forms to /xmlfeed and /xmlgroups, and its responses.

**Spec:** Feeds Protocol Developer's Guide 7.x, "How a Feed Client Pushes a Feed", "Insufficient
Disk Space Rejects Feeds", "Creating a Groups Feed Client". `Error - Unauthorized Request` and
`Internal Error` are known from the connector manager.

A status of 200 means nothing: an appliance with a full disk sends it too. Only `Success` is
acceptance, in upper or lower case and with any line breaks, as clients find it. We deviate from the
adaptor library, which accepts `Success` with a status of 500.
"""

import re

from schemas.delivery import Door
from schemas.feed import CLEANUP, INCREMENTAL, METADATA_AND_URL, REPLACE
from transforms.sinks.push.model import ApplianceResponse, ChunkPart, ResponseMeaning, Verdict
from transforms.sinks.push.throttle.backlog import BacklogCount
from transforms.sinks.push.wire.body import RequestBody, multipart
from transforms.sinks.push.wire.chunk_check import check_source_name, format_of
from transforms.sinks.push.wire.protocol import REQUEST_FORMS, Appliance, ApplianceProtocol
from transforms.sinks.push.wire.responses import (
    ApplianceHints,
    describe,
    is_html,
    judge_status,
    origin_of,
    quote,
    text_of,
)

BACKLOG_PATH = "/getbacklogcount"
SUCCESS = "success"
_PORTS = "a feedergate listens on port 19900, with TLS on 19902"
_TRUST = (
    "add the address of this machine to the List of Trusted IP Addresses "
    "in Content Sources > Feeds of the Admin Console"
)
_HINTS = ApplianceHints(
    acceptance="Success",
    trust=_TRUST,
    address=f"check host and port of --to; {_PORTS}",
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


def cleanup_request(groupsource: str) -> tuple[str, RequestBody]:
    """Return path and body of a request that removes all groups of a groupsource.

    Raises ConfigError if its name is not possible.
    """
    form = REQUEST_FORMS[Door.GROUPS]
    check_source_name("cleanup", form.source_field, groupsource)
    return form.path, multipart([("cleanup", groupsource)])


def _request(
    part: ChunkPart, appliance: Appliance, feedtype: str | None
) -> tuple[str, RequestBody]:
    format, door = format_of(part.chunk, appliance)
    form, source = REQUEST_FORMS[door], part.chunk.datasource or ""
    feedtype = feedtype or part.chunk.feedtype or METADATA_AND_URL
    if feedtype == REPLACE:
        return form.path, multipart([(REPLACE, source)], part)
    if feedtype == CLEANUP:
        feedtype = INCREMENTAL  # a request before this one has removed the groups
    fields = [(form.source_field, source), ("feedtype", feedtype)]
    return form.path, multipart(fields, part, content_type=format.content_type)


def judge(response: ApplianceResponse, sent: int = 0) -> Verdict:
    """Return the meaning of a response to a feed, whatever the number of its records."""
    if not is_html(response):
        text = text_of(response)
        if response.is_success and re.sub("[\r\n]", "", text).casefold() == SUCCESS:
            return Verdict(meaning=ResponseMeaning.ACCEPTED, message=text)
        words = " ".join(text.casefold().split())
        for beginning, meaning, fix in _KNOWN_ERRORS:
            if words.startswith(beginning):
                found = f"{origin_of(response)}: {response.status}, {describe(response)}"
                return Verdict(meaning=meaning, message=f"{found}; {fix}")
    return judge_status(response, _HINTS)


def read_backlog(response: ApplianceResponse) -> BacklogCount:
    """Return how many feeds wait at the appliance."""
    if response.error:
        return response.error
    if response.status == 404:
        return None
    text = text_of(response)
    if response.is_success and _NUMBER.fullmatch(text):
        return int(text)
    found = quote(text) if text and not is_html(response) else describe(response)
    trust = f": {_TRUST}" if response.status in (401, 403) else ""
    origin = f"{origin_of(response)}: {response.status}"
    return f"{origin}, {found}; expected a number of feeds{trust}"


FEEDERGATE = ApplianceProtocol(
    name="feedergate",
    doors=(Door.FEED, Door.GROUPS),
    expected_server=_PORTS,
    make_request=_request,
    judge=judge,
    read_backlog=read_backlog,
    can_gzip=True,
)
