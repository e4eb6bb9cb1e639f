"""Secrets that are taken out of messages, however they got into them."""

import traceback

import pytest

from feedferry.schemas.errors import (
    ConfigError,
    FatalError,
    FormatError,
    SourceError,
    UnavailableError,
)
from feedferry.schemas.notice import Notice
from feedferry.schemas.reject import Reject
from feedferry.transforms.net.redaction import Mask
from support.listings import listed

S3SAME = Mask(["s3same"])


def raised(exc: Exception, mask: Mask) -> Exception:
    with pytest.raises(type(exc)) as caught, mask.errors():
        raise exc
    return caught.value


@pytest.mark.parametrize(
    ("secret", "text", "expected"),
    [
        ("s3same", "last-modified='s3same'; expected", "last-modified='***'; expected"),
        ("s3same", "s3same s3same", "*** ***"),
        ("no", "no such disk", "*** such disk"),
        ("a\\b", "'a\\\\b'", "'***'"),
        ("it's", "'it's'", "'***'"),
        ("it's", "'\"it\\'s'", "'\"***'"),
        ("käse", "b'k\\xc3\\xa4se'", "b'***'"),
        ("kä'se", "b'\"k\\xc3\\xa4\\'se'", "b'\"***'"),
        ("a b&c", "http://a/?t=a%20b%26c", "http://a/?t=***"),
        ("begin\nmiddle\nend\n", "'begin', a command", "'***', a command"),
        ("begin\nmiddle\nend\n", "b'x begin\\nmiddle\\nend\\n'", "b'x ***'"),
    ],
)
def test_a_secret_is_hidden_in_each_spelling(secret: str, text: str, expected: str) -> None:
    assert Mask([secret]).text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'Bearer eyJhbGciOi', a command", "'Bearer ***', a command"),
        ("unknown-command eyJhbG", "unknown-command ***"),
        ("ends b'NiJ9\\x00'", "ends b'***\\x00'"),
    ],
)
def test_a_truncated_secret_is_hidden(text: str, expected: str) -> None:
    assert Mask(["eyJhbGciOiJIUzI1NiJ9"]).text(text) == expected


@pytest.mark.parametrize(
    ("secret", "text", "expected"),
    [
        ("a", "a date as 'a'; expected a number", "a date as '***'; expected a number"),
        ("a", "https://me:a@host/?token=a&b", "https://me:***@host/?token=***&b"),
        ("no", "nothing: unknown 'no'", "nothing: unknown '***'"),
        ("xyz", "xyzzy", "xyzzy"),
    ],
)
def test_a_short_secret_is_no_part_of_a_word(secret: str, text: str, expected: str) -> None:
    assert Mask([secret]).text(text) == expected


@pytest.mark.parametrize("text", ["the eyes", "'eyJ'", "eyJhbG is how all of them begin"])
def test_the_first_letters_of_a_secret_are_kept_in_other_words(text: str) -> None:
    assert Mask(["eyJhbGciOiJIUzI1NiJ9"]).text(text) == text


@pytest.mark.parametrize(
    ("secrets", "text", "expected"),
    [
        (["pass", "passport"], "passport, pass", "***, ***"),
        (["key\nsecret"], "key: secret", "key: ***"),
    ],
)
def test_secrets_inside_secrets_are_hidden_and_short_lines_are_not(
    secrets: list[str], text: str, expected: str
) -> None:
    assert Mask(secrets).text(text) == expected


def test_a_secret_that_is_not_utf_8_is_hidden_in_a_quotation_of_bytes() -> None:
    assert Mask(["\udcff\udcfe"]).text("it was b'\\xff\\xfe'") == "it was b'***'"


def test_without_secrets_messages_are_unchanged() -> None:
    mask = Mask(["", ""])

    assert (mask.longest, mask.text("a text")) == (0, "a text")


def test_reasons_and_details_are_masked_and_bytes_are_kept() -> None:
    reject = Reject(code="bad-date", reason="'s3same'", stage="read", data=b"s3same")
    notice = Notice(code="unknown-command s3same", detail="'s3same'; kept", source="a", offset=7)
    record = listed("s3same")

    results = [S3SAME.result(reject), S3SAME.result(notice), S3SAME.result(record)]
    assert results == [
        Reject(code="bad-date", reason="'***'", stage="read", data=b"s3same"),
        Notice(code="unknown-command ***", detail="'***'; kept", source="a", offset=7),
        record,
    ]


@pytest.mark.parametrize("kind", [FormatError, SourceError, UnavailableError, FatalError])
def test_a_fatal_error_is_masked(kind: type[FatalError]) -> None:
    exc = raised(kind("'s3same'; expected a date"), S3SAME)

    assert (type(exc), str(exc)) == (kind, "'***'; expected a date")


@pytest.mark.parametrize(
    ("exc", "mask"),
    [(FormatError("a torn end"), Mask([])), (ConfigError("${env:SECRET}: not set"), S3SAME)],
)
def test_other_errors_are_unchanged(exc: Exception, mask: Mask) -> None:
    assert raised(exc, mask) is exc


def test_a_masked_error_has_no_cause() -> None:
    secret = "".join(("s3", "same"))  # apart, so that a line of this file does not hold it
    exc = FormatError(f"{secret!r}; expected a date")
    exc.__cause__ = ValueError(secret)

    shown = "".join(traceback.format_exception(raised(exc, S3SAME)))
    assert (secret in shown, "FormatError: '***'; expected a date" in shown) == (False, True)
