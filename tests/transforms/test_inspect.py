"""Counts of the results of readers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Content, Encoding, Provenance, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.inspect import (
    OTHERS,
    AclCounts,
    CodeCount,
    ContentSizes,
    DuplicateUrls,
    FeedCount,
    InputCounts,
    count,
    has_digest,
)
from feedferry.transforms.rules.group_references import GroupCount, Groups

URL = "http://www.example.com/a"
WIKI = Provenance(datasource="wiki", feedtype="incremental")
STAFF = Member(name="staff", scope=Scope.GROUP)
YARD = GroupCount(namespace="Default", name="yard", named=1)


def record(**stated: Any) -> Record:
    return Record(**{"url": URL, "action": Action.ADD, **stated})


def permit(name: str, *, scope: Scope = Scope.USER, namespace: str | None = None) -> Principal:
    return Principal(name=name, scope=scope, access=Access.PERMIT, namespace=namespace)


DENY = Principal(name="eve", scope=Scope.USER, access=Access.DENY)


def acls(*stated: Acl | None) -> AclCounts:
    return count(record(acl=acl) for acl in stated).acls


def test_an_empty_input_has_no_counts() -> None:
    assert count([]) == InputCounts()


def test_records_and_memberships_are_counted_by_feed_and_action() -> None:
    results: list[ReadResult] = [
        *(record(), record(provenance=WIKI), Membership(group=STAFF)),
        *(record(action=Action.DELETE, provenance=WIKI), record(provenance=WIKI)),
    ]
    assert count(results).feeds == (
        FeedCount(datasource=None, feedtype=None, actions={"ADD": 1, "MEMBERSHIP": 1}),
        FeedCount(datasource="wiki", feedtype="incremental", actions={"ADD": 2, "DELETE": 1}),
    )


def test_rejects_and_notices_are_counted_by_code_with_their_first_message() -> None:
    results: list[ReadResult] = [
        Reject(code="bad-date", reason="a; expected b", stage="read", source="a.xml", line=3),
        Reject(code="bad-acl", reason="c; expected d", stage="read", source="b.xml", line=1),
        Reject(code="bad-date", reason="e; expected f", stage="read", source="c.xml"),
        Notice(code="crlf", detail="CRLF; read as LF", source="a.txt", offset=7),
        Notice(code="crlf", detail="later"),
        Filtered(code="up-to-date", url=URL, action="ADD"),
        Filtered(code="not-found", url=URL, action="ADD"),
        Filtered(code="not-found", url=URL, action="ADD"),
    ]
    counts = count(results)
    assert counts.rejects == {
        "bad-acl": CodeCount(count=1, first="b.xml:1 (byte 0): c; expected d"),
        "bad-date": CodeCount(
            count=2, first="a.xml:3 (byte 0): a; expected b", more=["c.xml (byte 0): e; expected f"]
        ),
    }
    assert counts.notices == {"crlf": CodeCount(count=2, first="a.txt (byte 7): CRLF; read as LF")}
    assert list(counts.filtered.items()) == [("not-found", 2), ("up-to-date", 1)]


@pytest.mark.parametrize(
    ("contents", "expected", "mean"),
    [
        ([None], ContentSizes(), 0),
        (
            [Content(b"YWI=", Encoding.BASE64), Content(b"a"), None, Content(b"abc")],
            ContentSizes(documents=3, total=8, least=1, most=4),
            2,
        ),
        ([Content(b"a"), Content(b"")], ContentSizes(documents=2, total=1, least=0, most=1), 0),
    ],
)
def test_contents_are_measured_as_they_are_stored(
    contents: list[Content | None], expected: ContentSizes, mean: int
) -> None:
    sizes = count(record(content=content) for content in contents).content
    assert (sizes, sizes.mean) == (expected, mean)


def test_names_are_counted_by_frequency_then_by_name() -> None:
    names = ["text/plain", "text/html", "image/gif", "text/html", None]
    counts = count([*(record(mimetype=name) for name in names), record(charset="x" * 1000)])
    assert list(counts.mimetypes.items()) == [("text/html", 2), ("image/gif", 1), ("text/plain", 1)]
    assert counts.charsets == {"x" * 200: 1}  # the beginning of a long name


def test_names_and_feeds_beyond_a_thousand_are_counted_together_and_last() -> None:
    numbers = [*range(1005), 7]
    counts = count(
        record(mimetype=f"x/{number}", provenance=Provenance(datasource=f"d{number}"))
        for number in numbers
    )
    assert (len(counts.mimetypes), counts.mimetypes["x/7"]) == (1001, 2)
    assert list(counts.mimetypes.items())[-1] == (OTHERS, 5)
    assert len(counts.feeds) == 1001
    assert counts.feeds[-1] == FeedCount(datasource=OTHERS, feedtype=None, actions={"ADD": 5})


def test_added_documents_are_counted_with_an_acl_and_without() -> None:
    acl = Acl(principals=(permit("ada"),))
    assert acls(acl, None, acl, Acl(principals=(permit("ada"),), alone=True)) == AclCounts(
        documents=2, without=1, alone=1, principals={"PERMIT USER": 3}, namespaces={"Default": 3}
    )
    others = (Action.UPDATE, Action.DELETE, Action.DELETE_PATTERN, Action.UPDATE_INDEX)
    assert count(record(action=action) for action in others).acls.without == 0


def test_principals_are_counted_by_access_and_scope_and_by_namespace() -> None:
    bob, cyd = permit("bob", namespace="ldap"), permit("cyd", namespace="ldap")
    staff = permit("staff", scope=Scope.GROUP, namespace="ldap")
    counts = acls(Acl(principals=(permit("ada"), bob, staff, DENY, cyd)))
    expected = [("PERMIT USER", 3), ("DENY USER", 1), ("PERMIT GROUP", 1)]
    assert list(counts.principals.items()) == expected
    assert list(counts.namespaces.items()) == [("ldap", 3), ("Default", 2)]


@pytest.mark.parametrize(
    ("acl", "barred"),
    [
        (Acl(), 1),
        (Acl(principals=(DENY,)), 1),
        (Acl(alone=True), 1),
        (Acl(inherit_from=URL), 0),
        (Acl(principals=(DENY, permit("ada"))), 0),
    ],
)
def test_an_acl_bars_all_users_if_it_permits_none_and_inherits_nothing(
    acl: Acl, barred: int
) -> None:
    assert acls(acl).barred == barred


def test_groups_of_acls_are_compared_with_memberships() -> None:
    acl = Acl(principals=(permit("staff", scope=Scope.GROUP), permit("yard", scope=Scope.GROUP)))
    assert count([record(acl=acl), Membership(group=STAFF)]).groups == Groups(
        memberships=1, defined=1, named=2, undefined=(YARD,)
    )


@pytest.mark.parametrize(
    ("records", "max_urls", "expected"),
    [
        ([record(), record(), record(url="b"), record()], 9, DuplicateUrls(repeated=2)),
        ([record(), record(action=Action.UPDATE), record(action=Action.DELETE)], 9, None),
        (
            [record(), record(url="b"), record(url="b"), record()],
            1,
            DuplicateUrls(repeated=1, unremembered=2),
        ),
        ([record(url="\udcff"), record(url="\udcff")], 9, DuplicateUrls(repeated=1)),
    ],
)
def test_urls_that_are_added_again_are_duplicates(
    records: list[Record], max_urls: int, expected: DuplicateUrls | None
) -> None:
    assert count(records, max_urls=max_urls).duplicates == (expected or DuplicateUrls())


@given(st.lists(st.sampled_from("abcdefgh")))
def test_there_are_as_many_duplicates_as_urls_that_are_not_distinct(urls: list[str]) -> None:
    repeated = count(record(url=url) for url in urls).duplicates.repeated
    assert repeated == len(urls) - len(set(urls))


@pytest.mark.parametrize(
    ("bucket", "expected"),
    [(b"", False), (b"abcdef", True), (b"123abcdef456", False), (b"123abcdef456abcdef", True)],
)
def test_a_digest_is_not_found_across_two_others(bucket: bytes, expected: bool) -> None:
    assert has_digest(bytearray(bucket), b"abcdef") is expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (InputCounts(), False),
        (InputCounts(rejects={"bad-date": CodeCount(count=1)}), True),
        (InputCounts(notices={"crlf": CodeCount(count=1)}), False),
        (InputCounts(groups=Groups(memberships=1, undefined=(YARD,))), True),
        (InputCounts(groups=Groups(memberships=1, unnamed=1)), False),
        (InputCounts(groups=Groups(undefined=(YARD,))), False),
    ],
)
def test_rejects_are_findings_and_undefined_groups_if_any_group_is_defined(
    counts: InputCounts, expected: bool
) -> None:
    assert counts.has_findings is expected
