"""What arguments mean to the deployed parser, and what they are mended to."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.errors import RecordError
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.arguments import (
    LenientArguments,
    StrictArguments,
    arguments,
)

strict = StrictArguments()


def mended(read: Callable[[LenientArguments], Any]) -> tuple[Any, list[tuple[str, str]]]:
    """What is read, and the notices of it."""
    notices: list[tuple[str, str]] = []
    lenient = LenientArguments(lambda code, detail: notices.append((code, detail)), zone="UTC")
    return read(lenient), notices


def refusal(read: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        read()
    return caught.value.code, caught.value.reason


def second(year: int, month: int, day: int, *time: int) -> datetime:
    hour, minute, whole = time or (0, 0, 0)
    return datetime(year, month, day, hour, minute, whole, tzinfo=UTC)


MOMENTS = [
    ("0", second(1970, 1, 1)),
    ("1312387643", second(2011, 8, 3, 16, 7, 23)),
    ("+5", second(1970, 1, 1, 0, 0, 5)),
    ("-5", second(1969, 12, 31, 23, 59, 55)),
    ("9223372036854775807", second(1969, 12, 31, 23, 59, 59)),
    ("253402300799", second(9999, 12, 31, 23, 59, 59)),
    ("253402300800", None),
    ("-62135596801", None),
]


@pytest.mark.parametrize(("text", "moment"), MOMENTS)
def test_strictly_a_moment_is_epoch_seconds(text: str, moment: datetime | None) -> None:
    assert strict.moment(text) == moment


@pytest.mark.parametrize(("text", "moment"), MOMENTS)
def test_epoch_seconds_need_no_mending(text: str, moment: datetime | None) -> None:
    assert mended(lambda lenient: lenient.moment(text)) == (moment, [])


@pytest.mark.parametrize(
    "text", ["", " 5", "5 ", "1.5", "9223372036854775808", "20110803 16:07:23", "now", None]
)
def test_strictly_any_other_moment_is_refused(text: str | None) -> None:
    assert refusal(lambda: strict.moment(text)) == (
        "bad-date",
        f"last-modified={text!r}; expected seconds since 1970",
    )


@pytest.mark.parametrize(
    "text",
    ["20110803 16:07:23", "2011-08-03T16:07:23Z", "Wed, 03 Aug 2011 16:07:23 GMT", " 1312387643 "],
)
def test_a_date_is_repaired(text: str) -> None:
    detail = f"last-modified={text!r}, not seconds since 1970; read as a date"
    assert mended(lambda lenient: lenient.moment(text)) == (
        second(2011, 8, 3, 16, 7, 23),
        [("date", detail)],
    )


def test_a_date_is_in_the_zone_that_was_given() -> None:
    options = ReadOptions(zone="Europe/Zurich")
    found = arguments(options, lambda *_: None).moment("20110803 16:07:23")
    assert found == second(2011, 8, 3, 14, 7, 23)


@pytest.mark.parametrize("text", ["", "now", "1.5", None])
def test_what_is_no_date_is_refused_with_repairs_too(text: str | None) -> None:
    assert refusal(lambda: mended(lambda lenient: lenient.moment(text))) == (
        "bad-date",
        f"last-modified={text!r}; expected seconds since 1970",
    )


@pytest.mark.parametrize("text", [None, "", "false", "no", "x"])
def test_strictly_a_flag_is_true_because_it_is_there(text: str | None) -> None:
    assert strict.listed_flag("lock", text) is True


@pytest.mark.parametrize("text", [None, "true", "TRUE", "yes", "1", "on"])
def test_a_flag_that_is_true_needs_no_mending(text: str | None) -> None:
    assert mended(lambda lenient: lenient.listed_flag("lock", text)) == (True, [])


@pytest.mark.parametrize(
    ("text", "flag", "shown"),
    [
        *[("false", False, "false"), ("NO", False, "false"), ("0", False, "false")],
        *[("off", False, "false"), ("", True, "true"), ("maybe", True, "true")],
    ],
)
def test_a_flag_with_an_argument_is_repaired(text: str, flag: bool, shown: str) -> None:
    detail = f"lock={text!r}, a flag with an argument; read as {shown}"
    assert mended(lambda lenient: lenient.listed_flag("lock", text)) == (flag, [("flag", detail)])


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        *[("true", True), ("True", True), ("false", False), ("yes", False)],
        *[("1", False), ("", False), ("true ", False), (None, False)],
    ],
)
def test_strictly_true_alone_is_true(text: str | None, truth: bool) -> None:
    assert strict.flag("secure", text) is truth


@pytest.mark.parametrize(("text", "truth"), [("true", True), ("FALSE", False)])
def test_true_and_false_need_no_mending(text: str, truth: bool) -> None:
    assert mended(lambda lenient: lenient.flag("lock", text)) == (truth, [])


@pytest.mark.parametrize(
    ("name", "text", "truth", "detail"),
    [
        ("lock", "yes", True, "lock='yes', neither true nor false; read as true"),
        ("lock", "", False, "lock='', neither true nor false; read as false"),
        ("lock", None, True, "lock, neither true nor false; read as true"),
        ("lock", "x", False, "lock='x', neither true nor false; read as false"),
        ("secure", "x", True, "secure='x', neither true nor false; read as true"),
        ("secure", "", True, "secure='', neither true nor false; read as true"),
        ("secure", "no", False, "secure='no', neither true nor false; read as false"),
        ("secure", None, True, "secure, neither true nor false; read as true"),
    ],
)
def test_what_is_neither_is_repaired(name: str, text: str | None, truth: bool, detail: str) -> None:
    assert mended(lambda lenient: lenient.flag(name, text)) == (truth, [("flag", detail)])


@pytest.mark.parametrize("text", ["http://e.com/a", "", "a/b?c", "mailto:joe"])
def test_a_url_may_be_relative_or_empty(text: str) -> None:
    found = mended(lambda lenient: lenient.uri("result-link", text))
    assert (strict.uri("result-link", text), found) == (text, (text, []))


def test_strictly_a_url_is_well_formed() -> None:
    assert refusal(lambda: strict.uri("result-link", "http://e.com/a b")) == (
        "bad-url",
        "result-link='http://e.com/a b'; expected a well-formed URL",
    )


def test_a_url_that_is_not_is_kept() -> None:
    detail = "display-url='a b' is not a well-formed URL; kept"
    assert mended(lambda lenient: lenient.uri("display-url", "a b")) == ("a b", [("url", detail)])


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.LENIENT])
def test_a_url_has_to_be_there(mode: Mode) -> None:
    found = arguments(ReadOptions(mode=mode), lambda *_: None)
    assert refusal(lambda: found.uri("result-link", None)) == (
        "no-argument",
        "result-link without an argument; expected result-link=…",
    )
