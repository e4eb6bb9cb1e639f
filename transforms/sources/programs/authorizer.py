"""The authorizer: a program that decides which documents a user may read.

Its standard input is a request: a user, a password, groups, and the ids of a batch of documents.
Its output is an authorizer stream. The decisions for all configured users become the ACL of each
document.

No failure makes a document public: a user becomes a principal only by a clear PERMIT or DENY, and
a document without any decision has an ACL that permits nobody.

**Spec:** GSA adaptor library, CommandLineAdaptor, isUserAuthorized.
"""

import shlex
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from io import BytesIO
from typing import NamedTuple, TypeGuard

import msgspec

from schemas.acl import Access, Acl, Principal, Scope
from schemas.errors import RecordError
from schemas.notice import Notice
from schemas.record import Action, Record
from schemas.reject import Reject, record_error
from schemas.span import Span
from transforms.formats import AUTHORIZER_STREAM
from transforms.formats.base import ReadOptions, ReadResult
from transforms.formats.command_stream.doc_ids import id_maker
from transforms.formats.command_stream.syntax import STATUS, USERNAME
from transforms.formats.command_stream.writer import request
from transforms.sources.programs.calls import call_program, map_ordered, reject_document
from transforms.sources.programs.config import Programs, User
from transforms.sources.programs.process import CancelToken
from transforms.sources.secrets import resolve

STAGE = "authorize"
MAX_BATCH_BYTES = 64 << 20
"""Most bytes of content in all batches that wait for decisions."""

_ACCESSES = {"PERMIT": Access.PERMIT, "DENY": Access.DENY}


def authorize(
    records: Iterable[ReadResult],
    programs: Programs,
    *,
    options: ReadOptions = ReadOptions(),
) -> Generator[ReadResult, None, None]:
    """Yield each added document without an ACL with the ACL of the decisions, in order.

    PERMIT and DENY become principals. Any other answer, or a missing one, is a Notice before the
    document. If the program fails, the documents of its batch are rejected. All other items are
    passed on, and all items if there is no authorizer.
    """
    if not programs.authorizer:
        yield from records
        return
    authorizer = _Authorizer(programs, options)
    parallel = programs.parallel or 1
    batches = _batches(
        records,
        max_items=programs.authorizer_batch,
        max_bytes=MAX_BATCH_BYTES // (2 * parallel),
    )
    jobs = (partial(authorizer.decide, batch) for batch in batches)
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


class _Decisions(NamedTuple):
    """The statuses of a user by doc id, and notices about the answer of the program."""

    user: User
    statuses: Mapping[str, str]
    notices: list[Notice]


class _Authorizer:
    """Calls the program and makes ACLs of its answers."""

    def __init__(self, programs: Programs, options: ReadOptions) -> None:
        self._programs = programs
        self._options = options
        self._id_of = id_maker(options.docids)

    def decide(self, batch: list[ReadResult], token: CancelToken) -> list[ReadResult]:
        """Return the batch with ACLs, after the notices about the answers of the program."""
        ids: dict[str, str] = {}
        errors: dict[str, RecordError] = {}
        for record in filter(_needs_acl, batch):
            try:
                ids[record.url] = self._requestable_id(record)
            except Exception as exc:
                errors[record.url] = record_error(exc)
        decisions: list[_Decisions] = []
        try:
            if ids:
                decisions = [
                    self._ask(user, [*ids.values()], token) for user in self._programs.users
                ]
        except Exception as exc:
            errors |= dict.fromkeys(ids, record_error(exc))
        results: list[ReadResult] = [notice for answer in decisions for notice in answer.notices]
        for item in batch:
            if not _needs_acl(item):
                results.append(item)
            elif item.url in errors:
                results.append(reject_document(item, errors[item.url], stage=STAGE))
            else:
                results += _with_acl(item, ids[item.url], decisions)
        return results

    def _requestable_id(self, record: Record) -> str:
        """Return the doc id; raise RecordError if no request can contain it."""
        doc_id = self._id_of(record.url)
        request(username="", password=None, groups=(), ids=(doc_id,))
        return doc_id

    def _ask(self, user: User, ids: list[str], token: CancelToken) -> _Decisions:
        programs = self._programs
        password = None if user.password is None else resolve(user.password)
        return call_program(
            programs,
            programs.authorizer,
            partial(self._parse, user, ids),
            stdin=request(username=user.name, password=password, groups=user.groups, ids=ids),
            token=token,
        )

    def _parse(self, user: User, ids: list[str], stream: bytes) -> _Decisions:
        """Return the decisions of a stream.

        An unreadable answer is none. The answer before it is ignored as well, because the
        unreadable part may belong to it.
        """
        source = f"{shlex.join(self._programs.authorizer)} for {user.name!r}"
        results = list(
            AUTHORIZER_STREAM.read(BytesIO(stream), span=Span(source=source), options=self._options)
        )
        records = [result for result in results if isinstance(result, Record)]
        rejects = [result for result in results if isinstance(result, Reject)]
        notices = [result for result in results if isinstance(result, Notice)]
        ignored = {_offset_before(reject, records) for reject in rejects}
        statuses = {
            self._id_of(record.url): "" if record.provenance.offset in ignored else _status(record)
            for record in records
            if not _other_users(user, record)
        }
        notices += map(_unreadable, rejects)
        users = [name for record in records for name in _other_users(user, record)]
        unknown_ids = sorted(statuses.keys() - set(ids))
        notices += [_unrequested(f"user {name!r}", source) for name in users[:1]]
        notices += [_unrequested(repr(doc_id), source) for doc_id in unknown_ids[:1]]
        return _Decisions(user, statuses, notices)


def _offset_before(reject: Reject, records: list[Record]) -> int:
    """Return the offset of the last record before a reject, or -1."""
    offsets = (record.provenance.offset for record in records)
    return max((offset for offset in offsets if offset < reject.offset), default=-1)


def _unreadable(reject: Reject) -> Notice:
    return Notice(
        code="unreadable-answer",
        detail=f"{reject.reason}; this answer and the one before it are ignored",
        source=reject.source,
        span=reject.span,
        offset=reject.offset,
    )


def _other_users(user: User, record: Record) -> list[str]:
    """Return the users of an answer except `user`; an answer need not name its user."""
    names = (extra.value for extra in record.extras if extra.place == USERNAME)
    return [name for name in names if name != user.name]


def _unrequested(subject: str, source: str) -> Notice:
    detail = f"an answer for {subject}, which was not in the request; ignored"
    return Notice(code="not-asked", detail=detail, source=source)


def _status(record: Record) -> str:
    return next((extra.value for extra in record.extras if extra.place == STATUS), "")


def _with_acl(record: Record, doc_id: str, decisions: list[_Decisions]) -> list[ReadResult]:
    """Return a document with its ACL, after a notice for each user without a decision."""
    try:
        notices: list[ReadResult] = []
        principals: list[Principal] = []
        for user, statuses, _ in decisions:
            status = statuses.get(doc_id, "")
            if status in _ACCESSES:
                access = _ACCESSES[status]
                principals.append(
                    Principal(
                        name=user.name, scope=Scope.USER, access=access, namespace=user.namespace
                    )
                )
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
