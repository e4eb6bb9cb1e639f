"""One document of a command stream, built command by command, strictly or with repairs.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands", "Retriever Commands".
"""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from schemas.acl import Acl, Principal
from schemas.errors import RecordError
from schemas.record import (
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
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.java_uri import is_uri
from transforms.formats.command_stream.syntax import (
    COMMAND_NAMES,
    INHERITANCES,
    PARAM,
    PLACE,
    PRINCIPALS,
    TRIMMED,
    integer,
    moment_of,
    require_argument,
)
from transforms.formats.dates import parse_date

Note = Callable[[str, str], None]
"""Takes the code and the detail of a repair."""

LISTER = frozenset(
    {"result-link", "last-modified", "crawl-immediately", "crawl-once", "lock", "delete"}
)
"""The commands of a lister, except `id`."""

RETRIEVER = frozenset(COMMAND_NAMES) - {
    *("id", "id-list", "repository-unavailable", "authz-status"),
    *("result-link", "crawl-immediately", "delete"),
}
"""The commands of a retriever, except `id`."""

_SECONDS = {"meta-name": "meta-value", "param-name": "param-value", "anchor-uri": "anchor-text"}
_FIRSTS = {second: first for first, second in _SECONDS.items()}
_ACL_SETTINGS = frozenset(
    {
        *("acl", "namespace", "acl-inherit-from", "acl-inherit-fragment", "acl-inheritance-type"),
        *("acl-case-sensitive", "acl-case-insensitive"),
    }
)
_DOMAIN_MARKS = ("\\", "/", "@")
_NO_HINTS = Crawl()
_TRUE = frozenset({"true", "yes", "1", "on"})
_FALSE = frozenset({"false", "no", "0", "off"})


class Arguments:
    """Arguments of commands as values.

    In `Mode.STRICT`, they are read as the deployed parser does, with a RecordError where that
    throws. In `Mode.LENIENT` they are repaired, and each repair is noted.
    """

    def __init__(self, options: ReadOptions, note: Note) -> None:
        self.is_strict = options.mode is Mode.STRICT
        self._zone = options.zone
        self._note = note

    def moment(self, text: str | None) -> datetime | None:
        """Return the time of epoch seconds, None for a time outside the years 1 to 9999."""
        seconds = None if text is None else integer(text, bits=64)
        if seconds is None:
            date = None if self.is_strict else parse_date(text or "", zone=self._zone)
            if date is None:
                found = f"last-modified={text!r}"
                raise RecordError("bad-date", f"{found}; expected seconds since 1970")
            self._note("date", f"last-modified={text!r}, not seconds since 1970; read as a date")
            return date
        return moment_of(seconds)

    def listed_flag(self, name: str, text: str | None) -> bool:
        """Return the value of a flag in a listing; strictly, it is true with any argument."""
        if self.is_strict or text is None or text.lower() in _TRUE:
            return True
        word = text.strip().lower()
        if name == "delete" and word not in _TRUE | _FALSE:  # a deletion is never guessed
            raise RecordError("bad-flag", f"delete={text!r}; expected delete without an argument")
        value = word not in _FALSE
        detail = f"{name}={text!r}, a flag with an argument; read as {str(value).lower()}"
        self._note("flag", detail)
        return value

    def flag(self, name: str, text: str | None) -> bool:
        """Return whether the argument is `true`, in any case.

        In lenient mode, an unknown word is read as false, but for `secure`, where true is safe.
        """
        word = None if text is None else text.lower()
        if self.is_strict or word in ("true", "false"):
            return word == "true"
        value = word is None or word in _TRUE or (name == "secure" and word not in _FALSE)
        shown = name if text is None else f"{name}={text!r}"
        self._note("flag", f"{shown}, neither true nor false; read as {str(value).lower()}")
        return value

    def uri(self, name: str, text: str | None) -> str:
        uri = require_argument(name, text)
        if not is_uri(uri):
            if self.is_strict:
                raise RecordError("bad-url", f"{name}={uri!r}; expected a well-formed URL")
            self._note("url", f"{name}={uri!r} is not a well-formed URL; kept")
        return uri


class DocumentBuilder:
    """The commands that follow one id. `final` is its `up-to-date` or `not-found`, if any.

    In a listing, flags need no argument. Metadata pairs and principals are kept as often as they
    occur; the deployed parser, and `Mode.STRICT`, keeps each once.
    """

    def __init__(self, docid: str, *, arguments: Arguments, is_listed: bool) -> None:
        self.docid = docid
        self.final: str | None = None
        self.content: bytes | None = None
        self.sends_acl = False
        self.parent: str | None = None
        """The doc id that the ACL inherits from."""
        self._arguments = arguments
        self._is_listed = is_listed
        self._pending: tuple[str, str] | None = None
        self._is_deleted = False
        self._fields: dict[str, object] = {}  # of the record
        self._hints: dict[str, object] = {}
        self._acl: dict[str, object] = {}
        self._metadata: list[Meta] = []
        self._principals: list[Principal] = []
        self._seen: set[object] = set()
        self._anchors: list[Anchor] = []
        self._extras: list[Extra] = []
        self._namespace: str | None = None
        self._lacks_namespace = False
        self._case_sensitive: bool | None = None

    @property
    def ignores_acl(self) -> bool:
        """Whether it has ACL commands, but no `acl` command to send them."""
        has_acl = bool(self._principals or self._acl) or self.parent is not None
        return has_acl and not self.sends_acl

    def apply(self, name: str, argument: str | None) -> None:
        """Apply a known command; raise RecordError where the deployed parser throws."""
        if self._pending:
            self._take_second(name, argument)
        elif name in _FIRSTS:
            raise RecordError("bad-pair", f"{name} by itself; expected {_FIRSTS[name]} before it")
        elif name in PRINCIPALS:
            self._add_principal(name, argument)
        elif name in _SECONDS:
            self._check_open(name)
            read = self._arguments.uri if name == "anchor-uri" else require_argument
            self._pending = (name, read(name, argument))
        elif name in _ACL_SETTINGS:
            self._set_acl(name, argument)
        else:
            self._check_open(name)
            self._set(name, argument)

    def keep(self, name: str, argument: str | None) -> None:
        """Keep a command without a field of the record as an extra."""
        place = f"{PLACE}{name}" if argument is None else f"{PLACE}{name}="
        self._extras.append(Extra(place, argument or ""))

    def set_content(self, content: bytes) -> None:
        if self._pending:
            raise self._bad_pair("content")
        self._check_open("content")
        self.content = content

    def end(self) -> None:
        """Raise RecordError if the second command of a pair is missing."""
        if self._pending:
            raise self._bad_pair("the end")

    def record(self, url: str, provenance: Provenance, *, acl: Acl | None) -> Record:
        is_deleted = self._is_deleted or self.final == "not-found"
        arrival = Arrival.CRAWLED if self._is_listed else Arrival.PUSHED
        hints = replace(_NO_HINTS, anchors=tuple(self._anchors), **self._hints)
        record = Record(
            url=url,
            action=Action.DELETE if is_deleted else Action.ADD,
            arrival=None if is_deleted else arrival,
            content=None if self.content is None else Content(self.content),
            metadata=tuple(self._metadata),
            acl=acl,
            crawl=None if hints == _NO_HINTS else hints,
            extras=tuple(self._extras),
            provenance=provenance,
        )
        return replace(record, **self._fields) if self._fields else record

    def acl(self, parent_url: str | None) -> Acl:
        """Return the ACL; `parent_url` is the URL of `parent`. The last rule of case is for all."""
        principals = tuple(self._principals)
        if self._case_sensitive is not None:
            case = self._case_sensitive
            principals = tuple(replace(each, case_sensitive=case) for each in principals)
        return replace(Acl(inherit_from=parent_url, principals=principals), **self._acl)

    def _set(self, name: str, argument: str | None) -> None:
        match name:
            case "last-modified":
                moment = self._arguments.moment(argument)
                if moment is None:  # no calendar has this date
                    self.keep(name, argument)
                else:
                    self._fields["modified"] = moment
            case "delete":
                self._is_deleted = self._arguments.listed_flag(name, argument)
            case "result-link" | "display-url":
                self._hints["display_url"] = self._arguments.uri(name, argument)
            case "mime-type":
                self._fields["mimetype"] = argument
            case "up-to-date" | "not-found":
                self.final = name
            case _:
                read = self._arguments.listed_flag if self._is_listed else self._arguments.flag
                self._hints[name.replace("-", "_")] = read(name, argument)

    def _set_acl(self, name: str, argument: str | None) -> None:
        match name:
            case "acl":
                self.sends_acl = True
            case "namespace":  # without an argument, the deployed parser throws at a principal
                self._namespace, self._lacks_namespace = argument, argument is None
            case "acl-inherit-from":
                self.parent = require_argument(name, argument)
                self._acl.pop("inherit_fragment", None)
            case "acl-inherit-fragment":
                if self.parent is None:
                    reason = f"{name} first; expected acl-inherit-from before it"
                    raise RecordError("bad-acl", reason)
                self._acl["inherit_fragment"] = argument
            case "acl-inheritance-type":
                if argument not in INHERITANCES:
                    expected = ", ".join(sorted(INHERITANCES))
                    raise RecordError("bad-acl", f"{name}={argument!r}; expected one of {expected}")
                self._acl["inheritance"] = INHERITANCES[argument]
            case _:
                self._case_sensitive = name == "acl-case-sensitive"

    def _check_open(self, name: str) -> None:
        if self.final:
            raise RecordError("after-response", f"{name} after {self.final}; expected the end")

    def _take_second(self, name: str, argument: str | None) -> None:
        first, value = self._pending or ("", "")
        if name != _SECONDS[first]:
            raise self._bad_pair(name)
        self._pending = None
        if first == "anchor-uri":
            self._anchors.append(Anchor(value, argument))
        elif first == "meta-name":
            meta = Meta(value, require_argument(name, argument))
            if not self._is_repeated(meta):
                self._metadata.append(meta)
        else:
            self._extras.append(Extra(f"{PARAM}{value}", argument or ""))

    def _bad_pair(self, found: str) -> RecordError:
        first = self._pending[0] if self._pending else ""
        return RecordError("bad-pair", f"{found} behind {first}; expected {_SECONDS[first]}")

    def _is_repeated(self, key: object) -> bool:
        """Whether the deployed parser drops a pair or a principal, which it keeps once."""
        if not self._arguments.is_strict:
            return False
        is_repeated = key in self._seen
        self._seen.add(key)
        return is_repeated

    def _add_principal(self, name: str, argument: str | None) -> None:
        """Add a principal. The deployed parser keeps one of `bob@d` and `d/bob`."""
        principal = require_argument(name, argument).strip(TRIMMED)
        if not principal:
            raise RecordError("bad-acl", f"{name}={argument!r}; expected a name")
        if self._lacks_namespace:
            reason = f"{name} after namespace without an argument; expected namespace=…"
            raise RecordError("no-argument", reason)
        scope, access = PRINCIPALS[name]
        namespace = "Default" if self._namespace is None else self._namespace
        if not self._is_repeated((scope, access, namespace, *_split_domain(principal))):
            self._principals.append(
                Principal(name=principal, scope=scope, access=access, namespace=self._namespace)
            )


def _split_domain(principal: str) -> tuple[str, str]:
    """Return the name and the domain of a principal."""
    at = min((principal.find(mark) for mark in _DOMAIN_MARKS if mark in principal), default=-1)
    if at < 0:
        return principal, ""
    left, right = principal[:at], principal[at + 1 :]
    return (left, right) if principal[at] == "@" else (right, left)
