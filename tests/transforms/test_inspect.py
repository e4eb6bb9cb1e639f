"""What is counted of what readers find."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.acl import Access, Acl, Principal, Scope
from schemas.membership import Member, Membership
from schemas.notice import Notice
from schemas.record import Action, Content, Encoding, Provenance, Record
from schemas.reject import Filtered, Reject
from transforms.group_references import GroupCount, Groups
from transforms.inspect import (
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

URL = "http://www.example.com/a"
WIKI = Provenance(datasource="wiki", feedtype="incremental")
REJECT = Reject(code="bad-date", reason="a; expected b", stage="read", source="a.xml", line=3)
STAFF = Member(name="staff", scope=Scope.GROUP)


def record(**stated: Any) -> Record:
    return Record(**{"url": URL, "action": Action.ADD, **stated})


def permit(name: str, *, scope: Scope = Scope.USER, namespace: str | None = None) -> Principal:
    return Principal(name=name, scope=scope, access=Access.PERMIT, namespace=namespace)


def deny(name: str) -> Principal:
    return Principal(name=name, scope=Scope.USER, access=Access.DENY)


def acls(*found: Acl | None) -> AclCounts:
    return count(record(acl=acl) for acl in found).acls


def test_nothing_is_found() -> None:
    assert count([]) == InputCounts()


def test_records_are_counted_by_feed_and_action() -> None:
    found = [
        record(),
        record(provenance=WIKI),
        record(action=Action.DELETE, provenance=WIKI),
        record(provenance=WIKI),
    ]
    assert count(found).feeds == (
        FeedCount(datasource=None, feedtype=None, actions={"ADD": 1}),
        FeedCount(datasource="wiki", feedtype="incremental", actions={"ADD": 2, "DELETE": 1}),
    )


def test_memberships_are_counted_beside_records() -> None:
    assert count([Membership(group=STAFF), record()]).feeds == (
        FeedCount(datasource=None, feedtype=None, actions={"MEMBERSHIP": 1, "ADD": 1}),
    )


def test_feeds_beyond_a_thousand_are_counted_together() -> None:
    feeds = count(
        record(provenance=Provenance(datasource=f"d{number}")) for number in range(1002)
    ).feeds
    assert (len(feeds), feeds[-1]) == (
        1001,
        FeedCount(datasource=OTHERS, feedtype=None, actions={"ADD": 2}),
    )


def test_rejects_are_counted_by_code_with_the_first_message() -> None:
    other = Reject(code="bad-acl", reason="c; expected d", stage="read", source="b.xml", line=1)
    assert count([REJECT, other, REJECT]).rejects == {
        "bad-acl": CodeCount(count=1, first="b.xml:1 (byte 0): c; expected d"),
        "bad-date": CodeCount(count=2, first="a.xml:3 (byte 0): a; expected b"),
    }


def test_notices_are_counted_by_code_with_the_first_message() -> None:
    first = Notice(code="crlf", detail="CRLF; read as LF", source="a.txt", offset=7)
    assert count([first, Notice(code="crlf", detail="later")]).notices == {
        "crlf": CodeCount(count=2, first="a.txt (byte 7): CRLF; read as LF")
    }


def test_what_is_filtered_is_counted_by_code() -> None:
    found = [
        Filtered(code="up-to-date", url=URL, action="ADD"),
        Filtered(code="not-found", url=URL, action="ADD"),
        Filtered(code="not-found", url=URL, action="ADD"),
    ]
    assert list(count(found).filtered.items()) == [("not-found", 2), ("up-to-date", 1)]


def test_contents_are_measured_as_they_are_stored() -> None:
    found = [
        record(content=Content(b"YWI=", Encoding.BASE64)),
        record(content=Content(b"a")),
        record(),
        record(content=Content(b"abc")),
    ]
    assert count(found).content == ContentSizes(documents=3, total=8, least=1, most=4)


def test_the_mean_is_rounded_down() -> None:
    assert ContentSizes(documents=3, total=8, least=1, most=4).mean == 2


def test_there_is_a_mean_of_nothing() -> None:
    assert ContentSizes().mean == 0


def test_an_empty_content_is_the_least() -> None:
    found = [record(content=Content(b"a")), record(content=Content(b""))]
    assert count(found).content == ContentSizes(documents=2, total=1, least=0, most=1)


def test_mimetypes_stand_the_most_frequent_first_then_by_name() -> None:
    names = ["text/plain", "text/html", "image/gif", "text/html", None]
    counts = count(record(mimetype=name) for name in names).mimetypes
    assert list(counts.items()) == [("text/html", 2), ("image/gif", 1), ("text/plain", 1)]


def test_charsets_are_counted() -> None:
    assert count([record(charset="UTF-8"), record()]).charsets == {"UTF-8": 1}


def test_mimetypes_beyond_a_thousand_are_counted_together_and_last() -> None:
    counts = count(record(mimetype=f"x/{number}") for number in range(1005)).mimetypes
    assert (len(counts), list(counts.items())[-1]) == (1001, (OTHERS, 5))


def test_a_known_name_is_counted_when_there_are_a_thousand() -> None:
    names = [*(f"x/{number}" for number in range(1000)), "x/7"]
    assert count(record(mimetype=name) for name in names).mimetypes["x/7"] == 2


def test_no_more_than_the_beginning_of_a_long_name_is_kept() -> None:
    assert count([record(charset="x" * 1000)]).charsets == {"x" * 200: 1}


def test_documents_are_counted_with_an_acl_and_without() -> None:
    acl = Acl(principals=(permit("ada"),))
    assert acls(acl, None, acl, Acl(principals=(permit("ada"),), alone=True)) == AclCounts(
        documents=2,
        without=1,
        alone=1,
        principals={"PERMIT USER": 3},
        namespaces={"Default": 3},
    )


@pytest.mark.parametrize(
    "action", [Action.UPDATE, Action.DELETE, Action.DELETE_PATTERN, Action.UPDATE_INDEX]
)
def test_only_what_is_added_can_lack_an_acl(action: Action) -> None:
    assert count([record(action=action)]).acls.without == 0


def test_principals_are_counted_by_access_and_scope_and_by_namespace() -> None:
    acl = Acl(
        principals=(
            permit("ada"),
            permit("bob", namespace="ldap"),
            permit("staff", scope=Scope.GROUP, namespace="ldap"),
            deny("eve"),
            permit("cyd", namespace="ldap"),
        )
    )
    found = acls(acl)
    assert (list(found.principals.items()), list(found.namespaces.items())) == (
        [("PERMIT USER", 3), ("DENY USER", 1), ("PERMIT GROUP", 1)],
        [("ldap", 3), ("Default", 2)],
    )


@pytest.mark.parametrize(
    ("acl", "barred"),
    [
        (Acl(), 1),
        (Acl(principals=(deny("eve"),)), 1),
        (Acl(alone=True), 1),
        (Acl(inherit_from=URL), 0),
        (Acl(principals=(deny("eve"), permit("ada"))), 0),
    ],
)
def test_an_acl_bars_all_that_permits_nobody_and_inherits_from_nothing(
    acl: Acl, barred: int
) -> None:
    assert acls(acl).barred == barred


def test_groups_of_acls_meet_those_of_memberships() -> None:
    acl = Acl(principals=(permit("staff", scope=Scope.GROUP), permit("yard", scope=Scope.GROUP)))
    assert count([record(acl=acl), Membership(group=STAFF)]).groups == Groups(
        memberships=1,
        defined=1,
        named=2,
        undefined=(GroupCount(namespace="Default", name="yard", named=1),),
    )


def test_a_url_that_is_added_again_is_a_duplicate_each_time() -> None:
    found = [record(), record(), record(url="http://www.example.com/b"), record()]
    assert count(found).duplicates == DuplicateUrls(repeated=2)


def test_a_url_that_is_deleted_or_updated_after_it_was_added_is_none() -> None:
    found = [record(), record(action=Action.UPDATE), record(action=Action.DELETE)]
    assert count(found).duplicates == DuplicateUrls()


def test_urls_without_room_are_counted_and_earlier_urls_are_still_known() -> None:
    found = [record(), record(url="b"), record(url="b"), record()]
    assert count(found, max_urls=1).duplicates == DuplicateUrls(repeated=1, unremembered=2)


def test_a_url_that_is_no_unicode_is_counted() -> None:
    found = [record(url="\udcff"), record(url="\udcff")]
    assert count(found).duplicates == DuplicateUrls(repeated=1)


@given(st.lists(st.sampled_from("abcdefgh")))
def test_as_many_urls_are_duplicates_as_are_not_distinct(urls: list[str]) -> None:
    repeated = count(record(url=url) for url in urls).duplicates.repeated
    assert repeated == len(urls) - len(set(urls))


@pytest.mark.parametrize(
    ("bucket", "known"),
    [
        (b"", False),
        (b"abcdef", True),
        (b"123abcdef456", False),
        (b"123abcdef456abcdef", True),
    ],
)
def test_a_digest_is_not_found_across_two_others(bucket: bytes, known: bool) -> None:
    assert has_digest(bytearray(bucket), b"abcdef") is known


YARD = GroupCount(namespace="Default", name="yard", named=1)


@pytest.mark.parametrize(
    ("found", "has_findings"),
    [
        (InputCounts(), False),
        (InputCounts(rejects={"bad-date": CodeCount(count=1)}), True),
        (InputCounts(notices={"crlf": CodeCount(count=1)}), False),
        (InputCounts(groups=Groups(memberships=1, undefined=(YARD,))), True),
        (InputCounts(groups=Groups(memberships=1, unnamed=1)), False),
        (InputCounts(groups=Groups(undefined=(YARD,))), False),
    ],
)
def test_rejects_are_findings_and_so_are_undefined_groups_where_any_is_defined(
    found: InputCounts, has_findings: bool
) -> None:
    assert found.has_findings is has_findings
