"""The documents of a command stream, as records: what a lister and a retriever have in common.

In `Mode.STRICT` whatever the deployed parser throws at is a FormatError. In `Mode.LENIENT` it costs
the document that it stands in, as a Reject, or it is mended, as a Notice says.
"""

from collections import deque
from collections.abc import Iterator
from typing import IO, NamedTuple

from msgspec.structs import replace

from schemas.defect import DEFECT, record_error
from schemas.errors import FormatError, RecordError, UnavailableError
from schemas.notice import Notice
from schemas.record import Provenance, Record
from schemas.reject import Filtered, Place, Reject, reject_bytes
from schemas.span import Span
from transforms.formats.base import Mode, NotFound, ReadOptions
from transforms.formats.command_stream.arguments import arguments
from transforms.formats.command_stream.commands import (
    OVERLAP,
    Command,
    Commands,
    UnknownNames,
    shown_name,
)
from transforms.formats.command_stream.doc_ids import url_maker
from transforms.formats.command_stream.document import Document
from transforms.formats.command_stream.tokenizer import (
    COMMAND_NAMES,
    Tokens,
    notice,
    read_header,
    read_line_ends,
)

Outcome = Record | Reject | Filtered | Notice
_TOO_LARGE = "content-too-large"
_NOT_OF_THE_STREAM = (_TOO_LARGE, DEFECT)
"""Codes that the deployed parser knows nothing of: rejects in either mode."""

# `id-list` never comes here but with an argument, which the deployed parser does not know.
_KNOWN = frozenset(COMMAND_NAMES) - {"id-list"}


class Kind(NamedTuple):
    """Which commands a stream may have beside ids, and whether it lists what is to be fetched."""

    name: str
    commands: frozenset[str]
    is_listed: bool


