"""The protocol of a Thunderstone appliance: forms to recvdata.xml, and its responses.

**Spec:** Parametric Search Appliance manual, "Reply Format". It says neither where the Status of a
whole request is, nor which HTTP status comes with it, nor that each Item has a result. So a Status
is accepted anywhere, and nothing counts as accepted unless the numbers agree.
"""

import re
from typing import NamedTuple

from lxml import etree

from feedferry.schemas.check import CheckLine, fail_of, ok, warn
from feedferry.schemas.receipt import Refusal
from feedferry.schemas.record import Action, Record
from feedferry.transforms.formats import THUNDERSTONE, WriteOptions
from feedferry.transforms.sinks.push.model import (
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from feedferry.transforms.sinks.push.wire.body import RequestBody, encoded_text, urlencoded
from feedferry.transforms.sinks.push.wire.protocol import (
    Address,
    ApplianceProtocol,
    Endpoint,
    RunSession,
    SendContext,
)
from feedferry.transforms.sinks.push.wire.rehearsal_documents import LISTED_FIELDS, list_documents
from feedferry.transforms.sinks.push.wire.responses import (
    MAX_RESPONSE_BYTES,
    describe,
    judge_response,
    quote,
    status_verdict,
    text_of,
    verdict_on,
)

RECVDATA_PATH = "/recvdata.xml"
RECVDATA_XML = Endpoint(name="recvdata", formats=(THUNDERSTONE.name,))
MAX_ITEMS = 100_000
"""Items in one request: each has a result in the response, which is held in memory."""

_ROOT, _ITEM, _ROWS = "ThunderstoneReplicationResult", "ItemResult", "Rows"
_STATUS, _INFO = "Status", "Info"
_REFUSED = ResponseMeaning.REFUSED
_BEGINNING = re.compile(rb"(?:<\?xml[^>]*>\s*)?<(?:[A-Za-z]\w*:)?%b[\s/>]" % _ROOT.encode())
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_NOT_IN_WORD = re.compile(r"[^A-Za-z_ -]", re.ASCII)
_CLUSTER = (
    "add the address of this machine, and those of all proxies between, to Cluster Members "
    "of the appliance"
)
_NOT_BY_GET = 405
_REMARKS = {"not found": ", as the appliance does not have the document"}
_ADDRESS = "check ⟦url⟧: expected the address of the admin interface, followed by /recvdata.xml"
_FATAL = {
    "not allowed": f"expected OK: {_CLUSTER}",
    "no profile": "expected OK: check that ⟦profile⟧ is the name of a profile there",
}
_FIXES = {
    "nodata": "expected OK: it found no Item that it could read; `feedferry inspect` may show why",
    "fail_unknowntype": "expected OK: it does not know the Type of an Item",
    "fail": "expected OK: it does not say why; see its own log",
}
_PAGES = (
    (
        "configured to deny administration from your location",
        "expected dataload to be allowed: add the address of this machine to Admin Access IPs",
    ),
    ("non-secure protocol", "expected TLS: give ⟦url⟧ with https://"),
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

    def with_fix(self) -> str:
        return f"{self}; {_FIXES.get(self.status.casefold(), 'expected OK')}"


class _ReplicationResult(NamedTuple):
    """A status for each Item, those of the whole request, and the stated number of rows."""

    items: list[_ItemStatus]
    general: list[_ItemStatus]
    rows: int | None


def _request(part: ChunkPart, context: SendContext) -> tuple[str, RequestBody]:
    return "", urlencoded([("profile", context.profile)], part)


def _update_index(session: RunSession) -> None:
    """Make what was sent searchable ("call after a batch of inserts/deletes", dataload API)."""
    encoder = THUNDERSTONE.make_encoder(WriteOptions())
    update = encoder.encode(Record(url="", action=Action.UPDATE_INDEX))
    data = encoder.prolog() + encoder.frame([update]) + encoder.epilog()
    form = encoded_text([("profile", session.appliance.profile)], data)
    session.step("update the search indexes", lambda: session.send("", form))


def _find_url(address: Address) -> str | None:
    return "{}://{}{}{}".format(*address) if address.path.endswith(RECVDATA_PATH) else None


def _judge(response: ApplianceResponse, part: ChunkPart | None) -> Verdict | None:
    sent = part.records if part else 1
    body = response.body.lstrip()  # a script may write a blank line before it
    root = _parse(body)
    is_result = _BEGINNING.match(body) if root is None else etree.QName(root).localname == _ROOT
    if not is_result:
        return _judge_page(response)
    result = _read(root) if root is not None else _ReplicationResult([], [], None)
    for status in (*result.general, *result.items):
        if fix := _FATAL.get(status.status.casefold()):
            return verdict_on(response, ResponseMeaning.FATAL, f"{status}; {fix}")
    if not response.is_success:
        return None
    if len(response.body) >= MAX_RESPONSE_BYTES:
        found = f"results longer than {MAX_RESPONSE_BYTES} bytes"
        return verdict_on(
            response, _REFUSED, f"{found}; expected fewer: a part of the Items will have them"
        )
    if root is None:
        found = f"{describe(response)}; expected complete XML"
        return verdict_on(response, ResponseMeaning.RETRY, found)
    return _judge_request(response, result, sent) or _judge_items(response, result, sent)


def _judge_page(response: ApplianceResponse) -> Verdict | None:
    text = " ".join(text_of(response).split())
    fix = next((fix for words, fix in _PAGES if words in text), None)
    return status_verdict(response, ResponseMeaning.FATAL, fix) if fix else None


def _judge_request(
    response: ApplianceResponse, result: _ReplicationResult, sent: int
) -> Verdict | None:
    """Judge the response as a whole; return None if its Items decide."""
    for status in result.general:
        if not status.is_ok:
            return verdict_on(response, _REFUSED, status.with_fix())
    count = len(result.items)
    if not count and result.general and result.rows == sent:
        return Verdict(meaning=ResponseMeaning.ACCEPTED, message="OK")
    expected = sent or count
    is_single = sent == count == 1  # its own Status says everything
    if not count or count != expected or not (is_single or result.rows in (None, expected)):
        rows = "" if result.rows is None else f" and Rows {result.rows}"
        return verdict_on(
            response, _REFUSED, f"results of {count} Items{rows}; expected {sent or 'some'}"
        )
    return None


def _judge_items(response: ApplianceResponse, result: _ReplicationResult, sent: int) -> Verdict:
    failed = [number for number, status in enumerate(result.items) if not status.is_ok]
    count = len(result.items)
    if failed and (len(failed) == count or not sent):
        first = result.items[failed[0]]
        return verdict_on(response, _REFUSED, f"{len(failed)} of {count} Items: {first.with_fix()}")
    return Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message=f"OK for {count - len(failed)} of {count} Items",
        refused=tuple(Refusal(number, str(result.items[number])) for number in failed),
        notices=tuple(
            f"accepted with the remark {quote(item.info)}{_REMARKS.get(item.info.casefold(), '')}"
            for item in result.items
            if item.is_ok and item.info
        ),
    )


def _parse(body: bytes) -> etree._Element | None:
    """Return the root element, None if the body is no complete XML."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        return etree.fromstring(body, parser)
    except etree.XMLSyntaxError:
        return None


def _read(root: etree._Element) -> _ReplicationResult:
    items = [
        _ItemStatus(_last_text(item, _STATUS), _last_text(item, _INFO))
        for item in root.iter(f"{{*}}{_ITEM}")
    ]
    general = [
        _ItemStatus((status.text or "").strip(), _last_text(parent, _INFO))
        for status in root.iter(f"{{*}}{_STATUS}")
        if next(status.iterancestors(f"{{*}}{_ITEM}"), None) is None
        and (parent := status.getparent()) is not None
    ]
    rows = _last_text(root, _ROWS)
    return _ReplicationResult(items, general, int(rows) if _NUMBER.fullmatch(rows) else None)


def _last_text(element: etree._Element, name: str) -> str:
    """Return the text of the last descendant with this name, "" if there is none."""
    texts = [(inner.text or "").strip() for inner in element.iter(f"{{*}}{name}")]
    return texts[-1] if texts else ""


def _judge_probe(response: ApplianceResponse) -> CheckLine:
    """Judge the response to a request without data: only `Not Allowed` is about the sender."""
    root = _parse(response.body.lstrip())
    is_result = root is not None and etree.QName(root).localname == _ROOT
    verdict = judge_response(RECVDATA, response)
    is_refused = verdict.meaning is ResponseMeaning.FATAL and response.status != _NOT_BY_GET
    if root is not None and is_result and _FATAL["not allowed"] not in verdict.message:
        statuses = (*_read(root).general, *_read(root).items)
        words = ", ".join(str(status) for status in statuses) or "a result"
        return ok("trust", f"a request without data gets {words}, as from a trusted machine")
    if is_refused:
        return fail_of("trust", verdict.message)
    found = f"not known: {response.status}, {describe(response)} without data"
    return warn("trust", found, f"if a push is refused, {_CLUSTER}")


RECVDATA = ApplianceProtocol(
    name="recvdata",
    endpoints=(RECVDATA_XML,),
    addresses="the whole address of a recvdata.xml",
    find_url=_find_url,
    acceptance=f"a {_ROOT}",
    fix_server="expected the appliance's web server there",
    fix_address=_ADDRESS,
    fix_trust=_CLUSTER,
    make_request=_request,
    judge=_judge,
    judge_probe=_judge_probe,
    list_documents=list_documents,
    listed_fields=LISTED_FIELDS,
    max_records=MAX_ITEMS,
    has_profiles=True,
    finish=_update_index,
)
