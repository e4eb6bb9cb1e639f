"""No record that is protected in a known way is written unprotected without a loss of acl.

The oracle reads records and outputs by itself, with lxml, json, fastavro and a splitter of tokens.
It shares no code with the formats and adapters.
"""

import base64
import io
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import fastavro
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from lxml import etree
from msgspec.structs import replace

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError
from schemas.feed import Feed
from schemas.record import Action, Arrival, Authmethod, Content, Crawl, Extra, Meta, Record
from support.strategies import declarations
from support.toy_format import TOY
from transforms.formats import FORMATS, FeedOptions, Holds, WriteOptions, by_name, registered
from transforms.rules.adapt import Target, adapter
from transforms.rules.normalize import normalize

_CONTROLS = "".join(map(chr, range(0x21)))
_ROLE = re.compile(r"=(owner|writer|reader|peeker)\s*\Z")
_LISTS = {
    "google:aclusers": ("user", "permit"),
    "google:aclgroups": ("group", "permit"),
    "google:acldenyusers": ("user", "deny"),
    "google:acldenygroups": ("group", "deny"),
}
_TYPES = ("parent-overrides", "child-overrides", "and-both-permit", "leaf-node")


class ComparedPrincipal(NamedTuple):
    """A principal as an appliance compares it."""

    scope: str
    name: str
    namespace: str = "Default"
    any_case: bool = False
    unqualified: bool = False


class Protection(NamedTuple):
    """What protects a document; `unread` is ACL metadata that is not the ACL."""

    has_acl: bool = False
    permits: frozenset[ComparedPrincipal] = frozenset()
    denies: frozenset[ComparedPrincipal] = frozenset()
    parent: str = ""
    kind: str = ""
    is_secure: bool = False
    unread: frozenset[str] = frozenset()

    def shows_no_more_than(self, other: "Protection") -> bool:
        """Whether a document that is protected like this has no new readers."""
        if other.is_secure and not self.is_secure:
            return False
        if not other.unread <= self.unread:
            return False
        if not other.has_acl:
            return True
        return (
            self.has_acl
            and self.permits <= other.permits
            and self.denies >= other.denies
            and (self.parent, self.kind) == (other.parent, other.kind)
        )


def of_record(record: Record) -> Protection:
    """Return the protection that a record states, in any of the known ways."""
    plain = msgspec.to_builtins(record)
    sight = _of_plain(plain)
    if sight.has_acl:  # next to an ACL, no appliance needs an unknown authmethod
        sight = sight._replace(is_secure=_of_plain(plain | {"extras": ()}).is_secure)
    return sight


def of_gsa_feed(text: bytes) -> Protection:
    """The protection of the one record, or ACL alone, of a feed."""
    root = etree.fromstring(text)
    [(group, unit)] = [(group, child) for group in root.iter("group") for child in group]
    attributes = (*group.items(), *unit.items())
    is_secure = any(name.lower() == "authmethod" and value != "none" for name, value in attributes)
    metas = tuple(map(_meta, unit.iter("meta")))
    acl = unit if unit.tag == "acl" else unit.find("acl")
    if acl is None:
        return _of_metadata(metas)._replace(is_secure=is_secure)
    people = [(part.get("access"), _principal(part)) for part in acl.iter("principal")]
    parent = acl.get("inherit-from", "")
    return Protection(
        has_acl=bool(people or parent),  # an appliance takes an empty acl for none
        permits=frozenset(who for access, who in people if access == "permit"),
        denies=frozenset(who for access, who in people if access == "deny"),
        parent=parent,
        kind=acl.get("inheritance-type", ""),
        is_secure=is_secure,
        unread=_acl_names(metas),
    )


