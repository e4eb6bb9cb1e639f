"""The authorizer: a program that decides which documents a user may read.

Its standard input is a request: a user, a password, groups, and the ids of a batch of documents.
Its output is an authorizer stream. The decisions for all configured users become the ACL of each
document.

No failure makes a document public: a user becomes a principal only by a clear PERMIT or DENY, and
a document without any decision has an ACL that permits no user.

**Spec:** GSA adaptor library, CommandLineAdaptor, isUserAuthorized.
"""

import shlex
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from io import BytesIO
from threading import Event
from typing import NamedTuple, TypeGuard

import msgspec

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import Reject, record_error
from feedferry.schemas.span import Span
from feedferry.transforms.config.secrets import resolve
from feedferry.transforms.formats import AUTHORIZER_STREAM
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.formats.command_stream.vocabulary import STATUS, USERNAME
from feedferry.transforms.formats.command_stream.writer import request
from feedferry.transforms.sources.programs.calls import ProgramCalls, map_ordered, reject_document
from feedferry.transforms.sources.programs.config import User

STAGE = "authorize"
MAX_BATCH_BYTES = 64 << 20
"""Most bytes of content in all batches that wait for decisions."""


def authorize(
    records: Iterable[ReadResult], calls: ProgramCalls
) -> Generator[ReadResult, None, None]:
    """Yield each added document without an ACL with the ACL of the decisions, in order.

    PERMIT and DENY become principals. Any other answer, or a missing one, is a Notice before the
    document. If the program fails, or a part of its output cannot be read, the documents of its
    batch are rejected. All other items are passed on, and all items if there is no authorizer.
    """
    programs = calls.programs
    if not programs.authorizer:
        yield from records
        return
    parallel = programs.parallel or 1
    batches = _batches(
        records, max_items=programs.authorizer_batch, max_bytes=MAX_BATCH_BYTES // (2 * parallel)
    )
    jobs = (partial(_decide, calls, batch) for batch in batches)
    with closing(map_ordered(jobs, parallel=parallel)) as results:
        yield from results


def _batches(
    records: Iterable[ReadResult], *, max_items: int, max_bytes: int
) -> Iterator[list[ReadResult]]:
    """Yield batches with at most `max_items` items, and about `max_bytes` of content."""
    batch: list[ReadResult] = []
    size = 0
    for item in records:
        batch.append(item)
        if isinstance(item, Record) and item.content is not None:
            size += len(item.content.data)
        if len(batch) == max_items or size >= max_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _needs_acl(item: ReadResult) -> TypeGuard[Record]:
    return isinstance(item, Record) and item.action is Action.ADD and item.acl is None


class _Answer(NamedTuple):
    """The statuses of a user by doc id, and notices about the output of the program."""

    user: User
    statuses: dict[str, str]
    notices: list[Notice]


def _decide(calls: ProgramCalls, batch: list[ReadResult], cancelled: Event) -> list[ReadResult]:
    """Return the batch with ACLs, after the notices about the output of the program."""
    ids: dict[str, str] = {}
    errors: dict[str, RecordError] = {}
    for record in filter(_needs_acl, batch):
        try:
            doc_id = calls.id_of(record.url)
            request(username="", password=None, groups=(), ids=(doc_id,))  # raises RecordError
            ids[record.url] = doc_id
        except Exception as exc:
            errors[record.url] = record_error(exc)
    answers: list[_Answer] = []
    try:
        if ids:
            users = calls.programs.users
            answers = [_ask(calls, user, [*ids.values()], cancelled) for user in users]
    except Exception as exc:
        errors |= dict.fromkeys(ids, record_error(exc))
    results: list[ReadResult] = [notice for answer in answers for notice in answer.notices]
    for item in batch:
        if not _needs_acl(item):
            results.append(item)
        elif item.url in errors:
            results.append(reject_document(item, errors[item.url], stage=STAGE))
        else:
            results += _with_acl(item, ids[item.url], answers)
    return results


def _ask(calls: ProgramCalls, user: User, ids: list[str], cancelled: Event) -> _Answer:
    password = None if user.password is None else resolve(user.password)
    return calls.call(
        calls.programs.authorizer,
        partial(_parse, calls, user),
        stdin=request(username=user.name, password=password, groups=user.groups, ids=ids),
        cancelled=cancelled,
    )


def _parse(calls: ProgramCalls, user: User, stream: bytes) -> _Answer:
    """Return the answer in a stream; raise RecordError if a part of it cannot be read.

    Statuses for another user are ignored. Nothing asks for those of other ids.
    """
    span = Span(source=f"{shlex.join(calls.programs.authorizer)} for {user.name!r}")
    answer = _Answer(user, {}, [])
    for result in AUTHORIZER_STREAM.read(BytesIO(stream), span=span, options=calls.options):
        if isinstance(result, Reject):
            raise RecordError(result.code, result.reason)
        if isinstance(result, Notice):
            answer.notices.append(result)
        elif isinstance(result, Record) and {*_extras(result, USERNAME)} <= {user.name}:
            status = next(iter(_extras(result, STATUS)), "")
            answer.statuses[calls.id_of(result.url)] = status
    return answer


def _extras(record: Record, place: str) -> list[str]:
    return [extra.value for extra in record.extras if extra.place == place]


def _with_acl(record: Record, doc_id: str, answers: list[_Answer]) -> list[ReadResult]:
    """Return a document with its ACL, after a notice for each user without a decision."""
    notices: list[ReadResult] = []
    principals: list[Principal] = []
    try:
        for user, statuses, _ in answers:
            status = statuses.get(doc_id, "")
            if status in Access.__members__:
                principal = Principal(
                    name=user.name,
                    scope=Scope.USER,
                    access=Access[status],
                    namespace=user.namespace,
                )
                principals.append(principal)
            else:
                notices.append(_indeterminate(record, user, status))
        acl = Acl(principals=tuple(principals))
        return [*notices, msgspec.structs.replace(record, acl=acl)]
    except Exception as exc:
        return [reject_document(record, record_error(exc), stage=STAGE)]


def _indeterminate(record: Record, user: User, status: str) -> Notice:
    answer = f"{status or 'no answer'} for user {user.name!r} and {record.url!r}"
    return Notice(
        code="indeterminate",
        detail=f"{answer}; the ACL does not name the user",
        source=record.provenance.source,
        span=record.provenance.span,
        offset=record.provenance.offset,
    )
