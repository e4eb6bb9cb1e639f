"""The meaning of the responses of Solr to updates.

**Spec:** Solr Reference Guide, "Update Request Processors": `TolerantUpdateProcessorFactory` lists
the commands that fail, by the ids of their documents. Without it, a request ends at the first.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import partial

import msgspec

from feedferry.schemas.receipt import Refusal
from feedferry.transforms.formats.solr.command_reader import COMMAND
from feedferry.transforms.sinks.push.model import (
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
    open_chunk_file,
    range_blocks,
)
from feedferry.transforms.sinks.push.wire.responses import quote, verdict_on
from feedferry.transforms.sinks.push.wire.solr.replies import error_of, fix_of, words_of

_BAD_REQUEST, _CONFLICT = 400, 409
_DENIED = (401, 403)
_FULL_DISK = "No space left on device"
_TEMPORARY = ("IndexWriter is closed", "shutting down")
_ABSENT = "Document not found for update"
ACL_WITHOUT_DOCUMENT = "an ACL without a document in the index"


class _Failed(msgspec.Struct):
    id: str = ""
    message: str = ""


class _UpdateHeader(msgspec.Struct):
    status: int
    errors: list[_Failed] = []


class _UpdateReply(msgspec.Struct):
    header: _UpdateHeader = msgspec.field(name="responseHeader")


def judge(response: ApplianceResponse, part: ChunkPart | None) -> Verdict | None:
    """Return the meaning of a response; None lets its status decide."""
    if not response.is_success:
        return _judge_failure(response, part)
    try:
        errors = msgspec.json.decode(response.body, type=_UpdateReply).header.errors
    except msgspec.DecodeError:
        return None
    if (verdict := _judge_server(response, errors)) is not None:
        return verdict
    refused = [error for error in errors if not error.message.startswith(_ABSENT)]
    absent = len(errors) - len(refused)
    if part is None:
        refusals = tuple(Refusal(0, error.message) for error in refused)
        return Verdict(meaning=ResponseMeaning.ACCEPTED, message="OK", refused=refusals)
    refusals = tuple(_refusals(part, refused))
    if refused and not refusals:
        found = f"{refused[0].id!r}: {quote(refused[0].message)}; expected an id of the request"
        return verdict_on(response, ResponseMeaning.REFUSED, found)
    return Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message=f"{part.records - len(refusals)} of {part.records} commands",
        refused=refusals,
        notices=(ACL_WITHOUT_DOCUMENT,) * absent,
    )


def _judge_server(response: ApplianceResponse, errors: Collection[_Failed]) -> Verdict | None:
    """Return the meaning of errors that are not about their documents."""
    for error in errors:
        if _FULL_DISK in error.message:
            return verdict_on(response, ResponseMeaning.FULL_DISK, quote(error.message))
        if any(words in error.message for words in _TEMPORARY):
            return verdict_on(response, ResponseMeaning.RETRY, quote(error.message))
    return None


def _refusals(part: ChunkPart, errors: Collection[_Failed]) -> Iterator[Refusal]:
    """Yield the records of the ids of errors; an id may be that of several."""
    if not errors:
        return
    reasons = {msgspec.json.encode(error.id): error.message for error in errors}
    with open_chunk_file(part.path) as stream:
        blocks = range_blocks(stream, part.offset, part.length)
        for number, line in enumerate(lines_of(blocks)):
            command = COMMAND.match(line)
            reason = None if command is None else reasons.get(command[3])
            if reason is not None:
                yield Refusal(number, reason)


def lines_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of blocks, each with its end."""
    pending = b""
    for block in blocks:
        *whole, pending = (pending + block).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if pending:
        yield pending


def _judge_failure(response: ApplianceResponse, part: ChunkPart | None) -> Verdict | None:
    reason = error_of(response)
    verdict = partial(verdict_on, response)
    if _FULL_DISK in reason:
        return verdict(ResponseMeaning.FULL_DISK, quote(reason))
    if response.status in _DENIED:
        return verdict(ResponseMeaning.FATAL, f"{words_of(response)}; {fix_of(response, '')}")
    if response.status == _CONFLICT and reason.startswith(_ABSENT):
        if part is not None and part.records == 1:
            notices = (ACL_WITHOUT_DOCUMENT,)
            return Verdict(meaning=ResponseMeaning.ACCEPTED, message="OK", notices=notices)
        return verdict(ResponseMeaning.REFUSED, quote(reason))
    if response.status == _BAD_REQUEST and reason:
        found = f"{response.status}, {quote(reason)}; expected commands for documents"
        return verdict(ResponseMeaning.REFUSED, found)
    return None
