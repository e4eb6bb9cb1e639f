"""The protocol of a Thunderstone appliance: forms to recvdata.xml, and its responses.

**Spec:** Parametric Search Appliance manual, "Reply Format". It says neither where the Status of a
whole request is, nor which HTTP status comes with it, nor that each Item has a result. So a Status
is accepted anywhere, and nothing counts as accepted unless the numbers agree.
"""

import io
import re
from typing import NamedTuple

from lxml import etree

from schemas.delivery import Door
from schemas.receipt import Refusal
from transforms.sinks.push.model import ApplianceResponse, ChunkPart, ResponseMeaning, Verdict
from transforms.sinks.push.wire.body import RequestBody, urlencoded
from transforms.sinks.push.wire.protocol import Appliance, ApplianceProtocol
from transforms.sinks.push.wire.responses import (
    MAX_RESPONSE_BYTES,
    ApplianceHints,
    describe,
    judge_early_acceptance,
    judge_error,
    judge_status,
    origin_of,
    quote,
    text_of,
)

MAX_ITEMS = 100_000
"""Items in one request: each has a result in the response, which is held in memory."""

_ROOT, _ITEM, _ROWS = "ThunderstoneReplicationResult", "ItemResult", "Rows"
_STATUS, _INFO = "Status", "Info"
_BEGINNING = re.compile(rb"(?:<\?xml[^>]*>\s*)?<(?:[A-Za-z]\w*:)?%b[\s/>]" % _ROOT.encode())
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_NOT_IN_WORD = re.compile(r"[^A-Za-z_ -]", re.ASCII)
_CLUSTER = (
    "add the address of this machine, and those of all proxies between, to Cluster Members "
    "of the appliance"
)
_HINTS = ApplianceHints(
    acceptance=f"a {_ROOT}",
    trust=_CLUSTER,
    address="check --to: expected the address of the admin interface, followed by /recvdata.xml",
)
_FATAL = {
    "not allowed": f"expected OK: {_CLUSTER}",
    "no profile": "expected OK: check that --profile is the name of a profile there",
}
_FIXES = {
    "nodata": "expected OK: it found no Item that it could read; `feedferry inspect` may show why",
    "fail_unknowntype": "expected OK: it does not know the Type of an Item",
    "fail": "expected OK: it does not say why; see its own log",
}
_REMARKS = {"not found": ", as the appliance does not have the document"}
_PAGES = (
    (
        "configured to deny administration from your location",
        "expected dataload to be allowed: add the address of this machine to Admin Access IPs",
    ),
    ("non-secure protocol", "expected TLS: give --to with https://"),
)


class _ItemStatus(NamedTuple):
    """Status and Info of one Item, or of the whole request."""

    status: str
    info: str = ""

    @property
    def is_ok(self) -> bool:
        return self.status.casefold() == "ok"

    def __str__(self) -> str:
        is_word = 0 < len(self.status) <= 40 and not _NOT_IN_WORD.search(self.status)
        status = self.status if is_word else quote(self.status)
        return status + (f", {quote(self.info)}" if self.info else "")

    def remark(self) -> str:
        return f"accepted with the remark {quote(self.info)}" + _REMARKS.get(
            self.info.casefold(), ""
        )

    def with_fix(self) -> str:
        return f"{self}; {_FIXES.get(self.status.casefold(), 'expected OK')}"


class _ReplicationResult:
    """A ThunderstoneReplicationResult: a status for each Item, and those of the whole request."""

    def __init__(self) -> None:
        self.is_recognized = False
        self.is_complete = True
        self.items: list[_ItemStatus] = []
        self.general: list[_ItemStatus] = []
        self.rows: int | None = None


def _request(
    part: ChunkPart, appliance: Appliance, _feedtype: str | None
) -> tuple[str, RequestBody]:
    return "", urlencoded([("profile", appliance.profile)], part)


def judge(response: ApplianceResponse, sent: int) -> Verdict:
    """Return the meaning of a response to `sent` Items; 0 stands for an unknown number."""
    if response.error:
        return judge_error(response)
    result = _parse(response.body)
    if not result.is_recognized:
        return _judge_other(response)
    for status in (*result.general, *result.items):
        if fix := _FATAL.get(status.status.casefold()):
            return _verdict(response, ResponseMeaning.FATAL, f"{status}; {fix}")
    if not response.is_success:
        return judge_status(response, _HINTS)
    verdict = _judge_request(response, result, sent) or _judge_items(response, result, sent)
    if verdict.meaning is ResponseMeaning.ACCEPTED and response.is_unsent:
        return judge_early_acceptance(response)
    return verdict


