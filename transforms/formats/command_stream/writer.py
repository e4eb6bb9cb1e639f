"""Writes command streams: what a lister, a retriever and an authorizer say, and what one is asked.

**Spec:** GSA adaptor library, CommandStreamParser, "Body Format"; what the deployed adaptor asks an
authorizer: CommandLineAdaptor.

**Keeps:** NUL and LF in their forms of two bytes, whatever the delimiter is; unknown commands, in
extras at `stream/NAME`, or `stream/NAME=` with an argument; a namespace that is no longer stated
becomes `Default`, which is what it means.

**Drops:** provenance; extras of other formats; fractions of seconds. In a listing besides: all but
the url, modified, display url and those of lock, crawl-immediately and crawl-once that are true.
Of a document: what no command of a retriever says; of one that is gone, all but its url. Of an
answer: all but the url, the answer, and the user and groups that were asked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby

from schemas.content import decode
from schemas.errors import RecordError
from schemas.record import Action, Anchor, Crawl, Extra, Meta, Record
from transforms.formats.base import WriteOptions
from transforms.formats.command_stream.acl import acl_tokens
from transforms.formats.command_stream.doc_ids import id_maker
from transforms.formats.command_stream.java_uri import is_uri
from transforms.formats.command_stream.text import (
    PARAM,
    PARAM_WITHOUT_VALUE,
    PLACE,
    Separator,
    not_unicode,
    unknown_command,
)

STATUS = PLACE + "authz-status"
STATUSES = ("PERMIT", "DENY", "INDETERMINATE")
USERNAME = PLACE + "username"
GROUP = PLACE + "group"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_HINTS = Crawl()
_ID = b"id="
_ID_LIST = b"id-list"
_FLAGS = (
    ("secure", "secure"),
    ("no-index", "no_index"),
    ("no-follow", "no_follow"),
    ("no-archive", "no_archive"),
    ("crawl-once", "crawl_once"),
    ("lock", "lock"),
)


def request(
    *,
    username: str,
    password: str | None,
    groups: Iterable[str],
    ids: Iterable[str],
    delimiter: str = "\0",
) -> bytes:
    """Return what an authorizer reads from its standard input, as the deployed adaptor asks.

    That never writes the forms of two bytes, so a value that holds the delimiter is a RecordError,
    which does not show it: it may be the password.
    """
    separator = Separator(delimiter)
    commands = [("username", username)]
    commands += [] if password is None else [("password", password)]
    commands += (("group", group) for group in groups)
    commands += (("id", docid) for docid in ids)
    try:
        tokens = [separator.plain(name, value) for name, value in commands]
    except UnicodeEncodeError as exc:
        raise not_unicode(exc) from None  # it holds the text
    return separator.header() + b"".join(tokens)


class CommandEncoder(ABC):
    """What all encoders of command streams have in common."""

    extension = "stream"
    frame_bytes = 0

    def __init__(self, options: WriteOptions) -> None:
        self._separator = Separator(options.delimiter)
        self._token = self._separator.token
        self._id_of = id_maker(options.docids)
        self._max_content_bytes = options.max_content_bytes

    def prolog(self) -> bytes:
        return self._separator.header()

    def encode(self, record: Record) -> bytes:
        """Return the commands of one record; raise RecordError where there are none for it."""
        try:
            return self._encode(record)
        except UnicodeEncodeError as exc:
            raise not_unicode(exc) from exc

    def frame(self, records: list[bytes]) -> bytes:
        return b"".join(records)

    def epilog(self) -> bytes:
        return b""

    @abstractmethod
    def _encode(self, record: Record) -> bytes: ...

    def _id(self, record: Record) -> bytes:
        return self._token("id", self._id_of(record.url))

    def _modified(self, moment: datetime) -> bytes:
        since = moment - _EPOCH
        seconds = since.days * 86400 + since.seconds
        return b"last-modified=%d%b" % (seconds, self._separator.mark)

    def _url(self, name: str, url: str) -> bytes:
        """The deployed parser throws at a url that Java does not take, and all is lost."""
        if not is_uri(url):
            raise RecordError("bad-url", f"{name}={url!r}; expected a url that is well-formed")
        return self._token(name, url)

    def _unknown(self, extra: Extra) -> bytes:
        command = unknown_command(extra)
        if command is None:
            found = f"an extra at {extra.place!r}"
            raise RecordError("bad-extra", f"{found}; expected a command that no parser knows")
        return self._token(*command)


class ListerEncoder(CommandEncoder):
    """Encodes what is to be crawled, and what is gone; ids that nothing is said of become lists."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        overhead = len(_ID_LIST) + 2 * len(self._separator.mark)
        self._list_from = -(-overhead // len(_ID))  # so that a list is never longer than its ids
        flag = self._separator.flag
        self._immediately, self._once = flag("crawl-immediately"), flag("crawl-once")
        self._lock, self._delete = flag("lock"), flag("delete")

    def frame(self, records: list[bytes]) -> bytes:
        tokens: list[bytes] = []
        for is_bare, run in groupby(records, self._is_bare):
            found = list(run)
            if is_bare and len(found) >= self._list_from:
                tokens += self._id_list(found)
            else:
                tokens += found
        return b"".join(tokens)

    def _encode(self, record: Record) -> bytes:
        start = self._id(record)
        is_added = record.action is Action.ADD
        if is_added and record.modified is None and record.crawl is None and not record.extras:
            return start
        if not is_added and record.action is not Action.DELETE:
            raise _bad_action(record, "ADD or DELETE")
        return start + self._attributes(record)

    def _attributes(self, record: Record) -> bytes:
        hints = record.crawl or _NO_HINTS
        tokens = []
        if record.modified is not None:
            tokens.append(self._modified(record.modified))
        if hints.display_url is not None:
            tokens.append(self._url("result-link", hints.display_url))
        if hints.crawl_immediately:
            tokens.append(self._immediately)
        if hints.crawl_once:
            tokens.append(self._once)
        if hints.lock:
            tokens.append(self._lock)
        if record.action is Action.DELETE:
            tokens.append(self._delete)
        if record.extras:
            tokens += map(self._unknown, _extras(record))
        return b"".join(tokens)

    def _is_bare(self, data: bytes) -> bool:
        end = len(data) - len(self._separator.mark)
        return end > len(_ID) and data.find(self._separator.mark) == end

    def _id_list(self, found: list[bytes]) -> Iterator[bytes]:
        """Yield a list of ids; an empty token ends it."""
        yield _ID_LIST + self._separator.mark
        yield from (data[len(_ID) :] for data in found)
        yield self._separator.mark


class RetrieverEncoder(CommandEncoder):
    """Encodes one document, its content last, and to the end of the stream; or that it is gone."""

    def _encode(self, record: Record) -> bytes:
        start = self._id(record)
        if record.action is Action.DELETE:
            return start + self._separator.flag("not-found")
        if record.action is not Action.ADD:
            raise _bad_action(record, "ADD or DELETE")
        if record.content is None:
            raise RecordError("no-content", "a document without content; expected its content")
        content = decode(record.content, max_bytes=self._max_content_bytes)
        return b"".join((start, *self._head(record), self._separator.flag("content"), content))

    def _head(self, record: Record) -> Iterator[bytes]:
        hints = record.crawl or _NO_HINTS
        yield from self._attributes(record, hints)
        for meta in record.metadata:
            yield self._token("meta-name", meta.name)
            yield self._token("meta-value", _text(meta))
        yield from map(self._extra, _extras(record))
        yield from map(self._anchor, hints.anchors)
        if record.acl is not None:
            yield from acl_tokens(record.acl, self._separator, id_of=self._id_of)

    def _attributes(self, record: Record, hints: Crawl) -> Iterator[bytes]:
        if record.mimetype is not None:
            yield self._token("mime-type", record.mimetype)
        if record.modified is not None:
            yield self._modified(record.modified)
        if hints.display_url is not None:
            yield self._url("display-url", hints.display_url)
        for name, field in _FLAGS:
            flag: bool | None = getattr(hints, field)
            if flag is not None:
                yield self._token(name, "true" if flag else "false")

    def _extra(self, extra: Extra) -> bytes:
        if extra.place.startswith(PARAM_WITHOUT_VALUE):
            name = self._token("param-name", extra.place.removeprefix(PARAM_WITHOUT_VALUE))
            return name + self._token("param-value", None)
        if not extra.place.startswith(PARAM):
            return self._unknown(extra)
        name = self._token("param-name", extra.place.removeprefix(PARAM))
        return name + self._token("param-value", extra.value)

    def _anchor(self, anchor: Anchor) -> bytes:
        uri = self._url("anchor-uri", anchor.uri)
        return uri + self._token("anchor-text", anchor.text)


class AuthorizerEncoder(CommandEncoder):
    """Encodes answers of an authorizer, and questions to it: those name a user and its groups.

    A user is named before the first id of a frame that is asked for it, and stays named to the
    end: answers are not to follow questions.
    """

    def frame(self, records: list[bytes]) -> bytes:
        tokens = []
        asked_before = b""
        for data in records:
            asked = data[: self._begin_of_id(data)]
            tokens.append(data[len(asked) :] if asked == asked_before else data)
            asked_before = asked
        return b"".join(tokens)

    def _encode(self, record: Record) -> bytes:
        if record.action is not Action.UPDATE:
            raise _bad_action(record, "UPDATE")
        extras = _extras(record)
        _check_answer(extras)
        users = [self._token("username", one.value) for one in extras if one.place == USERNAME]
        groups = [self._token("group", one.value) for one in extras if one.place == GROUP]
        answers = [self._token("authz-status", one.value) for one in extras if one.place == STATUS]
        return b"".join((*users, *groups, self._id(record), *answers))

    def _begin_of_id(self, data: bytes) -> int:
        if data.startswith(_ID):
            return 0
        mark = self._separator.mark
        return data.index(mark + _ID) + len(mark)


def _bad_action(record: Record, expected: str) -> RecordError:
    return RecordError("bad-action", f"action {record.action.value}; expected {expected}")


def _extras(record: Record) -> list[Extra]:
    return [extra for extra in record.extras if extra.place.startswith(PLACE)]


def _text(meta: Meta) -> str:
    if meta.data is not None:
        found = f"a value of {meta.name!r} that is no text"
        raise RecordError("bad-metadata", f"{found}; expected text")
    return meta.value


def _check_answer(extras: list[Extra]) -> None:
    """Raise RecordError for more than one user or answer, a group of nobody, an unknown answer."""
    users = [extra for extra in extras if extra.place == USERNAME]
    statuses = [extra.value for extra in extras if extra.place == STATUS]
    if len(users) > 1 or len(statuses) > 1:
        found = f"{len(users)} usernames and {len(statuses)} answers for one url"
        raise RecordError("bad-extra", f"{found}; expected at most one of each")
    if not users and any(extra.place == GROUP for extra in extras):
        raise RecordError("bad-extra", "a group without a username; expected both")
    if statuses and statuses[0] not in STATUSES:
        expected = f"expected one of {', '.join(STATUSES)}"
        raise RecordError("bad-extra", f"authz-status={statuses[0]!r}; {expected}")
