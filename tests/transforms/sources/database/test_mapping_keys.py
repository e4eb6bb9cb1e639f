"""The parts of a mapping file that are keys and values themselves, and what they cannot be."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.errors import ConfigError
from transforms.sources.database.mapping import AclFrom, ActionFrom, Columns, ContentFrom
from transforms.sources.database.mapping_keys import (
    parse_acl,
    parse_action,
    parse_content,
    parse_incremental,
    parse_metadata,
)

LISTS = "users, groups, deny_users, deny_groups"


def refusal(parse: Callable[[str, Any], object], value: object) -> str:
    with pytest.raises(ConfigError) as caught:
        parse("k", value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("none", ContentFrom(is_none=True)),
        ({"column": "none"}, ContentFrom(column="none")),
        ({"path": "file"}, ContentFrom(path="file")),
        ({"fetch": "link"}, ContentFrom(fetch="link", timeout_seconds=30)),
        ({"template": "page.j2"}, ContentFrom(template="page.j2")),
    ],
)
def test_content_comes_from_one_place(value: object, content: ContentFrom) -> None:
    assert parse_content("content", value) == content


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("body", "k: 'body'; expected {column: body}, or none"),
        (
            None,
            "k: None; expected keys and values: column, path, folder, fetch, timeout, template",
        ),
        ({}, "k: none of them; expected one of column, path, fetch, template"),
        (
            {"column": "a", "fetch": "b"},
            "k: column, fetch; expected one of column, path, fetch, template",
        ),
        (
            {"colunm": "a"},
            "k: 'colunm'; expected one of column, path, folder, fetch, timeout, template; "
            "did you mean 'column'?",
        ),
        ({"column": "a", "folder": "b"}, "k: folder; expected it beside path only"),
        ({"column": "a", "timeout": "1s"}, "k: timeout; expected it beside fetch only"),
        (
            {"fetch": "a", "timeout": 7},
            "k: timeout: 7; expected a duration such as 200ms, 90s or 2h",
        ),
        ({"column": 7}, "k: column: 7; expected a text, so put it in quotes"),
    ],
)
def test_content_that_comes_from_nowhere_is_refused(value: object, expected: str) -> None:
    assert refusal(parse_content, value) == expected


def test_metadata_may_be_all_columns() -> None:
    assert parse_metadata("metadata", "all") == ("all",)


def test_a_column_may_be_called_all() -> None:
    assert parse_metadata("metadata", [{"column": "all"}]) == (Columns(name="all", column="all"),)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("title", "k: 'title'; expected all, or a list of columns"),
        ([7], "k[0]: 7; expected a text, so put it in quotes"),
        (
            ["a", {"name": "b"}],
            "k[1]: {'name': 'b'}; expected a column or a query, and one of them",
        ),
        (
            [{"column": "a", "query": "b"}],
            "k[0]: {'column': 'a', 'query': 'b'}; expected a column or a query, and one of them",
        ),
        ([{"query": "b"}], "k[0]: name: not given; expected it beside query"),
        (
            [{"name": "a", "query": "b", "separator": ";"}],
            "k[0]: separator; expected it beside column only",
        ),
        (
            [{"column": "a", "separator": ""}],
            "k[0]: separator: ''; expected what parts the values, such as \";\"",
        ),
        (
            [{"column": "a", "seperator": ";"}],
            "k[0]: 'seperator'; expected one of column, query, name, separator; "
            "did you mean 'separator'?",
        ),
    ],
)
def test_metadata_of_nothing_is_refused(value: object, expected: str) -> None:
    assert refusal(parse_metadata, value) == expected


@pytest.mark.parametrize(
    ("value", "action"),
    [
        ({"column": "op"}, ActionFrom(column="op", delete=("delete",))),
        ({"column": "op", "delete": "D"}, ActionFrom(column="op", delete=("D",))),
        ({"column": "op", "delete": [True, 0]}, ActionFrom(column="op", delete=("true", "0"))),
    ],
)
def test_an_action_says_what_deletes(value: object, action: ActionFrom) -> None:
    assert parse_action("action", value) == action


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("op", "k: 'op'; expected keys and values, column among them"),
        ({"delete": "D"}, "k: column: not given; expected it beside delete"),
        (
            {"column": "op", "delete": []},
            "k: delete: []; expected the values that say so, such as [D, delete]",
        ),
        (
            {"column": "op", "delete": None},
            "k: delete: None; expected the values that say so, such as [D, delete]",
        ),
    ],
)
def test_an_action_that_says_nothing_is_refused(value: object, expected: str) -> None:
    assert refusal(parse_action, value) == expected


def test_an_acl_may_be_that_of_one_parent() -> None:
    assert parse_acl("acl", {"inherit_from": "https://x.example.com/"}) == AclFrom(
        inherit_from="https://x.example.com/"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, f"k: no principals; expected query, inherit_from or one of {LISTS}"),
        (
            {"namespace": "corp"},
            f"k: no principals; expected query, inherit_from or one of {LISTS}",
        ),
        (
            {"query": "SELECT 1", "users": "a", "groups": "b"},
            "k: query and users, groups; expected a query or columns",
        ),
        (
            {"users": "a", "delimiter": ""},
            "k: delimiter: ''; expected what parts the names, such as \",\"",
        ),
        (
            {"users": "a", "delimiter": "\\"},
            "k: delimiter: '\\\\'; expected what parts the names, such as \",\"",
        ),
        (
            {"users": "a", "case_sensitive": "no"},
            "k: case_sensitive: 'no'; expected true or false",
        ),
        (
            {"users": "a", "inheritance": "child-override"},
            "k: inheritance: 'child-override'; expected one of parent-overrides, child-overrides, "
            "and-both-permit, leaf-node; did you mean 'child-overrides'?",
        ),
        (
            {"users": "a", "inheritance": ["x"]},
            "k: inheritance: ['x']; expected one of parent-overrides, child-overrides, "
            "and-both-permit, leaf-node",
        ),
        (
            {"users": "a", "inherit_from": "parent"},
            "k: inherit_from: 'parent'; expected an absolute url, such as "
            "https://x.example.com/{id}",
        ),
        (
            {"usres": "a"},
            f"k: 'usres'; expected one of {LISTS}, query, delimiter, namespace, case_sensitive, "
            "inherit_from, inheritance; did you mean 'users'?",
        ),
    ],
)
def test_an_acl_of_nobody_is_refused(value: object, expected: str) -> None:
    assert refusal(parse_acl, value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, "k: neither of them; expected timestamp, deletes or both"),
        (
            {"deletes": "compare", "lag": "1m"},
            "k: lag; expected it beside timestamp only",
        ),
        (
            {"timestamp": "at", "lag": 600},
            "k: lag: 600; expected a duration such as 200ms, 90s or 2h",
        ),
        ({"lag": "1m"}, "k: neither of them; expected timestamp, deletes or both"),
        ({"timestamp": "at", "deletes": ""}, "k: deletes: ''; expected a query, SELECT …"),
    ],
)
def test_increments_that_nothing_tells_are_refused(value: object, expected: str) -> None:
    assert refusal(parse_incremental, value) == expected
