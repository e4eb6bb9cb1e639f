"""The documents of a command stream, built command by command; and the streams of retrievers.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands", "Retriever Commands".

In strict mode, an error of the deployed parser is a FormatError. In lenient mode it is repaired
with a Notice, or the document that has it is a Reject.

**Keeps:** every command of a retriever; `param-name` pairs and unknown commands are extras. With
`NotFound.DELETE`, `not-found` is a deletion. `up-to-date` is not a record.

**Drops:** ACL commands without `acl`, as the specification says. Principals and pairs keep their
order, which the deployed parser sorts. strict mode keeps a repeated pair or principal once, as
the deployed parser does.
"""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import IO

from msgspec.structs import replace

from feedferry.schemas.choices import NotFound
from feedferry.schemas.errors import RecordError, UnavailableError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import (
    Action,
    Anchor,
    Arrival,
    Content,
    Crawl,
    Extra,
    Meta,
    Provenance,
    Record,
)
from feedferry.schemas.reject import DEFECT, Filtered, Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.formats.command_stream.acl_commands import AclCommands, Repetitions
from feedferry.transforms.formats.command_stream.doc_ids import url_maker, urls_maker
from feedferry.transforms.formats.command_stream.stream_formats import StreamOptions
from feedferry.transforms.formats.command_stream.syntax import (
    OVERLAP,
    Command,
    CommandReader,
    integer,
    moment_of,
    read_header,
    require_argument,
)
from feedferry.transforms.formats.command_stream.vocabulary import (
    ACL_SETTINGS,
    COMMAND_NAMES,
    LISTER,
    PAIRS,
    PARAM,
    PLACE,
    PRINCIPALS,
    RETRIEVER,
)
from feedferry.transforms.formats.text.dates import parse_date
from feedferry.transforms.formats.text.java_uri import is_uri

_TOO_LARGE = "content-too-large"
_OUR_OWN_CODES = (_TOO_LARGE, DEFECT)
"""Codes of errors that the deployed parser does not have: they are rejects in both modes."""

