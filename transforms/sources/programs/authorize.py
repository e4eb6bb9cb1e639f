"""A program that is asked which documents a user may see; its answers become ACLs.

It is given a request on its standard input (a user, a password, groups, and the ids of a batch) and
answers with an authorizer stream. So documents of a repository that only answers questions can go
to an appliance that wants to know beforehand.

Nothing that goes wrong here opens a document: whoever is not permitted by a clear answer is not
among the principals, and a document of which nothing is answered has an ACL without any.

**Spec:** GSA adaptor library, CommandLineAdaptor, isUserAuthorized.
"""

import shlex
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from io import BytesIO
from typing import NamedTuple

import msgspec

from schemas.acl import Access, Acl, Principal, Scope
from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.notice import Notice
from schemas.record import Action, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats import READERS
from transforms.formats.base import Found, Reader, ReadOptions
from transforms.formats.command_stream.doc_ids import id_maker
from transforms.formats.command_stream.syntax import STATUS, USERNAME
from transforms.formats.command_stream.writer import request
from transforms.sources.programs.ordered_pool import abreast
from transforms.sources.programs.program_rejects import explained, reject_document
from transforms.sources.programs.programs_file import Programs, User
from transforms.sources.programs.retry import USUAL, Pauses, attempt
from transforms.sources.programs.subprocess_run import Leash, call_of, run
from transforms.sources.secrets import resolve

STAGE = "authorize"
BATCH_BYTES = 64 << 20
"""Most content that waits for answers, at a time."""

_ACCESSES = {"PERMIT": Access.PERMIT, "DENY": Access.DENY}
_UNASKED = 1000


def authorize(
    records: Iterable[Found],
    programs: Programs,
    *,
    options: ReadOptions = ReadOptions(),
    read: Reader | None = None,
    pauses: Pauses = USUAL,
) -> Generator[Found, None, None]:
    """Yield each added document with an ACL of what the authorizer answers for each user.

    One that has an ACL keeps it. PERMIT and DENY become principals; of any other answer, or none,
    there is a Notice before the document. Where the program fails, the documents that it was asked
    about are rejected. All else, and all if there is no authorizer, is passed on in order.
    """
    if not programs.authorizer:
        yield from records
        return
    authorizer = _Authorizer(programs, options, read or READERS["authorizer-stream"], pauses)
    parallel = programs.parallel or 1
    batches = _batches(
        records, most=programs.authorizer_batch, most_bytes=BATCH_BYTES // (2 * parallel)
    )
    jobs = (partial(authorizer.settle, batch) for batch in batches)
    with closing(abreast(jobs, parallel=parallel)) as outcomes:
        yield from outcomes


def _batches(records: Iterable[Found], *, most: int, most_bytes: int) -> Iterator[list[Found]]:
    """Yield runs with at most so many documents without an ACL, and about so much content."""
    batch: list[Found] = []
    asked = size = 0
    for found in records:
        batch.append(found)
        asked += _is_open(found)
        size += _size(found)
        if asked == most or size >= most_bytes or len(batch) - asked >= _UNASKED:
            yield batch
            batch, asked, size = [], 0, 0
    if batch:
        yield batch


def _is_open(found: Found) -> bool:
    """Whether it is a document that comes without an ACL."""
    return isinstance(found, Record) and found.action is Action.ADD and found.acl is None


def _size(found: Found) -> int:
    if not isinstance(found, Record) or found.content is None:
        return 0
    return len(found.content.data)


class _Answers(NamedTuple):
    """What was said for one user, by doc id, and noticed."""

    user: User
    statuses: Mapping[str, str]
    notices: list[Notice]


