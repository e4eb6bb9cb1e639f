"""One document of a command stream, command by command.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands", "Retriever Commands".
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
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
from transforms.formats.command_stream.arguments import DeployedArguments
from transforms.formats.command_stream.text import PARAM, PARAM_WITHOUT_VALUE
from transforms.formats.command_stream.tokenizer import TRIMMED

LISTER = frozenset(
    {"result-link", "last-modified", "crawl-immediately", "crawl-once", "lock", "delete"}
)
"""The commands that a lister may give, `id` apart."""

_FLAGS = {
    "crawl-immediately": "crawl_immediately",
    "crawl-once": "crawl_once",
    "lock": "lock",
    "secure": "secure",
    "no-index": "no_index",
    "no-follow": "no_follow",
    "no-archive": "no_archive",
}
_PRINCIPALS = {
    "acl-permit-user": (Scope.USER, Access.PERMIT),
    "acl-deny-user": (Scope.USER, Access.DENY),
    "acl-permit-group": (Scope.GROUP, Access.PERMIT),
    "acl-deny-group": (Scope.GROUP, Access.DENY),
}
_SECONDS = {"meta-name": "meta-value", "param-name": "param-value", "anchor-uri": "anchor-text"}
_FIRSTS = {second: first for first, second in _SECONDS.items()}
_FINALS = ("up-to-date", "not-found")
_DOMAINS = ("\\", "/", "@")
_NO_HINTS = Crawl()
_INHERITANCES = {one.value.lower().replace("_", "-"): one for one in Inheritance}


class Document:
    """What is said of one id so far. `final` is the `up-to-date` or `not-found` that was said.

    `apply` takes a command that the deployed parser knows and raises RecordError where that throws;
    `is_listed` tells whether it is said in a listing, where commands of one name mean less.
    """

    def __init__(
        self, docid: str, *, arguments: DeployedArguments, is_listed: bool, keeps_all: bool
    ) -> None:
        self.docid = docid
        self.final: str | None = None
        self.content: bytes | None = None
        self.is_deleted = False
        self.pending: tuple[str, str] | None = None
        self._arguments = arguments
        self._is_listed = is_listed
        self._keeps_all = keeps_all
        self._hints: dict[str, Any] = {}
        self._fields: dict[str, Any] = {}
        self._metadata: list[Meta] = []
        self._pairs: set[Meta] = set()
        self._anchors: list[Anchor] = []
        self._extras: list[Extra] = []
        self._namespace: str | None = None
        self._lacks_namespace = False
        self._sends_acl = False
        self._acl: dict[str, Any] = {}
        self._case_sensitive: bool | None = None
        self._principals: dict[tuple[object, ...], Principal] = {}

    @property
    def ignores_acl(self) -> bool:
        """Whether there is an ACL that no `acl` command asks to be sent."""
        return bool(self._principals or self._acl) and not self._sends_acl

    @property
    def sends_acl(self) -> bool:
        return self._sends_acl

    def apply(self, name: str, argument: str | None) -> None:
        """Take one command."""
        if self.pending:
            self._take_second(name, argument)
        elif name in _SECONDS:
            self.pending = (name, self._first(name, argument))
        elif name in _FIRSTS:
            raise RecordError("bad-pair", f"{name} by itself; expected {_FIRSTS[name]} before it")
        elif name in _PRINCIPALS:
            self._add_principal(name, argument)
        else:
            self._check_open(name)
            _APPLIERS[name](self, name, argument)

    def end(self) -> None:
        """Raise RecordError where a pair lacks its second part."""
        if self.pending:
            raise self._bad_pair("the end")

    def keep(self, name: str, argument: str | None) -> None:
        """Keep a command that nobody knows."""
        place = f"stream/{name}" if argument is None else f"stream/{name}="
        self._extras.append(Extra(place, argument or ""))

    def set_content(self, content: bytes) -> None:
        if self.pending:
            raise self._bad_pair("content")
        self._check_open("content")
        self.content = content

    def record(self, url: str, provenance: Provenance, *, parent: str | None, acl: bool) -> Record:
        """Return the record; `parent` is the url that its ACL inherits from, if `acl` is sent."""
        action = Action.DELETE if self.is_deleted or self.final == "not-found" else Action.ADD
        arrival = Arrival.CRAWLED if self._is_listed else Arrival.PUSHED
        hints = Crawl(**self._hints, anchors=tuple(self._anchors))
        return Record(
            url=url,
            action=action,
            arrival=arrival if action is Action.ADD else None,
            content=None if self.content is None else Content(self.content),
            metadata=tuple(self._metadata),
            acl=self._made_acl(parent) if acl else None,
            crawl=None if hints == _NO_HINTS else hints,
            extras=tuple(self._extras),
            provenance=provenance,
            **self._fields,
        )

    @property
    def parent(self) -> str | None:
        """The doc id that the ACL inherits from."""
        parent: str | None = self._acl.get("inherit_from")
        return parent

    def set_mimetype(self, _name: str, argument: str | None) -> None:
        self._fields["mimetype"] = argument

    def set_modified(self, name: str, argument: str | None) -> None:
        moment: datetime | None = self._arguments.moment(argument)
        if moment is None:
            self.keep(name, argument)
        self._fields["modified"] = moment

    def set_flag(self, name: str, argument: str | None) -> None:
        read = self._arguments.flag if self._is_listed else self._arguments.truth
        self._hints[_FLAGS[name]] = read(name, argument)

    def set_deleted(self, name: str, argument: str | None) -> None:
        self.is_deleted = self._arguments.flag(name, argument)

    def set_display_url(self, name: str, argument: str | None) -> None:
        self._hints["display_url"] = self._arguments.uri(name, argument)

    def set_final(self, name: str, _argument: str | None) -> None:
        self.final = name

    def send_acl(self, _name: str, _argument: str | None) -> None:
        self._sends_acl = True

    def set_namespace(self, _name: str, argument: str | None) -> None:
        """The deployed parser minds that there is no argument only where a principal follows."""
        self._namespace = argument
        self._lacks_namespace = argument is None

    def set_parent(self, name: str, argument: str | None) -> None:
        self._acl["inherit_from"] = _stated(name, argument)
        self._acl.pop("inherit_fragment", None)

    def set_fragment(self, name: str, argument: str | None) -> None:
        if "inherit_from" not in self._acl:
            raise RecordError("bad-acl", f"{name} first; expected acl-inherit-from before it")
        self._acl["inherit_fragment"] = argument

    def set_inheritance(self, name: str, argument: str | None) -> None:
        if argument not in _INHERITANCES:
            expected = ", ".join(sorted(_INHERITANCES))
            raise RecordError("bad-acl", f"{name}={argument!r}; expected one of {expected}")
        self._acl["inheritance"] = _INHERITANCES[argument]

    def set_case(self, name: str, _argument: str | None) -> None:
        self._case_sensitive = name == "acl-case-sensitive"

    def _check_open(self, name: str) -> None:
        if self.final and name not in _AFTER_FINAL:
            raise RecordError("after-response", f"{name} behind {self.final}; expected the end")

    def _first(self, name: str, argument: str | None) -> str:
        self._check_open(name)
        if name == "anchor-uri":
            return self._arguments.uri(name, argument)
        return _stated(name, argument)

    def _take_second(self, name: str, argument: str | None) -> None:
        first, value = self.pending or ("", "")
        if name != _SECONDS[first]:
            raise self._bad_pair(name)
        self.pending = None
        if first == "anchor-uri":
            self._anchors.append(Anchor(value, argument))
        elif first == "meta-name":
            self._add_meta(Meta(value, _stated(name, argument)))
        else:
            place = PARAM if argument is not None else PARAM_WITHOUT_VALUE
            self._extras.append(Extra(f"{place}{value}", argument or ""))

    def _bad_pair(self, found: str) -> RecordError:
        first = self.pending[0] if self.pending else ""
        return RecordError("bad-pair", f"{found} behind {first}; expected {_SECONDS[first]}")

    def _add_meta(self, meta: Meta) -> None:
        """The deployed parser keeps a set of pairs: one that is there is not there twice."""
        if self._keeps_all or meta not in self._pairs:
            self._metadata.append(meta)
            self._pairs.add(meta)

    def _add_principal(self, name: str, argument: str | None) -> None:
        """Strictly, a name and its domain are one principal in any form: the first is kept."""
        principal = _stated(name, argument).strip(TRIMMED)
        if not principal:
            raise RecordError("bad-acl", f"{name}={argument!r}; expected a name")
        if self._lacks_namespace:
            reason = f"{name} behind namespace without an argument; expected namespace=…"
            raise RecordError("no-argument", reason)
        scope, access = _PRINCIPALS[name]
        namespace = "Default" if self._namespace is None else self._namespace
        nth = len(self._principals) if self._keeps_all else 0
        key = (scope, access, namespace, *_parsed(principal), nth)
        made = Principal(name=principal, scope=scope, access=access, namespace=self._namespace)
        self._principals.setdefault(key, made)

    def _made_acl(self, parent: str | None) -> Acl:
        case = self._case_sensitive
        principals = tuple(self._principals.values())
        if case is not None:
            principals = tuple(
                msgspec.structs.replace(one, case_sensitive=case) for one in principals
            )
        return Acl(**{**self._acl, "inherit_from": parent}, principals=principals)


def _stated(name: str, argument: str | None) -> str:
    if argument is None:
        raise RecordError("no-argument", f"{name} without an argument; expected {name}=…")
    return argument


def _parsed(principal: str) -> tuple[str, str]:
    """Return the name and the domain of a principal."""
    at = min((principal.find(mark) for mark in _DOMAINS if mark in principal), default=-1)
    if at < 0:
        return principal, ""
    before, behind = principal[:at], principal[at + 1 :]
    return (before, behind) if principal[at] == "@" else (behind, before)


_Applier = Callable[[Document, str, str | None], None]
_AFTER_FINAL = frozenset(
    {
        *("acl", "namespace", "acl-inherit-from", "acl-inherit-fragment", "acl-inheritance-type"),
        *("acl-case-sensitive", "acl-case-insensitive"),
    }
)
_APPLIERS: dict[str, _Applier] = {
    **dict.fromkeys(_FLAGS, Document.set_flag),
    **dict.fromkeys(_FINALS, Document.set_final),
    "delete": Document.set_deleted,
    "last-modified": Document.set_modified,
    "result-link": Document.set_display_url,
    "display-url": Document.set_display_url,
    "mime-type": Document.set_mimetype,
    "acl": Document.send_acl,
    "namespace": Document.set_namespace,
    "acl-inherit-from": Document.set_parent,
    "acl-inherit-fragment": Document.set_fragment,
    "acl-inheritance-type": Document.set_inheritance,
    "acl-case-sensitive": Document.set_case,
    "acl-case-insensitive": Document.set_case,
}
RETRIEVER = frozenset({*_APPLIERS, *_SECONDS, *_FIRSTS, *_PRINCIPALS, "content"}) - {
    *("result-link", "crawl-immediately", "delete")
}
"""The commands that a retriever may give, `id` apart."""
