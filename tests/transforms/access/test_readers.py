"""Lists of readers permit whom the decision permits, or there are none."""

from functools import reduce

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from feedferry.schemas.acl import Access, Acl, AclLayer, Inheritance, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Member
from feedferry.transforms.access.decision import decide, inherit, layers_of, member_of
from feedferry.transforms.access.index_fields import fields_of, permits, tokens_of
from feedferry.transforms.access.readers import EVERYONE, NOBODY, Readers, readers_of

USERS = (None, "ann", "bob")
GROUPS = ("staff", "guests", "heads")
RULES = (Inheritance.AND_BOTH_PERMIT, Inheritance.CHILD_OVERRIDES, Inheritance.PARENT_OVERRIDES)


def principal(name: str, access: Access) -> Principal:
    return Principal(name=name, scope=Scope.GROUP if name in GROUPS else Scope.USER, access=access)


def acl(permitted: str = "", denied: str = "") -> Acl:
    names = [(name, Access.PERMIT) for name in permitted.split()]
    names += [(name, Access.DENY) for name in denied.split()]
    return Acl(principals=tuple(principal(*each) for each in names))


def is_reader(readers: Readers, members: list[Member]) -> bool:
    """Decide as a target does that has lists of readers."""
    return all(any(member in of_list for member in members) for of_list in readers)


NAMES = st.frozensets(st.sampled_from((*USERS[1:], *GROUPS)), max_size=3)
CHAINS = st.lists(
    st.tuples(NAMES, NAMES | st.just(frozenset()), st.sampled_from(RULES)), max_size=4
)


@given(CHAINS, st.sampled_from(USERS), st.frozensets(st.sampled_from(GROUPS)), st.integers(1, 3))
def test_readers_are_those_whom_the_decision_permits(
    chain: list[tuple[frozenset[str], frozenset[str], Inheritance]],
    user: str | None,
    groups: frozenset[str],
    lists: int,
) -> None:
    assume(chain)
    decisions = []
    for permitted, denied, _ in chain:
        entries = [
            {member_of(each): each for each in (principal(name, access) for name in sorted(names))}
            for names, access in ((denied, Access.DENY), (permitted, Access.PERMIT))
        ]
        decisions.append(decide(*entries))
    rules = [rule for *_, rule in chain]
    decision = reduce(
        lambda above, at: inherit(decisions[at], above, rules[at - 1]),
        range(1, len(chain)),
        decisions[0],
    )
    fields = fields_of(decision)
    assume(fields is not None)
    assert fields is not None
    members = [member_of(principal(name, Access.PERMIT)) for name in (user, *groups) if name]
    try:
        readers = readers_of(Acl(decision=layers_of(decision)), lists=lists)
    except RecordError:
        return
    assert is_reader(readers, members) == permits(fields, tokens_of(members))
    assert len(readers) <= lists


def test_a_document_without_an_acl_is_read_by_everyone() -> None:
    assert readers_of(None, lists=1) == EVERYONE


@pytest.mark.parametrize("of_nobody", [Acl(), Acl(withholds=True), acl(denied="staff")])
def test_a_document_that_permits_nobody_has_a_list_without_members(of_nobody: Acl) -> None:
    assert readers_of(of_nobody, lists=1) == NOBODY


def test_a_denial_of_a_user_who_may_be_in_a_permitted_group_is_refused() -> None:
    with pytest.raises(RecordError) as exc:
        readers_of(acl("staff", "bob"), lists=9)
    assert (exc.value.code, exc.value.reason) == (
        "acl-denies",
        "a denial of 'bob', who may be permitted as a member of a group; expected permits only",
    )


def test_a_denial_of_a_user_whom_nothing_permits_is_left_out() -> None:
    assert readers_of(acl("ann", "bob"), lists=1) == ((Member(name="ann", scope=Scope.USER),),)


def test_two_lists_that_must_both_permit_are_refused_for_a_target_with_one() -> None:
    layers = (
        AclLayer(part=0, principals=acl("staff").principals),
        AclLayer(part=1, principals=acl("heads").principals),
    )
    both = Acl(decision=layers)
    assert [[member.name for member in each] for each in readers_of(both, lists=2)] == [
        ["staff"],
        ["heads"],
    ]
    with pytest.raises(RecordError) as exc:
        readers_of(both, lists=1)
    assert exc.value.code == "acl-parts"