class _Authorizer:
    """Calls the program, and makes ACLs of what it says."""

    def __init__(
        self, programs: Programs, options: ReadOptions, read: Reader, pauses: Pauses
    ) -> None:
        self._programs = programs
        self._options = options
        self._read = read
        self._pauses = pauses
        self._id_of = id_maker(options.docids)

    def settle(self, batch: list[Found], leash: Leash) -> list[Found]:
        """Return a batch with ACLs; what is noticed of the answers stands before it."""
        urls = [found.url for found in batch if isinstance(found, Record) and _is_open(found)]
        docids, troubles = self._docids(urls)
        try:
            answers = self._ask_for_all(list(docids.values()), leash)
        except Exception as exc:
            answers = []
            troubles |= dict.fromkeys(docids, record_error(exc))
        outcomes: list[Found] = [notice for answer in answers for notice in answer.notices]
        for found in batch:
            if not isinstance(found, Record) or not _is_open(found):
                outcomes.append(found)
            elif found.url in troubles:
                outcomes.append(reject_document(found, troubles[found.url], stage=STAGE))
            else:
                outcomes += self._with_acl(found, docids[found.url], answers)
        return outcomes

    def _with_acl(self, record: Record, docid: str, answers: list[_Answers]) -> list[Found]:
        try:
            return [*_with_acl(record, docid, answers)]
        except Exception as exc:
            return [reject_document(record, record_error(exc), stage=STAGE)]

    def _docids(self, urls: list[str]) -> tuple[dict[str, str], dict[str, RecordError]]:
        """Return the doc id of each url, or why it has none that can be asked about."""
        docids: dict[str, str] = {}
        troubles: dict[str, RecordError] = {}
        for url in urls:
            try:
                docid = self._id_of(url)
                request(username="", password=None, groups=(), ids=(docid,))
                docids[url] = docid
            except Exception as exc:
                troubles[url] = record_error(exc)
        return docids, troubles

    def _ask_for_all(self, docids: list[str], leash: Leash) -> list[_Answers]:
        if not docids:
            return []
        asks = (partial(self._ask, user, docids, leash) for user in self._programs.users)
        return [
            attempt(ask, programs=self._programs, pauses=self._pauses, leash=leash) for ask in asks
        ]

    def _ask(self, user: User, docids: list[str], leash: Leash) -> _Answers:
        password = None if user.password is None else resolve(user.password)
        question = request(username=user.name, password=password, groups=user.groups, ids=docids)
        call = call_of(self._programs, self._programs.authorizer)
        output = run(call, stdin=question, hidden=(password or "",), leash=leash)
        with explained(output.stdout, output.stderr_tail):
            return self._understand(user, docids, output.stdout)

    def _understand(self, user: User, docids: list[str], stream: bytes) -> _Answers:
        """An answer that cannot be read is none; nor is the one before it, which it may concern."""
        source = f"{shlex.join(self._programs.authorizer)} for {user.name!r}"
        found = list(self._read(BytesIO(stream), span=Span(source=source), options=self._options))
        records = [one for one in found if isinstance(one, Record)]
        rejects = [one for one in found if isinstance(one, Reject)]
        notices = [one for one in found if isinstance(one, Notice)]
        doubtful = {_place_before(reject, records) for reject in rejects}
        statuses = {
            self._id_of(record.url): "" if record.provenance.offset in doubtful else _status(record)
            for record in records
            if not _others(user, record)
        }
        notices += map(_unreadable, rejects)
        others = [f"user {name!r}, who" for one in records for name in _others(user, one)]
        unasked = [f"{docid!r}, which" for docid in sorted(statuses.keys() - set(docids))]
        notices += [_not_asked(f"{one} was not asked about", source) for one in others[:1]]
        notices += [_not_asked(f"{one} was not asked", source) for one in unasked[:1]]
        return _Answers(user, statuses, notices)


def _place_before(reject: Reject, records: list[Record]) -> int:
    """Where the last document before it stands; -1 if it is the first."""
    places = (record.provenance.offset for record in records)
    return max((place for place in places if place < reject.offset), default=-1)


def _unreadable(reject: Reject) -> Notice:
    return Notice(
        code="unreadable-answer",
        detail=f"{reject.reason}; no answer, nor is the one before it",
        source=reject.source,
        span=reject.span,
        offset=reject.offset,
    )


def _others(user: User, record: Record) -> list[str]:
    """Return whom but this user an answer is for; a program need not say for whom it is."""
    names = (extra.value for extra in record.extras if extra.place == USERNAME)
    return [name for name in names if name != user.name]


def _not_asked(found: str, source: str) -> Notice:
    return Notice(code="not-asked", detail=f"an answer for {found}; ignored", source=source)


def _status(record: Record) -> str:
    return next((extra.value for extra in record.extras if extra.place == STATUS), "")


def _with_acl(record: Record, docid: str, answers: list[_Answers]) -> list[Found]:
    """Return a document with its ACL, and a notice for each user of whom nothing is known."""
    notices: list[Found] = []
    principals: list[Principal] = []
    for user, statuses, _ in answers:
        status = statuses.get(docid, "")
        if status in _ACCESSES:
            principals.append(
                Principal(
                    name=user.name,
                    scope=Scope.USER,
                    access=_ACCESSES[status],
                    namespace=user.namespace,
                )
            )
        else:
            notices.append(_indeterminate(record, user, status))
    acl = Acl(principals=tuple(principals))
    return [*notices, msgspec.structs.replace(record, acl=acl)]


def _indeterminate(record: Record, user: User, status: str) -> Notice:
    origin = record.provenance
    found = f"{status or 'no answer'} for user {user.name!r} and {record.url!r}"
    return Notice(
        code="indeterminate",
        detail=f"{found}; no principal is made of it",
        source=origin.source,
        span=origin.span,
        offset=origin.offset,
    )
