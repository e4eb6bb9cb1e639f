"""Records with any known protection, and the check that no conversion takes it away in silence."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import Feed
from feedferry.schemas.record import (
    Action,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Extra,
    Meta,
    Record,
)
from feedferry.testing.format_kit import FormatKit
from feedferry.testing.protection import ComparedPrincipal, Protection, of_record
from feedferry.transforms.formats import WriteOptions
from feedferry.transforms.rules.adapt import Target, adapter
from feedferry.transforms.rules.normalize import normalize

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


def protected_records() -> SearchStrategy[Record]:
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


def written(record: Record, kit: FormatKit, target: Target) -> tuple[list[bytes], bool]:
    """Return what is written of a record, each in its own document, and whether an ACL is lost."""
    feed = Feed(datasource=target.datasource or "docs", feedtype=target.feedtype or "incremental")
    encoder = kit.format.make_encoder(WriteOptions(feed=feed, own=target.own))
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


def _decided(stated: Protection) -> Protection:
    """Return a protection as decisions have it.

    Documents that inherit from this one have decisions of their own. A decision compares principals
    without a namespace as those of the default one, and names as they are, or in lower case.
    """
    permits, denies = (frozenset(map(_compared, of)) for of in (stated.permits, stated.denies))
    return stated._replace(permits=permits, denies=denies, kind="")


def _compared(who: ComparedPrincipal) -> ComparedPrincipal:
    name = who.name.casefold() if who.any_case else who.name
    return who._replace(name=name, namespace=who.namespace or "Default", unqualified=False)


def check_protection(record: Record, kit: FormatKit, target: Target) -> None:
    """Compare the protection of a record with that of its written form, unless it has a loss."""
    texts, has_loss = written(record, kit, target)
    if has_loss:
        return
    before = of_record(record)
    if kit.format.needs_decisions:
        before = _decided(before)
    if record.acl is not None and record.acl.alone:  # no document is written with it
        before = before._replace(is_secure=False, unread=frozenset())
    for text in texts:
        after = kit.protection_of(text)
        assert after.shows_no_more_than(before), (target, before, after, text)
