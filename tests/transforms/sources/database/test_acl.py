"""ACLs of rows: lists of principals in columns, or the answers of a query."""

from collections.abc import Sequence

import pytest

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError
from transforms.sources.database.acl import acl_getter, split_principals
from transforms.sources.database.columns import ColumnIndex, ColumnReference, Key, Row
from transforms.sources.database.mapping import AclSource

INDEX = ColumnIndex(names=("id", "users", "groups", "no_users", "no_groups", "parent"), key=("id",))
LISTS = AclSource(users="users", groups="groups", deny_users="no_users", deny_groups="no_groups")
QUERY = AclSource(query="SELECT id, name, scope, access FROM acl")


def no_rows(query: str, key: Key) -> Sequence[Row]:
    raise AssertionError(f"{query!r} was asked for {key!r}")


def acl_of(acl: AclSource, *row: object) -> Acl:
    """The ACL of a row that is filled up with NULL."""
    padded = (*row, *(None,) * (6 - len(row)))
    return acl_getter(acl, INDEX, no_rows)(padded)


def acl_of_query(acl: AclSource, *answers: Row) -> Acl:
    """The ACL that a query gives for the row 7."""

    def load_rows(query: str, key: Key) -> Sequence[Row]:
        assert (query, key) == (acl.query, (7,))
        return answers

    return acl_getter(acl, INDEX, load_rows)((7, None, None, None, None, None))


def user(name: str, **more: object) -> Principal:
    said = {"name": name, "scope": Scope.USER, "access": Access.PERMIT, **more}
    return Principal(**said)  # type: ignore[arg-type]  # said in words


def names(acl: Acl) -> list[str]:
    return [principal.name for principal in acl.principals]


def test_each_list_has_its_scope_and_access() -> None:
    assert acl_of(LISTS, 7, "anna", "staff", "tim", "guests") == Acl(
        principals=(
            Principal(name="anna", scope=Scope.USER, access=Access.PERMIT),
            Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT),
            Principal(name="tim", scope=Scope.USER, access=Access.DENY),
            Principal(name="guests", scope=Scope.GROUP, access=Access.DENY),
        )
    )


def test_a_row_without_principals_permits_no_user() -> None:
    assert acl_of(LISTS, 7) == Acl()


def test_a_row_of_empty_lists_permits_no_user() -> None:
    assert acl_of(LISTS, 7, "", " , ,", "", "") == Acl()


def test_the_namespace_and_the_case_are_those_of_the_mapping() -> None:
    acl = AclSource(users="users", namespace="corp", case_sensitive=False)
    assert acl_of(acl, 7, "anna") == Acl(
        principals=(user("anna", namespace="corp", case_sensitive=False),)
    )


@pytest.mark.parametrize(
    ("text", "delimiter", "expected"),
    [
        ("anna,ben", ",", ["anna", "ben"]),
        (" anna ,\tben\n", ",", ["anna", "ben"]),
        ("anna,,ben,", ",", ["anna", "ben"]),
        (r"Smith\, Tim,anna", ",", ["Smith, Tim", "anna"]),
        (r"CORP\anna,CORP\ben", ",", ["CORP\\anna", "CORP\\ben"]),
        (r"CORP\anna,Smith\, Tim", ",", ["CORP\\anna", "Smith, Tim"]),
        (r"a\\,b", ",", ["a\\,b"]),
        ("a.b|c", "|", ["a.b", "c"]),
        ("a.b", ".", ["a", "b"]),
        ("a::b:c", "::", ["a", "b:c"]),
        ("anna\nben", "\n", ["anna", "ben"]),
        ("", ",", []),
    ],
)
def test_a_list_is_split(text: str, delimiter: str, expected: list[str]) -> None:
    assert split_principals(text, delimiter) == expected


def test_each_value_of_an_array_is_a_name() -> None:
    assert names(acl_of(LISTS, 7, ["Smith, Tim", " anna ", None, ""])) == ["Smith, Tim", "anna"]


