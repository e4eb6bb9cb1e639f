"""Chunks that an appliance can take, by format, datasource and feedtype."""

import pytest

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sinks.push.push_plan import check_chunk
from support.appliance_sockets import chunk
from support.fake_appliance import GSA, THUNDERSTONE

FEED = b"<gsafeed/>"
GROUPS = {"format": "gsa-groups", "datasource": "ldap"}
BY_FLAG = "give it by --feedtype"
DATA = {"format": "thunderstone", "datasource": None, "feedtype": None}


@pytest.mark.parametrize(
    "stated",
    [
        *({"feedtype": feedtype} for feedtype in ("full", "incremental", "metadata-and-url")),
        *({**GROUPS, "feedtype": name} for name in ("full", "incremental", "replace")),
        *({"datasource": "web", "feedtype": name} for name in (None, "incremental")),
        {"datasource": "a" * 250},
        {"format": None},
    ],
)
def test_a_chunk_of_the_appliance_is_accepted(stated: dict[str, object]) -> None:
    check_chunk(chunk(FEED, **stated), GSA)


A_NAME = "expected a letter or _, then letters, digits, _ and -, at most 250"
FEEDTYPES = "full or incremental or {}: " + BY_FLAG


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (DATA, "thunderstone; expected gsa-feed or gsa-groups for http://gsa.example.com:19900"),
        ({"datasource": "my feed"}, f"datasource 'my feed'; {A_NAME}"),
        ({"format": "gsa-groups", "datasource": "1"}, f"groupsource '1'; {A_NAME}"),
        ({"datasource": "a" * 251}, f"datasource '{'a' * 99}'; {A_NAME}"),
        ({"datasource": None}, "no datasource; expected a name: give it by --datasource"),
        ({"feedtype": None}, f"no feedtype; expected {FEEDTYPES.format('metadata-and-url')}"),
        (
            {**GROUPS, "feedtype": "metadata-and-url"},
            f"feedtype='metadata-and-url'; expected {FEEDTYPES.format('replace or cleanup')}",
        ),
        (
            {"datasource": "web", "feedtype": "full"},
            "feedtype='full'; expected metadata-and-url or incremental for the datasource web",
        ),
    ],
)
def test_another_chunk_is_refused(stated: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_chunk(chunk(FEED, **stated), GSA)

    assert str(caught.value) == f"chunks/00000-000.xml: {expected}"


def test_thunderstone_takes_only_its_own_data() -> None:
    check_chunk(chunk(FEED, **DATA), THUNDERSTONE)
    with pytest.raises(ConfigError, match="gsa-feed; expected thunderstone for http"):
        check_chunk(chunk(FEED), THUNDERSTONE)
