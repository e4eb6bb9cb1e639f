"""The retriever: a program that writes one document.

Its last two arguments are the doc id and the time of the last crawl in milliseconds since 1970,
"0" if that is not known. Its output is a retriever stream of that document.

**Spec:** GSA adaptor library, CommandLineAdaptor, getDocContent. Unlike the library, we reject the
document if the program exits with another code than 0, is killed, exceeds its limits, or writes
output that cannot be read.
"""

from collections.abc import Generator, Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from typing import TypeVar

import msgspec

from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.notice import Notice
from schemas.record import Action, Crawl, Record
from schemas.reject import Filtered, Reject
from schemas.span import Span
from transforms.formats import RETRIEVER_STREAM
from transforms.formats.base import Reader, ReadOptions, ReadResult
from transforms.formats.command_stream.doc_ids import id_maker
from transforms.sources.programs.config import Programs
from transforms.sources.programs.ordered_pool import map_ordered
from transforms.sources.programs.process import CancelToken, call_of, run
from transforms.sources.programs.rejects import program_errors, reject_output
from transforms.sources.programs.retry import attempt

STAGE = "retrieve"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_Struct = TypeVar("_Struct", Record, Crawl)


def retrieve(
    listed: Iterable[ReadResult],
    programs: Programs,
    *,
    options: ReadOptions = ReadOptions(),
    read: Reader | None = None,
) -> Generator[ReadResult, None, None]:
    """Yield one Record, Filtered or Reject for each listed ADD, after its notices, in order.

    All other items are passed on, and all items if there is no retriever. Raise SourceError if
    the program cannot be started.
    """
    if not programs.retriever:
        yield from listed
        return
    retriever = _Retriever(programs, options, read or RETRIEVER_STREAM.read)
    items = (
        partial(retriever.get, item)
        if isinstance(item, Record) and item.action is Action.ADD
        else item
        for item in listed
    )
    with closing(map_ordered(items, parallel=programs.parallel or 1)) as results:
        yield from results


def merge(listed: Record, retrieved: Record) -> Record:
    """Return a record of both; a field that both state has the value of the retriever.

    A deletion has only the URL and the provenance of the listing.
    """
    if retrieved.action is Action.DELETE:
        return msgspec.structs.replace(retrieved, url=listed.url, provenance=listed.provenance)
    crawl = retrieved.crawl
    if crawl is not None and listed.crawl is not None:
        crawl = _overlay(listed.crawl, crawl)
    return msgspec.structs.replace(
        _overlay(listed, retrieved),
        url=listed.url,
        crawl=crawl or listed.crawl,
        extras=listed.extras + retrieved.extras,
        provenance=listed.provenance,
    )


def _overlay(below: _Struct, above: _Struct) -> _Struct:
    """Return `below` with the stated fields of `above`."""
    stated = {
        name: value
        for name in above.__struct_fields__
        if (value := getattr(above, name)) is not None and value != ()
    }
    return msgspec.structs.replace(below, **stated)


class _Retriever:
    """Calls the program and reads its output."""

    def __init__(self, programs: Programs, options: ReadOptions, read: Reader) -> None:
        self._programs = programs
        self._options = options
        self._read = read
        self._id_of = id_maker(options.docids)

    def get(self, listed: Record, token: CancelToken) -> list[ReadResult]:
        """Return notices and one Record, Filtered or Reject."""
        call = partial(self._call, listed, token)
        try:
            return attempt(call, programs=self._programs, token=token)
        except Exception as exc:
            return [reject_output(listed, record_error(exc), stage=STAGE)]

    def _call(self, listed: Record, token: CancelToken) -> list[ReadResult]:
        command = (*self._programs.retriever, self._id_of(listed.url), _millis(listed.visited))
        output = run(call_of(self._programs, command), token=token)
        with program_errors(output.stdout, output.stderr_tail):
            return self._parse(listed, output.stdout)

    def _parse(self, listed: Record, stream: bytes) -> list[ReadResult]:
        span = Span(source=listed.url, ordinal=listed.provenance.span)
        results = list(self._read(BytesIO(stream), span=span, options=self._options))
        notices: list[ReadResult] = [result for result in results if isinstance(result, Notice)]
        document = _single_document(results)
        expected_id, actual_id = self._id_of(listed.url), self._id_of(document.url)
        if expected_id != actual_id:
            reason = f"an answer for {actual_id!r}; expected one for {expected_id!r}"
            raise RecordError("other-document", reason)
        if isinstance(document, Record):
            return [*notices, merge(listed, document)]
        action = listed.action.value
        return [*notices, Filtered(code=document.code, url=listed.url, action=action)]


def _millis(visited: datetime | None) -> str:
    return "0" if visited is None else str((visited - _EPOCH) // _MILLISECOND)


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
