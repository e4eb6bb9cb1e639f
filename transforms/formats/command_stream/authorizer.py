"""Reads and writes authorizer streams: which documents a user may see, asked and answered.

**Spec:** GSA adaptor library, CommandStreamParser, "Authorizer Commands".

A record for each id, with its status as the Extra `stream/authz-status`; in a question, which the
deployed parser does not read, the user and its groups as the Extras `stream/username` and
`stream/group`. The deployed adaptor asks by `username`, the specification by `user`.

**Drops:** passwords; a status that is none of PERMIT, DENY and INDETERMINATE, as the deployed
parser does. Of two answers for one id, to the same user,
the last one counts.
"""

from collections.abc import Iterable, Iterator
from typing import IO

from msgspec.structs import replace

from schemas.defect import DEFECT, record_error
from schemas.errors import FormatError, RecordError
from schemas.notice import Notice
from schemas.record import Action, Extra, Provenance, Record
from schemas.reject import Place, Reject, reject_bytes
from schemas.span import Span
from transforms.formats.base import Found, Mode, ReadOptions, WriteOptions, write_all
from transforms.formats.command_stream.commands import (
    OVERLAP,
    Command,
    Commands,
    UnknownNames,
    shown_name,
)
from transforms.formats.command_stream.doc_ids import url_maker
from transforms.formats.command_stream.tokenizer import (
    COMMAND_NAMES,
    KEPT_BYTES,
    Tokens,
    notice,
    read_header,
    read_line_ends,
)
from transforms.formats.command_stream.writer import (
    GROUP,
    STATUS,
    STATUSES,
    USERNAME,
    AuthorizerEncoder,
)

MAX_GROUPS = 10_000
"""Most groups of a user. A directory gives a user about a thousand."""
MAX_STREAM_GROUPS = 10_000_000
"""Most groups of all users of a stream; those of a user count again where ids stand between."""

