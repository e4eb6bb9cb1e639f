"""Which exceptions cost one record, and what is said of them."""

import pytest
from lxml import etree

from schemas.defect import DEFECT, defect_type, record_error
from schemas.errors import (
    ConfigError,
    FormatError,
    LossRefusedError,
    ProgramError,
    RecordError,
    SourceError,
    TooManyRejectsError,
)
from schemas.reject import Reject
from schemas.varint import long


def reject_of(exc: Exception) -> Reject:
    error = record_error(exc)
    return Reject(code=error.code, reason=error.reason, stage="read")


@pytest.mark.parametrize("exc", [RecordError("bad", "a reason"), ProgramError("bad", "a reason")])
def test_a_record_error_stays_as_it_is(exc: RecordError) -> None:
    assert record_error(exc) is exc


@pytest.mark.parametrize(
    "exc",
    [
        ConfigError("c"),
        FormatError("f"),
        LossRefusedError("l"),
        SourceError("s"),
        TooManyRejectsError("t"),
        MemoryError(),
        OSError(5, "input/output error"),
        FileNotFoundError(2, "gone"),
    ],
)
def test_what_is_not_of_one_record_is_raised_again(exc: Exception) -> None:
    with pytest.raises(type(exc)) as raised:
        record_error(exc)
    assert raised.value is exc


@pytest.mark.parametrize(
    ("exc", "name"),
    [
        (KeyError("k"), "KeyError"),
        (RecursionError(), "RecursionError"),
        (UnicodeEncodeError("utf-8", "x", 0, 1, "r"), "UnicodeEncodeError"),
        (etree.XMLSyntaxError("no XML", 1, 1, 1), "lxml.etree.XMLSyntaxError"),
    ],
)
def test_any_other_exception_is_a_defect(exc: Exception, name: str) -> None:
    reject = reject_of(exc)
    assert (reject.code, defect_type(reject)) == (DEFECT, name)


def test_a_defect_says_where_in_our_own_code_it_was() -> None:
    try:
        long("secret")  # type: ignore[arg-type]  # a defect of whoever calls
    except TypeError as exc:
        reason = record_error(exc).reason
    assert reason.startswith("a defect of feedferry: TypeError in schemas.varint:")
    assert "secret" not in reason


def test_the_type_is_found_behind_the_name_of_a_row() -> None:
    reject = reject_of(KeyError())
    prefixed = Reject(code=reject.code, reason=f"id=7: {reject.reason}", stage="read")
    assert defect_type(prefixed) == "KeyError"


def test_a_reject_of_another_code_is_no_defect() -> None:
    reason = reject_of(KeyError()).reason
    assert defect_type(Reject(code="malformed", reason=reason, stage="read")) is None
