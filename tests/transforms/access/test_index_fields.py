"""The fields of a document decide as the guide does, for each user."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from feedferry.schemas.acl import Access, Inheritance, Principal, Scope
from feedferry.schemas.membership import Member
from feedferry.transforms.access.decision import ChainDecision, decide, inherit
from feedferry.transforms.access.index_fields import (
    AccessFields,
    field_names,
    fields_of,
    hidden_fields,
    permits,
    public_fields,
    search_filter,
    token,
    tokens_of,
)

PERMIT, DENY = Access.PERMIT, Access.DENY
BOTH, CHILD, PARENT = (
    Inheritance.AND_BOTH_PERMIT,
    Inheritance.CHILD_OVERRIDES,
    Inheritance.PARENT_OVERRIDES,
)
NAMES = ("ann", "bob", "staff", "guests", "heads")
Node = tuple[frozenset[str], frozenset[str], Inheritance]
"""Who is denied, who is permitted, and how children inherit."""


def member(name: str) -> Member:
    return Member(name=name, scope=Scope.USER if name in NAMES[:2] else Scope.GROUP)


def own_decision(denied: frozenset[str], permitted: frozenset[str]) -> ChainDecision:
    entries = (
        {
            member(name): Principal(name=name, scope=member(name).scope, access=access)
            for name in sorted(names)
        }
        for access, names in ((DENY, denied), (PERMIT, permitted))
    )
    return decide(*entries)


def decision(chain: Sequence[Node]) -> ChainDecision:
    """The decision of a chain that begins with its top."""
    (denied, permitted, rule), *others = chain
    found = own_decision(denied, permitted)
    for denied, permitted, own_rule in others:
        found, rule = inherit(own_decision(denied, permitted), found, rule), own_rule
    return found


def guide_permits(chain: Sequence[Node], names: frozenset[str]) -> bool:
    """Decide by the text of the guide: INDETERMINATE is None, and denies at the end."""

    def step(above: tuple[Access | None, Inheritance], node: Node) -> tuple[Access | None, Any]:
        denied, permitted, rule = node
        own = DENY if denied & names else PERMIT if permitted & names else None
        parent, by = above
        if by is BOTH:
            found = PERMIT if own is parent is PERMIT else DENY
            return found, rule
        first, then = (own, parent) if by is CHILD else (parent, own)
        return (then if first is None else first), rule

    top: tuple[Access | None, Inheritance] = (None, CHILD)
    return reduce(step, chain, top)[0] is PERMIT


def finds(query: Mapping[str, Any], fields: AccessFields) -> bool:
    """Evaluate a query of the kinds `terms` and `bool`, as a search server does."""
    [(kind, body)] = query.items()
    if kind == "terms":
        [(name, tokens)] = body.items()
        return not {*fields.get(name, ())}.isdisjoint(tokens)
    assert {*body} <= {"filter", "must_not", "should", "minimum_should_match"}
    hits = sum(finds(one, fields) for one in body.get("should", ()))
    return (
        all(finds(one, fields) for one in body.get("filter", ()))
        and not any(finds(one, fields) for one in body.get("must_not", ()))
        and hits >= body.get("minimum_should_match", 0)
    )


SOME_NAMES = st.frozensets(st.sampled_from(NAMES), max_size=3)
CHAINS = st.lists(
    st.tuples(SOME_NAMES, SOME_NAMES, st.sampled_from([BOTH, CHILD, PARENT])),
    min_size=1,
    max_size=6,
)


@given(CHAINS, SOME_NAMES)
def test_fields_filter_and_guide_decide_the_same(chain: list[Node], user: frozenset[str]) -> None:
    fields = fields_of(decision(chain))
    assume(fields is not None)
    assert fields is not None
    tokens = tokens_of(map(member, sorted(user)))
    expected = guide_permits(chain, user)
    assert (permits(fields, tokens), finds(search_filter(tokens), fields)) == (expected, expected)
    assert {*fields} <= {*field_names()}


def test_the_acls_of_a_share_and_of_its_file_must_both_permit() -> None:
    share = frozenset({"guests"}), frozenset({"staff"}), BOTH
    file = frozenset[str](), frozenset({"heads"}), CHILD
    assert fields_of(decision([share, file])) == {
        "acl_1_permit_1": ["gs:Default:heads"],
        "acl_2_deny_1": ["gs:Default:guests"],
        "acl_2_permit_1": ["gs:Default:staff"],
        "acl_3_permit_1": ["*"],
    }


def test_the_order_of_ntfs_takes_two_layers() -> None:
    inherited = frozenset({"bob"}), frozenset({"staff"}), CHILD
    own = frozenset({"guests"}), frozenset({"heads"}), CHILD
    assert fields_of(decision([inherited, own])) == {
        "acl_1_deny_1": ["gs:Default:guests"],
        "acl_1_permit_1": ["gs:Default:heads"],
        "acl_1_deny_2": ["us:Default:bob"],
        "acl_1_permit_2": ["gs:Default:staff"],
        "acl_2_permit_1": ["*"],
        "acl_3_permit_1": ["*"],
    }


def test_a_decision_that_does_not_fit_has_no_fields() -> None:
    who = [{"staff"}, {"guests"}, {"heads"}, {"ann", "bob"}]
    chain = [(frozenset[str](), frozenset(names), BOTH) for names in who]
    assert fields_of(decision(chain[:3])) is not None
    assert fields_of(decision(chain)) is None


@pytest.mark.parametrize(
    ("fields", "is_found"), [(public_fields(), True), (hidden_fields(), False)]
)
def test_everyone_sees_a_public_document_and_nobody_a_hidden_one(
    fields: AccessFields, is_found: bool
) -> None:
    tokens = tokens_of([])
    assert (permits(fields, tokens), finds(search_filter(tokens), fields)) == (is_found, is_found)


@pytest.mark.parametrize("missing", range(1, 4))
def test_a_part_that_is_missing_hides_a_document(missing: int) -> None:
    fields = public_fields()
    del fields[f"acl_{missing}_permit_1"]
    assert not finds(search_filter(tokens_of([])), fields)


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        (Member(name=" Ann ", scope=Scope.USER), "us:Default:Ann"),
        (Member(name="Ann", scope=Scope.GROUP, case_sensitive=False), "gi:Default:ann"),
        (Member(name="a:b", scope=Scope.USER, namespace="n:m"), "us:n%3Am:a%3Ab"),
        (Member(name='x","*', scope=Scope.GROUP), "gs:Default:x%22%2C%22%2A"),
        (
            Member(name="Ärzte\\ß", scope=Scope.GROUP, case_sensitive=False),
            "gi:Default:%C3%A4rzte%5Css",
        ),
    ],
)
def test_a_token_has_no_character_that_json_escapes(principal: Member, expected: str) -> None:
    assert token(principal) == expected


def test_a_search_has_both_forms_of_each_name() -> None:
    members = [Member(name="Bob", scope=Scope.USER), Member(name="Staff", scope=Scope.GROUP)]
    assert tokens_of(members) == [
        *("*", "us:Default:Bob", "ui:Default:bob", "gs:Default:Staff", "gi:Default:staff")
    ]
