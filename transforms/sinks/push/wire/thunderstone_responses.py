"""What the answers of a Thunderstone appliance to dataload mean.

**Spec:** Parametric Search Appliance manual, "Reply Format". It does not say where the Status of a
whole request stands, which status of HTTP comes with it, or that each Item has a result: so a
Status is looked for everywhere, and nothing is taken as accepted that does not add up.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from lxml import etree

from schemas.receipt import Refusal
from transforms.sinks.push.model import ApplianceResponse, ResponseMeaning, Verdict
from transforms.sinks.push.wire.responses import (
    ANSWER_BYTES_LIMIT,
    Cures,
    by_fault,
    by_status,
    is_success,
    named,
    place,
    said,
    shown,
    text_of,
    too_early,
)

REMARKS = 20
"""How many remarks are told apart; others are one more."""

_ROOT, _ITEM, _ROWS = "ThunderstoneReplicationResult", "ItemResult", "Rows"
_STATUS, _INFO = "Status", "Info"
_BEGINNING = re.compile(rb"(?:<\?xml[^>]*>\s*)?<(?:[A-Za-z]\w*:)?%b[\s/>]" % _ROOT.encode())
_FEED_BYTES = 1 << 16
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_CLUSTER = (
    "add the address of this machine, and those of all proxies between, to Cluster Members "
    "of the appliance"
)
_CURES = Cures(
    acceptance=f"a {_ROOT}",
    trust=_CLUSTER,
    address="check --to: it is the address of the admin interface with /recvdata.xml behind it",
)
_FATAL = {
    "not allowed": f"expected OK: {_CLUSTER}",
    "no profile": "expected OK: check that --profile is the name of a profile there",
}
_REMEDIES = {
    "nodata": "expected OK: it found no Item that it could read; `feedferry inspect` may tell why",
    "fail_unknowntype": "expected OK: it does not know the Type of an Item",
    "fail": "expected OK: it does not say why; its own log may",
}
_PAGES = (
    (
        "configured to deny administration from your location",
        "expected dataload to be allowed: add the address of this machine to Admin Access IPs",
    ),
    ("non-secure protocol", "expected TLS to be used: give --to with https://"),
)


class _Result(NamedTuple):
    """Status and Info of one Item."""

    status: str
    info: str

    @property
    def is_ok(self) -> bool:
        return self.status.casefold() == "ok"

    @property
    def words(self) -> str:
        return named(self.status) + (f", {shown(self.info)}" if self.info else "")


class _Reply:
    """A ThunderstoneReplicationResult: results by Item, and each Status that belongs to none."""

    def __init__(self) -> None:
        self.is_one = False
        self.is_whole = True
        self.results: list[_Result] = []
        self.general: list[_Result] = []
        self.rows: int | None = None
        self._status = self._info = ""

    def take(self, name: str, text: str) -> None:
        """Take what has ended within an Item, or the Item itself."""
        if name == _STATUS:
            self._status = text
        elif name == _INFO:
            self._info = text
        elif name == _ITEM:
            self.results.append(_Result(self._status, self._info))
            self._status = self._info = ""

    def take_general(self, name: str, text: str) -> None:
        """Take what has ended outside of all Items."""
        if name == _ROWS:
            self.rows = int(text) if _NUMBER.fullmatch(text) else None
        elif name == _STATUS:
            self.general.append(_Result(text, ""))
        elif name == _INFO and self.general:
            self.general[-1] = self.general[-1]._replace(info=text)


def judge(answer: ApplianceResponse, *, sent: int) -> Verdict:
    """Return what an answer to so many Items means; a `sent` of 0 stands for a number not known."""
    if answer.fault:
        return by_fault(answer)
    reply = _parse(answer.body)
    if not reply.is_one:
        return _judge_other(answer)
    for result in (*reply.general, *reply.results):
        if cure := _FATAL.get(result.status.casefold()):
            return _verdict(answer, ResponseMeaning.FATAL, f"{result.words}; {cure}")
    if not is_success(answer):
        return by_status(answer, _CURES)
    verdict = _judge_whole(answer, reply, sent) or _judge_results(answer, reply, sent)
    is_early = verdict.meaning is ResponseMeaning.ACCEPTED and answer.is_unsent
    return too_early(answer) if is_early else verdict


def _judge_other(answer: ApplianceResponse) -> Verdict:
    text = " ".join(text_of(answer).split())
    for words, cure in _PAGES:
        if words in text:
            return _verdict(
                answer, ResponseMeaning.FATAL, f"{answer.status}, {said(answer)}; {cure}"
            )
    return by_status(answer, _CURES)


def _judge_whole(answer: ApplianceResponse, reply: _Reply, sent: int) -> Verdict | None:
    """Return what the reply means as a whole, `None` if its results are to be looked at."""
    if len(answer.body) >= ANSWER_BYTES_LIMIT:
        found = f"results longer than {ANSWER_BYTES_LIMIT} bytes"
        return _refused(answer, f"{found}; expected fewer: a part of the Items will have")
    if not reply.is_whole:
        return _verdict(answer, ResponseMeaning.RETRY, f"{said(answer)}; expected it to end as XML")
    for result in reply.general:
        if not result.is_ok:
            return _refused(answer, _with_remedy(result))
    if not reply.results and reply.general and reply.rows == sent:
        return Verdict(meaning=ResponseMeaning.ACCEPTED, message="OK")
    count = len(reply.results)
    expected = sent or count
    is_alone = sent == count == 1  # its own Status says it all
    if not count or count != expected or not (is_alone or reply.rows in (None, expected)):
        rows = "" if reply.rows is None else f" and Rows {reply.rows}"
        return _refused(answer, f"results of {count} Items{rows}; expected {sent or 'some'}")
    return None


def _judge_results(answer: ApplianceResponse, reply: _Reply, sent: int) -> Verdict:
    failed = [place for place, result in enumerate(reply.results) if not result.is_ok]
    count = len(reply.results)
    if failed and (len(failed) == count or not sent):
        words = _with_remedy(reply.results[failed[0]])
        return _refused(answer, f"{len(failed)} of {count} Items: {words}")
    return Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message=f"OK for {count - len(failed)} of {count} Items",
        refused=tuple(Refusal(place, reply.results[place].words) for place in failed),
        notices=tuple(_remarks(reply.results)),
    )


def _remarks(results: list[_Result]) -> Iterator[str]:
    """Yield what is remarked of each Item that was taken, in few different words."""
    known: dict[str, str] = {}
    for result in results:
        if result.is_ok and result.info:
            if result.info not in known and len(known) < REMARKS:
                known[result.info] = result.words
            yield known.get(result.info, "OK, with another remark")


def _with_remedy(result: _Result) -> str:
    remedy = _REMEDIES.get(result.status.casefold(), "expected OK")
    return f"{result.words}; {remedy}"


def _refused(answer: ApplianceResponse, words: str) -> Verdict:
    return Verdict(
        meaning=ResponseMeaning.REFUSED, message=f"{place(answer)}: {words}", can_split=True
    )


def _verdict(answer: ApplianceResponse, meaning: ResponseMeaning, words: str) -> Verdict:
    return Verdict(meaning=meaning, message=f"{place(answer)}: {words}")


def _parse(body: bytes) -> _Reply:
    """Read what stands in a reply, as far as it is XML; an element at a time."""
    reply = _Reply()
    parser: etree.XMLPullParser = etree.XMLPullParser(
        events=("end",),
        tag=[f"{{*}}{name}" for name in (_ROOT, _ITEM, _ROWS, _STATUS, _INFO)],
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    body = body.lstrip()  # a script may write a blank line before it
    reply.is_one = _BEGINNING.match(body) is not None
    try:
        for start in range(0, len(body), _FEED_BYTES):
            parser.feed(body[start : start + _FEED_BYTES])
            for _, element in parser.read_events():
                _take(reply, element)
        parser.close()
    except etree.XMLSyntaxError:
        reply.is_whole = False
    return reply


def _take(reply: _Reply, element: etree._Element) -> None:
    name, text = _name(element), (element.text or "").strip()
    parent = element.getparent()
    if parent is None:
        reply.is_one = reply.is_one or name == _ROOT
    elif name == _ITEM:
        reply.take(name, text)
        element.clear()
        while element.getprevious() is not None:
            del parent[0]
    elif _name(parent) == _ITEM or any(_name(one) == _ITEM for one in parent.iterancestors()):
        reply.take(name, text)
    else:
        reply.take_general(name, text)


def _name(element: etree._Element) -> str:
    return str(element.tag).rpartition("}")[2]
