"""The filter of a search for a user: the command, and `feedferry.access`."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry import access
from feedferry.pipelines.cli.main import main
from feedferry.schemas.acl import Scope
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.membership import Member, Membership
from feedferry.transforms.access.user_groups import with_groups

GROUPS = """group,member,scope
engineers,bob,user
staff,engineers,group
everybody,staff,group
staff,everybody,group
board,ann,user
"""


def user(name: str) -> Member:
    return Member(name=name, scope=Scope.USER)


def group(name: str) -> Member:
    return Member(name=name, scope=Scope.GROUP)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "groups.csv"
    path.write_text(GROUPS)
    return str(path)


def test_a_user_is_in_the_groups_of_groups_and_groups_may_contain_each_other(table: str) -> None:
    found = access.members_of(["bob"], groups=["guests"], groups_feeds=[table])

    assert [member.name for member in found] == [
        *("bob", "guests", "engineers", "staff", "everybody")
    ]


def test_a_member_whose_case_does_not_count_is_found_in_any_case() -> None:
    any_case = replace(user("Bob"), case_sensitive=False)
    memberships = [
        Membership(group=group("any"), members=(any_case,)),
        Membership(group=group("exact"), members=(user("Bob"),)),
        Membership(group=group("other"), members=(replace(user("bob"), namespace="ldap"),)),
    ]

    assert [each.name for each in with_groups([user("bob")], memberships)] == ["bob", "any"]


def test_a_groups_feed_that_cannot_be_read_as_a_whole_is_refused(table: str) -> None:
    Path(table).write_text(GROUPS + "hr,,user\n")

    with pytest.raises(ConfigError, match="expected whole groups"):
        access.members_of(["bob"], groups_feeds=[table])


def test_a_feed_of_documents_in_place_of_groups_is_refused(tmp_path: Path) -> None:
    """The user would find documents that a group of the user is denied."""
    feed = tmp_path / "documents.xml"
    header = "<header><datasource>web</datasource><feedtype>full</feedtype></header>"
    record = '<record url="http://h.example.com/a" mimetype="text/plain"/>'
    feed.write_text(f"<gsafeed>{header}<group>{record}</group></gsafeed>")

    with pytest.raises(ConfigError, match=r"documents\.xml: no groups; expected a groups feed"):
        access.members_of(["bob"], groups_feeds=[str(feed)])


def test_the_command_prints_the_filter_of_a_search(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["access", "bob", "--groups", "guests", "--groups-feed", table]) == 0

    found = access.members_of(["bob"], groups=["guests"], groups_feeds=[table])
    printed = json.loads(capsys.readouterr().out)
    assert printed == access.search_filter(access.tokens_of(found))
    assert printed["bool"]["filter"][0]["bool"]["must_not"] == [
        {"terms": {"acl_1_deny_1": access.tokens_of(found)}}
    ]


def test_a_role_has_the_filter_with_the_roles_of_the_user(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["access", "ACME\\bob", "--dls", "intranet"]) == 0

    printed = json.loads(capsys.readouterr().out)
    tokens = ["*", "us:Default:ACME%5Cbob", "ui:Default:acme%5Cbob"]
    assert printed["backend_roles"] == tokens
    [permission] = printed["role"]["index_permissions"]
    assert permission["index_patterns"] == ["intranet", "intranet-*"]
    roles = json.dumps(tokens)[1:-1]
    assert json.loads(permission["dls"].replace("${user.roles}", roles)) == (
        access.search_filter(tokens)
    )


def test_an_empty_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["access", " "]) == 2
    assert "an empty name of a user or group" in capsys.readouterr().err


def test_the_decision_is_that_of_the_fields_of_a_document() -> None:
    fields = {
        "acl_1_permit_1": ["gs:Default:staff"],
        "acl_1_deny_1": ["us:Default:eve"],
        "acl_2_permit_1": ["*"],
        "acl_3_permit_1": ["*"],
    }

    def finds(name: str, *groups: str) -> bool:
        return access.permits(fields, access.tokens_of(access.members_of([name], groups=groups)))

    assert (finds("bob", "staff"), finds("bob"), finds("eve", "staff")) == (True, False, False)
