"""The parent of an ACL as one URL, and google:acl* metadata as an ACL, and back."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.record import Meta
from feedferry.testing.strategies import texts, urls
from feedferry.transforms.formats.holding.acl_metadata import (
    acl_of,
    join_parent,
    metadata_of,
    split_parent,
)

JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
ENG = Principal(name="eng", scope=Scope.GROUP, access=Access.PERMIT)
NO_JOE = Principal(name="joe", scope=Scope.USER, access=Access.DENY)
NO_STAFF = Principal(name="administration", scope=Scope.GROUP, access=Access.DENY)
COLOUR = Meta("colour", "red")
SHARE = "http://adaptor.example.com/doc/share/"

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


USER_JOE = Meta("google:aclusers", "joe")
PARENT = Meta("google:aclinheritfrom", "http://a/")


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ((), (None, ())),
        (
            (
                *(Meta("google:aclgroups", "eng"), COLOUR, USER_JOE),
                Meta("google:acldenyusers", "joe"),
                Meta("google:acldenygroups", "administration"),
            ),
            (Acl(principals=(ENG, JOE, NO_JOE, NO_STAFF)), (COLOUR,)),
        ),
        *(
            ((Meta("google:aclusers", "joe" + role),), (Acl(principals=(JOE,)), ()))
            for role in ("=owner", "=writer", "=reader", "=reader ")
        ),
        *(
            ((Meta("google:acldenyusers", "joe" + role),), (Acl(principals=(NO_JOE,)), ()))
            for role in ("=owner", "=writer", "=reader", "=peeker")
        ),
        (
            (Meta("google:aclusers", "joe=owner=reader"),),
            (Acl(principals=(replace(JOE, name="joe=owner"),)), ()),
        ),
        ((Meta("google:aclusers", "ann=peeker"), USER_JOE), (Acl(principals=(JOE,)), ())),
        # It permits no user; it must not look as if there were no ACL.
        ((Meta("google:aclusers", "ann=peeker"),), (Acl(), ())),
        *(
            ((COLOUR, Meta(name, "joe")), (Acl(principals=(JOE,)), (COLOUR,)))
            for name in ("Google:AclUsers", " google:aclusers\n", "GOOGLE:ACLUSERS\t")
        ),
        (
            (PARENT, Meta("google:aclinheritancetype", "child-overrides")),
            (Acl(inheritance=Inheritance.CHILD_OVERRIDES, inherit_from="http://a/"), ()),
        ),
        (
            (PARENT, Meta("google:aclinheritfrom", "b:")),
            (Acl(inherit_from="http://a/"), (Meta("google:aclinheritfrom", "b:"),)),
        ),
        (
            (Meta("google:aclinheritancetype", "sideways"),),
            (None, (Meta("google:aclinheritancetype", "sideways"),)),
        ),
        *(
            ((meta, USER_JOE), (Acl(principals=(JOE,)), (meta,)))
            for meta in (
                Meta("google:aclinheritancetype", "sideways"),
                Meta("google:aclinheritfrom", ""),
                Meta("google:aclusers", "", b"\xff"),
                Meta("google:aclthings", "joe"),
            )
        ),
    ],
)
def test_metadata_is_read_as_an_acl(
    metadata: tuple[Meta, ...], expected: tuple[Acl | None, tuple[Meta, ...]]
) -> None:
    assert acl_of(metadata) == expected


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


# The parent


@pytest.mark.parametrize(
    ("fragment", "text"),
    [
        (None, SHARE),
        ("allFoldersAcl", f"{SHARE}?allFoldersAcl"),
        ("", f"{SHARE}?"),
        ("a b/c", f"{SHARE}?a%20b/c"),
        ("100%", f"{SHARE}?100%25"),
        ("für", f"{SHARE}?für"),
        ("\u2028\x00", f"{SHARE}?%E2%80%A8%00"),
    ],
)
def test_a_fragment_is_written_as_a_query_and_read_back(fragment: str | None, text: str) -> None:
    assert (join_parent(SHARE, fragment), split_parent(text)) == (text, (SHARE, fragment))


@pytest.mark.parametrize(
    "text",
    [
        *("http://connector.example.com/doc?docid=folder", "http://www.example.com/?a&b"),
        *("http://www.example.com/?a?b", "http://www.example.com/a#b?c"),
        *("http://www.example.com/?a%2fb", "http://www.example.com/?%ff"),
        *("http://www.example.com/?a b", "?a"),
    ],
)
def test_another_query_is_part_of_the_url(text: str) -> None:
    assert split_parent(text) == (text, None)


@pytest.mark.parametrize("url", [None, f"{SHARE}?id=5", f"{SHARE}?", f"{SHARE}#top"])
def test_a_fragment_of_a_url_with_a_query_cannot_be_written(url: str | None) -> None:
    assert join_parent(url, "allFoldersAcl") is None
    assert join_parent(SHARE, "a=b") == f"{SHARE}?a=b"  # as the library does; read as a query


@given(texts() | st.builds("{}?{}".format, urls(), texts()))
@example("http://a.example.com/?%41")
def test_a_text_that_is_split_is_joined_again(text: str) -> None:
    assert join_parent(*split_parent(text)) == text


@given(urls(), texts())
def test_a_text_that_is_joined_is_split_the_same_way_each_time(url: str, fragment: str) -> None:
    text = join_parent(url, fragment)

    if text is not None:
        assert split_parent(join_parent(*split_parent(text)) or "") == split_parent(text)
        assert text == text.strip()