def test_an_acl_inherits_from_the_url_in_a_column() -> None:
    acl = AclSource(
        users="users", inherit_from=ColumnReference(column="parent"), inheritance="child-overrides"
    )
    assert acl_of(acl, 7, "anna", None, None, None, " http://x.example.com/ ") == Acl(
        inheritance=Inheritance.CHILD_OVERRIDES,
        inherit_from="http://x.example.com/",
        principals=(user("anna"),),
    )


def test_an_acl_without_a_parent_inherits_from_none() -> None:
    assert acl_of(AclSource(inherit_from=ColumnReference(column="parent")), 7) == Acl()


def test_an_acl_inherits_from_a_url_by_a_template() -> None:
    acl = AclSource(inherit_from="http://x.example.com/{groups}/")
    assert acl_of(acl, 7, None, "r d") == Acl(inherit_from="http://x.example.com/r%20d/")


def test_a_parent_without_a_url_is_a_reject() -> None:
    with pytest.raises(RecordError) as caught:
        acl_of(AclSource(inherit_from="http://x.example.com/{groups}/"), 7)

    expected = "groups is NULL or empty; expected a value for acl: inherit_from"
    assert (caught.value.code, caught.value.reason) == ("null-url", expected)


def test_a_query_gives_principals() -> None:
    assert acl_of_query(QUERY, ("anna", "user", "permit"), (" Staff ", "GROUP", "Deny ")) == Acl(
        principals=(
            Principal(name="anna", scope=Scope.USER, access=Access.PERMIT),
            Principal(name="Staff", scope=Scope.GROUP, access=Access.DENY),
        )
    )


def test_a_query_without_rows_permits_no_user() -> None:
    assert acl_of_query(QUERY) == Acl()


def test_a_name_of_a_query_is_not_split() -> None:
    assert names(acl_of_query(QUERY, ("Smith, Tim", "user", "permit"))) == ["Smith, Tim"]


def test_a_row_without_a_name_is_no_principal() -> None:
    assert acl_of_query(QUERY, (None, "user", "permit"), (" ", "user", "permit")) == Acl()


def test_a_query_can_return_namespaces() -> None:
    acl = AclSource(query=QUERY.query, namespace="corp")
    answers = ("anna", "user", "permit", "lab"), ("ben", "user", "permit", None)
    assert acl_of_query(acl, *answers) == Acl(
        principals=(user("anna", namespace="lab"), user("ben", namespace="corp"))
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (("anna", "usr", "permit"), "scope 'usr' of a principal; expected user or group"),
        (("anna", "user", "allow"), "access 'allow' of a principal; expected permit or deny"),
        (("anna", "user", None), "access '' of a principal; expected permit or deny"),
        (
            ("anna", "user"),
            "2 columns after the key in the query for ACLs; expected name, scope, access and "
            "optionally namespace",
        ),
    ],
)
def test_a_row_of_a_query_without_a_principal_is_rejected(answer: Row, expected: str) -> None:
    with pytest.raises(RecordError) as caught:
        acl_of_query(QUERY, answer)

    assert (caught.value.code, caught.value.reason) == ("bad-acl", expected)


def test_a_list_that_is_not_text_is_rejected_by_its_column() -> None:
    with pytest.raises(RecordError) as caught:
        acl_of(LISTS, 7, None, b"\xff")
    expected = "groups: bytes that are not UTF-8; expected text, a number or a date"
    assert (caught.value.code, caught.value.reason) == ("bad-value", expected)


def test_a_text_of_json_is_a_list() -> None:
    """JSON columns of all databases are texts: quotes are not a part of the names."""
    acl = acl_of(LISTS, 7, None, None, ' ["Smith, Tim", "CORP\\\\ben", ""]')
    assert names(acl) == ["Smith, Tim", "CORP\\ben"]


def test_a_text_of_json_keys_is_rejected() -> None:
    with pytest.raises(RecordError) as caught:
        acl_of(LISTS, 7, '{"anna": true}')
    expected = "users: JSON of keys and values; expected a list of principals"
    assert (caught.value.code, caught.value.reason) == ("bad-acl", expected)


def test_a_name_can_begin_like_json() -> None:
    assert names(acl_of(LISTS, 7, "[all] staff,{ben}")) == ["[all] staff", "{ben}"]
