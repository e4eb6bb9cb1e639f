"""No record that is protected in a known way is written unprotected without a loss of acl.

`feedferry.testing.protection` reads the protection of records and outputs, and shares no code with
formats.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

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
from feedferry.testing.protection import of_record
from feedferry.testing.strategies import declarations
from feedferry.transforms.formats import Holds, WriteOptions, by_name, registered
from feedferry.transforms.rules.adapt import Target, adapter
from feedferry.transforms.rules.normalize import normalize
from kits import KITS, Kit
from support.toy_format import TOY

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


def check(record: Record, kit: Kit, target: Target) -> None:
    """Compare the protection of a record with that of its written form, unless it has a loss."""
    texts, has_loss = written(record, target)
    if has_loss:
        return
    before = of_record(record)
    if record.acl is not None and record.acl.alone:  # no document is written with it
        before = before._replace(is_secure=False, unread=frozenset())
    for text in texts:
        after = kit.protection_of(text)
        assert after.shows_no_more_than(before), (target, before, after, text)


@pytest.mark.slow
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
@given(records())
def test_a_protected_record_is_never_written_unprotected_without_a_loss(record: Record) -> None:
    for kit in KITS.values():
        for target in kit.all_targets() if kit.format.encoder else ():
            check(record, kit, target)


@pytest.mark.slow
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
@given(records(), declarations())
def test_a_declared_format_shows_no_more_without_a_loss(record: Record, holds: Holds) -> None:
    with registered(replace(TOY, holds=holds)):
        (outcome,), losses = adapter(Target(format="toy"))(normalize(record))
    if isinstance(outcome, Record) and not any(loss.field == "acl" for loss in losses):
        before = of_record(normalize(record))
        assert of_record(outcome).shows_no_more_than(before), (holds, outcome)