def of_retriever_stream(text: bytes) -> Protection:
    """The protection that the commands of one document state."""
    collected: dict[str, Any] = {"permit": set(), "deny": set(), "metas": []}
    namespace, name, flags = "Default", "", dict[str, str]()
    head = text.partition(b"\0content\0")[0].split(b"\0")[1:]
    for coded in head:
        token = coded.replace(b"\xc0\x80", b"\0").replace(b"\xc0\x8a", b"\n")
        command, _, value = token.decode().partition("=")
        people = re.fullmatch("acl-(permit|deny)-(user|group)", command)
        if people:
            collected[people[1]].add(ComparedPrincipal(people[2], value, namespace))
        elif command == "namespace":
            namespace = value
        elif command == "meta-name":
            name = value
        elif command == "meta-value":
            collected["metas"].append(Meta(name, value))
        else:
            flags[command] = value
    any_case = "acl-case-insensitive" in flags
    fragment = flags.get("acl-inherit-fragment")
    metas = tuple(collected["metas"])
    is_secure = flags.get("secure") == "true"
    if "acl" not in flags:
        return _of_metadata(metas)._replace(is_secure=is_secure)
    return Protection(
        has_acl=True,
        permits=frozenset(who._replace(any_case=any_case) for who in collected["permit"]),
        denies=frozenset(who._replace(any_case=any_case) for who in collected["deny"]),
        parent=flags.get("acl-inherit-from", "") + ("" if fragment is None else f"?{fragment}"),
        kind=flags.get("acl-inheritance-type", ""),
        is_secure=is_secure,
        unread=_acl_names(metas),
    )


def of_jsonl(text: bytes) -> Protection:
    return _of_plain(json.loads(text))


def of_avro(text: bytes) -> Protection:
    [record] = fastavro.reader(io.BytesIO(text))
    assert isinstance(record, dict)
    return _of_plain(record)


def of_what_has_no_protection(_text: bytes) -> Protection:
    """A dataload and a listing have no place for any."""
    return Protection()


def _of_plain(record: dict[str, Any]) -> Protection:
    crawl, acl = record.get("crawl") or {}, record.get("acl")
    is_secure = (crawl.get("authmethod") or "NONE") != "NONE" or bool(crawl.get("secure"))
    is_secure |= any(
        part["place"].lower().endswith("/@authmethod") for part in record.get("extras") or ()
    )
    metas = tuple(
        Meta(part["name"], part.get("value") or "", part.get("data") and b"?")
        for part in record.get("metadata") or ()
    )
    if acl is None:
        return _of_metadata(metas)._replace(is_secure=is_secure)
    people = [
        (
            part["access"].lower(),
            ComparedPrincipal(
                part["scope"].lower(),
                part["name"].strip(_CONTROLS),
                "Default" if part.get("namespace") is None else part["namespace"],
                part.get("case_sensitive") is False,
                bool(part.get("unqualified")),
            ),
        )
        for part in acl.get("principals") or ()
        if part["name"].strip(" \t\r\n")
    ]
    fragment = acl.get("inherit_fragment")
    return Protection(
        has_acl=True,
        permits=frozenset(who for access, who in people if access == "permit"),
        denies=frozenset(who for access, who in people if access == "deny"),
        parent=(acl.get("inherit_from") or "") + ("" if fragment is None else f"?{fragment}"),
        kind=(acl.get("inheritance") or "").lower().replace("_", "-"),
        is_secure=is_secure,
        unread=_acl_names(metas),
    )


def _of_metadata(metas: Iterable[Meta]) -> Protection:
    """What `google:acl*` metadata says, in any case of letters and with blanks around."""
    collected: dict[str, set[ComparedPrincipal]] = {"permit": set(), "deny": set()}
    parent = kind = ""
    has_acl, unread = False, set()
    for meta in metas:
        name = meta.name.strip(" \t\r\n").lower()
        if name in _LISTS and meta.data is None:
            has_acl = True
            scope, access = _LISTS[name]
            role = _ROLE.search(meta.value)
            who = _ROLE.sub("", meta.value)
            is_ignored = role is not None and role[1] == "peeker" and access == "permit"
            if who.strip(" \t\r\n") and not is_ignored:
                collected[access].add(ComparedPrincipal(scope, who.strip(_CONTROLS)))
        elif name == "google:aclinheritfrom" and meta.data is None and meta.value and not parent:
            has_acl, parent = True, meta.value
        elif name == "google:aclinheritancetype" and meta.value in _TYPES and not kind:
            has_acl, kind = True, meta.value
        elif name.startswith("google:acl"):
            unread.add(name)
    permits, denies = frozenset(collected["permit"]), frozenset(collected["deny"])
    return Protection(has_acl, permits, denies, parent, kind, unread=frozenset(unread))


