"""The documents of a lister's or a retriever's command stream, as records.

In `Mode.STRICT`, an error of the deployed parser is a FormatError. In `Mode.LENIENT` it is repaired
with a Notice, or the document that has it is a Reject.
"""

from collections import deque
from collections.abc import Iterator
from typing import IO, NamedTuple

from msgspec.structs import replace

from schemas.acl import Acl
from schemas.choices import NotFound
from schemas.errors import RecordError, UnavailableError
from schemas.notice import Notice
from schemas.record import Provenance, Record
from schemas.reject import DEFECT, Filtered, Place, Reject, record_error, reject_bytes
from schemas.span import Span
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.commands import (
    OVERLAP,
    Command,
    CommandReader,
    read_header,
)
from transforms.formats.command_stream.doc_ids import url_maker
from transforms.formats.command_stream.document import Arguments, DocumentBuilder
from transforms.formats.command_stream.syntax import COMMAND_NAMES, require_argument

DocumentOutcome = Record | Reject | Filtered | Notice
"""What a document becomes, and the notices about it."""

_TOO_LARGE = "content-too-large"
_OUR_OWN_CODES = (_TOO_LARGE, DEFECT)
"""Codes of errors that the deployed parser does not have: they are rejects in both modes."""

# An id-list ends in CommandReader; `id-list` with an argument is an unknown command.
_KNOWN = frozenset(COMMAND_NAMES) - {"id-list"}


class StreamKind(NamedTuple):
    """The commands that a stream may have besides `id`, and whether it is a listing."""

    name: str
    commands: frozenset[str]
    is_listed: bool


