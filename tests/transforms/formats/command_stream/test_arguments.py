"""Arguments of commands, strictly and with repairs."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from schemas.errors import RecordError
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.arguments import (
    LenientArguments,
    StrictArguments,
    arguments,
)

Value = datetime | bool | str | None
AUGUST = datetime(2011, 8, 3, 16, 7, 23, tzinfo=UTC)
strict = StrictArguments()


def repaired(read: Callable[[LenientArguments], Value]) -> tuple[Value, list[tuple[str, str]]]:
    """The value that lenient arguments read, and the notices about it."""
    notices: list[tuple[str, str]] = []
    lenient = LenientArguments(lambda code, detail: notices.append((code, detail)), zone="UTC")
    return read(lenient), notices


def refusal(read: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        read()
    return caught.value.code, caught.value.reason


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("1312387643", AUGUST),
        ("+5", datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
        ("-5", datetime(1969, 12, 31, 23, 59, 55, tzinfo=UTC)),
        ("9223372036854775807", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("253402300799", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("253402300800", None),
        ("-62135596801", None),
    ],
)
def test_a_time_is_epoch_seconds_in_both_modes(text: str, moment: datetime | None) -> None:
    assert strict.moment(text) == moment
    assert repaired(lambda lenient: lenient.moment(text)) == (moment, [])


DATES = ("20110803 16:07:23", "2011-08-03T16:07:23Z", "Wed, 03 Aug 2011 16:07:23 GMT")


@pytest.mark.parametrize(
    "text", [*DATES, "", " 5", "5 ", "1.5", "9223372036854775808", "now", None]
)
def test_strictly_any_other_time_is_refused(text: str | None) -> None:
    expected = ("bad-date", f"last-modified={text!r}; expected seconds since 1970")
    assert refusal(lambda: strict.moment(text)) == expected


@pytest.mark.parametrize("text", [*DATES, " 1312387643 "])
def test_a_date_is_repaired(text: str) -> None:
    detail = f"last-modified={text!r}, not seconds since 1970; read as a date"
    assert repaired(lambda lenient: lenient.moment(text)) == (AUGUST, [("date", detail)])


@pytest.mark.parametrize("text", ["", "now", "1.5", None])
def test_a_text_without_a_date_is_refused_in_lenient_mode(text: str | None) -> None:
    expected = ("bad-date", f"last-modified={text!r}; expected seconds since 1970")
    assert refusal(lambda: repaired(lambda lenient: lenient.moment(text))) == expected


def test_a_date_is_in_the_zone_of_the_options() -> None:
    read = arguments(ReadOptions(zone="Europe/Zurich"), lambda *_: None).moment
    assert read("20110803 16:07:23") == datetime(2011, 8, 3, 14, 7, 23, tzinfo=UTC)


@pytest.mark.parametrize("text", [None, "", "false", "no", "x"])
def test_strictly_a_flag_of_a_listing_is_true(text: str | None) -> None:
    assert strict.listed_flag("lock", text) is True


@pytest.mark.parametrize("text", [None, "true", "TRUE", "yes", "1", "on"])
def test_a_true_flag_of_a_listing_needs_no_repair(text: str | None) -> None:
    assert repaired(lambda lenient: lenient.listed_flag("lock", text)) == (True, [])


@pytest.mark.parametrize(
    ("text", "flag"),
    [("false", False), ("NO", False), ("0", False), ("off", False), ("", True), ("maybe", True)],
)
def test_another_argument_of_a_flag_of_a_listing_is_repaired(text: str, flag: bool) -> None:
    detail = f"lock={text!r}, a flag with an argument; read as {str(flag).lower()}"
    assert repaired(lambda lenient: lenient.listed_flag("lock", text)) == (
        flag,
        [("flag", detail)],
    )


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        *(("true", True), ("True", True), ("false", False), ("yes", False)),
        *(("1", False), ("", False), ("true ", False), (None, False)),
    ],
)
def test_strictly_a_flag_of_a_document_is_true_only_if_it_says_so(
    text: str | None, flag: bool
) -> None:
    assert strict.flag("secure", text) is flag


@pytest.mark.parametrize(("text", "flag"), [("true", True), ("FALSE", False)])
def test_true_and_false_need_no_repair(text: str, flag: bool) -> None:
    assert repaired(lambda lenient: lenient.flag("lock", text)) == (flag, [])


@pytest.mark.parametrize(
    ("name", "text", "flag"),
    [
        *(("lock", "yes", True), ("lock", "", False), ("lock", None, True), ("lock", "x", False)),
        *(("secure", "x", True), ("secure", "", True), ("secure", "no", False)),
        ("secure", None, True),
    ],
)
def test_another_flag_of_a_document_is_repaired(name: str, text: str | None, flag: bool) -> None:
    shown = name if text is None else f"{name}={text!r}"
    detail = f"{shown}, neither true nor false; read as {str(flag).lower()}"
    assert repaired(lambda lenient: lenient.flag(name, text)) == (flag, [("flag", detail)])


@pytest.mark.parametrize("text", ["http://e.com/a", "", "a/b?c", "mailto:joe"])
def test_a_url_may_be_relative_or_empty(text: str) -> None:
    assert strict.uri("result-link", text) == text
    assert repaired(lambda lenient: lenient.uri("result-link", text)) == (text, [])


def test_a_url_that_java_refuses_is_refused_strictly_and_else_kept() -> None:
    expected = ("bad-url", "display-url='a b'; expected a well-formed URL")
    assert refusal(lambda: strict.uri("display-url", "a b")) == expected
    assert repaired(lambda lenient: lenient.uri("display-url", "a b")) == (
        "a b",
        [("url", "display-url='a b' is not a well-formed URL; kept")],
    )


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.LENIENT])
def test_a_url_needs_an_argument(mode: Mode) -> None:
    read = arguments(ReadOptions(mode=mode), lambda *_: None).uri
    assert refusal(lambda: read("result-link", None)) == (
        "no-argument",
        "result-link without an argument; expected result-link=…",
    )
