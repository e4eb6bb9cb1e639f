"""Names and small rules: exit codes, names of spans, datasources, wide patterns, suggestions."""

import msgspec
import pytest

from feedferry.schemas.errors import (
    BalanceError,
    BusyError,
    ConfigError,
    FatalError,
    FeedferryError,
    FormatError,
    LossRefusedError,
    ProgressError,
    RecordError,
    SourceError,
    StoppedError,
    TooManyRejectsError,
)
from feedferry.schemas.feed import Feed, check_datasource, is_web
from feedferry.schemas.patterns import is_wide
from feedferry.schemas.span import Span
from feedferry.schemas.spelling import did_you_mean


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (ConfigError, 2),
        (StoppedError, 3),
        (LossRefusedError, 3),
        (TooManyRejectsError, 3),
        (FatalError, 4),
        (FormatError, 4),
        (SourceError, 4),
        (ProgressError, 5),
        (BalanceError, 5),
        (FeedferryError, 5),
        (BusyError, 75),
    ],
)
def test_an_error_ends_the_command_with_its_exit_code(
    kind: type[FeedferryError], exit_code: int
) -> None:
    assert kind.exit_code == exit_code


def test_the_text_of_a_record_error_is_its_reason() -> None:
    error = RecordError("bad-date", "last-modified='x'; expected a date")
    assert (error.code, str(error)) == ("bad-date", error.reason)


def test_names_of_spans_sort_in_the_order_of_the_input() -> None:
    numbers = (0, 99_999, 100_000, 100_001, 999_999, 1_000_000)
    spans = [Span(source_ordinal=source, ordinal=part) for source in numbers for part in numbers]
    assert spans[1].name == "00000-99999"
    assert [span.name for span in spans] == sorted(span.name for span in spans)


def test_a_span_is_decoded_with_the_feed_that_it_was_posted_as() -> None:
    span = Span(source="spool#1", feed=Feed(datasource="crm", feedtype="full"))
    assert msgspec.json.decode(msgspec.json.encode(span), type=Span) == span


@pytest.mark.parametrize("name", ["web", "_", "a", "Intranet_2-old", "x" * 200])
def test_a_datasource_that_appliances_accept_is_returned(name: str) -> None:
    assert check_datasource(name) == name


@pytest.mark.parametrize(
    "name", ["", "2web", "-web", "my web", "web.old", "f\u00fcr", "web\n", "\u0661web", "a/b"]
)
def test_a_datasource_that_no_appliance_accepts_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_datasource(name)
    assert str(caught.value) == (
        f"--datasource: {name!r}; expected a letter or _, then letters, digits, _ and -, at most"
        " 250"
    )


@pytest.mark.parametrize(
    ("datasource", "feedtype", "expected"),
    [
        ("web", None, True),
        ("web", "incremental", True),
        ("hr", "metadata-and-url", True),
        (None, "metadata-and-url", True),
        ("hr", "full", False),
        ("Web", "full", False),
        (None, None, False),
    ],
)
def test_the_appliance_crawls_the_documents_of_web_feeds(
    datasource: str | None, feedtype: str | None, expected: bool
) -> None:
    assert is_web(datasource, feedtype) is expected


@pytest.mark.parametrize(
    "pattern",
    ["", "  ", "*", "?*", "http://*", "http://h/*", "http://h/**/?", "*://*/*", "*h", "h/*", "//*"],
)
def test_a_pattern_without_part_of_a_path_is_wide(pattern: str) -> None:
    assert is_wide(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("http://h/", "http://h/a*", "http://h/*/a", "http://h/dir/*", "*/a", "h"),
        " " * 50_000 + "x/" * 50_000 + "x*",
    ],
    ids=lambda pattern: pattern.strip()[:14],
)
def test_a_pattern_with_part_of_a_path_is_not_wide(pattern: str) -> None:
    assert not is_wide(pattern)


@pytest.mark.parametrize(
    ("word", "names", "expected"),
    [
        ("gsa-fed", ("avro", "gsa-feed"), "; did you mean 'gsa-feed'?"),
        ("GSA_FEED", ("avro", "gsa-feed"), "; did you mean 'gsa-feed'?"),
        ("page-urls", ("Page_URL",), "; did you mean 'Page_URL'?"),
        (2010, ("2010s",), "; did you mean '2010s'?"),
        ("yaml", ("text", "json"), ""),
    ],
)
def test_a_similar_name_is_suggested_as_it_is_written(
    word: object, names: tuple[str, ...], expected: str
) -> None:
    assert did_you_mean(word, names) == expected