_FOREIGN = frozenset(COMMAND_NAMES) - {"id", "id-list", "authz-status"}
_ASKERS = {"username": USERNAME, "user": USERNAME, "group": GROUP}
_SECRET = "password"  # the name of the command that holds one


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Found]:
    """Yield a record for each id, when all are read: answers are held, some hundred bytes each."""
    yield from _Answers(stream, span, options).results()


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield the whole stream: what it begins with may concern all that follows."""
    yield Span(source=source)


def write(
    records: Iterable[Record], stream: IO[bytes], *, options: WriteOptions = WriteOptions()
) -> None:
    """Write one stream of answers, or of questions where records have a user."""
    write_all(encoder(options), records, stream)


def encoder(options: WriteOptions = WriteOptions()) -> AuthorizerEncoder:
    """Return the encoder."""
    return AuthorizerEncoder(options)


_Question = tuple[int, str]
"""The number of the user with its groups, and the doc id."""


class _Answers:
    def __init__(self, stream: IO[bytes], span: Span, options: ReadOptions) -> None:
        self._tokens = Tokens(stream, span, options)
        self._commands = Commands(self._tokens, span=span)
        self._span = span
        self._options = options
        self._is_strict = options.mode is Mode.STRICT
        self._url_of = url_maker(options.docids)
        self._unknown = UnknownNames()
        self._answers: dict[_Question, Record] = {}
        self._statuses: dict[_Question, Extra] = {}
        self._asker: list[Extra] = []
        self._askers: dict[tuple[Extra, ...], int] = {(): 0}
        self._named: tuple[tuple[Extra, ...], int] | None = ((), 0)
        self._groups = 0
        self._trouble: RecordError | None = None
        self._question: _Question | None = None
        self._has_begun = False
        self._nameless: FormatError | None = None

    def results(self) -> Iterator[Found]:
        yield from read_header(self._tokens, span=self._span, options=self._options)
        yield from read_line_ends(self._tokens, span=self._span, options=self._options)
        for command in self._commands:
            yield from self._take(command)
        if self._nameless:
            raise self._nameless
        for question, record in self._answers.items():
            status = self._statuses.get(question)
            yield record if status is None else replace(record, extras=(*record.extras, status))

    def _take(self, command: Command) -> Iterator[Notice | Reject]:
        try:
            yield from self._answer(command)
        except Exception as exc:
            error = record_error(exc)
            if self._is_strict and error.code != DEFECT:
                raise self._refused(error, command) from exc
            yield self._reject(error, command)
        if command.is_mended:
            yield self._notice("overlap", OVERLAP, command)

    def _answer(self, command: Command) -> Iterator[Notice]:
        name = command.name
        if command.trouble and self._is_strict:
            raise command.trouble
        if name == "id" and command.argument is None and self._is_strict:
            yield from self._begin_nameless(command)
        elif name == "id":
            self._begin(command)
        elif name == "authz-status":
            yield from self._set_status(command)
        elif name in _ASKERS:
            self._ask(command)
        elif name in _FOREIGN:
            raise RecordError("bad-command", f"{name}; expected id or authz-status")
        elif name != _SECRET:
            detail = f"{shown_name(name)!r}, a command that nobody knows; skipped"
            yield self._notice(self._unknown.code(name), detail, command)

    def _begin(self, command: Command) -> None:
        """An id that the same user asks for again is answered again."""
        self._question, self._has_begun, self._nameless = None, True, None
        trouble = command.trouble or self._trouble
        if trouble:
            raise trouble
        docid = _stated(command)
        place = Provenance(source=self._span.source, span=self._span.ordinal, offset=command.offset)
        asker, number = self._named or self._name(command)
        question = (number, docid)
        self._answers[question] = Record(
            url=self._url_of(docid), action=Action.UPDATE, extras=asker, provenance=place
        )
        self._statuses.pop(question, None)
        self._question = question  # last: an id without a record takes no status

    def _name(self, command: Command) -> tuple[tuple[Extra, ...], int]:
        """Return the user with its groups, and its number; ids of one user share both."""
        asker = tuple(self._asker)
        self._groups += len(asker)
        if self._groups > MAX_STREAM_GROUPS:
            reason = (
                f"more than {MAX_STREAM_GROUPS} groups of users; expected all groups of a user "
                "before its ids: split the stream by users"
            )
            raise self._refused(RecordError("too-many-groups", reason), command)
        self._named = asker, self._askers.setdefault(asker, len(self._askers))
        return self._named

    def _begin_nameless(self, command: Command) -> Iterator[Notice]:
        """The deployed parser minds an id without an argument only where it is the last one."""
        self._question, self._has_begun = None, True
        exc = RecordError("no-argument", "id without an argument; expected id=…")
        self._nameless = self._refused(exc, command)
        yield self._notice("no-argument", "id without an argument; set aside", command)

    def _set_status(self, command: Command) -> Iterator[Notice]:
        if not self._has_begun:
            raise RecordError("no-id", "authz-status; expected id or id-list before it")
        if command.trouble:
            raise command.trouble
        status = _stated(command)
        if self._question is None:
            detail = "authz-status of an id that was set aside; not taken"
            yield self._notice("authz-status", detail, command)
        elif status not in STATUSES:
            detail = f"authz-status={status!r}, none of {', '.join(STATUSES)}; not taken"
            yield self._notice("authz-status", detail, command)
        else:
            self._statuses[self._question] = Extra(STATUS, status)

    def _ask(self, command: Command) -> None:
        """Of a user that cannot be read nobody can say what it may see."""
        asker = Extra(_ASKERS[command.name], command.argument or "")
        trouble = command.trouble and RecordError(
            command.trouble.code, f"{command.trouble.reason}, where a user or group is named"
        )
        self._named = None
        if asker.place == USERNAME:
            self._asker, self._trouble = [asker], trouble
        elif len(self._asker) > MAX_GROUPS:
            reason = f"more than {MAX_GROUPS} groups of a user; expected fewer"
            self._trouble = self._trouble or RecordError("too-many-groups", reason)
        else:
            self._asker.append(asker)
            self._trouble = self._trouble or trouble

    def _refused(self, exc: RecordError, command: Command) -> FormatError:
        where = f"{self._span.source} (byte {command.offset})"
        return FormatError(f"{where}: {exc.reason}")

    def _notice(self, code: str, detail: str, command: Command) -> Notice:
        return notice(code, detail, self._span, command.offset)

    def _reject(self, exc: RecordError, command: Command) -> Reject:
        place = Place(command.offset, len(command.token))
        is_named = command.argument is not None and exc.code != DEFECT
        url = self._url_of(command.argument or "") if is_named else None
        kept = command.token[:KEPT_BYTES]
        return reject_bytes(exc, span=self._span, place=place, data=kept, url=url)


def _stated(command: Command) -> str:
    name = command.name
    if command.argument is None:
        raise RecordError("no-argument", f"{name} without an argument; expected {name}=…")
    return command.argument
