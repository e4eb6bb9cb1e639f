import time
from typing import Any

import pytest

from pipelines.cli.push_options import (
    ApplianceOptions,
    parse_appliance,
    parse_push,
    parse_push_to,
    push_settings,
    without_appliance,
)
from schemas.errors import ConfigError
from transforms.sinks.push.existing_feeds import SeveralFull
from transforms.sinks.push.settings import Keep, OnRefusal

URL = "http://gsa.example.com:19900"
WORDS = {"inputs": ("out",), "url": URL}


def refusal(**words: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_push({**WORDS, **words})
    return str(caught.value)


def settings_of(**words: str) -> Any:
    return push_settings(parse_appliance({"url": URL, **words}, flag="--to"))


def test_what_is_not_said_is_as_the_deployed_connector_manager_has_it() -> None:
    settings = settings_of()

    assert settings.backlog.ceiling == 4000
    assert settings.backlog.floor == 1000
    assert settings.backlog.interval_seconds == 120
    assert settings.on_refusal is OnRefusal.BISECT
    assert settings.appliance.url == URL


def test_what_is_said_reaches_the_push() -> None:
    settings = settings_of(
        backlog_ceiling="50",
        backlog_floor="5",
        backlog_interval="10s",
        attempts="3",
        on_refusal="skip",
        max_wait="2h",
        max_rate="10/m",
        reply_timeout="90s",
    )

    assert settings.backlog.ceiling == 50
    assert settings.backlog.interval_seconds == 10
    assert settings.backoff.attempts == 3
    assert settings.on_refusal is OnRefusal.SKIP
    assert settings.max_wait_seconds == 7200
    assert settings.rate.seconds(1000) == 6
    assert settings.appliance.reply_seconds == 90


def test_a_deadline_is_a_moment() -> None:
    left = settings_of(deadline="2h").deadline - time.time()
    assert 7100 < left <= 7200


def test_a_push_is_told_what_to_do_with_its_files() -> None:
    options, _ = parse_push({**WORDS, "keep": "refused", "several_full": "first", "jobs": "3"})
    found = (options.keep, options.several_full, options.jobs)
    assert found == (Keep.REFUSED, SeveralFull.FIRST, 3)


def test_several_full_files_are_refused_unless_told_otherwise() -> None:
    options, _ = parse_push(WORDS)
    assert options.several_full is SeveralFull.REFUSE


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"inputs": ()}, "INPUT: none given; expected the folder of a run, or feed files"),
        ({"url": None}, "--to: not given; expected the url of an appliance"),
        ({"attempts": "0"}, "--attempts: '0'; expected a number of times, 1 or more"),
        ({"attempts": "many"}, "--attempts: 'many'; expected a number of times, 1 or more"),
        ({"jobs": "0"}, "--jobs: '0'; expected a number of datasources, 1 or more"),
        ({"backlog_ceiling": "x"}, "--backlog-ceiling: 'x'; expected a number of feeds"),
        ({"backlog_floor": "x"}, "--backlog-floor: 'x'; expected a number of feeds"),
        ({"max_rejects": "1%"}, "--max-rejects: '1%'; expected a number of records"),
        ({"connect_timeout": "0s"}, "--connect-timeout: '0s'; expected more than no time"),
        (
            {"on_refusal": "stp"},
            "--on-refusal: 'stp'; expected one of bisect, stop, skip; did you mean 'stop'?",
        ),
        ({"keep": "none"}, "--keep: 'none'; expected one of all, refused"),
        ({"several_full": "last"}, "--several-full: 'last'; expected one of first, each"),
        (
            {"backlog_floor": "9", "backlog_ceiling": "9"},
            "--backlog-ceiling: 9; expected more than --backlog-floor, which is 9",
        ),
        (
            {"datasource": "a b"},
            "--datasource: 'a b'; expected a letter or _, then letters, digits, _ and -",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_word_that_cannot_be_used_is_refused(words: dict[str, Any], message: str) -> None:
    assert refusal(**words) == message


def test_a_conversion_that_is_not_pushed_has_no_appliance() -> None:
    assert parse_push_to({"inputs": ("a.xml",), "url": None}) is None


def test_a_conversion_that_is_pushed_has_one() -> None:
    assert parse_push_to({"url": URL}) == ApplianceOptions(url=URL)


def test_a_flag_of_an_appliance_that_is_not_named_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_push_to({"window": "20:00-06:00 Europe/Berlin"})
    assert str(caught.value) == "--window: of no appliance; expected --push-to URL beside it"


def test_what_is_said_of_the_appliance_is_not_said_of_the_conversion() -> None:
    assert without_appliance({"inputs": ("a",), "url": URL, "window": None}) == {"inputs": ("a",)}


def test_thunderstone_data_is_not_compressed() -> None:
    url = "http://search.example.com/texis/dowalk/recvdata.xml"
    with pytest.raises(ConfigError) as caught:
        parse_appliance({"url": url, "profile": "intranet", "gzip": True}, flag="--to")
    assert str(caught.value) == (
        "--gzip: not for Thunderstone data; expected it beside http://HOST:19900"
    )
