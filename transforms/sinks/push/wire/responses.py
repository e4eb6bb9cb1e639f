"""Answers that say nothing of what an appliance says: shown, and judged by their status."""

import html
import re

import msgspec

from transforms.sinks.push.model import ApplianceResponse, ResponseMeaning, Verdict

ANSWER_BYTES_LIMIT = 16 << 20
"""What is longer of an answer is not read."""

SHOWN_LETTERS = 200
_LOOKED_AT = 1 << 13  # bytes of a text that are looked at
_HTML = re.compile(
    r"(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype\s+html|html|head|body|title)\b",
    re.I | re.S,
)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.I | re.S)
_TAG = re.compile(r"<script.*?</script>|<style.*?</style>|<[^>]*>", re.I | re.S)
_NOT_IN_NAME = re.compile(r"[^A-Za-z_ -]", re.ASCII)
_ILL_FORMED = re.compile(
    r"malformed|ill-formed|not well[- ]formed|pars(?:e|er|ing) error|invalid (?:xml|feed)"
    r"|does not follow the dtd|xml syntax",
    re.I,
)
_REFUSING = (400, 422)
_TOO_LARGE = 413
_FULL_DISK = 507
_PASSING = (408, 425, 429)
_UNKNOWN_METHOD = 501


class Cures(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind of appliance is to be asked for: whom it trusts, and where it listens."""

    acceptance: str
    trust: str
    address: str


def place(answer: ApplianceResponse) -> str:
    """Where a message begins."""
    return answer.where or "the appliance"


def is_success(answer: ApplianceResponse) -> bool:
    return answer.status is not None and 200 <= answer.status < 300


def text_of(answer: ApplianceResponse) -> str:
    """Return the answer as text, whatever it is."""
    return answer.body[:_LOOKED_AT].decode("utf-8", "replace").strip("\ufeff \t\r\n\0")


def shown(text: str) -> str:
    """Return `text` in quotes, at most 200 letters of it, control characters escaped."""
    return repr(text) if len(text) <= SHOWN_LETTERS else repr(text[:SHOWN_LETTERS]) + "…"


def named(text: str) -> str:
    """Return a word of an appliance as it is; in quotes if it is not one."""
    return shown(text) if len(text) > 40 or not text or _NOT_IN_NAME.search(text) else text


def is_html(answer: ApplianceResponse) -> bool:
    return "html" in answer.content_type.lower() or _HTML.match(text_of(answer)) is not None


def said(answer: ApplianceResponse) -> str:
    """Return what the answer says, in words: the title of a page, or the text."""
    text = text_of(answer)
    if not text:
        return "nothing"
    if not _HTML.match(text):
        return shown(text)
    title = _TITLE.search(text)
    return "a page that says " + shown(_plain(title[1] if title else text))


def by_fault(answer: ApplianceResponse) -> Verdict:
    """Judge what came instead of an answer."""
    meaning = ResponseMeaning.FATAL if answer.is_final else ResponseMeaning.RETRY
    return Verdict(meaning=meaning, message=answer.fault)


def too_early(answer: ApplianceResponse) -> Verdict:
    """Judge an acceptance of what was not sent."""
    return Verdict(
        meaning=ResponseMeaning.RETRY,
        message=f"{place(answer)}: {said(answer)} after {answer.sent_bytes} bytes; "
        "expected the whole feed to be read first",
    )


def is_ill_formed(answer: ApplianceResponse) -> bool:
    """Whether the appliance says that what it got is no feed, so that a part of it may be one."""
    if is_html(answer):
        return False
    if answer.status in _REFUSING:
        return True
    looks_so = _ILL_FORMED.search(text_of(answer)) is not None
    return looks_so and (is_success(answer) or answer.status == 500)


def by_status(answer: ApplianceResponse, cures: Cures) -> Verdict:
    """Judge an answer whose text is not known."""
    status = answer.status or 0
    found = f"{place(answer)}: {status}, {said(answer)}"
    if status == _TOO_LARGE:
        message = f"{found}; expected it to be small enough: a part of it may be"
        return Verdict(meaning=ResponseMeaning.REFUSED, message=message, can_split=True)
    if is_ill_formed(answer):
        message = f"{found}; expected {cures.acceptance}: something in it is not understood"
        return Verdict(meaning=ResponseMeaning.REFUSED, message=message, can_split=True)
    if status == _FULL_DISK:
        return Verdict(
            meaning=ResponseMeaning.FULL_DISK, message=f"{found}; expected room for a feed"
        )
    if status in _PASSING or (status >= 500 and status != _UNKNOWN_METHOD):
        return Verdict(
            meaning=ResponseMeaning.RETRY, message=f"{found}; expected {cures.acceptance}"
        )
    if is_success(answer) and not text_of(answer):
        return Verdict(
            meaning=ResponseMeaning.RETRY, message=f"{found}; expected {cures.acceptance}"
        )
    return Verdict(meaning=ResponseMeaning.FATAL, message=f"{found}; {_cure(answer, cures)}")


def _cure(answer: ApplianceResponse, cures: Cures) -> str:
    status = answer.status or 0
    if 300 <= status < 400:
        to = f"to {shown(answer.location)}" if answer.location else "to nowhere"
        return f"a redirect {to}, which no feed follows: if that is right, give it as --to"
    known = {
        401: f"expected no question for a user: {cures.address}",
        403: f"expected to be trusted: {cures.trust}",
        404: f"expected feeds to be taken there: {cures.address}",
        405: f"expected feeds to be taken there: {cures.address}",
        407: "expected a proxy that asks for no user: check --proxy, or leave it out",
        _UNKNOWN_METHOD: f"expected feeds to be taken there: {cures.address}",
    }
    address = f": {cures.address}" if is_success(answer) else ""
    return known.get(status, f"expected {cures.acceptance}{address}")


def _plain(markup: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", markup)).split())
