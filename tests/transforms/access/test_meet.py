"""The meet of two decisions permits nobody whom one of them does not permit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.acl import Scope
from feedferry.schemas.membership import Member
from feedferry.transforms.access.decision import LAYERS, PARTS
from feedferry.transforms.access.index_fields import (
    AccessFields,
    hidden_fields,
    permits,
    public_fields,
    tokens_of,
)
from feedferry.transforms.access.meet import (
    HIDDEN_KEY,
    AclChange,
    access_key,
    change_of,
    fields_of_key,
    gained_and_lost,
    is_within,
    meet,
    narrowed,
)

NAMES = ("ann", "bob", "staff", "guests")
TOKENS = [f"gs:Default:{name}" for name in NAMES]
PUBLIC = access_key(public_fields())
SOME = st.lists(st.sampled_from(TOKENS), max_size=2, unique=True)
LAYER = st.tuples(SOME, SOME)
PART = st.lists(LAYER, min_size=1, max_size=LAYERS)
USERS = st.frozensets(st.sampled_from(NAMES))


def fields(*parts: list[tuple[list[str], list[str]]]) -> AccessFields:
    """Return fields of parts, each of layers with denials and permits."""
    found = public_fields()
    for number, part in enumerate(parts, 1):
        del found[f"acl_{number}_permit_1"]
        for at, (denied, permitted) in enumerate(part, 1):
            found[f"acl_{number}_deny_{at}"] = denied
            found[f"acl_{number}_permit_{at}"] = permitted
    return {name: tokens for name, tokens in found.items() if tokens}


FIELDS = st.lists(PART, max_size=PARTS).map(lambda parts: fields(*parts)) | st.just(hidden_fields())


def only(*names: str, denied: str = "", part: int = 1) -> AccessFields:
    """Return fields that permit groups, or deny one that is permitted."""
    found = public_fields()
    found[f"acl_{part}_permit_1"] = [f"gs:Default:{name}" for name in names]
    if denied:
        found[f"acl_{part}_deny_1"] = [f"gs:Default:{denied}"]
    return found


def sees(key: AccessFields, user: frozenset[str]) -> bool:
    return permits(key, tokens_of(Member(name=name, scope=Scope.GROUP) for name in sorted(user)))


@given(FIELDS, FIELDS, USERS)
def test_the_meet_permits_only_whom_both_permit(
    first: AccessFields, second: AccessFields, user: frozenset[str]
) -> None:
    found = fields_of_key(meet(access_key(first), access_key(second)))
    if sees(found, user):
        assert sees(first, user)
        assert sees(second, user)


@given(st.lists(PART, max_size=1), st.lists(PART, max_size=2), USERS)
def test_the_meet_of_at_most_three_parts_permits_all_whom_both_permit(
    first: list[list[tuple[list[str], list[str]]]],
    second: list[list[tuple[list[str], list[str]]]],
    user: frozenset[str],
) -> None:
    both = fields(*first), fields(*second)
    found = fields_of_key(meet(*map(access_key, both)))
    assert sees(found, user) is all(sees(each, user) for each in both)


@given(FIELDS, FIELDS)
def test_what_is_narrowed_is_within_both(first: AccessFields, second: AccessFields) -> None:
    held, sent = access_key(first), access_key(second)
    found = narrowed(held, sent)
    if found is None:
        assert is_within(held, sent)
    else:
        assert found != held
        assert is_within(found, held)
        assert is_within(found, sent)
        assert narrowed(found, sent) is None


@given(FIELDS, FIELDS, USERS)
def test_a_decision_that_is_within_another_permits_no_other_user(
    first: AccessFields, second: AccessFields, user: frozenset[str]
) -> None:
    if is_within(access_key(first), access_key(second)) and sees(first, user):
        assert sees(second, user)


@given(FIELDS, FIELDS)
def test_a_change_is_named_by_what_users_see(first: AccessFields, second: AccessFields) -> None:
    change = change_of(access_key(first), access_key(second))
    users = [frozenset(NAMES[at] for at in range(4) if bits >> at & 1) for bits in range(16)]
    gains = any(sees(second, user) and not sees(first, user) for user in users)
    loses = any(sees(first, user) and not sees(second, user) for user in users)
    if gains:
        assert change in (AclChange.WIDER, AclChange.BOTH)
    if loses:
        assert change in (AclChange.NARROWER, AclChange.HIDDEN, AclChange.BOTH)


def test_users_of_both_groups_see_the_meet_while_there_is_room_for_a_part() -> None:
    found = meet(access_key(only("staff")), access_key(only("board", denied="guests")))
    assert fields_of_key(found) == {
        "acl_1_permit_1": ["gs:Default:staff"],
        "acl_2_deny_1": ["gs:Default:guests"],
        "acl_2_permit_1": ["gs:Default:board"],
        "acl_3_permit_1": ["*"],
    }


def test_a_part_that_permits_more_than_another_one_is_left_out() -> None:
    few, more = access_key(only("staff")), access_key(only("staff", "board"))
    assert meet(few, more) == meet(more, few) == few
    assert meet(PUBLIC, few) == few
    assert meet(few, HIDDEN_KEY) == HIDDEN_KEY


def test_parts_for_which_there_is_no_room_are_joined() -> None:
    parts: list[list[tuple[list[str], list[str]]]] = [
        [([], [f"gs:Default:{name}", "gs:Default:all"])] for name in "abc"
    ]
    first = fields(*parts)
    second = only("all", "d", denied="bob")
    assert fields_of_key(meet(access_key(first), access_key(second))) == {
        "acl_1_deny_1": ["gs:Default:bob"],
        "acl_1_permit_1": ["gs:Default:all"],
        "acl_2_permit_1": ["gs:Default:all", "gs:Default:b"],
        "acl_3_permit_1": ["gs:Default:all", "gs:Default:c"],
    }
    assert meet(access_key(first), access_key(only("d"))) == HIDDEN_KEY


@pytest.mark.parametrize(
    ("held", "sent", "change", "gained", "lost"),
    [
        (only("staff"), only("staff"), AclChange.SAME, [], []),
        (only("staff"), only("staff", "board"), AclChange.WIDER, ["gs:Default:board"], []),
        (only("staff"), public_fields(), AclChange.WIDER, ["*"], []),
        (public_fields(), only("staff"), AclChange.NARROWER, [], ["*"]),
        (only("a"), only("b"), AclChange.BOTH, ["gs:Default:b"], ["gs:Default:a"]),
        (only("a"), hidden_fields(), AclChange.HIDDEN, [], ["gs:Default:a"]),
        (hidden_fields(), only("a"), AclChange.WIDER, ["gs:Default:a"], []),
        (hidden_fields(), {"acl_1_deny_1": ["*"]}, AclChange.SAME, [], []),
        (only("a"), only("a", denied="b"), AclChange.NARROWER, [], ["gs:Default:b"]),
        (only("a", denied="b"), only("a"), AclChange.WIDER, ["gs:Default:b"], []),
    ],
)
def test_a_change_names_who_gains_and_who_loses(
    held: AccessFields, sent: AccessFields, change: AclChange, gained: list[str], lost: list[str]
) -> None:
    assert change_of(access_key(held), access_key(sent)) is change
    if change is not AclChange.SAME:
        assert gained_and_lost(access_key(held), access_key(sent)) == (gained, lost)


def test_a_document_that_comes_or_goes_is_new_or_gone() -> None:
    assert change_of(None, PUBLIC) is AclChange.NEW
    assert change_of(PUBLIC, None) is AclChange.GONE
    assert change_of(None, None) is AclChange.SAME


def test_where_no_principal_alone_shows_a_difference_the_tokens_do() -> None:
    both = fields([([], ["gs:Default:a"])], [([], ["gs:Default:b"])])
    others = fields([([], ["gs:Default:a"])], [([], ["gs:Default:c"])])
    assert gained_and_lost(access_key(both), access_key(others)) == (
        ["gs:Default:c"],
        ["gs:Default:b"],
    )