def _acl_names(metas: Iterable[Meta]) -> frozenset[str]:
    """Return the names of ACL metadata next to an ACL, which an appliance may read or not."""
    names = (meta.name.strip(" \t\r\n").lower() for meta in metas)
    return frozenset(name for name in names if name.startswith("google:acl"))


def _meta(element: etree._Element) -> Meta:
    name, value = element.get("name", ""), element.get("content", "")
    if element.get("encoding") is None:
        return Meta(name, value)
    data = base64.b64decode(value)
    try:
        return Meta(base64.b64decode(name).decode(), data.decode())
    except UnicodeDecodeError:
        return Meta(base64.b64decode(name).decode(), "", data)


def _principal(element: etree._Element) -> ComparedPrincipal:
    return ComparedPrincipal(
        element.get("scope", ""),
        (element.text or "").strip(_CONTROLS),
        element.get("namespace", "Default"),
        element.get("case-sensitivity-type") == "everything-case-insensitive",
        element.get("principal-type") == "unqualified",
    )


class Way(NamedTuple):
    """A target, and what reads the protection of what is written for it."""

    target: Target
    protection_of: Callable[[bytes], Protection]


FEEDS = (
    *(("docs", "incremental"), ("docs", "full")),
    *(("docs", "metadata-and-url"), ("web", "incremental")),
)
WAYS = {
    **{
        f"gsa-feed {dialect} {datasource} {feedtype}": Way(
            Target(
                format="gsa-feed",
                datasource=datasource,
                feedtype=feedtype,
                own=(FeedOptions(dialect=dialect),),
            ),
            of_gsa_feed,
        )
        for dialect in ("7.x", "5.0")
        for datasource, feedtype in FEEDS
    },
    "thunderstone": Way(Target(format="thunderstone"), of_what_has_no_protection),
    "lister-stream": Way(Target(format="lister-stream"), of_what_has_no_protection),
    "authorizer-stream": Way(Target(format="authorizer-stream"), of_what_has_no_protection),
    "retriever-stream": Way(Target(format="retriever-stream"), of_retriever_stream),
    "avro": Way(Target(format="avro"), of_avro),
    "jsonl": Way(Target(format="jsonl"), of_jsonl),
    "gsa-groups": Way(Target(format="gsa-groups"), of_what_has_no_protection),
}

NAMES = (
    *("joe", "EXAMPLE\\ann", "f\u00fcr", "a&b", " padded ", "x=peeker"),
    *("\u00a0", "\u2028", "\x1f", " "),
)
SPELLINGS = ("{}", "Google:{}", " {}", "{}\n")
LEGACY = (
    *("google:aclusers", "google:aclgroups", "google:acldenyusers", "google:acldenygroups"),
    *("google:aclinheritfrom", "google:aclinheritancetype", "google:aclthings"),
)
PARENTS = ("http://a.example.com/share/", "http://a.example.com/?id=5", "http://a.example.com/?all")
VALUES = (*NAMES, "", "joe=reader", "ann=peeker", "leaf-node", "sideways", *PARENTS)


def principals() -> SearchStrategy[Principal]:
    return st.builds(
        Principal,
        name=st.sampled_from(NAMES),
        scope=st.sampled_from(Scope),
        access=st.sampled_from(Access),
        namespace=st.sampled_from((None, None, "Default", "AD", "")),
        case_sensitive=st.sampled_from((None, None, True, False)),
        unqualified=st.sampled_from((False, False, False, True)),
    )


