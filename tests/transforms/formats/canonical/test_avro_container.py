"""The header of an Avro container file, and what stands around its blocks."""

import io
import json
from typing import Any

import fastavro
import pytest

from schemas import avro
from schemas.errors import FormatError, RecordError
from schemas.varint import long
from transforms.formats.canonical.avro_container import (
    MAX_BLOCK_BYTES,
    MEMBERSHIP,
    RECORD,
    framing,
    open_container,
    our_header,
    our_sync,
)

SYNC = b"0123456789abcdef"
TEN = r"\x80" * 10


def header_of(schema: Any, codec: str = "null") -> bytes:
    """A header with any schema, as bytes: fastavro would check it."""
    text = json.dumps(schema).encode() if not isinstance(schema, bytes) else schema
    pairs = ((b"avro.codec", codec.encode()), (b"avro.schema", text))
    meta = [long(len(part)) + part for name_and_value in pairs for part in name_and_value]
    return b"".join((b"Obj\x01", long(2), *meta, long(0), SYNC))


def record_of(*kinds: Any) -> dict[str, Any]:
    """The schema of a record that has all we need, and fields of other kinds."""
    needed = [{"name": name, "type": "string"} for name in ("url", "action", "provenance")]
    others = [{"name": f"f{place}", "type": kind} for place, kind in enumerate(kinds)]
    return {"type": "record", "name": "Record", "fields": needed + others}


def complaint(head: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        open_container(head, source="a.avro")
    return str(caught.value)


# Our own


def test_our_header_is_one_that_fastavro_reads() -> None:
    container = fastavro.reader(io.BytesIO(our_header(RECORD)))
    assert json.loads(container.metadata["avro.schema"]) == avro.schema_document("record")


def test_our_header_says_what_we_made_it_say() -> None:
    container = open_container(our_header(RECORD) + b"a block", source="")
    assert container == (our_header(RECORD), "null", our_sync(RECORD), None, RECORD)


def test_our_header_is_always_the_same() -> None:
    first = our_header(RECORD)
    our_header.cache_clear()
    our_sync.cache_clear()
    assert our_header(RECORD) == first


def test_our_sync_marker_has_16_bytes() -> None:
    assert len(our_sync(RECORD)) == 16


def test_our_header_of_memberships_has_their_schema() -> None:
    container = fastavro.reader(io.BytesIO(our_header(MEMBERSHIP)))
    assert json.loads(container.metadata["avro.schema"]) == avro.schema_document("membership")


def test_our_header_of_memberships_is_known_as_ours() -> None:
    header = our_header(MEMBERSHIP)
    container = open_container(header, source="")
    assert container == (header, "null", our_sync(MEMBERSHIP), None, MEMBERSHIP)


def test_memberships_and_records_have_other_sync_markers() -> None:
    assert our_sync(MEMBERSHIP) != our_sync(RECORD)


# Others


def test_a_schema_with_other_doc_strings_is_read_as_another() -> None:
    document = avro.schema_document("record") | {"doc": "Ours, but for this."}
    assert open_container(header_of(document), source="").written["doc"] == "Ours, but for this."


def test_a_header_of_fastavro_with_our_schema_is_known_as_ours() -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, avro.schema("record"), [], codec="deflate", sync_marker=SYNC)
    container = open_container(stream.getvalue(), source="")
    assert (container.codec, container.sync, container.written) == ("deflate", SYNC, None)


def test_another_schema_with_group_and_members_is_one_of_memberships() -> None:
    fields = [{"name": name, "type": "string"} for name in ("members", "since", "group")]
    container = open_container(
        header_of({"type": "record", "name": "Team", "fields": fields}), source=""
    )
    assert (container.kind, container.written["name"]) == (MEMBERSHIP, "Team")


def test_a_schema_with_the_fields_of_both_is_one_of_records() -> None:
    document = record_of()
    document["fields"] += [{"name": name, "type": "string"} for name in ("group", "members")]
    assert open_container(header_of(document), source="").kind == RECORD