class DocumentReader:
    """Builds the documents of one stream; `commands` is at the next command."""

    def __init__(
        self, stream: IO[bytes], kind: StreamKind, *, span: Span, options: ReadOptions
    ) -> None:
        self.commands = CommandReader(stream, span, options)
        self.url_of = url_maker(options.docids)
        self.is_strict = options.mode is Mode.STRICT
        self._kind = kind
        self._span = span
        self._not_found = options.not_found
        self._max_content_bytes = options.max_content_bytes
        self._arguments = Arguments(options, self._note)
        self._aside: list[Notice | Reject] = []
        self._document: DocumentBuilder | None = None
        self._error: RecordError | None = None
        self._begin = self._offset = span.offset

    @property
    def is_open(self) -> bool:
        """Whether a document has begun and not ended."""
        return self._document is not None

    def open(self) -> Iterator[Notice]:
        """Read the header."""
        yield from read_header(self.commands)
        self._begin = self.commands.offset
        self.commands.capture(self._begin)

    def take(self, command: Command) -> Iterator[DocumentOutcome]:
        """Apply one command; yield the document before it, if it begins another."""
        if command.name == "id":
            yield from self.finish(command.offset)
            self._begin_document(command, command.argument or "")
        self._offset = command.offset
        try:
            self._apply(command)
        except Exception as exc:
            self._refuse(record_error(exc), command)
        if command.is_repaired:
            self._note("overlap", OVERLAP)
        yield from self._flush()

    def finish(self, end: int) -> Iterator[DocumentOutcome]:
        """Yield the open document, which ends at `end`."""
        document, self._document = self._document, None
        if document is None:
            return
        error, self._error = self._error, None
        try:
            if error:
                raise error
            document.end()
            outcome: DocumentOutcome = self._outcome(document)
        except Exception as exc:
            error = record_error(exc)
            self._raise_if_strict(error)
            outcome = self._reject(error, document, end)
        self.commands.end_capture()
        yield from self._flush()
        yield outcome

    def unavailable(self, exc: UnavailableError) -> Reject:
        """Return the reject of the document that the repository could not return."""
        document, self._document = self._document, None
        reason = RecordError("repository-unavailable", str(exc))
        return self._reject(reason, document, self.commands.offset)

    def _begin_document(self, command: Command, docid: str) -> None:
        self._begin = command.offset
        self.commands.capture(command.offset)
        self._document = DocumentBuilder(
            docid, arguments=self._arguments, is_listed=self._kind.is_listed
        )

    def _apply(self, command: Command) -> None:
        name, argument, document = command.name, command.argument, self._document
        if name == "meta-content" and not self.is_strict:  # in an example of the documentation
            self._note("meta-content", "meta-content, which is no command; read as meta-value")
            name = "meta-value"
        if command.error:
            raise command.error
        if name not in _KNOWN:
            self._take_unknown(name, argument)
        elif document is None:
            raise RecordError("no-id", f"{name}; expected id or id-list before it")
        elif name == "id":
            require_argument(name, argument)
        elif not self._belongs(name):
            reason = f"{name}; expected a command of a {self._kind.name}"
            raise RecordError("bad-command", reason)
        elif name == "content":
            self._take_content(document)
        elif name == "authz-status":
            document.keep(name, argument)
        else:
            document.apply(name, argument)

    def _take_unknown(self, name: str, argument: str | None) -> None:
        """Keep an unknown command, unless it may be of an ACL and deny access to somebody."""
        if name.lower().startswith("acl") and not self.is_strict:
            reason = f"unknown ACL command {name}; expected acl or a known acl-… command"
            raise RecordError("bad-acl", reason)
        kept = "kept" if self._document else "skipped, as it stands before any id"
        self._aside.append(self.commands.unknown_command(name, kept, self._offset))
        if self._document:
            self._document.keep(name, argument)

    def _belongs(self, name: str) -> bool:
        if name in self._kind.commands:
            return True
        if self.is_strict or name == "delete":  # a deletion is never guessed
            return False
        if name == "content":
            reason = (
                "content in a listing; expected ids to its end, as content is all that"
                " follows; --from retriever-stream reads a document"
            )
            raise self.commands.error(reason, self._offset)
        self._note("foreign-command", f"{name} in a {self._kind.name}'s stream; taken as it is")
        return True

    def _take_content(self, document: DocumentBuilder) -> None:
        limit = self._max_content_bytes
        pieces: list[bytes] = []
        size = 0
        for piece in self.commands.remainder():
            size += len(piece)
            if size <= limit:
                pieces.append(piece)
            else:
                pieces.clear()
        if size > limit:
            reason = f"content of {size} bytes; expected at most {limit}; raise --max-content-bytes"
            raise RecordError(_TOO_LARGE, reason)
        document.set_content(b"".join(pieces))

    def _refuse(self, exc: RecordError, command: Command) -> None:
        """Reject the document that has the command when it ends; the first error is the reason.

        Without a document, reject the command alone, but with `content` the rest of the stream.
        """
        self._raise_if_strict(exc)
        if command.name == "content":
            if self._document is None:
                self._begin_document(command, "")
            deque(self.commands.remainder(), maxlen=0)  # it must not be read as commands
        if self._document:
            self._error = self._error or exc
            return
        self._begin = command.offset
        self.commands.capture(command.offset)
        self._aside.append(self._reject(exc, None, command.offset + len(command.token)))
        self._begin = self.commands.offset  # the next reject begins after this one
        self.commands.capture(self._begin)

    def _raise_if_strict(self, exc: RecordError) -> None:
        if self.is_strict and exc.code not in _OUR_OWN_CODES:
            raise self.commands.error(exc.reason, self._offset) from exc

    def _outcome(self, document: DocumentBuilder) -> Record | Filtered:
        url = self.url_of(document.docid)
        if document.final == "up-to-date":
            return Filtered(code="up-to-date", url=url, action="ADD")
        if document.final == "not-found" and self._not_found is NotFound.SKIP:
            return Filtered(code="not-found", url=url, action="ADD")
        place = Provenance(source=self._span.source, span=self._span.ordinal, offset=self._begin)
        return document.record(url, place, acl=self._acl(document))

    def _acl(self, document: DocumentBuilder) -> Acl | None:
        """Return the ACL. The deployed parser drops it without content; a deletion needs none."""
        parent = None if document.parent is None else self.url_of(document.parent)
        if document.ignores_acl:
            self._note("acl-ignored", "acl-… commands without acl; ignored, as it asks for that")
        if not document.sends_acl or document.final:
            return None
        if document.content is None:
            kept = "forgotten" if self.is_strict else "kept"
            self._note("acl-without-content", f"an ACL that no content follows; {kept}")
            if self.is_strict:
                return None
        return document.acl(parent)

    def _reject(self, exc: RecordError, document: DocumentBuilder | None, end: int) -> Reject:
        place = Place(self._begin, end - self._begin)
        reject = reject_bytes(exc, span=self._span, place=place, data=self.commands.captured(end))
        if document is None:
            return reject
        is_named = document.docid and exc.code != DEFECT  # the defect may be in url_of
        url = self.url_of(document.docid) if is_named else None
        return replace(reject, url=url, action="ADD")

    def _note(self, code: str, detail: str) -> None:
        self._aside.append(self.commands.notice(code, detail, self._offset))

    def _flush(self) -> Iterator[Notice | Reject]:
        yield from self._aside
        self._aside.clear()
