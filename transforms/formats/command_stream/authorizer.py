"""Read and write authorizer streams: questions about the documents a user may see, and answers.

**Spec:** GSA adaptor library, CommandStreamParser, "Authorizer Commands".

Each id is a record, with its status as the extra `stream/authz-status`. In a question, which the
deployed parser does not read, the user and its groups are the extras `stream/username` and
`stream/group`. The deployed adaptor writes `username`, the specification has `user`.

**Drops:** passwords; a status other than PERMIT, DENY and INDETERMINATE, as the deployed parser
does. The last answer for an id and a user counts.

**Refuses** a group after an id of its user: all groups of a user come before its ids. Strictly, an
id without an argument is refused even if other ids follow, which the deployed parser ignores.
"""

from collections.abc import Iterator
from typing import IO

from msgspec.structs import replace

from feedferry.schemas.errors import RecordError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Extra, Provenance, Record
from feedferry.schemas.reject import DEFECT, KEPT_BYTES, Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.formats.command_stream.doc_ids import url_maker
from feedferry.transforms.formats.command_stream.stream_formats import StreamOptions
from feedferry.transforms.formats.command_stream.syntax import (
    OVERLAP,
    Command,
    CommandReader,
    read_header,
    require_argument,
)
from feedferry.transforms.formats.command_stream.vocabulary import (
    COMMAND_NAMES,
    GROUP,
    STATUS,
    STATUSES,
    USERNAME,
)

MAX_GROUPS = 10_000
"""Most groups of one user. Directories give a user about a thousand."""

_FOREIGN = COMMAND_NAMES - {"id", "id-list", "authz-status"}
_USER_PLACES = {"username": USERNAME, "user": USERNAME, "group": GROUP}
_SECRET = "password"  # the name of the command that holds one


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield a record for each id at the end of the stream; answers take some hundred bytes each."""
    answers = _AnswerReader(stream, span, options)
    yield from read_header(answers.commands)
    for command in answers.commands:
        yield from answers.take(command)
    yield from answers.records.values()


class _AnswerReader:
    """Keeps a record for each question: the number of a user with its groups, and a doc id."""

    def __init__(self, stream: IO[bytes], span: Span, options: ReadOptions) -> None:
        self.commands = CommandReader(stream, span, options)
        self.records: dict[tuple[int, str], Record] = {}
        self._span = span
        self._is_strict = self.commands.is_strict
        self._url_of = url_maker(options.of(StreamOptions).docids)
        self._question: tuple[int, str] | None = None
        self._has_id = False
        self._user: list[Extra] = []
        self._user_error: RecordError | None = None
        self._users: dict[tuple[Extra, ...], int] = {}
        self._current: tuple[tuple[Extra, ...], int] | None = None
        """The user with its groups, and its number; None until the first id asked for it."""

    def take(self, command: Command) -> Iterator[Notice | Reject]:
        try:
            yield from self._apply(command)
        except Exception as exc:
            error = record_error(exc)
            if self._is_strict and error.code != DEFECT:
                raise self.commands.error(error.reason, command.offset) from exc
            yield self._reject(error, command)
        if command.is_repaired:
            yield self.commands.notice("overlap", OVERLAP, command.offset)

    def _apply(self, command: Command) -> Iterator[Notice]:
        name = command.name
        if command.error and self._is_strict:
            raise command.error
        if name == "id":
            self._begin(command)
        elif name == "authz-status":
            yield from self._set_status(command)
        elif name in _USER_PLACES:
            self._add_to_user(command)
        elif name in _FOREIGN:
            raise RecordError("bad-command", f"{name}; expected id or authz-status")
        elif name != _SECRET:
            yield self.commands.unknown_command(name, "skipped", command.offset)

    def _begin(self, command: Command) -> None:
        """Begin an id. If the same user asks for it again, it loses the answer before."""
        self._question, self._has_id = None, True
        if error := command.error or self._user_error:
            raise error
        docid = require_argument("id", command.argument)
        if self._current is None:
            user = tuple(self._user)
            self._current = user, self._users.setdefault(user, len(self._users))
        user, number = self._current
        place = Provenance(source=self._span.source, span=self._span.ordinal, offset=command.offset)
        question = (number, docid)
        self.records[question] = Record(
            url=self._url_of(docid), action=Action.UPDATE, extras=user, provenance=place
        )
        self._question = question  # last, so that an id without a record takes no status

    def _set_status(self, command: Command) -> Iterator[Notice]:
        if not self._has_id:
            raise RecordError("no-id", "authz-status; expected id or id-list before it")
        if command.error:
            raise command.error
        status = require_argument("authz-status", command.argument)
        if self._question and status in STATUSES:
            record = self.records[self._question]
            user = [extra for extra in record.extras if extra.place != STATUS]
            extras = (*user, Extra(STATUS, status))
            self.records[self._question] = replace(record, extras=extras)
            return
        detail = f"authz-status={status!r}, none of {', '.join(STATUSES)}; not taken"
        if self._question is None:
            detail = "authz-status of an id that was set aside; not taken"
        yield self.commands.notice("authz-status", detail, command.offset)

    def _add_to_user(self, command: Command) -> None:
        """Add a user or group. An error in one rejects the ids that follow: access is unknown."""
        extra = Extra(_USER_PLACES[command.name], command.argument or "")
        error = command.error and RecordError(
            command.error.code, f"{command.error.reason}, where a user or group is named"
        )
        if extra.place == USERNAME:
            self._user, self._user_error, self._current = [extra], error, None
        elif self._current is not None:
            reason = "a group after an id of its user; expected all groups of a user before its ids"
            self._user_error = error or RecordError("late-group", reason)
        elif len(self._user) > MAX_GROUPS:
            reason = f"more than {MAX_GROUPS} groups of a user; expected fewer"
            self._user_error = self._user_error or RecordError("too-many-groups", reason)
        else:
            self._user.append(extra)
            self._user_error = self._user_error or error

    def _reject(self, exc: RecordError, command: Command) -> Reject:
        place = Place(command.offset, len(command.token))
        is_named = command.argument is not None and exc.code != DEFECT
        url = self._url_of(command.argument or "") if is_named else None
        data = command.token[:KEPT_BYTES]
        return reject_bytes(exc, span=self._span, place=place, data=data, url=url)