def test_a_header_without_a_codec_has_none() -> None:
    head = b"Obj\x01" + our_header(RECORD)[4:].replace(b"avro.codec", b"some.other")
    assert open_container(head, source="").codec == "null"


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (
            b"",
            r"a.avro: b''; expected an Avro container, which begins with b'Obj\x01'",
        ),
        (
            b"PK\x03\x04 and more",
            r"a.avro: b'PK\x03\x04'; expected an Avro container, which begins with b'Obj\x01'",
        ),
        (
            b"Obj\x01\x04",
            "a.avro: a header without its end in 5 bytes; "
            "expected an Avro container with a whole one",
        ),
        (
            b"Obj\x01\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "a.avro: a header without its end in 15 bytes; "
            "expected an Avro container with a whole one",
        ),
        (
            header_of(record_of(), codec="rot13"),
            "a.avro: codec 'rot13'; "
            "expected one of bzip2, deflate, lz4, null, snappy, xz, zstandard",
        ),
        (
            header_of(b"{"),
            "a.avro: avro.schema=b'{'; expected an Avro schema in JSON",
        ),
        (
            header_of({"type": "recrod", "name": "Record"}),
            """a.avro: avro.schema=b'{"type": "recrod", "name": "Record"}'; """
            "expected an Avro schema in JSON",
        ),
        (
            header_of(b"[" * 100_000),
            f"a.avro: avro.schema={b'[' * 40!r}; expected an Avro schema in JSON",
        ),
        (
            header_of({"type": "record", "name": "User", "namespace": "org", "fields": []}),
            "a.avro: an Avro container of 'org.User'; "
            "expected records with url, action, provenance or memberships with group, members",
        ),
        (
            header_of("string"),
            "a.avro: an Avro container of 'string'; "
            "expected records with url, action, provenance or memberships with group, members",
        ),
        (
            header_of({"type": "array", "items": "string"}),
            "a.avro: an Avro container of 'array'; "
            "expected records with url, action, provenance or memberships with group, members",
        ),
    ],
    ids=[
        *("empty", "zip", "torn", "hostile-length", "codec", "json", "type", "deep"),
        *("record", "string", "array"),
    ],
)
def test_a_header_that_cannot_be_read_is_a_format_error(head: bytes, message: str) -> None:
    assert complaint(head) == message


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ({"type": "array", "items": "null"}, "'null' in 'Record'"),
        ({"type": "map", "values": "null"}, "'null' in 'Record'"),
        ("null", "'null' in 'Record'"),
        ({"type": "record", "name": "Empty", "fields": []}, "no fields in 'Empty'"),
        (["null", "Record"], "'Record' in 'Record'"),
        (
            {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]},
            "'A' in 'A'",
        ),
        ({"type": "fixed", "name": "F", "size": 0}, "'F' of size 0"),
    ],
)
def test_a_schema_of_which_few_bytes_hold_much_is_a_format_error(kind: Any, found: str) -> None:
    message = f"a.avro: a schema with {found}; expected a type that takes bytes"
    assert complaint(header_of(record_of(kind))) == message


@pytest.mark.parametrize(
    "kind",
    [
        ["null", "string"],
        {"type": "array", "items": ["null", "long"]},
        {"type": "map", "values": {"type": "fixed", "name": "F", "size": 1}},
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
    ],
)
def test_a_schema_with_other_fields_is_taken(kind: Any) -> None:
    assert open_container(header_of(record_of(kind)), source="").written["name"] == "Record"


# Framing


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"\x02\x04ab", (1, 2, 2)),
        (b"\x00\x00", (0, 0, 2)),
        (b"\x80\x01\x80\x80\x01 and more", (64, 8192, 5)),
        (b"\x02" + long(MAX_BLOCK_BYTES), (1, 1 << 30, 6)),
    ],
)
def test_a_block_says_how_many_records_and_bytes_it_has(
    head: bytes, found: tuple[int, int, int]
) -> None:
    assert framing(head) == found


@pytest.mark.parametrize(
    ("head", "code", "reason"),
    [
        (b"", "bad-block", "b''; expected the size of a block"),
        (b"\x02\x80", "bad-block", r"b'\x02\x80'; expected the size of a block"),
        (b"\x80" * 10, "bad-block", rf"b'{TEN}'; expected the size of a block"),
        (
            b"\x01\x02",
            "bad-block",
            "a block of -1 records in 1 bytes; expected 0 or more of both",
        ),
        (
            b"\x02\x03",
            "bad-block",
            "a block of 1 records in -2 bytes; expected 0 or more of both",
        ),
        (
            b"\x02" + long(MAX_BLOCK_BYTES + 1),
            "block-too-large",
            "a block of 1 records in 1073741825 bytes; expected at most 1073741824 bytes; "
            "raise --max-content-bytes",
        ),
    ],
)
def test_what_cannot_stand_before_a_block_is_a_record_error(
    head: bytes, code: str, reason: str
) -> None:
    with pytest.raises(RecordError) as caught:
        framing(head)
    assert (caught.value.code, caught.value.reason) == (code, reason)
