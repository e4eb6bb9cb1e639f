"""Who may see a document of a source, by the words of the guide, and the feeds of a night."""

import pytest
from msgspec.structs import replace

from support.histories.changes import (
    Delete,
    Night,
    Put,
    Regroup,
    Rename,
    applied,
    feeds,
)
from support.histories.groups_feeds import groups_feeds
from support.histories.source_state import Item, Login, Named, Rule, SourceState, StatedAcl

LOGINS = {
    "alice": Login(names=(("Default", "alice"),), groups=frozenset([("Default", "staff")])),
    "bob": Login(names=(("Default", "bob"),), groups=frozenset([("Default", "staff")])),
    "Carol": Login(names=(("Default", "Carol"),)),
}
ALICE, BOB = Named(name="alice"), Named(name="bob")
STAFF = Named(name="staff", is_group=True)
NOT_BOB = Named(name="bob", denies=True)
ANY_CAROL = Named(name="CAROL", any_case=True)


def acl(*principals: Named, rule: Rule = Rule.LEAF, parent: str | None = None) -> StatedAcl:
    return StatedAcl(rule=rule, parent=parent, principals=principals)


def readers(stated: StatedAcl | None, folder: StatedAcl | None = None, **more: object) -> str:
    items = {("web", "d"): Item(acl=stated, **more)}  # type: ignore[arg-type]
    if folder is not None:
        items["web", "f"] = Item(acl=folder, is_folder=True, has_content=False)
    state = SourceState(items=items, logins=LOGINS)
    return " ".join(sorted(name for name, key in state.permitted() if key == ("web", "d")))


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        (None, "Carol alice bob"),
        (acl(), ""),
        (acl(ALICE), "alice"),
        (acl(STAFF, NOT_BOB), "alice"),
        (acl(ANY_CAROL), "Carol"),
        (acl(Named(name="carol")), ""),
        (acl(Named(name="staff", is_group=True, namespace="other")), ""),
    ],
)
def test_a_denial_of_an_acl_counts_before_its_permits(stated: StatedAcl | None, found: str) -> None:
    assert readers(stated) == found


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (Rule.CHILD, "alice bob"),
        (Rule.PARENT, "alice"),
        (Rule.BOTH, ""),
        (Rule.LEAF, ""),
    ],
)
def test_the_type_of_the_parent_says_which_acl_counts(rule: Rule, found: str) -> None:
    assert readers(acl(BOB, parent="f"), acl(ALICE, NOT_BOB, rule=rule)) == found


def test_nobody_may_see_a_document_of_a_broken_chain_or_of_an_unknown_acl() -> None:
    assert readers(acl(ALICE, parent="f")) == ""
    assert readers(acl(ALICE, parent="d")) == ""
    assert readers(acl(ALICE), is_known=False) == ""


TEAM, CREW = ("Default", "team"), ("Default", "crew")
IN_A_CYCLE = {
    TEAM: (BOB, Named(name="crew", is_group=True)),
    CREW: (Named(name="CAROL", any_case=True), Named(name="team", is_group=True)),
}


def readers_of_team(**more: object) -> str:
    document = Item(acl=acl(Named(name="team", is_group=True)))
    state = SourceState(items={("web", "d"): document}, logins=LOGINS, groups=IN_A_CYCLE, **more)  # type: ignore[arg-type]
    return " ".join(sorted(name for name, _ in state.permitted()))


def test_members_of_groups_in_groups_have_the_rights_of_all_of_them() -> None:
    assert readers_of_team() == "Carol bob"
    assert readers_of_team(table={"bob": "alice"}) == "Carol alice"
    assert readers_of_team(unknown_groups=frozenset([CREW])) == ""