def acls() -> SearchStrategy[Acl]:
    return st.builds(
        Acl,
        inheritance=st.none() | st.sampled_from(Inheritance),
        inherit_from=st.none() | st.sampled_from(PARENTS),
        inherit_fragment=st.sampled_from((None, None, "all", "a=b")),
        principals=st.lists(principals(), max_size=3).map(tuple),
        alone=st.sampled_from((False, False, False, True)),
    )


def legacy() -> SearchStrategy[Meta]:
    name = st.builds(_spelled, st.sampled_from(LEGACY), st.sampled_from(SPELLINGS))
    text = st.builds(Meta, name, st.sampled_from(VALUES))
    return text | text | st.builds(Meta, name, st.just(""), st.just(b"\xff"))


def _spelled(name: str, spelling: str) -> str:
    return spelling.format(name).replace("Google:google:acl", "Google:Acl")


def crawls() -> SearchStrategy[Crawl]:
    flag = st.sampled_from((None, True, False))
    return st.builds(
        Crawl,
        authmethod=st.none() | st.sampled_from(Authmethod),
        secure=flag,
        lock=flag,
        no_index=flag,
    )


def records() -> SearchStrategy[Record]:
    """Records with any of the known protections, or none."""
    extra = st.sampled_from(
        (
            *(Extra("record/@authmethod", "kerberos"), Extra("group/@AuthMethod", "NTLM")),
            *(Extra("record/@x", "1"), Extra("stream/authz-status", "DENY")),
        )
    )
    return st.builds(
        Record,
        url=st.just("http://www.example.com/plan.html"),
        action=st.sampled_from((Action.ADD, Action.ADD, Action.UPDATE)),
        arrival=st.sampled_from(Arrival),
        content=st.sampled_from((None, Content(b"Plan"))),
        body=st.sampled_from((None, None, "Plan")),
        mimetype=st.sampled_from((None, "text/plain")),
        metadata=st.lists(legacy() | st.just(Meta("colour", "red")), max_size=3).map(tuple),
        acl=st.none() | acls(),
        crawl=st.none() | crawls(),
        extras=st.lists(extra, max_size=1).map(tuple),
    )


def written(record: Record, target: Target) -> tuple[list[bytes], bool]:
    """Return what is written of a record, each in its own document, and whether an ACL is lost."""
    feed = Feed(datasource=target.datasource or "docs", feedtype=target.feedtype or "incremental")
    encoder = by_name(target.format).make_encoder(WriteOptions(feed=feed, own=target.own))
    outcomes, losses = adapter(target)(normalize(record))
    texts = []
    for outcome in outcomes:
        if not isinstance(outcome, Record):
            continue
        try:
            encoded = encoder.encode(outcome)
        except RecordError:
            continue
        texts.append(encoder.prolog() + encoder.frame([encoded]) + encoder.epilog())
    return texts, any(loss.field == "acl" for loss in losses)


def check(record: Record, name: str) -> None:
    """Compare the protection of a record with that of its written form, unless it has a loss."""
    target, protection_of = WAYS[name]
    texts, has_loss = written(record, target)
    if has_loss:
        return
    before = of_record(record)
    if record.acl is not None and record.acl.alone:  # no document is written with it
        before = before._replace(is_secure=False, unread=frozenset())
    for text in texts:
        after = protection_of(text)
        assert after.shows_no_more_than(before), (name, before, after, text)


def test_every_format_that_is_written_is_checked() -> None:
    assert {way.target.format for way in WAYS.values()} == {
        format_.name for format_ in FORMATS if format_.encoder
    }


@pytest.mark.slow
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
@given(records())
def test_a_protected_record_is_never_written_unprotected_without_a_loss(record: Record) -> None:
    for name in WAYS:
        check(record, name)


@pytest.mark.slow
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
@given(records(), declarations())
def test_a_declared_format_shows_no_more_without_a_loss(record: Record, holds: Holds) -> None:
    with registered(replace(TOY, holds=holds)):
        (outcome,), losses = adapter(Target(format="toy"))(normalize(record))
    if isinstance(outcome, Record) and not any(loss.field == "acl" for loss in losses):
        before = of_record(normalize(record))
        assert of_record(outcome).shows_no_more_than(before), (holds, outcome)
