"""Arguments of commands, strictly and with repairs."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from schemas.errors import RecordError
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.document import Arguments

Value = datetime | bool | str | None
Read = Callable[[Arguments], Value]
AUGUST = datetime(2011, 8, 3, 16, 7, 23, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class Argument(NamedTuple):
    """The value of an argument, or why it is refused, and the notices about it."""

    value: Value
    notices: tuple[tuple[str, str], ...] = ()


def read(read_argument: Read, mode: Mode, zone: str = "UTC") -> Argument:
    notices: list[tuple[str, str]] = []
    options = ReadOptions(mode=mode, zone=zone)
    arguments = Arguments(options, lambda code, detail: notices.append((code, detail)))
    try:
        value = read_argument(arguments)
    except RecordError as exc:
        value = f"{exc.code}: {exc.reason}"
    return Argument(value, tuple(notices))


def strictly(read_argument: Read) -> Value:
    return read(read_argument, Mode.STRICT).value


def leniently(read_argument: Read) -> Argument:
    return read(read_argument, Mode.LENIENT)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("1312387643", AUGUST),
        ("+5", datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
        ("-5", datetime(1969, 12, 31, 23, 59, 55, tzinfo=UTC)),
        ("9223372036854775807", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        *(("253402300799", LATEST), ("253402300800", None), ("-62135596801", None)),
    ],
)
def test_a_time_is_epoch_seconds(mode: Mode, text: str, moment: datetime | None) -> None:
    assert read(lambda arguments: arguments.moment(text), mode) == Argument(moment)


DATES = ("20110803 16:07:23", "2011-08-03T16:07:23Z", "Wed, 03 Aug 2011 16:07:23 GMT")


@pytest.mark.parametrize("text", [*DATES, " 1312387643 "])
def test_a_date_is_refused_strictly_and_else_repaired(text: str) -> None:
    detail = f"last-modified={text!r}, not seconds since 1970; read as a date"
    refusal = f"bad-date: last-modified={text!r}; expected seconds since 1970"
    assert strictly(lambda arguments: arguments.moment(text)) == refusal
    expected = Argument(AUGUST, (("date", detail),))
    assert leniently(lambda arguments: arguments.moment(text)) == expected


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("text", ["", "now", "1.5", None])
def test_a_text_without_a_date_is_refused(mode: Mode, text: str | None) -> None:
    refusal = f"bad-date: last-modified={text!r}; expected seconds since 1970"
    assert read(lambda arguments: arguments.moment(text), mode) == Argument(refusal)


def test_a_date_is_in_the_zone_of_the_options() -> None:
    found = read(lambda one: one.moment("20110803 16:07:23"), Mode.LENIENT, "Europe/Zurich")
    assert found.value == datetime(2011, 8, 3, 14, 7, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "value", "is_repaired"),
    [
        *((text, True, False) for text in (None, "true", "TRUE", "yes", "1", "on")),
        *((text, False, True) for text in ("false", "NO", "0", "off")),
        *((text, True, True) for text in ("", "maybe")),
    ],
)
def test_a_flag_of_a_listing_is_true_strictly_and_else_may_be_false(
    text: str | None, value: bool, is_repaired: bool
) -> None:
    detail = f"lock={text!r}, a flag with an argument; read as {str(value).lower()}"
    notices = (("flag", detail),) if is_repaired else ()
    assert strictly(lambda arguments: arguments.listed_flag("lock", text)) is True
    found = leniently(lambda arguments: arguments.listed_flag("lock", text))
    assert found == Argument(value, notices)


@pytest.mark.parametrize(
    ("name", "text", "strict", "lenient", "is_repaired"),
    [
        *(("lock", text, True, True, False) for text in ("true", "True")),
        *(("lock", text, False, False, False) for text in ("false", "FALSE")),
        *(("lock", text, False, True, True) for text in ("yes", "1", None)),
        *(("lock", text, False, False, True) for text in ("", "x", "true ")),
        *(("secure", text, False, True, True) for text in ("x", "", None)),
        ("secure", "no", False, False, True),
    ],
)
def test_a_flag_of_a_document_is_true_strictly_only_if_it_says_so(
    name: str, text: str | None, strict: bool, lenient: bool, is_repaired: bool
) -> None:
    shown = name if text is None else f"{name}={text!r}"
    detail = f"{shown}, neither true nor false; read as {str(lenient).lower()}"
    notices = (("flag", detail),) if is_repaired else ()
    assert strictly(lambda arguments: arguments.flag(name, text)) is strict
    assert leniently(lambda arguments: arguments.flag(name, text)) == Argument(lenient, notices)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("text", ["http://e.com/a", "", "a/b?c", "mailto:joe"])
def test_a_url_may_be_relative_or_empty(mode: Mode, text: str) -> None:
    assert read(lambda arguments: arguments.uri("result-link", text), mode) == Argument(text)


def test_a_url_that_java_refuses_is_refused_strictly_and_else_kept() -> None:
    refusal = "bad-url: display-url='a b'; expected a well-formed URL"
    notice = ("url", "display-url='a b' is not a well-formed URL; kept")
    assert strictly(lambda arguments: arguments.uri("display-url", "a b")) == refusal
    found = leniently(lambda arguments: arguments.uri("display-url", "a b"))
    assert found == Argument("a b", (notice,))
