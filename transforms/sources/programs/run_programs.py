"""A source of programs: a lister says which documents there are, a retriever gives each of them.

The lister is run as it stands; a lister stream comes out of it. The retriever is run with two more
arguments, a doc id and the time of its last crawl in milliseconds ("0" if that is not known); one
retriever stream comes out of it.

With a `batch` of more than 1 the retriever is run with up to so many pairs, `ID MILLIS ID MILLIS
…`, the last ones with fewer, and answers in their order: for each the length of its stream in
bytes, in decimal digits, a line feed, and the stream. Where answers are missing or torn, only the
ids that have none are rejected; where it fails, each id is asked for by a run of its own.

**Spec:** GSA adaptor library, CommandLineAdaptor, whose calls these are. We differ from it in what
becomes of a failure: a program that exits with another code than 0, is killed, hangs, goes on
forever or says nothing that can be read never looks like one that has nothing to say.
"""

import os
import re
import shlex
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import msgspec

from schemas.defect import record_error
from schemas.errors import (
    FatalError,
    ProgramError,
    RecordError,
    SourceError,
)
from schemas.notice import Notice
from schemas.record import Action, Crawl, Record
from schemas.reject import Filtered, Reject
from schemas.span import Span
from transforms.formats import READERS
from transforms.formats.base import Found, Reader, ReadOptions
from transforms.formats.command_stream.doc_ids import id_maker
from transforms.sources.programs.authorize import authorize
from transforms.sources.programs.ordered_pool import Job, abreast
from transforms.sources.programs.program_rejects import explained, reject_answer
from transforms.sources.programs.programs_file import Programs
from transforms.sources.programs.redact import Mask
from transforms.sources.programs.retry import PASSING, USUAL, Pauses, attempt
from transforms.sources.programs.subprocess_run import Leash, call_of, run
from transforms.sources.programs.transform import transform

STAGE = "retrieve"
_PARTIAL = ".partial"
_ANSWER = "for each id the length of a stream, LF and the stream"
_LENGTH = re.compile(rb"([0-9]{1,18})\n")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_Struct = TypeVar("_Struct", Record, Crawl)


def list_documents(
    programs: Programs,
    path: Path,
    *,
    read: Reader | None = None,
    options: ReadOptions | None = None,
) -> None:
    """Write what the lister says to a file, which gets its name when the lister ends well.

    Raise SourceError if it does not or if the repository was unavailable, and FormatError if that
    is no listing. None of them shows a secret.
    """
    partial_path = path.with_name(path.name + _PARTIAL)
    mask = Mask(programs.secrets())
    try:
        with mask.errors():
            with partial_path.open("wb") as stream:
                _run_lister(programs, stream)
            _check_whole(programs, partial_path, read or READERS["lister-stream"], options)
        os.replace(partial_path, path)
    except OSError as exc:
        raise FatalError(f"{path}: {exc.strerror}; expected to write there") from exc
    finally:
        with suppress(OSError):
            partial_path.unlink(missing_ok=True)


def retrieve(
    listed: Iterable[Found],
    programs: Programs,
    *,
    options: ReadOptions = ReadOptions(),
    read: Reader | None = None,
    pauses: Pauses = USUAL,
) -> Generator[Found, None, None]:
    """Yield for each document to be added what the retriever says of it, in the order listed.

    That is exactly one Record, Filtered or Reject for each, and notices before it. All else that
    is listed is passed on; so is all if there is no retriever. SourceError, that no program can
    be started, ends it.
    """
    if not programs.retriever:
        yield from listed
        return
    retriever = _Retriever(programs, options, read or READERS["retriever-stream"], pauses)
    jobs = _jobs(listed, retriever, batch=programs.batch)
    with closing(abreast(jobs, parallel=programs.parallel or 1)) as outcomes:
        yield from outcomes


def documents(
    listed: Iterable[Found],
    programs: Programs,
    *,
    options: ReadOptions = ReadOptions(),
    pauses: Pauses = USUAL,
) -> Generator[Found, None, None]:
    """Yield what all programs make of a listing: retrieved, transformed, and with their ACLs.

    No reason and no notice shows a secret that one of them was told.
    """
    mask = Mask(programs.secrets())
    with (
        mask.errors(),
        closing(retrieve(listed, programs, options=options, pauses=pauses)) as retrieved,
        closing(transform(retrieved, programs, options=options, pauses=pauses)) as transformed,
        closing(authorize(transformed, programs, options=options, pauses=pauses)) as authorized,
    ):
        yield from authorized if mask.is_empty else map(mask.found, authorized)


