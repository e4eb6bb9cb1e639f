"""Memberships, and what reports and accounts call them by."""

from schemas.acl import Scope
from schemas.membership import Member, Membership, MembershipAction

STAFF = Membership(group=Member(name="staff", scope=Scope.GROUP, namespace="ad"))


def test_a_report_calls_a_membership_by_the_name_of_its_group() -> None:
    assert STAFF.url == "staff"


def test_an_account_counts_all_memberships_as_one_kind() -> None:
    assert STAFF.action is MembershipAction.MEMBERSHIP


def test_a_group_may_have_no_members() -> None:
    assert STAFF.members == ()