class DocumentReader:
    """Reads one stream; `tokens` and `commands` stand behind what was read."""

    def __init__(self, stream: IO[bytes], kind: Kind, *, span: Span, options: ReadOptions) -> None:
        self.tokens = Tokens(stream, span, options)
        self.commands = Commands(self.tokens, span=span)
        self.url_of = url_maker(options.docids)
        self._kind = kind
        self._span = span
        self._options = options
        self._is_strict = options.mode is Mode.STRICT
        self._arguments = arguments(options, self._note)
        self._aside: list[Notice | Reject] = []
        self._unknown = UnknownNames()
        self._document: Document | None = None
        self._trouble: RecordError | None = None
        self._begin = self._offset = span.offset

    @property
    def is_open(self) -> bool:
        """Whether more may be said of a document."""
        return self._document is not None

    def open(self) -> Iterator[Notice]:
        """Read the header."""
        yield from read_header(self.tokens, span=self._span, options=self._options)
        yield from read_line_ends(self.tokens, span=self._span, options=self._options)
        self._begin = self.tokens.offset
        self.tokens.mark(self._begin)

    def take(self, command: Command) -> Iterator[Outcome]:
        """Take one command; yield the document before it, where it begins another."""
        if command.name == "id":
            yield from self.finish(command.offset)
            self._offset = command.offset
            self._begin_document(command)
        else:
            self._offset = command.offset
            self._take_or_refuse(command)
        if command.is_mended:
            self._note("overlap", OVERLAP)
        yield from self._flush()

    def finish(self, end: int) -> Iterator[Outcome]:
        """Yield what the document that is open, and ends at `end`, has become."""
        document, self._document = self._document, None
        if document is None:
            return
        trouble, self._trouble = self._trouble, None
        try:
            if trouble:
                raise trouble
            document.end()
            outcome: Outcome = self._outcome(document)
        except Exception as exc:
            error = record_error(exc)
            self._raise_if_strict(error)
            outcome = self._reject(error, document, end)
        self.tokens.forget()
        yield from self._flush()
        yield outcome

    def unavailable(self, exc: UnavailableError) -> Reject:
        """Return the reject of the document that a repository could not give."""
        document, self._document = self._document, None
        reason = RecordError("repository-unavailable", str(exc))
        return self._reject(reason, document, self.tokens.offset)

    def _begin_document(self, command: Command) -> None:
        self._open_document(command, command.argument or "")
        if command.trouble:
            self._spoil(command.trouble)
        elif command.argument is None:
            self._spoil(RecordError("no-argument", "id without an argument; expected id=…"))

    def _open_document(self, command: Command, docid: str) -> None:
        self._begin = command.offset
        self.tokens.mark(command.offset)
        self._document = Document(
            docid,
            arguments=self._arguments,
            is_listed=self._kind.is_listed,
            keeps_all=not self._is_strict,
        )

    def _take_or_refuse(self, command: Command) -> None:
        try:
            self._take(command)
        except Exception as exc:
            self._refuse(record_error(exc), command)
            if command.name == "content":  # what follows is not to be read as commands
                deque(self.tokens.rest(), maxlen=0)

    def _take(self, command: Command) -> None:
        name = self._meant(command)
        if command.trouble:
            self._refuse(command.trouble, command)
        elif self._is_doubtful(name):
            reason = f"{name}, which says nothing that is known of an ACL; expected acl or acl-…"
            self._refuse(RecordError("bad-acl", reason), command)
        elif name not in _KNOWN:
            self._keep(command)
        elif self._document is None:
            self._take_orphan(name, command)
        elif not self._belongs(name):
            reason = f"{name}; expected a command of a {self._kind.name}"
            self._refuse(RecordError("bad-command", reason), command)
        else:
            self._apply(self._document, name, command)

    def _apply(self, document: Document, name: str, command: Command) -> None:
        try:
            if name == "content":
                self._take_content(document)
            elif name == "authz-status":
                document.keep(name, command.argument)
            else:
                document.apply(name, command.argument)
        except RecordError as exc:
            self._spoil(exc)

    def _take_orphan(self, name: str, command: Command) -> None:
        """Content is to the end of the stream, whosever it is: a reject takes all of it."""
        exc = RecordError("no-id", f"{name}; expected id or id-list before it")
        if self._is_strict or name != "content":
            self._refuse(exc, command)
            return
        self._open_document(command, "")
        self._spoil(exc)
        self._take(command)

    def _meant(self, command: Command) -> str:
        """The documentation's own example says `meta-content` for `meta-value`."""
        if command.name != "meta-content" or self._is_strict:
            return command.name
        self._note("meta-content", "meta-content, which is no command; read as meta-value")
        return "meta-value"

    def _is_doubtful(self, name: str) -> bool:
        """Whether a command may be of an ACL, and nobody can tell who it shuts out."""
        is_known = name in _KNOWN or self._is_strict
        return not is_known and name.lower().startswith("acl")

    def _belongs(self, name: str) -> bool:
        if name in self._kind.commands:
            return True
        if self._is_strict or name == "delete":  # never by accident
            return False
        if name == "content":
            where = f"{self._span.source} (byte {self._offset})"
            raise FormatError(
                f"{where}: content in a listing; expected ids to its end, as content is all that"
                " follows; --from retriever-stream reads a document"
            )
        self._note("foreign-command", f"{name} in a {self._kind.name}'s stream; taken as it is")
        return True

    def _keep(self, command: Command) -> None:
        kept = "kept" if self._document else "skipped, as it stands before any id"
        found = f"{shown_name(command.name)!r}, a command that nobody knows"
        self._note(self._unknown.code(command.name), f"{found}; {kept}")
        if self._document:
            self._document.keep(command.name, command.argument)

    def _take_content(self, document: Document) -> None:
        limit = self._options.max_content_bytes
        pieces: list[bytes] = []
        size = 0
        for piece in self.tokens.rest():
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
        """Spoil the document that a command stands in, or set aside the command by itself."""
        if self._document or (self._is_strict and exc.code != DEFECT):
            self._spoil(exc)
            return
        self._begin = command.offset
        self.tokens.mark(command.offset)
        self._aside.append(self._reject(exc, None, command.offset + len(command.token)))
        self._begin = self.tokens.offset  # what follows is not part of this reject
        self.tokens.mark(self._begin)

    def _spoil(self, exc: RecordError) -> None:
        """The first trouble of a document is what it is rejected for."""
        self._raise_if_strict(exc)
        self._trouble = self._trouble or exc

    def _raise_if_strict(self, exc: RecordError) -> None:
        if self._is_strict and exc.code not in _NOT_OF_THE_STREAM:
            where = f"{self._span.source} (byte {self._offset})"
            raise FormatError(f"{where}: {exc.reason}") from exc

    def _outcome(self, document: Document) -> Record | Filtered:
        url = self.url_of(document.docid)
        if document.final == "up-to-date":
            return Filtered(code="up-to-date", url=url, action="ADD")
        if document.final == "not-found" and self._options.not_found is NotFound.SKIP:
            return Filtered(code="not-found", url=url, action="ADD")
        place = Provenance(source=self._span.source, span=self._span.ordinal, offset=self._begin)
        parent = None if document.parent is None else self.url_of(document.parent)
        return document.record(url, place, parent=parent, acl=self._sends_acl(document))

    def _sends_acl(self, document: Document) -> bool:
        """The deployed parser forgets an ACL that no content follows; what is gone needs none."""
        if document.ignores_acl:
            self._note("acl-ignored", "acl-… commands without acl; ignored, as it asks for that")
        if not document.sends_acl or document.content is not None or document.final:
            return document.sends_acl and not document.final
        made = "forgotten" if self._is_strict else "kept"
        self._note("acl-without-content", f"an ACL that no content follows; {made}")
        return not self._is_strict

    def _reject(self, exc: RecordError, document: Document | None, end: int) -> Reject:
        place = Place(self._begin, end - self._begin)
        reject = reject_bytes(exc, span=self._span, place=place, data=self.tokens.marked(end))
        if document is None:
            return reject
        is_named = document.docid and exc.code != DEFECT  # to make the url may be what failed
        url = self.url_of(document.docid) if is_named else None
        return replace(reject, url=url, action="ADD")

    def _note(self, code: str, detail: str) -> None:
        self._aside.append(notice(code, detail, self._span, self._offset))

    def _flush(self) -> Iterator[Notice | Reject]:
        yield from self._aside
        self._aside.clear()
