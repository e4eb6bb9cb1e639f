"""The retriever: a program that writes one document.

Its last two arguments are the doc id and the time of the last crawl in milliseconds since 1970,
"0" if that is not known. Its output is a retriever stream of that document.

**Spec:** GSA adaptor library, CommandLineAdaptor, getDocContent. Unlike the library, we reject the
document if the program exits with another code than 0, is killed, exceeds its limits, or writes
output that cannot be read.
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from threading import Event

from msgspec.structs import replace

from feedferry.schemas.errors import ProgramError, RecordError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Record, overlaid
from feedferry.schemas.reject import KEPT_BYTES, Filtered, Reject, record_error, reject_record
from feedferry.schemas.span import Span
from feedferry.transforms.formats import RETRIEVER_STREAM
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources.programs.calls import ProgramCalls

STAGE = "retrieve"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def retrieve(calls: ProgramCalls, listed: Record, cancelled: Event) -> list[ReadResult]:
    """Return notices and one Record, Filtered or Reject for a listed document.

    Raise SourceError if the program cannot be started.
    """
    try:
        program = calls.programs.retriever
        visited = (listed.visited or _EPOCH) - _EPOCH
        command = (*program, calls.id_of(listed.url), str(visited // _MILLISECOND))
        return calls.call(command, partial(_parse, calls, listed), cancelled=cancelled)
    except Exception as exc:
        return [_reject(listed, record_error(exc))]


def _parse(calls: ProgramCalls, listed: Record, stream: bytes) -> list[ReadResult]:
    span = Span(source=listed.url, ordinal=listed.provenance.span)
    results = list(RETRIEVER_STREAM.read(BytesIO(stream), span=span, options=calls.options))
    notices: list[ReadResult] = [result for result in results if isinstance(result, Notice)]
    document = _single_document(results)
    expected_id, actual_id = calls.id_of(listed.url), calls.id_of(document.url)
    if expected_id != actual_id:
        reason = f"an answer for {actual_id!r}; expected one for {expected_id!r}"
        raise RecordError("other-document", reason)
    if isinstance(document, Record):
        return [*notices, merge(listed, document)]
    action = listed.action.value
    return [*notices, Filtered(code=document.code, url=listed.url, action=action)]


def merge(listed: Record, retrieved: Record) -> Record:
    """Return a record of both; a field that both state has the value of the retriever.

    A deletion has only the URL and the provenance of the listing.
    """
    if retrieved.action is Action.DELETE:
        return replace(retrieved, url=listed.url, provenance=listed.provenance)
    return replace(
        overlaid(listed, retrieved),
        url=listed.url,
        extras=listed.extras + retrieved.extras,
        provenance=listed.provenance,
    )


def _single_document(results: list[ReadResult]) -> Record | Filtered:
    """Return the one document of a retriever stream; raise RecordError for any other number."""
    for result in results:
        if isinstance(result, Reject):
            raise RecordError(result.code, result.reason)
    documents = [result for result in results if isinstance(result, Record | Filtered)]
    if not documents:
        raise RecordError("no-stream", "a stream of no document; expected one")
    if len(documents) > 1:
        raise RecordError("other-document", f"{len(documents)} documents; expected one")
    return documents[0]


def _reject(record: Record, exc: RecordError) -> Reject:
    """Return the reject of a listed document, with the output of the program as its bytes."""
    stdout = exc.stdout if isinstance(exc, ProgramError) else b""
    return replace(
        reject_record(record, exc, stage=STAGE),
        length=len(stdout),
        data=stdout[:KEPT_BYTES],
        truncated=len(stdout) > KEPT_BYTES,
    )