def _judge_other(response: ApplianceResponse) -> Verdict:
    text = " ".join(text_of(response).split())
    for words, fix in _PAGES:
        if words in text:
            found = f"{response.status}, {describe(response)}"
            return _verdict(response, ResponseMeaning.FATAL, f"{found}; {fix}")
    return judge_status(response, _HINTS)


def _judge_request(
    response: ApplianceResponse, result: _ReplicationResult, sent: int
) -> Verdict | None:
    """Judge the response as a whole; return None if its Items decide."""
    if len(response.body) >= MAX_RESPONSE_BYTES:
        found = f"results longer than {MAX_RESPONSE_BYTES} bytes"
        return _refused(response, f"{found}; expected fewer: a part of the Items will have them")
    if not result.is_complete:
        found = f"{describe(response)}; expected complete XML"
        return _verdict(response, ResponseMeaning.RETRY, found)
    for status in result.general:
        if not status.is_ok:
            return _refused(response, status.with_fix())
    count = len(result.items)
    if not count and result.general and result.rows == sent:
        return Verdict(meaning=ResponseMeaning.ACCEPTED, message="OK")
    expected = sent or count
    is_single = sent == count == 1  # its own Status says everything
    if not count or count != expected or not (is_single or result.rows in (None, expected)):
        rows = "" if result.rows is None else f" and Rows {result.rows}"
        return _refused(response, f"results of {count} Items{rows}; expected {sent or 'some'}")
    return None


def _judge_items(response: ApplianceResponse, result: _ReplicationResult, sent: int) -> Verdict:
    failed = [number for number, status in enumerate(result.items) if not status.is_ok]
    count = len(result.items)
    if failed and (len(failed) == count or not sent):
        first = result.items[failed[0]]
        return _refused(response, f"{len(failed)} of {count} Items: {first.with_fix()}")
    return Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message=f"OK for {count - len(failed)} of {count} Items",
        refused=tuple(Refusal(number, str(result.items[number])) for number in failed),
        notices=tuple(item.remark() for item in result.items if item.is_ok and item.info),
    )


def _refused(response: ApplianceResponse, found: str) -> Verdict:
    message = f"{origin_of(response)}: {found}"
    return Verdict(meaning=ResponseMeaning.REFUSED, message=message, can_split=True)


def _verdict(response: ApplianceResponse, meaning: ResponseMeaning, found: str) -> Verdict:
    return Verdict(meaning=meaning, message=f"{origin_of(response)}: {found}")


def _parse(body: bytes) -> _ReplicationResult:
    """Read a result as far as it is XML, one element at a time."""
    body = body.lstrip()  # a script may write a blank line before it
    result = _ReplicationResult()
    result.is_recognized = _BEGINNING.match(body) is not None
    elements = etree.iterparse(
        io.BytesIO(body),
        events=("end",),
        tag=[f"{{*}}{name}" for name in (_ROOT, _ITEM, _ROWS, _STATUS, _INFO)],
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        _read_elements(elements, result)
    except etree.XMLSyntaxError:
        result.is_complete = False
    return result


def _read_elements(
    elements: "etree.iterparse[tuple[str, etree._Element]]", result: _ReplicationResult
) -> None:
    status = info = ""
    for _, element in elements:
        name, text = _name(element), (element.text or "").strip()
        parent = element.getparent()
        if parent is None:
            result.is_recognized = result.is_recognized or name == _ROOT
        elif name == _ITEM:
            result.items.append(_ItemStatus(status, info))
            status = info = ""
            element.clear()
            while element.getprevious() is not None:
                del parent[0]
        elif _is_in_item(element):
            if name == _STATUS:
                status = text
            elif name == _INFO:
                info = text
        elif name == _ROWS:
            result.rows = int(text) if _NUMBER.fullmatch(text) else None
        elif name == _STATUS:
            result.general.append(_ItemStatus(text))
        elif name == _INFO and result.general:
            result.general[-1] = result.general[-1]._replace(info=text)


def _is_in_item(element: etree._Element) -> bool:
    return any(_name(ancestor) == _ITEM for ancestor in element.iterancestors())


def _name(element: etree._Element) -> str:
    return str(element.tag).rpartition("}")[2]


RECVDATA = ApplianceProtocol(
    name="recvdata",
    doors=(Door.DATA,),
    expected_server="expected the appliance's web server there",
    make_request=_request,
    judge=judge,
    max_records=MAX_ITEMS,
    has_profiles=True,
    has_index_updates=True,
)
