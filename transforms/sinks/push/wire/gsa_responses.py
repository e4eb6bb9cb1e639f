"""What the answers of a Google Search Appliance mean.

**Spec:** Feeds Protocol Developer's Guide 7.x, "How a Feed Client Pushes a Feed", "Insufficient
Disk Space Rejects Feeds", "Creating a Groups Feed Client". `Error - Unauthorized Request` and
`Internal Error` are known from the connector manager.

A status of 200 means nothing: an appliance without room says so with it. Only `Success` is
acceptance, in any case and with any line breaks, as clients find it; we differ from the adaptor
library, which takes it from a 500 too.
"""

import re

from transforms.sinks.push.model import ApplianceResponse, ResponseMeaning, Verdict
from transforms.sinks.push.throttle.backlog import Count
from transforms.sinks.push.wire.responses import (
    Cures,
    by_fault,
    by_status,
    is_html,
    is_success,
    place,
    said,
    shown,
    text_of,
    too_early,
)

SUCCESS = "success"
_TRUST = (
    "add the address of this machine to the List of Trusted IP Addresses "
    "in Content Sources > Feeds of the Admin Console"
)
_CURES = Cures(
    acceptance="Success",
    trust=_TRUST,
    address="check host and port of --to; a feedergate listens on 19900, with TLS on 19902",
)
_KNOWN = (
    ("error - unauthorized", ResponseMeaning.FATAL, f"expected Success: {_TRUST}"),
    (
        "feed not accepted due to insufficient disk space",
        ResponseMeaning.FULL_DISK,
        "expected Success: it has room again when feeds are digested, or when somebody makes some",
    ),
    (
        "error: group db at capacity",
        ResponseMeaning.FATAL,
        "expected Success: the groups of all sources may have 1 GB; clear some of them first",
    ),
    ("internal error", ResponseMeaning.RETRY, "expected Success"),
)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


def judge(answer: ApplianceResponse) -> Verdict:
    """Return what an answer to a feed means."""
    if answer.fault:
        return by_fault(answer)
    if not is_html(answer):
        text = text_of(answer)
        if is_success(answer) and re.sub("[\r\n]", "", text).casefold() == SUCCESS:
            return too_early(answer) if answer.is_unsent else _accepted(text)
        words = " ".join(text.casefold().split())
        for beginning, meaning, cure in _KNOWN:
            if words.startswith(beginning):
                message = f"{place(answer)}: {answer.status}, {said(answer)}; {cure}"
                return Verdict(meaning=meaning, message=message)
    return by_status(answer, _CURES)


def count(answer: ApplianceResponse) -> Count:
    """Return how many feeds wait; `None` if it cannot tell at all; words if it did not now."""
    if answer.fault:
        return answer.fault
    if answer.status == 404:
        return None
    text = text_of(answer)
    if is_success(answer) and _NUMBER.fullmatch(text):
        return int(text)
    found = shown(text) if text and not is_html(answer) else said(answer)
    trust = f": {_TRUST}" if answer.status in (401, 403) else ""
    return f"{place(answer)}: {answer.status}, {found}; expected a number of feeds{trust}"


def _accepted(text: str) -> Verdict:
    return Verdict(meaning=ResponseMeaning.ACCEPTED, message=text)
