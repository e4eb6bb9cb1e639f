"""Options of a push and of its appliance."""

import time
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.options.push_options import parse_push, parse_push_to
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sinks.push.settings import Keep, OnRefusal, PushSettings, SeveralFull
from support.archives import document, gsa_feed, put

URL = "http://gsa.example.com:19900"
RECVDATA = "http://thunderstone.example.com/texis/dowalk/recvdata.xml"
WORDS = {"inputs": ("out",), "url": URL}


def settings_of(**words: str) -> PushSettings:
    return parse_push({**WORDS, **words})[1]


def test_the_defaults_are_those_of_the_deployed_connector_manager() -> None:
    settings = settings_of()

    assert settings.backlog.ceiling == 4000
    assert settings.backlog.floor == 1000
    assert settings.backlog.interval_seconds == 120
    assert settings.on_refusal is OnRefusal.BISECT
    assert settings.appliance.url == URL


def test_options_reach_the_settings_of_a_push() -> None:
    settings = settings_of(
        backlog_ceiling="50",
        backlog_interval="10s",
        backlog_floor="5",
        attempts="3",
        on_refusal="skip",
        max_wait="2h",
        reply_timeout="90s",
        deadline="2h",
    )

    assert (settings.backlog.ceiling, settings.backlog.floor) == (50, 5)
    assert settings.backlog.interval_seconds == 10
    assert settings.retry.max_attempts == 3
    assert settings.on_refusal is OnRefusal.SKIP
    assert settings.max_wait_seconds == 7200
    assert settings.appliance.reply_seconds == 90
    assert settings.deadline is not None
    assert 7100 < settings.deadline - time.time() <= 7200


def test_options_of_a_push_are_parsed() -> None:
    options, _ = parse_push({**WORDS, "keep": "refused", "several_full": "first", "jobs": "3"})

    assert (options.keep, options.several_full, options.jobs) == (
        Keep.REFUSED,
        SeveralFull.FIRST,
        3,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"inputs": ()}, "INPUT: none given; expected the folder of a run, or feed files"),
        ({"url": None}, "--to: not given; expected URL; see --help"),
        ({"attempts": "0"}, "--attempts: '0'; expected a number of times, 1 or more"),
        ({"jobs": "0"}, "--jobs: '0'; expected a number of datasources, 1 or more"),
        ({"max_rejects": "1%"}, "--max-rejects: '1%'; expected a number of records"),
        ({"connect_timeout": "0s"}, "--connect-timeout: '0s'; expected more than 0 seconds"),
        ({"several_full": "refuse"}, "--several-full: 'refuse'; expected one of first, each"),
        ({"groups_mode": "x"}, "--groups-mode: 'x'; expected one of replace, cleanup"),
        (
            {"backlog_floor": "9", "backlog_ceiling": "9"},
            "--backlog-ceiling: 9; expected more than --backlog-floor, which is 9",
        ),
        (
            {"datasource": "a b"},
            "--datasource: 'a b'; expected a letter or _, then letters, digits, _ and -,"
            " at most 250",
        ),
        (
            {
                "url": "http://search.example.com/texis/dowalk/recvdata.xml",
                "profile": "intranet",
                "gzip": True,
            },
            "--gzip: not for http://search.example.com/texis/dowalk/recvdata.xml, which takes no"
            " compressed requests",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_unusable_options_are_refused(words: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_push({**WORDS, **words})
    assert str(caught.value) == message


def test_a_conversion_has_an_appliance_if_one_is_named() -> None:
    assert parse_push_to({"inputs": ("a.xml",), "url": None}) is None
    settings = parse_push_to({"url": URL})
    assert settings is not None
    assert settings.appliance.url == URL


def test_a_flag_of_an_appliance_needs_the_appliance() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_push_to({"window": "20:00-06:00 Europe/Berlin"})
    assert str(caught.value) == "--window: given without --push-to URL; expected both"


@pytest.mark.parametrize(
    ("to", "url", "message"),
    [
        ("thunderstone", URL, f"not for {URL}, which takes gsa-feed or gsa-groups"),
        ("avro", URL, f"not for {URL}, which takes gsa-feed or gsa-groups"),
        ("gsa-feed", RECVDATA, f"not for {RECVDATA}, which takes thunderstone"),
    ],
)
def test_an_appliance_of_another_kind_than_the_format_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], to: str, url: str, message: str
) -> None:
    profile = "" if url == URL else ", profile: intranet"
    put(
        here / "job.yaml",
        "version: 1\njob: job\nsource: {type: gsa-feed, path: feed.xml}\n"
        f"target: {{type: {to}, url: '{url}'{profile}}}\n".encode(),
    )
    put(here / "feed.xml", gsa_feed(document(1)))
    expected = "expected one of these formats, or the address of another appliance\n"
    for verb in (["check"], ["check", "--offline"], ["plan"], ["run"]):
        assert main([*verb, "job.yaml"]) == 2
        text = f"feedferry: job.yaml:4:16: target.type {to}: {message}; {expected}"
        assert capsys.readouterr().err == text
    pushed = ["--push-to", url] + ["--profile", "intranet"] * bool(profile)
    assert main(["convert", "feed.xml", "-o", "out", "--to", to, *pushed]) == 2
    assert capsys.readouterr().err == f"feedferry: --to {to}: {message}; {expected}"
    assert sorted(path.name for path in here.iterdir()) == ["feed.xml", "job.yaml"]
