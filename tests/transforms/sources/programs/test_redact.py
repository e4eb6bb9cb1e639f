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


@pytest.mark.parametrize("text", ["the eyes", "'eyJ'", "eyJhbG is how all of them begin"])
def test_the_first_letters_of_a_secret_are_kept_in_other_words(text: str) -> None:
    assert Mask(["eyJhbGciOiJIUzI1NiJ9"]).text(text) == text


def test_a_secret_inside_another_secret_is_hidden() -> None:
    assert Mask(["pass", "passport"]).text("passport, pass") == "***, ***"


def test_a_short_line_of_a_secret_is_not_hidden() -> None:
    assert Mask(["key\nsecret"]).text("the key: secret") == "the key: ***"


def test_a_secret_is_hidden_in_bytes() -> None:
    assert Mask(["käse"]).bytes(b"it was k\xc3\xa4se\xff") == b"it was ***\xff"


def test_a_secret_that_is_not_utf_8_is_hidden_in_bytes() -> None:
    assert Mask(["\udcff\udcfe"]).bytes(b"it was \xff\xfe") == b"it was ***"


def test_the_longest_secret_is_measured_in_bytes() -> None:
    assert Mask(["longer", "ääää"]).longest == 8


def test_without_secrets_messages_are_unchanged() -> None:
    mask = Mask(["", ""])

    expected = (True, 0, "a text")
    assert (mask.is_empty, mask.longest, mask.text("a text")) == expected


def test_the_reason_of_a_reject_is_masked_and_its_bytes_are_kept() -> None:
    reject = Reject(code="bad-date", reason="'s3same'", stage="read", data=b"s3same")

    assert S3SAME.result(reject) == Reject(
        code="bad-date", reason="'***'", stage="read", data=b"s3same"
    )


def test_the_code_and_the_detail_of_a_notice_are_masked() -> None:
    notice = Notice(code="unknown-command s3same", detail="'s3same'; kept", source="a", offset=7)

    assert S3SAME.result(notice) == Notice(
        code="unknown-command ***", detail="'***'; kept", source="a", offset=7
    )


def test_a_record_is_unchanged() -> None:
    assert S3SAME.result(listed("s3same")) == listed("s3same")


@pytest.mark.parametrize("kind", [FormatError, SourceError, UnavailableError, FatalError])
def test_a_fatal_error_is_masked(kind: type[FatalError]) -> None:
    exc = raised(kind("'s3same'; expected a date"), S3SAME)

    assert (type(exc), str(exc)) == (kind, "'***'; expected a date")


def test_a_fatal_error_without_secrets_is_unchanged() -> None:
    exc = FormatError("a torn end")

    assert raised(exc, Mask([])) is exc


def test_a_config_error_is_unchanged() -> None:
    exc = ConfigError("${env:SECRET}: not set")

    assert raised(exc, S3SAME) is exc


def test_a_masked_error_has_no_cause() -> None:
    secret = "".join(("s3", "same"))  # apart, so that a line of this file does not hold it
    exc = FormatError(f"{secret!r}; expected a date")
    exc.__cause__ = ValueError(secret)

    shown = "".join(traceback.format_exception(raised(exc, S3SAME)))
    assert (secret in shown, "FormatError: '***'; expected a date" in shown) == (False, True)
