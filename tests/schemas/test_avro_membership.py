"""Memberships as Avro datums."""

import io
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import avro, avro_membership
from schemas.acl import Scope
from schemas.errors import RecordError
from schemas.membership import Member, Membership
from schemas.record import Provenance
from support.membership_strategies import memberships

STAFF = Membership(group=Member(name="staff", scope=Scope.GROUP))
DATUM = b"\x0astaff\x02" + bytes(3) + bytes(3) + bytes(6)


def fastavro_datum(found: Membership) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, avro.schema("membership"), msgspec.to_builtins(found))
    return stream.getvalue()


def reason_of(datum: bytes) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        avro_membership.decode(datum)
    return caught.value.code, caught.value.reason


@given(memberships())
def test_a_membership_is_read_back_as_it_was(found: Membership) -> None:
    assert avro_membership.decode(avro_membership.encode(found)) == found


@given(memberships())
def test_a_datum_is_the_one_that_fastavro_writes(found: Membership) -> None:
    assert avro_membership.encode(found) == fastavro_datum(found)


def test_a_datum_is_a_byte_for_each_thing_that_is_not_stated() -> None:
    assert avro_membership.encode(STAFF) == DATUM


def test_many_members_are_what_fastavro_writes() -> None:
    found = msgspec.structs.replace(STAFF, members=(STAFF.group,) * 20_000)
    assert avro_membership.encode(found) == fastavro_datum(found)


def test_a_lone_surrogate_is_a_record_error() -> None:
    with pytest.raises(RecordError) as caught:
        avro_membership.encode(Membership(group=Member(name="\ud800", scope=Scope.GROUP)))
    assert (caught.value.code, caught.value.reason) == (
        "not-unicode",
        "a lone surrogate U+D800; expected Unicode text",
    )


def test_a_number_that_no_long_holds_is_a_record_error() -> None:
    with pytest.raises(RecordError) as caught:
        avro_membership.encode(msgspec.structs.replace(STAFF, provenance=Provenance(offset=2**63)))
    assert caught.value.reason == (
        "provenance.offset=9223372036854775808; "
        "expected -9223372036854775808 to 9223372036854775807"
    )


def test_datums_are_read_one_after_the_other() -> None:
    stream = io.BytesIO(DATUM + DATUM)
    avro_membership.decode_next(stream)
    assert avro_membership.decode_next(stream) == STAFF


def test_bytes_behind_a_datum_are_a_record_error() -> None:
    assert reason_of(DATUM + b"x") == (
        "bad-avro",
        "1 bytes after the datum; expected one Avro datum of a membership",
    )


def test_a_torn_datum_is_a_record_error() -> None:
    assert reason_of(DATUM[:-1]) == (
        "bad-avro",
        "unreadable bytes (EOFError); expected one Avro datum of a membership",
    )


@given(st.binary(max_size=60))
def test_bytes_by_chance_raise_nothing_but_a_record_error(junk: bytes) -> None:
    try:
        found = avro_membership.decode(junk)
    except RecordError:
        return
    assert isinstance(found, Membership)


# Other schemas


def written_with(schema: Any, fields: dict[str, Any]) -> Membership:
    parsed = fastavro.parse_schema(schema)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed, fields)
    return avro_membership.decode_next(io.BytesIO(stream.getvalue()), written=parsed)


def schema_of(member_fields: list[dict[str, Any]]) -> dict[str, Any]:
    member = {"type": "record", "name": "Member", "fields": member_fields}
    return {
        "type": "record",
        "name": "Membership",
        "fields": [
            {"name": "group", "type": member},
            {"name": "members", "type": {"type": "array", "items": "Member"}},
        ],
    }


def test_a_schema_with_groups_and_members_only_is_resolved() -> None:
    scope = {"type": "enum", "name": "Scope", "symbols": ["GROUP", "USER"]}
    fields: list[Any] = [{"name": "name", "type": "string"}, {"name": "scope", "type": scope}]
    staff, joe = {"name": "staff", "scope": "GROUP"}, {"name": "joe", "scope": "USER"}
    assert written_with(schema_of(fields), {"group": staff, "members": [joe]}) == Membership(
        group=Member(name="staff", scope=Scope.GROUP),
        members=(Member(name="joe", scope=Scope.USER),),
    )


def test_a_schema_without_scopes_is_not_resolved() -> None:
    with pytest.raises(RecordError) as caught:
        written_with(
            schema_of([{"name": "name", "type": "string"}]),
            {"group": {"name": "staff"}, "members": []},
        )
    assert caught.value.code == "other-schema"
