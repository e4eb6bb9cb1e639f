"""The groups that a rehearsal appliance holds after groups feeds of every kind."""

from pipelines.serve.rehearsal.groups import CAPACITY_BYTES
from pipelines.serve.rehearsal.views import Group, Status
from schemas.acl import Scope
from schemas.membership import Member
from support.rehearsal import Rehearsal, gsa_feed, membership, page, xmlgroups


def named(held: Rehearsal) -> list[tuple[str, str, list[str]]]:
    return [
        (one.groupsource, one.name, [member.name for member in one.members])
        for one in held.index.groups()
    ]


def test_a_group_is_held_with_the_defaults_of_the_dtd(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann")))
    assert held.index.groups() == [
        Group(
            groupsource="ldap",
            name="staff",
            namespace="Default",
            count=1,
            members=(
                Member(name="ann", scope=Scope.USER, namespace="Default", case_sensitive=True),
            ),
        )
    ]


def test_a_member_is_held_with_all_that_is_stated(held: Rehearsal) -> None:
    member = (
        '<principal scope="GROUP" namespace="SP" principal-type="unqualified"'
        ' case-sensitivity-type="EVERYTHING_CASE_INSENSITIVE">owners</principal>'
    )
    group = '<principal scope="GROUP" namespace="SP">site</principal>'
    held.groups(xmlgroups(f"<membership>{group}<members>{member}</members></membership>"))
    (found,) = held.index.groups()
    assert (found.namespace, found.members) == (
        "SP",
        (
            Member(
                name="owners",
                scope=Scope.GROUP,
                namespace="SP",
                case_sensitive=False,
                unqualified=True,
            ),
        ),
    )


def test_an_incremental_feed_adds_members_and_groups(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann", "joe")))
    held.groups(xmlgroups(membership("staff", "joe", "zoe"), membership("sales", "ann")))
    assert named(held) == [("ldap", "sales", ["ann"]), ("ldap", "staff", ["ann", "joe", "zoe"])]


def test_a_full_feed_overwrites_the_groups_of_its_source(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann", "joe"), membership("sales", "ann")))
    held.groups(xmlgroups(membership("staff", "zoe")), feedtype="full")
    assert named(held) == [("ldap", "staff", ["zoe"])]


def test_a_full_feed_leaves_the_groups_of_other_sources(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann")), groupsource="sharepoint")
    held.groups(xmlgroups(membership("staff", "zoe")), groupsource="ldap", feedtype="full")
    assert named(held) == [("ldap", "staff", ["zoe"]), ("sharepoint", "staff", ["ann"])]


def test_an_empty_full_feed_clears_the_groups(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann")))
    held.groups(xmlgroups(), feedtype="full")
    assert named(held) == []


def test_replace_is_a_full_feed(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann")))
    held.groups(xmlgroups(membership("sales", "zoe")), feedtype="replace")
    assert named(held) == [("ldap", "sales", ["zoe"])]


def test_a_cleanup_removes_the_groups_of_its_source(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann")), groupsource="ldap")
    held.groups(xmlgroups(membership("staff", "ann")), groupsource="ggg")
    held.cleanup("ldap")
    assert named(held) == [("ggg", "staff", ["ann"])]


def test_a_cleanup_is_completed_without_a_file(held: Rehearsal) -> None:
    fed = held.cleanup("ldap")
    assert (fed.status, fed.included) == (Status.COMPLETED, 0)


def test_a_feed_without_a_feedtype_is_incremental(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann")))
    held.groups(xmlgroups(membership("sales", "zoe")), feedtype="")
    assert named(held) == [("ldap", "sales", ["zoe"]), ("ldap", "staff", ["ann"])]


def test_a_membership_that_is_refused_does_not_take_others_with_it(held: Rehearsal) -> None:
    bad = '<membership><principal scope="USER">ann</principal><members/></membership>'
    fed = held.groups(xmlgroups(bad, membership("staff", "joe")))
    assert (named(held), fed.status, fed.details) == (
        [("ldap", "staff", ["joe"])],
        Status.WITH_ERRORS,
        (
            "Skipping the record, Line number: 2, Error: the group 'ann' with scope='USER';"
            " expected GROUP, for users cannot have members: correct its scope, or leave the"
            " membership out",
        ),
    )


def test_a_full_feed_without_its_end_changes_nothing(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann")))
    torn = xmlgroups(membership("sales", "zoe")).removesuffix("</xmlgroups>\n")
    fed = held.groups(torn, feedtype="full")
    assert (named(held), fed.status) == ([("ldap", "staff", ["ann"])], Status.FAILED)


def test_feeds_of_documents_leave_the_groups(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann")), groupsource="sample")
    held.feed(gsa_feed(page("a")), datasource="sample", feedtype="full")
    assert named(held) == [("sample", "staff", ["ann"])]


def test_the_bytes_of_the_groups_are_those_of_their_names_and_some_more(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("stäff", "ann", "joe")))
    assert held.index.groups_bytes() == (6 + 7 + 16) + 2 * (3 + 7 + 16)


def test_the_bytes_of_no_groups_are_none(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann")))
    held.cleanup("ldap")
    assert held.index.groups_bytes() == 0


def test_the_capacity_is_that_of_the_guide() -> None:
    assert CAPACITY_BYTES == 1_000_000_000


def test_groups_are_counted_one_by_one(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann"), membership("board")))
    held.groups(xmlgroups(membership("staff", "bob")), groupsource="other")
    assert held.index.groups_count() == 3


def test_groups_are_paged_by_their_names(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("a"), membership("b"), membership("c"), membership("d")))
    found = held.index.groups(after="a", limit=2)
    assert [one.name for one in found] == ["b", "c"]


def test_a_page_does_not_part_groups_of_one_name(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("a"), membership("b")), groupsource="first")
    held.groups(xmlgroups(membership("b")), groupsource="second")
    found = held.index.groups(limit=2)
    assert [(one.name, one.groupsource) for one in found] == [
        ("a", "first"),
        ("b", "first"),
        ("b", "second"),
    ]


def test_the_groups_of_one_source_can_be_asked_for(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("a")), groupsource="first")
    held.groups(xmlgroups(membership("b")), groupsource="second")
    assert [one.name for one in held.index.groups(groupsource="second")] == ["b"]


def test_of_a_large_group_only_the_first_members_are_told(held: Rehearsal) -> None:
    held.groups(xmlgroups(membership("staff", "ann", "joe", "zoe")))
    (found,) = held.index.groups(members=2)
    assert (found.count, [one.name for one in found.members]) == (3, ["ann", "joe"])
