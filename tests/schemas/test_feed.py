"""Feeds: their datasource and feedtype."""

import pytest

from schemas.errors import ConfigError
from schemas.feed import FEEDTYPES, Feed, check_datasource, is_web


@pytest.mark.parametrize("name", ["web", "_", "a", "Intranet_2-old", "x" * 200])
def test_a_datasource_that_an_appliance_takes_is_returned(name: str) -> None:
    assert check_datasource(name) == name


@pytest.mark.parametrize(
    "name", ["", "2web", "-web", "my web", "web.old", "f\u00fcr", "web\n", "\u0661web", "a/b"]
)
def test_a_datasource_that_no_appliance_takes_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_datasource(name)
    assert str(caught.value) == (
        f"--datasource: {name!r}; expected a letter or _, then letters, digits, _ and -"
    )


@pytest.mark.parametrize(
    ("datasource", "feedtype"),
    [("web", None), ("web", "incremental"), ("hr", "metadata-and-url"), (None, "metadata-and-url")],
)
def test_the_appliance_fetches_what_a_web_feed_names(
    datasource: str | None, feedtype: str | None
) -> None:
    assert is_web(datasource, feedtype)


@pytest.mark.parametrize(
    ("datasource", "feedtype"),
    [("hr", "full"), ("hr", "incremental"), ("Web", "full"), (None, "full"), (None, None)],
)
def test_the_appliance_fetches_nothing_of_a_content_feed(
    datasource: str | None, feedtype: str | None
) -> None:
    assert not is_web(datasource, feedtype)


def test_a_feed_has_one_of_three_types() -> None:
    assert FEEDTYPES == ("full", "incremental", "metadata-and-url")


def test_a_feed_can_stand_in_a_set() -> None:
    feeds = {Feed(datasource="hr", feedtype="full"), Feed(datasource="hr", feedtype="full")}
    assert len(feeds) == 1
