"""A job keeps the groups of its groups feeds, as an appliance does."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from feedferry.schemas.acl import Scope
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Provenance
from feedferry.schemas.reject import Reject
from feedferry.transforms.steps.kept_acls import replace_kept
from feedferry.transforms.steps.stated.group_log import GROUPS, GroupLog, read_groups
from feedferry.transforms.steps.stated.group_store import count_groups, kept_groups
from feedferry.transforms.steps.stated.stated_store import remember_stated
from feedferry.transforms.storage.atomic import AtomicFile
from feedferry.transforms.storage.storage import LocalStorage

Item = Membership | Reject | FeedHeader


def group(name: str, *users: str, source: str = "ldap", feedtype: str = "incremental") -> Item:
    return Membership(
        group=Member(name=name, scope=Scope.GROUP),
        members=tuple(Member(name=user, scope=Scope.USER) for user in users),
        provenance=Provenance(source=source, datasource=source, feedtype=feedtype),
    )


def reject(name: str | None, source: str = "ldap") -> Item:
    action = None if name is None else "MEMBERSHIP"
    return Reject(
        code="c", reason="", stage="read", source="f", url=name, action=action, datasource=source
    )


def night(store: Path, items: Sequence[Item]) -> None:
    """Remember the groups of a run."""
    file = AtomicFile(LocalStorage(store.parent), f"0{GROUPS}")
    log = GroupLog(file, feedtype=None, has_only_groups=True)
    for item in items:
        if isinstance(item, Membership):
            log.add(item, [item])
        elif isinstance(item, Reject):
            log.reject(item)
        else:
            log.enter(item)
    log.close(whole=True)
    remember_stated((), read_groups(store.parent, log.written), store, b"")


def members(store: Path) -> dict[str, str]:
    return {
        of.group.name: " ".join(member.name for member in of.members) for of in kept_groups(store)
    }


FULL = group("new", "eve", feedtype="full")
EMPTY = FeedHeader(source="f", datasource="ldap", feedtype="full", memberships=True)


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([[group("staff", "ann"), group("hr", "bob")]], {"hr": "bob", "staff": "ann"}),
        ([[group("staff", "ann"), group("staff", "bob")]], {"staff": "ann bob"}),
        ([[group("staff", "ann")], [group("staff", "bob")]], {"staff": "bob"}),
        ([[group("staff", "ann")], [group("hr", "bob")]], {"hr": "bob", "staff": "ann"}),
        ([[group("staff", "ann")], [FULL]], {"new": "eve"}),
        ([[group("hr", "bob", source="other"), group("x", "x")], [EMPTY]], {"hr": "bob"}),
        ([[reject("staff")], [group("staff", "ann")]], {"staff": "ann"}),
        ([[reject(None)], [FULL]], {"new": "eve"}),
    ],
)
def test_the_last_stated_members_of_a_group_are_kept(
    nights: list[list[Item]], expected: dict[str, str], tmp_path: Path
) -> None:
    store = tmp_path / "state.acls"
    replace_kept(store, ())
    for items in nights:
        night(store, items)
    assert members(store) == expected
    assert count_groups(store) == len(expected)


@pytest.mark.parametrize(
    "nights",
    [
        [[group("staff", "ann"), reject("staff")]],
        [[group("staff", "ann")], [reject("staff")], [group("hr", "bob")]],
        [[group("staff", "ann"), reject(None)]],
        [[reject(None)], [group("staff", "ann")]],
    ],
)
def test_a_membership_that_is_set_aside_makes_the_groups_unusable(
    nights: list[list[Item]], tmp_path: Path
) -> None:
    store = tmp_path / "state.acls"
    replace_kept(store, ())
    for items in nights:
        night(store, items)
    with pytest.raises(ConfigError, match="expected whole groups"):
        members(store)