def test_a_full_groups_feed_states_all_groups_of_the_directory() -> None:
    before = SourceState(groups={TEAM: (ALICE,), CREW: (BOB,), ("Default", "team-b"): ()})
    night = Night(
        changes=(
            Regroup(group=CREW, members=(ALICE,), is_damaged=True),
            Regroup(group=("Default", "team-b"), members=None),
        ),
        has_full_groups=True,
    )
    assert [*groups_feeds(before, night, is_corrected=False)] == [
        (
            "8-groups.xml",
            '<xmlgroups>\n<membership><principal scope="GROUP" namespace="Default"'
            ' case-sensitivity-type="everything-case-sensitive">crew</principal><members>'
            '<principal scope="USER" namespace="Default"'
            ' case-sensitivity-type="everything-case-sensitive">alice</principal>'
            '<principal scope="USR">alice</principal></members></membership>\n</xmlgroups>\n',
        ),
        (
            "9-groups.jsonl",
            '{"group": {"name": "team", "scope": "GROUP", "namespace": "Default",'
            ' "case_sensitive": true}, "members": [{"name": "alice", "scope": "USER",'
            ' "namespace": "Default", "case_sensitive": true}],'
            ' "provenance": {"datasource": "ldap", "feedtype": "full"}}\n',
        ),
    ]
    assert applied(before, night).unknown_groups == {CREW}
    assert applied(before, night, is_corrected=True).unknown_groups == frozenset()


def test_the_feeds_of_a_night_state_what_changes_in_it() -> None:
    before = SourceState(items={("docs", "docs/d1"): Item(acl=acl(ALICE))}, logins=LOGINS)
    new = Put(key=("docs", "docs/d2"), item=Item(acl=acl(BOB)))
    night = Night(changes=(Delete(key=("docs", "docs/d1")), new))
    [(name, text)] = feeds(before, night, is_corrected=False)
    assert name == "1-docs.xml"
    assert text.splitlines()[1:-1] == [
        '<record url="http://h.example/docs/d1" action="delete" mimetype="text/plain"/>',
        '<record url="http://h.example/docs/d2" mimetype="text/plain">'
        '<acl inheritance-type="leaf-node"><principal scope="user" access="permit">bob</principal>'
        "</acl><content>version 1</content></record>",
    ]
    assert [*applied(before, night).items] == [("docs", "docs/d2")]


def test_a_damaged_acl_is_unknown_until_it_is_stated_again() -> None:
    key = "docs", "docs/d1"
    before = SourceState(items={key: Item(acl=acl(ALICE))}, logins=LOGINS)
    damaged = Night(changes=(Put(key=key, item=Item(acl=acl(BOB)), damage="acl"),))
    unknown = applied(before, damaged)
    assert unknown.permitted() == set()
    again = Night(changes=(Put(key=key, item=Item(acl=acl(BOB))),))
    assert applied(unknown, again).permitted() == {("bob", key)}


KEY = "docs", "docs/d1"
ATTACHED, ALONE = Item(acl=acl(ALICE)), Item(acl=acl(ALICE), is_alone=True)


def documents_sent(before: SourceState, night: Night) -> int:
    text = "".join(text for _, text in feeds(before, night, is_corrected=False))
    return text.count("<content>")


@pytest.mark.parametrize(
    ("item", "night", "sent"),
    [
        (ATTACHED, Night(changes=(Put(key=KEY, item=ATTACHED),)), 1),
        (ATTACHED, Night(full=frozenset(["docs"])), 1),
        (ATTACHED, Night(changes=(Rename(table={}),)), 1),
        (ATTACHED, Night(), 0),
        (ALONE, Night(changes=(Put(key=KEY, item=ALONE),)), 1),
        (ALONE, Night(full=frozenset(["docs"])), 0),
        (ALONE, Night(changes=(Rename(table={}),)), 0),
        (ALONE, Night(changes=(Put(key=KEY, item=ALONE, sends="acl"),)), 0),
    ],
)
def test_a_document_that_was_not_sent_is_one_as_soon_as_a_feed_has_it(
    item: Item, night: Night, sent: int
) -> None:
    damaged = Night(changes=(Put(key=KEY, item=item, damage="acl"),))
    before = applied(SourceState(logins=LOGINS), damaged)
    again = [
        replace(change, item=before.items[KEY]) if isinstance(change, Put) else change
        for change in night.changes
    ]
    night = replace(night, changes=tuple(again))
    assert documents_sent(before, night) == sent
    assert len(applied(before, night).permitted()) == sent


def test_an_unknown_acl_stays_unknown_if_all_but_its_record_is_sent_again() -> None:
    before = SourceState(items={KEY: replace(ATTACHED, is_known=False)}, logins=LOGINS)
    for damage in ("all", "content", "acl"):
        put = Put(key=KEY, item=ATTACHED, damage=damage)
        for night, is_corrected in (
            (Night(changes=(Rename(table={}), put)), False),
            (Night(changes=(put,)), True),
        ):
            assert applied(before, night, is_corrected=is_corrected).permitted() == set()