def merge(listed: Record, retrieved: Record) -> Record:
    """Return what both say of a document; the retriever's word stands where both speak.

    A document that is to be deleted has nothing of the listing but its place there.
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
    """`above`, with what it does not state from `below`."""
    stated = {
        name: value
        for name in above.__struct_fields__
        if (value := getattr(above, name)) is not None and value != ()
    }
    return msgspec.structs.replace(below, **stated)


def _run_lister(programs: Programs, stream: IO[bytes]) -> None:
    call = msgspec.structs.replace(
        call_of(programs, programs.lister),
        timeout_seconds=programs.lister_timeout_seconds,
        max_output_bytes=programs.max_listing_bytes,
        timeout_key="lister_timeout",
        output_key="max_listing_bytes",
    )
    try:
        run(call, output=stream)
    except ProgramError as exc:
        code = exc.code.replace("program", "lister")
        raise SourceError(f"{shlex.join(programs.lister)} ({code}): {exc.reason}") from exc


def _check_whole(programs: Programs, path: Path, read: Reader, options: ReadOptions | None) -> None:
    """Read all of it: one that breaks off, or says so at its end, must not be gone on with."""
    with path.open("rb") as stream:
        span = Span(source=shlex.join(programs.lister))
        deque(read(stream, span=span, options=options or ReadOptions()), maxlen=0)


def _jobs(listed: Iterable[Found], retriever: "_Retriever", *, batch: int) -> Iterator[Job | Found]:
    """Yield a job for each run of documents to be added, and what stands between them."""
    gathered: list[Record] = []
    for found in listed:
        is_asked = isinstance(found, Record) and found.action is Action.ADD
        if isinstance(found, Record) and is_asked:
            gathered.append(found)
        if gathered and (not is_asked or len(gathered) == batch):
            yield partial(retriever.get, tuple(gathered))
            gathered.clear()
        if not is_asked:
            yield found
    if gathered:
        yield partial(retriever.get, tuple(gathered))


class _Retriever:
    """Calls the program, and understands it."""

    def __init__(
        self, programs: Programs, options: ReadOptions, read: Reader, pauses: Pauses
    ) -> None:
        self._programs = programs
        self._options = options
        self._read = read
        self._pauses = pauses
        self._id_of = id_maker(options.docids)
        self._is_framed = programs.batch > 1

    def get(self, listed: tuple[Record, ...], leash: Leash) -> list[Found]:
        """Return the outcomes of some documents, in their order."""
        if len(listed) == 1:
            return self._get_one(listed[0], leash)
        try:
            answers = self._ask(listed, leash)
        except Exception as exc:
            record_error(exc)
            return [found for record in listed for found in self._get_one(record, leash)]
        pairs = zip(listed, answers, strict=True)
        return [found for pair in pairs for found in self._get_from(*pair, leash)]

    def _get_one(self, record: Record, leash: Leash) -> list[Found]:
        def ask() -> list[Found]:
            (answer,) = self._ask((record,), leash)
            return self._understand(record, answer)

        try:
            return attempt(ask, programs=self._programs, pauses=self._pauses, leash=leash)
        except Exception as exc:
            return [reject_answer(record, record_error(exc), stage=STAGE)]

    def _get_from(self, record: Record, answer: "_Answer", leash: Leash) -> list[Found]:
        """Return what an answer says, or what comes of asking again if that may help."""
        try:
            return self._understand(record, answer)
        except Exception as exc:
            error = record_error(exc)
            if error.code in PASSING:
                return self._get_one(record, leash)
            return [reject_answer(record, error, stage=STAGE)]

    def _ask(self, listed: tuple[Record, ...], leash: Leash) -> list["_Answer"]:
        """Run the retriever once; return the answer for each document."""
        pairs = ((self._id_of(record.url), _millis(record.visited)) for record in listed)
        command = (*self._programs.retriever, *(word for pair in pairs for word in pair))
        output = run(call_of(self._programs, command, answers=len(listed)), leash=leash)
        if not self._is_framed:
            return [_Answer(output.stdout, output.stderr_tail)]
        streams = _cut(output.stdout, len(listed))
        return [_Answer(stream, output.stderr_tail) for stream in streams]

    def _understand(self, record: Record, answer: "_Answer") -> list[Found]:
        """Return the outcome, notices before it; raise ProgramError where there is none."""
        with explained(answer.stream or b"", answer.stderr_tail):
            return self._outcome(record, answer.stream)

    def _outcome(self, record: Record, stream: bytes | None) -> list[Found]:
        if stream is None:
            raise RecordError("short-batch", f"no answer, or a torn one; expected {_ANSWER}")
        span = Span(source=record.url, ordinal=record.provenance.span)
        found = list(self._read(BytesIO(stream), span=span, options=self._options))
        notices: list[Found] = [one for one in found if isinstance(one, Notice)]
        answer = _only([one for one in found if not isinstance(one, Notice)])
        asked, answered = self._id_of(record.url), self._id_of(answer.url)
        if asked != answered:
            reason = f"an answer for {answered!r}; expected one for {asked!r}"
            raise RecordError("other-document", reason)
        if isinstance(answer, Record):
            return [*notices, merge(record, answer)]
        action = record.action.value
        return [*notices, Filtered(code=answer.code, url=record.url, action=action)]


class _Answer(NamedTuple):
    """What the retriever gave for one id, None if nothing, and the end of its standard error."""

    stream: bytes | None
    stderr_tail: bytes


def _millis(visited: datetime | None) -> str:
    return "0" if visited is None else str((visited - _EPOCH) // _MILLISECOND)


def _cut(output: bytes, count: int) -> list[bytes | None]:
    """Return the streams of a batch, None for each that is missing or torn."""
    streams: list[bytes | None] = []
    at = 0
    while len(streams) < count and (length := _LENGTH.match(output, at)):
        end = length.end() + int(length[1])
        if end > len(output):
            break
        streams.append(output[length.end() : end])
        at = end
    left = len(output) - at
    if len(streams) == count and left:
        reason = f"{left} bytes behind the last answer; expected {_ANSWER}"
        raise ProgramError("no-stream", reason, output)
    return streams + [None] * (count - len(streams))


def _only(answers: list[Found]) -> Record | Filtered:
    """Return the one outcome of an answer."""
    for answer in answers:
        if isinstance(answer, Reject):
            raise RecordError(answer.code, answer.reason)
    documents = [answer for answer in answers if isinstance(answer, Record | Filtered)]
    if not documents:
        raise RecordError("no-stream", "a stream of no document; expected one")
    if len(documents) > 1:
        raise RecordError("other-document", f"{len(documents)} documents; expected one")
    return documents[0]
