"""Rejects and notices: their bytes, their messages, and defects that cost one record."""

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from msgspec.structs import replace

from feedferry.schemas import avro
from feedferry.schemas.acl import Scope
from feedferry.schemas.avro import carried_bytes, long
from feedferry.schemas.errors import (
    ConfigError,
    FormatError,
    LossRefusedError,
    ProgramError,
    RecordError,
)
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import (
    DEFECT,
    Filtered,
    Place,
    Reject,
    defect_type,
    record_error,
    reject_bytes,
    storable,
)
from feedferry.schemas.span import Span
from feedferry.transforms.storage.atomic import RejectFile, read_rejects
from feedferry.transforms.storage.storage import LocalStorage

SPAN = Span(source="feed.xml", ordinal=2)
TORN = RecordError("torn", "a torn record; expected its end")


def reject_of(exc: Exception) -> Reject:
    error = record_error(exc)
    return Reject(code=error.code, reason=error.reason, stage="read")


def test_messages_have_the_line_and_the_byte_or_the_key_of_what_has_no_bytes() -> None:
    with_line = Reject(code="a", reason="found; expected", stage="read", source="f.xml", line=3)
    without = Reject(code="a", reason="found; expected", stage="read", source="ids", offset=9)
    notice = Notice(code="date", detail="a date; read as one", source="ids.txt", offset=12)

    assert with_line.message == "f.xml:3 (byte 0): found; expected"
    assert without.message == "ids (byte 9): found; expected"
    assert replace(without, key="sub/a.txt").message == "ids: sub/a.txt: found; expected"
    assert notice.message == "ids.txt (byte 12): a date; read as one"


def test_a_reject_of_bytes_has_their_place_and_states_whether_they_are_complete() -> None:
    place = Place(offset=10, length=4, line=7)

    assert reject_bytes(TORN, span=SPAN, place=place, data=b"<rec", url="u") == Reject(
        code="torn",
        reason="a torn record; expected its end",
        stage="read",
        source="feed.xml",
        span=2,
        line=7,
        offset=10,
        length=4,
        url="u",
        data=b"<rec",
    )
    assert reject_bytes(TORN, span=SPAN, place=Place(0, 5), data=b"<rec").truncated


def test_a_reject_carries_its_record_as_avro() -> None:
    record = Record(url="http://a.example.com/", action=Action.ADD, title="plan")
    group = Membership(group=Member(name="staff", scope=Scope.GROUP), members=())

    assert (
        avro.convert(avro.read_fields(io.BytesIO(carried_bytes(record)), "record"), Record)
        == record
    )
    assert (
        avro.convert(avro.read_fields(io.BytesIO(carried_bytes(group)), "membership"), Membership)
        == group
    )


def test_a_reject_carries_a_record_that_avro_cannot_hold_as_json() -> None:
    surrogate = json.loads(carried_bytes(Record(url="http://a/\ud800", action=Action.ADD)))
    huge = json.loads(carried_bytes(Record(url="http://a/", action=Action.ADD, size=1 << 80)))

    assert (surrogate["url"], surrogate["action"]) == ("http://a/\ud800", "ADD")
    assert huge["size"] == 1 << 80


@pytest.mark.parametrize("exc", [RecordError("bad", "a reason"), ProgramError("bad", "a reason")])
def test_a_record_error_is_returned_as_it_is(exc: RecordError) -> None:
    assert record_error(exc) is exc


@pytest.mark.parametrize(
    "exc",
    [ConfigError("c"), FormatError("f"), LossRefusedError("l"), MemoryError(), OSError(5, "input")],
)
def test_errors_of_more_than_one_record_are_raised_again(exc: Exception) -> None:
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


def test_a_defect_names_its_place_in_our_code_and_no_content() -> None:
    try:
        long("secret")  # type: ignore[arg-type]  # a defect of the caller
    except TypeError as exc:
        reason = record_error(exc).reason
    assert reason.startswith("a defect of feedferry: TypeError in feedferry.schemas.avro:")
    assert "secret" not in reason


def test_the_exception_type_is_found_only_in_rejects_of_defects() -> None:
    reason = reject_of(KeyError()).reason
    prefixed = Reject(code=DEFECT, reason=f"id=7: {reason}", stage="read")

    assert defect_type(prefixed) == "KeyError"
    assert defect_type(Reject(code="malformed", reason=reason, stage="read")) is None


def test_an_outcome_can_be_stored_whatever_it_contains() -> None:
    reject = Reject(
        code="file-name",
        reason="'\udcfc'; expected UTF-8",
        stage="read",
        span=1 << 31,
        line=-1,
        offset=1 << 63,
        length=(1 << 63) - 1,
        key="a.tar/\udcfcber ü",
        data=b"\xfc",
    )
    stored = storable(reject)
    assert (stored.reason, stored.key) == (r"'\udcfc'; expected UTF-8", r"a.tar/\udcfcber ü")
    assert (stored.span, stored.line, stored.offset) == (0, 0, 0)
    assert (stored.length, stored.url, stored.data) == ((1 << 63) - 1, None, b"\xfc")
    filtered = Filtered(code="empty", url="http://www.example.com/\udcfc", action="ADD")
    assert storable(filtered).url == r"http://www.example.com/\udcfc"


TEXTS = st.text(st.characters())


@given(
    st.builds(
        Reject,
        **dict.fromkeys(("code", "reason", "stage", "source"), TEXTS),
        **dict.fromkeys(("key", "url", "action", "datasource", "feedtype"), TEXTS | st.none()),
        **dict.fromkeys(("span", "line", "offset", "length"), st.integers()),
    )
)
def test_a_stored_reject_is_read_again(reject: Reject) -> None:
    with TemporaryDirectory() as folder:
        file = RejectFile(LocalStorage(Path(folder)), "a.avro")
        file.add(storable(reject))
        file.close(whole=True)
        assert [*read_rejects(Path(folder, "a.avro"))] == [storable(reject)]
