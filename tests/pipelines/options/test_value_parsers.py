"""Values of flags: each text is understood, or refused with what was expected."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from feedferry.pipelines.options.value_parsers import (
    DELIMITER,
    ZONE,
    choice,
    count_of,
    loss_fields,
    parse_charset,
    parse_chunk_size,
    parse_delimiter,
    parse_encoding,
    parse_fields,
    parse_mappings,
    parse_mimetype,
    parse_percent,
    parse_port,
    parse_positive_size,
    parse_timeout,
    share_limit_of,
)
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.share_limit import ShareLimit

IDS = count_of("ids", minimum=1).parse
RECORDS = count_of("records").parse
SHARE = share_limit_of("records").parse
FORMATS = choice("text", "json").parse

A_ZONE = "expected an IANA time zone such as Europe/Berlin"
REJECTS = "expected a number of records or a percentage, as 10 or 0.5%"
FIELD = "expected a field of a record, such as acl or crawl-once"
MAPPING = "expected NAME=FIELD, where FIELD is a letter or _, then letters, digits, _ and -"


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_positive_size, "1", 1),
        (parse_chunk_size, "999999999", 999_999_999),
        (parse_chunk_size, "64KiB", 65_536),
        (parse_timeout, "90s", 90.0),
        (IDS, "1", 1),
        (RECORDS, "0", 0),
        (parse_port, "0", 0),
        (parse_port, "65535", 65535),
        (parse_percent, "100%", Decimal(100)),
        (parse_percent, "2.5", Decimal("2.5")),
        (SHARE, "10", ShareLimit(count=10)),
        (SHARE, "0.5%", ShareLimit(percent=Decimal("0.5"))),
        (parse_charset, "Windows-1252", "Windows-1252"),
        (parse_encoding, "windows-1252", "windows-1252"),
        (parse_delimiter, r"\0", "\0"),
        (parse_delimiter, r"\r\n", "\r\n"),
        (parse_delimiter, r"\\;", "\\;"),
        (parse_delimiter, "**", "**"),
        (parse_fields, "acl, next-check", frozenset({"acl", "next-check"})),
        (parse_mappings, ["a=b=c"], (("a=b", "c"),)),
        (parse_mappings, ["b=x", "a=x"], (("b", "x"), ("a", "x"))),
        (parse_mappings, ["a=x", "a=x"], (("a", "x"),)),
        (ZONE.parse, "America/New_York", "America/New_York"),
        (parse_mimetype, "text/html; charset=utf-8", "text/html; charset=utf-8"),
        (FORMATS, "json", "json"),
    ],
)
def test_a_text_has_a_value(parse: Callable[[object], object], text: object, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_positive_size, "0", "expected at least one byte"),
        (parse_timeout, "0s", "expected more than 0 seconds"),
        *((IDS, text, "expected a number of ids, 1 or more") for text in ("0", "-1", "", "²")),
        *((IDS, text, "expected a number of ids, 1 or more") for text in ("1.5", "1" + "0" * 18)),
        (RECORDS, "x", "expected a number of records"),
        (parse_port, "65536", "expected a port from 0, any free one, to 65535"),
        (parse_percent, "100.1", "expected a percentage, as 5 or 0.5%"),
        *((SHARE, text, REJECTS) for text in ("", "-1", "0.5", "9" * 19)),
        *((SHARE, text, "expected a percentage, as 5 or 0.5%") for text in ("%", "101%")),
        (parse_charset, "windows-1252x", "expected a charset such as windows-1252"),
        (
            parse_encoding,
            "utf-16",
            "expected an encoding such as utf-8 or windows-1252; documents in UTF-16 need no flag",
        ),
        *((parse_mimetype, text, "expected a MIME type such as text/html") for text in ("a", "a/")),
        (ZONE.parse, "", A_ZONE),
        (ZONE.parse, "europe/berlin", f"{A_ZONE}; did you mean 'Europe/Berlin'?"),
        (FORMATS, "jsno", "expected one of text, json; did you mean 'json'?"),
        (parse_fields, "", FIELD),
        (parse_fields, "acls", f"{FIELD}; did you mean 'acl'?"),
        (parse_fields, "overwrite_acls", f"{FIELD}; did you mean 'overwrite-acls'?"),
    ],
)
def test_another_text_is_refused_with_the_expected_values(
    parse: Callable[[str], object], text: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert str(caught.value) == f"{text!r}; {expected}"


TOO_LARGE = "expected less than 1000000000, because an appliance refuses larger feeds"


@pytest.mark.parametrize(
    ("parse", "value", "message"),
    [
        (parse_chunk_size, "1GB", f"'1GB' is 1000000000 bytes; {TOO_LARGE}"),
        (parse_chunk_size, "65535", "'65535' is 65535 bytes; expected at least 65536"),
        *((parse_mappings, [text], f"{text!r}; {MAPPING}") for text in ("a", "=x", "a=", "a=1x")),
        (parse_mappings, ["a=x y"], f"'a=x y'; {MAPPING}"),
        (*(parse_mappings, ["a=x", "a=y"]), "'a' is mapped to 'x' and to 'y'; expected one field"),
    ],
)
def test_a_chunk_size_or_a_mapping_outside_its_limits_is_refused(
    parse: Callable[[object], object], value: object, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(value)
    assert str(caught.value) == message


@pytest.mark.parametrize("delimiter", ["\0", "\r\n", "\\", "**"])
def test_a_delimiter_is_shown_as_it_is_written(delimiter: str) -> None:
    assert DELIMITER.parse(DELIMITER.format(delimiter)) == delimiter


@pytest.mark.parametrize(
    ("limit", "part", "whole", "is_allowed"),
    [
        (ShareLimit(count=10), 10, 10, True),
        (ShareLimit(count=10), 11, 1_000_000, False),
        (ShareLimit(percent=Decimal("0.7")), 7, 1000, True),
        (ShareLimit(percent=Decimal("0.7")), 8, 1000, False),
        (ShareLimit(percent=Decimal(0)), 0, 0, True),
    ],
)
def test_a_limit_of_a_share_is_exact(
    limit: ShareLimit, part: int, whole: int, is_allowed: bool
) -> None:
    assert limit.allows(part, of=whole) is is_allowed


def test_losses_are_named_by_the_fields_that_a_target_may_lack() -> None:
    assert {"acl", "next-check", "crawl-once", "history"} <= {*loss_fields()}
    assert not {"url", "action", "provenance", "crawl"} & {*loss_fields()}
