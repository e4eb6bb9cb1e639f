"""What all responses have in common: their text, and the meaning of their status."""

import html
import re

from feedferry.transforms.sinks.push.model import (
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from feedferry.transforms.sinks.push.wire.protocol import ApplianceProtocol

MAX_RESPONSE_BYTES = 16 << 20
"""The rest of a longer response is not read."""

MAX_QUOTED_LETTERS = 200
_MAX_TEXT_BYTES = 1 << 13
_HTML = re.compile(
    r"(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype\s+html|html|head|body|title)\b",
    re.I | re.S,
)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.I | re.S)
_TAG = re.compile(r"<script.*?</script>|<style.*?</style>|<[^>]*>", re.I | re.S)
_ILL_FORMED = re.compile(
    r"malformed|ill-formed|not well[- ]formed|pars(?:e|er|ing) error|invalid (?:xml|feed)"
    r"|does not follow the dtd|xml syntax",
    re.I,
)
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_BAD_REQUEST, _UNPROCESSABLE, _TOO_LARGE, _FULL_DISK = 400, 422, 413, 507
_TEMPORARY = (408, 425, 429)
_UNKNOWN_METHOD = 501


def verdict_on(response: ApplianceResponse, meaning: ResponseMeaning, found: str) -> Verdict:
    """Return a verdict whose message begins with the address of the request."""
    return Verdict(meaning=meaning, message=f"{response.url or 'the appliance'}: {found}")


def status_verdict(response: ApplianceResponse, meaning: ResponseMeaning, fix: str) -> Verdict:
    """Return a verdict whose message has the status and the text of the response."""
    return verdict_on(response, meaning, f"{response.status}, {describe(response)}; {fix}")


def text_of(response: ApplianceResponse) -> str:
    """Return the beginning of the body as text, also if the body is none."""
    return response.body[:_MAX_TEXT_BYTES].decode("utf-8", "replace").strip("\ufeff \t\r\n\0")


def quote(text: str) -> str:
    """Return at most 200 letters in quotes, with control characters escaped."""
    return repr(text) if len(text) <= MAX_QUOTED_LETTERS else repr(text[:MAX_QUOTED_LETTERS]) + "…"


def is_html(response: ApplianceResponse) -> bool:
    """Whether a response is a page; a text without markup is none, whatever its type states."""
    text = text_of(response)
    is_html_type = "html" in response.content_type.lower()
    return (is_html_type and text.startswith("<")) or _HTML.match(text) is not None


def describe(response: ApplianceResponse) -> str:
    """Return the quoted text of a response, or the title of an HTML page."""
    text = text_of(response)
    if not text:
        return "an empty response"
    if not _HTML.match(text):
        return quote(text)
    title = _TITLE.search(text)
    plain = " ".join(html.unescape(_TAG.sub(" ", title[1] if title else text)).split())
    return "a page with the title " + quote(plain) if title else "a page with " + quote(plain)


def retry_after_seconds(response: ApplianceResponse) -> float | None:
    """Return the seconds of a Retry-After header, None without one or if it has a date."""
    text = response.retry_after.strip()
    return float(text) if _SECONDS.fullmatch(text) else None


def judge_response(
    protocol: ApplianceProtocol, response: ApplianceResponse, part: ChunkPart | None = None
) -> Verdict:
    """Return the meaning of a response to a part of a chunk, or to another request."""
    if response.error:
        meaning = ResponseMeaning.FATAL if response.is_permanent else ResponseMeaning.RETRY
        return Verdict(meaning=meaning, message=response.error)
    verdict = protocol.judge(response, part) or _judge_status(response, protocol)
    if verdict.meaning is ResponseMeaning.ACCEPTED and response.is_unsent:
        found = f"{describe(response)} after {response.sent_bytes} bytes"
        expected = "expected the whole feed to be read first"
        return verdict_on(response, ResponseMeaning.RETRY, f"{found}; {expected}")
    return verdict


def _judge_status(response: ApplianceResponse, protocol: ApplianceProtocol) -> Verdict:
    status = response.status or 0
    is_server_error = status >= 500 and status != _UNKNOWN_METHOD
    is_empty_success = response.is_success and not text_of(response)
    meaning, fix = ResponseMeaning.FATAL, ""
    if status == _TOO_LARGE:
        meaning, fix = ResponseMeaning.REFUSED, "it to be small enough: a part of it may be"
    elif _is_ill_formed(response):
        meaning = ResponseMeaning.REFUSED
        fix = f"{protocol.acceptance}: the appliance cannot read something in it"
    elif status == _FULL_DISK:
        meaning, fix = ResponseMeaning.FULL_DISK, "disk space for a feed"
    elif status in _TEMPORARY or is_server_error or is_empty_success:
        meaning, fix = ResponseMeaning.RETRY, protocol.acceptance
    return status_verdict(response, meaning, f"expected {fix}" if fix else _fix(response, protocol))


def _is_ill_formed(response: ApplianceResponse) -> bool:
    """Whether the appliance says that the feed is ill-formed, so that a part of it may be taken."""
    if is_html(response):
        return False
    if response.status in (_BAD_REQUEST, _UNPROCESSABLE):
        return True
    can_say_so = response.is_success or response.status == 500
    return can_say_so and _ILL_FORMED.search(text_of(response)) is not None


def _fix(response: ApplianceResponse, protocol: ApplianceProtocol) -> str:
    """Return what fixes a response that another attempt would meet again."""
    status = response.status or 0
    if 300 <= status < 400:
        target = quote(response.location) if response.location else "no address"
        return f"a redirect to {target}, which is not followed: if it is right, give it as ⟦url⟧"
    not_there = f"expected feeds to be accepted there: {protocol.fix_address}"
    fixes = {
        401: f"expected access without authentication: {protocol.fix_address}",
        403: f"expected to be trusted: {protocol.fix_trust}",
        404: not_there,
        405: not_there,
        407: "expected a proxy without authentication: check ⟦proxy⟧, or leave it out",
        _UNKNOWN_METHOD: not_there,
    }
    address = f": {protocol.fix_address}" if response.is_success else ""
    return fixes.get(status, f"expected {protocol.acceptance}{address}")