# An id-list ends in CommandReader; `id-list` with an argument is an unknown command.
_KNOWN = COMMAND_NAMES - {"id-list"}
_FIRSTS = {second: first for first, second in PAIRS.items()}
_NO_HINTS = Crawl()
_TRUE = frozenset({"true", "yes", "1", "on"})
_FALSE = frozenset({"false", "no", "0", "off"})


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield the document of a retriever; lenient mode reads streams of several documents.

    An unavailable repository is a Reject, in strict mode an UnavailableError.
    """
    reader = DocumentReader(stream, span, options, is_listing=False)
    commands = reader.commands
    yield from reader.open()
    try:
        for command in commands:
            if command.name == "id" and reader.has_documents and commands.is_strict:
                reason = "a second id; expected one document in a stream"
                raise commands.error(reason, command.offset)
            yield from reader.take(command)
        yield from reader.finish(commands.offset)
    except UnavailableError as exc:
        if commands.is_strict:
            raise
        yield reader.unavailable(exc)
    if not reader.has_documents:
        raise commands.error("no document; expected an id after the header", commands.offset)


class DocumentReader:
    """Builds the documents of one stream; `commands` is at the next command.

    `has_documents` is true after the first document or reject.
    """

    def __init__(
        self, stream: IO[bytes], span: Span, options: ReadOptions, *, is_listing: bool
    ) -> None:
        self.commands = CommandReader(stream, span, options)
        self.url_of = url_maker(options.of(StreamOptions).docids)
        self.urls_of = urls_maker(options.of(StreamOptions).docids)
        self.has_documents = False
        self._name, self._own = ("lister", LISTER) if is_listing else ("retriever", RETRIEVER)
        self._is_listing = is_listing
        self._is_strict = self.commands.is_strict
        self._span = span
        self._options = options
        self._aside: list[Notice | Reject] = []
        self._document: _DocumentBuilder | None = None
        self._error: RecordError | None = None
        self._begin = self._offset = span.offset

    def open(self) -> Iterator[Notice]:
        """Read the header."""
        yield from read_header(self.commands)
        self._capture(self.commands.offset)

    def take(self, command: Command) -> Iterator[ReadResult]:
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

    def finish(self, end: int) -> Iterator[ReadResult]:
        """Yield the open document, which ends at `end`."""
        document, self._document = self._document, None
        if document is None:
            return
        error, self._error = self._error, None
        try:
            if error:
                raise error
            outcome: ReadResult = self._outcome(document)
        except Exception as exc:
            error = record_error(exc)
            self._raise_if_strict(error)
            outcome = self._reject(error, document, end)
        self.commands.end_capture()
        yield from self._flush()
        yield outcome

    def unavailable(self, exc: UnavailableError) -> Reject:
        """Return the reject of the document that the repository could not return."""
        reason = RecordError("repository-unavailable", str(exc))
        return self._reject(reason, self._document, self.commands.offset)

    def _capture(self, begin: int) -> None:
        self._begin = begin
        self.commands.capture(begin)

    def _begin_document(self, command: Command, docid: str) -> None:
        self._capture(command.offset)
        self.has_documents = True
        self._document = _DocumentBuilder(
            docid, self._options, self._note, is_listed=self._is_listing
        )

    def _apply(self, command: Command) -> None:
        name, argument, document = command.name, command.argument, self._document
        if name == "meta-content" and not self._is_strict:  # in an example of the documentation
            self._note("meta-content", "meta-content, which is no command; read as meta-value")
            name = "meta-value"
        if command.error:
            raise command.error
        if name not in _KNOWN:
            self._take_unknown(name, argument)
        elif name == "content" and self._is_listing and not self._is_strict:
            reason = (
                "content in a listing; expected ids to its end, as content is all that"
                " follows; ⟦from_format retriever-stream⟧ reads a document"
            )
            raise self.commands.error(reason, self._offset)
        elif document is None:
            raise RecordError("no-id", f"{name}; expected id or id-list before it")
        elif name == "id":
            require_argument(name, argument)
        elif not self._belongs(name):
            reason = f"{name}; expected a command of a {self._name}"
            raise RecordError("bad-command", reason)
        elif name == "content":
            self._take_content(document)
        elif name == "authz-status":
            document.keep(name, argument)
        else:
            document.apply(name, argument)

    def _take_unknown(self, name: str, argument: str | None) -> None:
        """Keep an unknown command, unless it may be of an ACL and deny access to somebody."""
        if name.lower().startswith("acl") and not self._is_strict:
            reason = f"unknown ACL command {name}; expected acl or a known acl-… command"
            raise RecordError("bad-acl", reason)
        kept = "kept" if self._document else "skipped, as it is before any id"
        self._aside.append(self.commands.unknown_command(name, kept, self._offset))
        if self._document:
            self._document.keep(name, argument)

    def _belongs(self, name: str) -> bool:
        if name in self._own:
            return True
        if self._is_strict or name == "delete":  # a deletion is never guessed
            return False
        self._note("foreign-command", f"{name} in a {self._name}'s stream; taken as it is")
        return True

    def _take_content(self, document: "_DocumentBuilder") -> None:
        limit = self._options.max_content_bytes
        pieces: list[bytes] = []
        size = 0
        for piece in self.commands.remainder():
            size += len(piece)
            if size <= limit:
                pieces.append(piece)
            else:
                pieces.clear()
        if size > limit:
            reason = f"content of {size} bytes; expected at most {limit}; raise ⟦max_content_bytes⟧"
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
        self._capture(command.offset)
        self._aside.append(self._reject(exc, None, command.offset + len(command.token)))
        self._capture(self.commands.offset)  # the next reject begins after this one

    def _raise_if_strict(self, exc: RecordError) -> None:
        if self._is_strict and exc.code not in _OUR_OWN_CODES:
            raise self.commands.error(exc.reason, self._offset) from exc

    def _outcome(self, document: "_DocumentBuilder") -> Record | Filtered:
        document.check_pair("the end")
        url = self.url_of(document.docid)
        is_skipped = self._options.of(StreamOptions).not_found is NotFound.SKIP
        if document.final == "up-to-date" or (document.final == "not-found" and is_skipped):
            return Filtered(code=document.final, url=url, action="ADD")
        place = Provenance(source=self._span.source, span=self._span.ordinal, offset=self._begin)
        parent_url = None if document.acl.parent is None else self.url_of(document.acl.parent)
        return document.record(url, place, parent_url=parent_url)

    def _reject(self, exc: RecordError, document: "_DocumentBuilder | None", end: int) -> Reject:
        self.has_documents = True
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


class _DocumentBuilder:
    """The commands that follow one id. `final` is its `up-to-date` or `not-found`, if any.

    `note` takes the code and the detail of a repair. In a listing, flags need no argument. Metadata
    pairs and principals are kept as often as they occur; the deployed parser, and strict mode,
    keeps each once.
    """

    def __init__(
        self, docid: str, options: ReadOptions, note: Callable[[str, str], None], *, is_listed: bool
    ) -> None:
        self.docid = docid
        self.final: str | None = None
        self._options = options
        self._note = note
        self._is_strict = options.of(StreamOptions).strict
        self._is_listed = is_listed
        self._pending: tuple[str, str] | None = None
        self._is_deleted = False
        self._fields: dict[str, object] = {}  # of the record
        self._hints: dict[str, object] = {}
        self._metadata: list[Meta] = []
        self._anchors: list[Anchor] = []
        self._extras: list[Extra] = []
        self._is_repeated = Repetitions(is_strict=self._is_strict).is_repeated
        self.acl = AclCommands(note, is_strict=self._is_strict)

    def apply(self, name: str, argument: str | None) -> None:
        """Apply a known command; raise RecordError where the deployed parser throws."""
        if self._pending:
            self._take_second(name, argument)
        elif name in _FIRSTS:
            raise RecordError("bad-pair", f"{name} by itself; expected {_FIRSTS[name]} before it")
        elif name in PRINCIPALS:
            self.acl.add_principal(name, argument)
        elif name in ACL_SETTINGS:
            self.acl.set(name, argument)
        else:
            self._check_open(name)
            self._set(name, argument)

    def keep(self, name: str, argument: str | None) -> None:
        """Keep a command without a field of the record as an extra."""
        place = f"{PLACE}{name}" if argument is None else f"{PLACE}{name}="
        self._extras.append(Extra(place, argument or ""))

    def set_content(self, content: bytes) -> None:
        self.check_pair("content")
        self._check_open("content")
        self._fields["content"] = Content(content)

    def check_pair(self, name: str) -> None:
        """Raise RecordError if a pair is begun that `name` does not end."""
        first = self._pending[0] if self._pending else ""
        if first and name != PAIRS[first]:
            raise RecordError("bad-pair", f"{name} after {first}; expected {PAIRS[first]}")

    def record(self, url: str, provenance: Provenance, *, parent_url: str | None) -> Record:
        is_deleted = self._is_deleted or self.final == "not-found"
        arrival = Arrival.CRAWLED if self._is_listed else Arrival.PUSHED
        hints = replace(_NO_HINTS, anchors=tuple(self._anchors), **self._hints)
        acl = self.acl.sent(
            parent_url, has_content="content" in self._fields, is_final=self.final is not None
        )
        record = Record(
            url=url,
            action=Action.DELETE if is_deleted else Action.ADD,
            arrival=None if is_deleted else arrival,
            metadata=tuple(self._metadata),
            acl=acl,
            crawl=None if hints == _NO_HINTS else hints,
            extras=tuple(self._extras),
            provenance=provenance,
        )
        return replace(record, **self._fields) if self._fields else record

    def _set(self, name: str, argument: str | None) -> None:
        match name:
            case "meta-name" | "param-name":
                self._pending = (name, require_argument(name, argument))
            case "anchor-uri":
                self._pending = (name, self._uri(name, argument))
            case "last-modified":
                self._set_modified(name, argument)
            case "result-link" | "display-url":
                self._hints["display_url"] = self._uri(name, argument)
            case "mime-type":
                self._fields["mimetype"] = argument
            case "up-to-date" | "not-found":
                self.final = name
            case "delete":
                self._is_deleted = self._flag(name, argument)
            case _:
                self._hints[name.replace("-", "_")] = self._flag(name, argument)

    def _set_modified(self, name: str, text: str | None) -> None:
        seconds = None if text is None else integer(text, bits=64)
        moment: datetime | None
        if seconds is not None:
            moment = moment_of(seconds)
        else:
            found = f"{name}={text!r}"
            moment = None if self._is_strict else parse_date(text or "", zone=self._options.zone)
            if moment is None:
                raise RecordError("bad-date", f"{found}; expected seconds since 1970")
            self._note("date", f"{found}, not seconds since 1970; read as a date")
        if moment is None:  # no calendar has this date
            self.keep(name, text)
        else:
            self._fields["modified"] = moment

    def _flag(self, name: str, text: str | None) -> bool:
        """Return the value of a flag.

        The deployed parser takes a flag for true if it is in a listing or has the argument `true`.
        In lenient mode the word counts. An unknown word is true where true is safe or usual.
        """
        is_deployed_true = self._is_listed or (text is not None and text.lower() == "true")
        if self._is_strict:
            return is_deployed_true
        word = "true" if text is None else text.strip().lower()
        is_known = word in _TRUE or word in _FALSE
        if name == "delete" and not is_known:  # a deletion is never guessed
            raise RecordError("bad-flag", f"delete={text!r}; expected delete without an argument")
        value = word in _TRUE if is_known else self._is_listed or name == "secure"
        if value != is_deployed_true or not is_known:
            shown = name if text is None else f"{name}={text!r}"
            found = "a flag with an argument" if self._is_listed else "neither true nor false"
            self._note("flag", f"{shown}, {found}; read as {str(value).lower()}")
        return value

    def _uri(self, name: str, text: str | None) -> str:
        uri = require_argument(name, text)
        if not is_uri(uri):
            if self._is_strict:
                raise RecordError("bad-url", f"{name}={uri!r}; expected a well-formed URL")
            self._note("url", f"{name}={uri!r} is not a well-formed URL; kept")
        return uri

    def _check_open(self, name: str) -> None:
        if self.final:
            raise RecordError("after-response", f"{name} after {self.final}; expected the end")

    def _take_second(self, name: str, argument: str | None) -> None:
        self.check_pair(name)
        _, value = self._pending or ("", "")
        self._pending = None
        match name:
            case "anchor-text":
                self._anchors.append(Anchor(value, argument))
            case "param-value":
                self._extras.append(Extra(f"{PARAM}{value}", argument or ""))
            case _:
                meta = Meta(value, require_argument(name, argument))
                if not self._is_repeated(meta):
                    self._metadata.append(meta)
