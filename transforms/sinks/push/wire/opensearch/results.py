"""The meaning of the responses of OpenSearch and Elasticsearch.

**Spec:** OpenSearch "Bulk", Elasticsearch "Bulk API": a response of status 200 has a status for
each action.
"""

import msgspec

from feedferry.schemas.errors import ConfigError, TargetError
from feedferry.schemas.receipt import Refusal
from feedferry.schemas.units import counted
from feedferry.transforms.sinks.push.model import (
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from feedferry.transforms.sinks.push.wire.responses import describe, quote, verdict_on

BULK_FILTER = (
    "filter_path=errors,items.*.status,items.*.result,items.*.error.type,items.*.error.reason,"
    "items.*.error.caused_by.reason"
)

TRUST = "the user of ⟦auth⟧ needs the privileges `read`, `write` and `manage` on the indexes"
_FIXES = {401: "expected credentials that the cluster accepts: check ⟦auth⟧", 403: TRUST}
_BAD_REQUEST, _NOT_FOUND, _CONFLICT, _TOO_MANY, _UNAVAILABLE = 400, 404, 409, 429, 503
_TEMPORARY = (_TOO_MANY, _UNAVAILABLE)
_FULL_DISK = ("flood-stage", "flood stage", "read-only-allow-delete", "read-only / allow delete")
_NO_INDEX = ("index_not_found_exception", "alias_not_found_exception")
_MISSING = "document_missing_exception"
_NEW_RUN = (
    "expected the alias of this run, which a newer run may have removed: begin a new run with"
    " ⟦fresh⟧"
)
_ABSENT = {
    "delete": "a deletion of a document that the index does not have",
    "update": "an ACL without a document in the index",
}


class _Cause(msgspec.Struct):
    reason: str | None = None


class _Error(msgspec.Struct):
    type: str = ""
    reason: str | None = None
    caused_by: _Cause | None = None

    def __str__(self) -> str:
        causes = (self.reason, self.caused_by and self.caused_by.reason)
        return ": ".join(text for text in (self.type, *causes) if text)


class _Item(msgspec.Struct):
    status: int
    error: _Error | None = None


class _Results(msgspec.Struct):
    items: list[dict[str, _Item]] = []


class _Count(msgspec.Struct):
    count: int


class _Failure(msgspec.Struct):
    error: _Error | str


def judge(response: ApplianceResponse, part: ChunkPart | None) -> Verdict | None:
    """Return the meaning of a response; None lets its status decide."""
    if not response.is_success:
        return _judge_failure(response)
    if part is None:
        return _judge_other(response)
    try:
        found = msgspec.json.decode(response.body, type=_Results)
    except msgspec.DecodeError:
        return None
    items = [next(iter(item.items())) for item in found.items]
    if len(items) != part.records:
        words = f"results of {len(items)} actions; expected {part.records}"
        return verdict_on(response, ResponseMeaning.REFUSED, words)
    return _judge_items(response, items)


def documents_text(response: ApplianceResponse) -> str:
    """Return the number of documents that a response states, "" if it states none."""
    try:
        return counted(msgspec.json.decode(response.body, type=_Count).count, "document")
    except msgspec.DecodeError:
        return ""


def error_of(response: ApplianceResponse) -> str:
    """Return the words of the server for a request that failed."""
    try:
        return str(msgspec.json.decode(response.body, type=_Failure).error)
    except msgspec.DecodeError:
        return ""


def words_of(response: ApplianceResponse) -> str:
    """Return the status and the words of a request that failed."""
    return f"{response.status}, {error_of(response) or describe(response)}"


def fix_of(response: ApplianceResponse, otherwise: str) -> str:
    """Return what fixes a request that failed: credentials, privileges, or `otherwise`."""
    return _FIXES.get(response.status or 0, otherwise)


def failure(response: ApplianceResponse, expected: str) -> TargetError:
    """Return the error for a request that failed."""
    fix = fix_of(response, f"expected {expected}")
    return TargetError(f"{response.url}: {words_of(response)}; {fix}")


def check_index(response: ApplianceResponse, url: str, expected: str) -> None:
    """Raise ConfigError for a search in an index that does not exist."""
    if response.status == _NOT_FOUND:
        raise ConfigError(f"{url}: no such index; expected {expected}")


def _judge_items(response: ApplianceResponse, items: list[tuple[str, _Item]]) -> Verdict:
    refused: list[Refusal] = []
    notices: list[str] = []
    newer = 0
    for number, (action, item) in enumerate(items):
        if item.status < _BAD_REQUEST:
            continue
        error = item.error or _Error()
        reason = str(error)
        if any(words in reason for words in _FULL_DISK):
            return verdict_on(response, ResponseMeaning.FULL_DISK, _words(reason))
        if item.status in _TEMPORARY:
            return verdict_on(response, ResponseMeaning.RETRY, _words(reason))
        if error.type in _NO_INDEX:
            return verdict_on(response, ResponseMeaning.FATAL, f"{quote(reason)}; {_NEW_RUN}")
        if item.status == _CONFLICT and action != "update":
            newer += 1
        elif item.status == _CONFLICT:
            return verdict_on(response, ResponseMeaning.RETRY, _words(reason))
        elif item.status == _NOT_FOUND and action in _ABSENT and error.type in ("", _MISSING):
            notices.append(_ABSENT[action])
        else:
            refused.append(Refusal(number, reason or str(item.status)))
    message = f"{len(items) - len(refused)} of {len(items)} actions"
    return Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message=message,
        refused=tuple(refused),
        notices=tuple(notices),
        newer=newer,
    )


def _words(reason: str) -> str:
    return f"{quote(reason)}; expected all actions to be done"


def _judge_other(response: ApplianceResponse) -> Verdict | None:
    """Judge the response to a request that is no part of a chunk."""
    try:
        found = msgspec.json.decode(response.body, type=_Results)
    except msgspec.DecodeError:
        return None
    items = [next(iter(item.items())) for item in found.items if item]
    if items:
        return _judge_items(response, items)
    return Verdict(meaning=ResponseMeaning.ACCEPTED, message="OK")


def _judge_failure(response: ApplianceResponse) -> Verdict | None:
    reason = error_of(response)
    if any(words in reason for words in _FULL_DISK):
        return verdict_on(response, ResponseMeaning.FULL_DISK, _words(reason))
    if response.status == _BAD_REQUEST and reason:
        found = f"{response.status}, {quote(reason)}; expected a body of _bulk"
        return verdict_on(response, ResponseMeaning.REFUSED, found)
    if response.status in _FIXES:
        found = f"{words_of(response)}; {fix_of(response, '')}"
        return verdict_on(response, ResponseMeaning.FATAL, found)
    if response.status == _NOT_FOUND and reason:
        return verdict_on(response, ResponseMeaning.FATAL, f"{quote(reason)}; {_NEW_RUN}")
    return None
