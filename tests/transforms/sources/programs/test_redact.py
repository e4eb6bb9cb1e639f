"""Secrets that are taken out of messages, however they got into them."""

import traceback

import pytest

from schemas.errors import ConfigError, FatalError, FormatError, SourceError, UnavailableError
from schemas.notice import Notice
from schemas.reject import Reject
from support.listings import listed
from transforms.sources.programs.redact import Mask

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
def test_a_secret_is_hidden_however_it_is_written(secret: str, text: str, expected: str) -> None:
    assert Mask([secret]).text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'Bearer eyJhbGciOi', a command", "'Bearer ***', a command"),
        ("unknown-command eyJhbG", "unknown-command ***"),
        ("ends b'NiJ9\\x00'", "ends b'***\\x00'"),
    ],
)
def test_a_secret_that_was_cut_is_hidden(text: str, expected: str) -> None:
    assert Mask(["eyJhbGciOiJIUzI1NiJ9"]).text(text) == expected


@pytest.mark.parametrize("text", ["the eyes", "'eyJ'", "eyJhbG is how all of them begin"])
def test_what_a_secret_begins_with_is_none_elsewhere(text: str) -> None:
    assert Mask(["eyJhbGciOiJIUzI1NiJ9"]).text(text) == text


def test_a_secret_within_another_leaves_nothing_of_it() -> None:
    assert Mask(["pass", "passport"]).text("passport, pass") == "***, ***"


def test_a_short_line_of_a_secret_is_none() -> None:
    assert Mask(["key\nsecret"]).text("the key: secret") == "the key: ***"


def test_bytes_have_no_secret() -> None:
    assert Mask(["käse"]).bytes(b"it was k\xc3\xa4se\xff") == b"it was ***\xff"


def test_a_secret_that_is_no_utf_8_is_hidden_in_bytes() -> None:
    assert Mask(["\udcff\udcfe"]).bytes(b"it was \xff\xfe") == b"it was ***"


def test_the_longest_secret_is_counted_in_bytes() -> None:
    assert Mask(["longer", "ääää"]).longest == 8


def test_no_secrets_hide_nothing() -> None:
    mask = Mask(["", ""])

    expected = (True, 0, "a text")
    assert (mask.is_empty, mask.longest, mask.text("a text")) == expected


def test_the_reason_of_a_reject_is_masked_and_its_bytes_are_kept() -> None:
    reject = Reject(code="bad-date", reason="'s3same'", stage="read", data=b"s3same")

    assert S3SAME.found(reject) == Reject(
        code="bad-date", reason="'***'", stage="read", data=b"s3same"
    )


def test_the_code_and_the_detail_of_a_notice_are_masked() -> None:
    notice = Notice(code="unknown-command s3same", detail="'s3same'; kept", source="a", offset=7)

    assert S3SAME.found(notice) == Notice(
        code="unknown-command ***", detail="'***'; kept", source="a", offset=7
    )


def test_a_record_stays_as_it_is() -> None:
    assert S3SAME.found(listed("s3same")) == listed("s3same")


@pytest.mark.parametrize("kind", [FormatError, SourceError, UnavailableError, FatalError])
def test_the_message_of_what_ends_a_run_is_masked(kind: type[FatalError]) -> None:
    exc = raised(kind("'s3same'; expected a date"), S3SAME)

    assert (type(exc), str(exc)) == (kind, "'***'; expected a date")


def test_what_ends_a_run_without_a_secret_is_raised_as_it_is() -> None:
    exc = FormatError("a torn end")

    assert raised(exc, Mask([])) is exc


def test_a_configuration_that_cannot_be_used_shows_no_secret_by_itself() -> None:
    exc = ConfigError("${env:SECRET}: not set")

    assert raised(exc, S3SAME) is exc


def test_a_traceback_shows_no_secret_of_what_an_error_was_raised_from() -> None:
    secret = "".join(("s3", "same"))  # apart, so that a line of this file does not hold it
    exc = FormatError(f"{secret!r}; expected a date")
    exc.__cause__ = ValueError(secret)

    shown = "".join(traceback.format_exception(raised(exc, S3SAME)))
    assert (secret in shown, "FormatError: '***'; expected a date" in shown) == (False, True)
