"""The google:acl* metadata as an ACL, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.record import Meta
from transforms.formats.gsa.legacy_acl import acl_of, metadata_of

JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
ENG = Principal(name="eng", scope=Scope.GROUP, access=Access.PERMIT)
NO_JOE = Principal(name="joe", scope=Scope.USER, access=Access.DENY)
NO_STAFF = Principal(name="administration", scope=Scope.GROUP, access=Access.DENY)
COLOUR = Meta("colour", "red")

NAMES = st.text(max_size=8) | st.sampled_from(["x=owner", "x=peeker", "x=reader=writer", "=owner "])
PRINCIPALS = st.builds(
    Principal, name=NAMES, scope=st.sampled_from(Scope), access=st.sampled_from(Access)
)
ACLS = st.builds(
    Acl,
    inheritance=st.none() | st.sampled_from(Inheritance),
    inherit_from=st.none()
    | st.text(st.characters(exclude_characters="?#"), min_size=1, max_size=8),
    inherit_fragment=st.none() | st.sampled_from(["files", "", "a b", "für"]),
    principals=st.lists(PRINCIPALS, max_size=4).map(tuple),
).filter(lambda acl: acl != Acl() and (acl.inherit_from or acl.inherit_fragment is None))


def test_metadata_without_an_acl_is_returned_as_it_is() -> None:
    metadata = (COLOUR, Meta("google:title", "Plan"))

    assert acl_of(metadata)[1] is metadata


def test_no_metadata_has_no_acl() -> None:
    assert acl_of(()) == (None, ())


def test_the_guides_example_is_an_acl_in_its_order() -> None:
    metadata = (
        Meta("google:aclgroups", "eng"),
        COLOUR,
        Meta("google:aclusers", "joe"),
        Meta("google:acldenyusers", "joe"),
        Meta("google:acldenygroups", "administration"),
    )

    assert acl_of(metadata) == (Acl(principals=(ENG, JOE, NO_JOE, NO_STAFF)), (COLOUR,))


@pytest.mark.parametrize("role", ["=owner", "=writer", "=reader", "=reader "])
def test_a_permitted_role_is_cut_off(role: str) -> None:
    assert acl_of((Meta("google:aclusers", f"joe{role}"),)) == (Acl(principals=(JOE,)), ())


@pytest.mark.parametrize("role", ["=owner", "=writer", "=reader", "=peeker"])
def test_a_denial_is_kept_whatever_its_role(role: str) -> None:
    assert acl_of((Meta("google:acldenyusers", f"joe{role}"),)) == (Acl(principals=(NO_JOE,)), ())


def test_only_one_role_is_cut_off() -> None:
    metadata = (Meta("google:aclusers", "joe=owner=reader"),)

    assert acl_of(metadata) == (
        Acl(principals=(Principal(name="joe=owner", scope=Scope.USER, access=Access.PERMIT),)),
        (),
    )


def test_a_peeker_is_dropped() -> None:
    metadata = (Meta("google:aclusers", "ann=peeker"), Meta("google:aclusers", "joe"))

    assert acl_of(metadata) == (Acl(principals=(JOE,)), ())


def test_a_document_of_peekers_is_for_nobody_and_not_for_all() -> None:
    assert acl_of((Meta("google:aclusers", "ann=peeker"),)) == (Acl(), ())


@pytest.mark.parametrize("name", ["Google:AclUsers", " google:aclusers\n", "GOOGLE:ACLUSERS\t"])
def test_a_name_in_any_case_with_blanks_around_is_read(name: str) -> None:
    assert acl_of((COLOUR, Meta(name, "joe"))) == (Acl(principals=(JOE,)), (COLOUR,))


def test_inheritance_is_read() -> None:
    metadata = (
        Meta("google:aclinheritfrom", "http://a.example.com/"),
        Meta("google:aclinheritancetype", "child-overrides"),
    )

    assert acl_of(metadata) == (
        Acl(inheritance=Inheritance.CHILD_OVERRIDES, inherit_from="http://a.example.com/"),
        (),
    )


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param(Meta("google:aclinheritancetype", "sideways"), id="unknown-type"),
        pytest.param(Meta("google:aclinheritfrom", ""), id="empty-parent"),
        pytest.param(Meta("google:aclusers", "", b"\xff"), id="bytes"),
        pytest.param(Meta("google:aclthings", "joe"), id="unknown-name"),
    ],
)
def test_what_is_not_understood_stays_metadata(meta: Meta) -> None:
    assert acl_of((meta, Meta("google:aclusers", "joe"))) == (Acl(principals=(JOE,)), (meta,))


def test_what_is_not_understood_makes_no_acl() -> None:
    metadata = (Meta("google:aclinheritancetype", "sideways"),)

    assert acl_of(metadata) == (None, metadata)


def test_a_second_parent_stays_metadata() -> None:
    first, second = Meta("google:aclinheritfrom", "http://a/"), Meta("google:aclinheritfrom", "b:")

    assert acl_of((first, second)) == (Acl(inherit_from="http://a/"), (second,))


def test_an_acl_is_written_principals_first() -> None:
    acl = Acl(
        inheritance=Inheritance.AND_BOTH_PERMIT,
        inherit_from="http://a.example.com/",
        principals=(ENG, JOE, NO_JOE, NO_STAFF),
    )

    assert metadata_of(acl) == (
        Meta("google:aclgroups", "eng"),
        Meta("google:aclusers", "joe"),
        Meta("google:acldenyusers", "joe"),
        Meta("google:acldenygroups", "administration"),
        Meta("google:aclinheritfrom", "http://a.example.com/"),
        Meta("google:aclinheritancetype", "and-both-permit"),
    )


def test_a_name_that_ends_like_a_role_keeps_its_end() -> None:
    peeker = Principal(name="x=peeker", scope=Scope.USER, access=Access.PERMIT)

    assert metadata_of(Acl(principals=(peeker,))) == (Meta("google:aclusers", "x=peeker=reader"),)


@given(ACLS)
def test_an_acl_survives_metadata(acl: Acl) -> None:
    assert acl_of(metadata_of(acl)) == (acl, ())
