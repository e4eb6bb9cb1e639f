"""Write command streams of listers, retrievers and authorizers, and requests to authorizers.

**Spec:** GSA adaptor library, CommandStreamParser, "Body Format". A request has the form that the
CommandLineAdaptor of the library writes.

**Keeps:** NUL and LF, in their two-byte forms with any delimiter; unknown commands, which are
extras at `stream/NAME`, or `stream/NAME=` with an argument. Where a namespace is no longer stated,
it is written as `Default`, which means the same.

**Drops:** provenance; extras of other formats; fractions of seconds. A listing also drops all
fields but the URL, the time, the display URL, and `lock`, `crawl-immediately` and `crawl-once` if
they are true. A document drops fields without a command of a retriever; a deletion drops all but
its URL. An answer drops all but its URL, its status, and the user with its groups.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import groupby

from feedferry.schemas.acl import Acl
from feedferry.schemas.content import decode
from feedferry.schemas.errors import RecordError, not_unicode_error
from feedferry.schemas.record import Action, Crawl, Extra, Record
from feedferry.transforms.formats.base import Encoder, WriteOptions
from feedferry.transforms.formats.command_stream.doc_ids import id_maker
from feedferry.transforms.formats.command_stream.stream_formats import Docids, StreamOptions
from feedferry.transforms.formats.command_stream.syntax import (
    EPOCH,
    PREFIX,
    TRIMMED,
    check_delimiter,
    encode,
    integer,
    moment_of,
)
from feedferry.transforms.formats.command_stream.vocabulary import (
    CASES,
    COMMAND_NAMES,
    FLAGS,
    GROUP,
    INHERITANCES,
    LISTED_FLAGS,
    PARAM,
    PLACE,
    PRINCIPALS,
    STATUS,
    STATUSES,
    USERNAME,
)
from feedferry.transforms.formats.fast_path.columns.cells import Cells, of_dates, unescaped_utf8
from feedferry.transforms.formats.fast_path.columns.column_kinds import TEXT_KINDS, ColumnKind

_NO_HINTS = Crawl()
_ID = b"id="
_ID_LIST = b"id-list"
_SHOWN_CHARS = 80
_SECOND = timedelta(seconds=1)
_CASES = {is_sensitive: name for name, is_sensitive in CASES.items()}
_INHERITANCES = {kind: name for name, kind in INHERITANCES.items()}
_PRINCIPALS = {kind: name for name, kind in PRINCIPALS.items()}


def request(
    *,
    username: str,
    password: str | None,
    groups: Iterable[str],
    ids: Iterable[str],
) -> bytes:
    """Return the standard input of an authorizer, as the deployed adaptor writes it.

    It has the delimiter NUL and is in plain UTF-8, without two-byte forms. A value with a NUL is a
    RecordError, which does not show the value: it may be the password.
    """
    writer = TokenWriter("\0")
    commands = [("username", username)]
    commands += [] if password is None else [("password", password)]
    commands += (("group", group) for group in groups)
    commands += (("id", docid) for docid in ids)
    try:
        tokens = [writer.plain(name, value) for name, value in commands]
    except UnicodeEncodeError as exc:
        raise not_unicode_error(exc) from None  # the exception holds the value
    return writer.header() + b"".join(tokens)


def unknown_command(extra: Extra) -> tuple[str, str | None] | None:
    """Return the unknown command of an extra and its argument; None for other extras.

    Two known commands are extras, because the deployed parser makes nothing of them: a date that
    no calendar has, and `id-list=`, which is not `id-list`.
    """
    name, equals, _ = extra.place.removeprefix(PLACE).partition("=")
    is_command = bool(name) and extra.place == f"{PLACE}{name}{equals}"
    if not is_command or (extra.value and not equals):
        return None
    argument = extra.value if equals else None
    if name not in COMMAND_NAMES or (name == "id-list" and equals):
        return name, argument
    seconds = integer(argument or "", bits=64)
    has_no_date = name == "last-modified" and seconds is not None and moment_of(seconds) is None
    return (name, argument) if has_no_date else None


class TokenWriter:
    """Writes tokens and the delimiter after each.

    A token that holds the delimiter, or ends with a part of it, is a RecordError: parsers disagree
    on where such a token ends.
    """

    def __init__(self, delimiter: str) -> None:
        self.mark = check_delimiter(delimiter).encode()
        self._delimiter = delimiter
        # The deployed parser does not find CR LF after a CR. With the delimiter LF, lenient
        # readers take a CR at the end of a token for a part of the line end.
        parts = {self.mark[:length] for length in range(1, len(self.mark))}
        self._parts = tuple(parts | {b"\r"} if self.mark == b"\n" else parts)

    def header(self) -> bytes:
        return b"%b 1 [%b]%b" % (PREFIX, self.mark, self.mark)

    def token(self, name: str, argument: str | None = None) -> bytes:
        """Return a command, with NUL and LF in their two-byte forms."""
        text = name if argument is None else f"{name}={argument}"
        return self._delimit(encode(text), repr(text[:_SHOWN_CHARS]))

    def plain(self, name: str, argument: str) -> bytes:
        """Return a command in plain UTF-8; an error does not show the argument."""
        return self._delimit(f"{name}={argument}".encode(), f"the value of {name}")

    def _delimit(self, token: bytes, shown: str) -> bytes:
        if self.mark in token or token.endswith(self._parts):
            raise RecordError(
                "unsafe-delimiter",
                f"{shown} holds the delimiter {self._delimiter!r} or ends with a part of it;"
                " expected a delimiter that no value holds, such as ⟦delimiter '\\0'⟧",
            )
        return token + self.mark


def _seconds(moment: datetime) -> bytes:
    return b"%d" % ((moment - EPOCH) // _SECOND)


class CommandEncoder(Encoder):
    """The base of the encoders of command streams."""

    extension = "stream"
    _actions: tuple[Action, ...] = (Action.ADD, Action.DELETE)

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        self._writer = TokenWriter(options.of(StreamOptions).delimiter)
        self._token = self._writer.token
        self._id_of = id_maker(options.of(StreamOptions).docids)
        self._max_content_bytes = options.max_content_bytes

    def prolog(self) -> bytes:
        return self._writer.header()

    def encode(self, record: Record) -> bytes:
        """Return the commands of one record; raise RecordError if there are none for it."""
        if record.action not in self._actions:
            expected = " or ".join(action.value for action in self._actions)
            reason = f"action {record.action.value}; expected {expected}"
            raise RecordError("bad-action", reason)
        try:
            return self._encode(record)
        except UnicodeEncodeError as exc:
            raise not_unicode_error(exc) from exc

    @abstractmethod
    def _encode(self, record: Record) -> bytes: ...

    def _id(self, record: Record) -> bytes:
        return self._token("id", self._id_of(record.url))

    def _modified(self, moment: datetime) -> bytes:
        return b"last-modified=%b%b" % (_seconds(moment), self._writer.mark)

    def _unknown(self, extra: Extra) -> bytes:
        command = unknown_command(extra)
        if command is None:
            reason = f"an extra at {extra.place!r}; expected a command that no parser knows"
            raise RecordError("bad-extra", reason)
        return self._token(*command)


class ListerEncoder(CommandEncoder):
    """Encodes URLs and deletions; runs of bare ids become id-lists.

    Columns are written if no neutral value can hold the delimiter, and URLs are their ids.
    """

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        super().__init__(options)
        own = options.of(StreamOptions)
        self.cells: Cells = {}
        if own.docids == Docids() and max(own.delimiter) < " ":
            self.cells = {
                **dict.fromkeys(TEXT_KINDS, (unescaped_utf8,)),
                ColumnKind.DATE: (of_dates(_seconds),),
                ColumnKind.TIME: (lambda times: [*map(_seconds, times)],),
            }
        overhead = len(_ID_LIST) + 2 * len(self._writer.mark)
        self._min_list_ids = -(-overhead // len(_ID))  # a list is never longer than its ids
        self._hints = [(name.replace("-", "_"), self._token(name)) for name in LISTED_FLAGS]

    def frame(self, records: list[bytes]) -> bytes:
        tokens: list[bytes] = []
        mark = self._writer.mark
        for is_bare, group in groupby(records, self._is_bare):
            run = list(group)
            if is_bare and len(run) >= self._min_list_ids:
                ids = (data[len(_ID) :] for data in run)
                tokens += (_ID_LIST, mark, *ids, mark)  # an empty token ends the list
            else:
                tokens += run
        return b"".join(tokens)

    def _encode(self, record: Record) -> bytes:
        tokens = [self._id(record)]
        if record.modified is not None:
            tokens.append(self._modified(record.modified))
        if record.crawl is not None:
            if record.crawl.display_url is not None:
                tokens.append(self._token("result-link", record.crawl.display_url))
            tokens += (flag for name, flag in self._hints if getattr(record.crawl, name))
        if record.action is Action.DELETE:
            tokens.append(self._token("delete"))
        if record.extras:
            tokens += map(self._unknown, _extras(record))
        return b"".join(tokens)

    def _is_bare(self, data: bytes) -> bool:
        end = len(data) - len(self._writer.mark)
        return end > len(_ID) and data.find(self._writer.mark) == end


class RetrieverEncoder(CommandEncoder):
    """Encodes one document, with its content last, or its `not-found`."""

    def _encode(self, record: Record) -> bytes:
        start = self._id(record)
        if record.action is Action.DELETE:
            return start + self._token("not-found")
        if record.content is None:
            raise RecordError("no-content", "a document without content; expected its content")
        content = decode(record.content, max_bytes=self._max_content_bytes)
        return b"".join((start, *self._fields(record), self._token("content"), content))

    def _fields(self, record: Record) -> Iterator[bytes]:
        hints = record.crawl or _NO_HINTS
        if record.mimetype is not None:
            yield self._token("mime-type", record.mimetype)
        if record.modified is not None:
            yield self._modified(record.modified)
        if hints.display_url is not None:
            yield self._token("display-url", hints.display_url)
        for name in FLAGS:
            flag: bool | None = getattr(hints, name.replace("-", "_"))
            if flag is not None:
                yield self._token(name, str(flag).lower())
        for meta in record.metadata:
            yield self._token("meta-name", meta.name)
            if meta.data is not None:
                reason = f"a value of {meta.name!r} that is not text; expected text"
                raise RecordError("bad-metadata", reason)
            yield self._token("meta-value", meta.value)
        for extra in _extras(record):
            if extra.place.startswith(PARAM):
                yield self._token("param-name", extra.place.removeprefix(PARAM))
                yield self._token("param-value", extra.value)
            else:
                yield self._unknown(extra)
        for anchor in hints.anchors:
            yield self._token("anchor-uri", anchor.uri)
            yield self._token("anchor-text", anchor.text)
        if record.acl is not None:
            yield from self._acl(record.acl)

    def _acl(self, acl: Acl) -> Iterator[bytes]:
        _check_acl(acl)
        yield self._token("acl")
        if acl.inheritance is not None:
            yield self._token("acl-inheritance-type", _INHERITANCES[acl.inheritance])
        if acl.inherit_from is not None:
            yield self._token("acl-inherit-from", self._id_of(acl.inherit_from))
        if acl.inherit_fragment is not None:
            yield self._token("acl-inherit-fragment", acl.inherit_fragment)
        case = acl.principals[0].case_sensitive if acl.principals else None
        if case is not None:
            yield self._token(_CASES[case])
        current = None
        for principal in acl.principals:
            namespace = principal.namespace
            if namespace is None and current is not None:  # a stream cannot unset it
                namespace = "Default"
            if namespace is not None and namespace != current:
                yield self._token("namespace", namespace)
                current = namespace
            yield self._token(_PRINCIPALS[principal.scope, principal.access], principal.name)


def _check_acl(acl: Acl) -> None:
    """Raise RecordError for an ACL that was not adapted to the commands."""
    has_parent = acl.inherit_from is not None or acl.inherit_fragment is None
    has_one_case = len({principal.case_sensitive for principal in acl.principals}) < 2
    names = [principal.name.strip(TRIMMED) for principal in acl.principals]
    is_qualified = not any(principal.unqualified for principal in acl.principals)
    if acl.alone or not (has_parent and has_one_case and is_qualified and all(names)):
        expected = "one rule of case, names, and a parent of the fragment"
        raise RecordError("bad-acl", f"an ACL that no command expresses; expected {expected}")


class AuthorizerEncoder(CommandEncoder):
    """Encodes answers of an authorizer, and questions, which name a user and its groups.

    A frame names a user before its first id. The name applies to all ids after it, so a stream
    must not have answers after questions.
    """

    _actions = (Action.UPDATE,)

    def frame(self, records: list[bytes]) -> bytes:
        tokens = []
        last_user = b""
        mark = self._writer.mark
        for data in records:
            user = b"" if data.startswith(_ID) else data[: data.index(mark + _ID) + len(mark)]
            tokens.append(data[len(user) :] if user == last_user else data)
            last_user = user
        return b"".join(tokens)

    def _encode(self, record: Record) -> bytes:
        values: dict[str, list[str]] = {USERNAME: [], GROUP: [], STATUS: []}
        for extra in record.extras:
            if extra.place in values:
                values[extra.place].append(extra.value)
        users, groups, statuses = values.values()
        has_user = len(users) == 1 or not (users or groups)
        if not has_user or len(statuses) > 1 or not set(STATUSES).issuperset(statuses):
            expected = "at most one user, groups only of a user, and at most one known status"
            raise RecordError("bad-extra", f"{users} and {statuses}; expected {expected}")
        before = [self._token("username", user) for user in users]
        before += [self._token("group", group) for group in groups]
        after = [self._token("authz-status", status) for status in statuses]
        return b"".join((*before, self._id(record), *after))


def _extras(record: Record) -> Iterator[Extra]:
    return (extra for extra in record.extras if extra.place.startswith(PLACE))
