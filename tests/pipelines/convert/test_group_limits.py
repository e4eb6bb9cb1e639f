"""How many groups an appliance takes, and what is said before that."""

import pytest

from pipelines.convert.group_limits import check_groups
from schemas.account import Chunk
from schemas.errors import StoppedError


def chunk(
    *, members: int = 0, size: int = 0, datasource: str | None = None, origin: str | None = None
) -> Chunk:
    return Chunk(
        path="chunks/000001.xml",
        bytes=size,
        sha256="",
        records={},
        first_url="",
        last_url="",
        source="",
        span=0,
        members=members,
        datasource=datasource,
        origin=origin,
    )


def refusal(*chunks: Chunk) -> str:
    with pytest.raises(StoppedError) as caught:
        check_groups(chunks)
    return str(caught.value)


def test_three_million_members_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    check_groups([chunk(members=2_000_000), chunk(members=1_000_000)])

    assert caplog.messages == [
        "groups with 3,000,000 members, of 3,000,000 that an appliance takes at most"
    ]


def test_one_member_more_is_refused() -> None:
    assert refusal(chunk(members=2_000_000), chunk(members=1_000_001)) == (
        "groups with 3,000,001 members; expected at most 3,000,000, for the group database of an"
        " appliance takes no more; leave out groups that no ACL names"
    )


def test_more_than_a_billion_bytes_are_refused() -> None:
    assert refusal(chunk(size=600_000_000), chunk(size=400_000_001)) == (
        "groups with 1,000,000,001 bytes; expected at most 1,000,000,000, for the group database of"
        " an appliance takes no more; leave out groups that no ACL names"
    )


def test_ninety_percent_is_said(caplog: pytest.LogCaptureFixture) -> None:
    check_groups([chunk(members=2_700_000)])

    assert caplog.messages == [
        "groups with 2,700,000 members, of 3,000,000 that an appliance takes at most"
    ]


def test_a_little_less_is_not(caplog: pytest.LogCaptureFixture) -> None:
    check_groups([chunk(members=2_699_999, size=899_999_999)])

    assert caplog.messages == []


def test_what_a_full_feed_comes_behind_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    check_groups(
        [
            chunk(members=2_000_000, datasource="ldap", origin="spool#1"),
            chunk(members=900_000, datasource="ggg", origin="spool#2"),
            chunk(members=1_000_000, datasource="ldap", origin="spool#3"),
            chunk(members=800_000, datasource="ldap", origin="spool#3"),
        ]
    )

    assert caplog.messages == [
        "groups with 2,700,000 members, of 3,000,000 that an appliance takes at most"
    ]


def test_what_is_added_to_a_full_feed_counts() -> None:
    assert refusal(
        chunk(members=2_000_000, datasource="ldap", origin="spool#1"),
        chunk(members=1_000_001, datasource="ldap"),
    ) == (
        "groups with 3,000,001 members; expected at most 3,000,000, for the group database of an"
        " appliance takes no more; leave out groups that no ACL names"
    )
