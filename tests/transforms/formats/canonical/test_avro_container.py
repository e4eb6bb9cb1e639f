"""Avro container files: headers, the framing of blocks, and codecs."""

import io
import json
import zlib
from typing import Any

import fastavro
import pytest

from feedferry.schemas import avro
from feedferry.schemas.avro import long
from feedferry.schemas.errors import FormatError, RecordError
from feedferry.transforms.formats.canonical.avro import (
    MAX_BLOCK_BYTES,
    MEMBERSHIP,
    RECORD,
    Container,
    framing,
    open_container,
    our_header,
    our_sync,
    unpack,
)

SYNC = b"0123456789abcdef"
ARRAY = {"type": "array", "items": "string"}
A_WHOLE = "expected an Avro container with a whole one"
A_SCHEMA = "expected an Avro schema in JSON"
OTHER_RECORD = "expected records with url, action, provenance or memberships with group, members"


def header_of(schema: Any, codec: str = "null") -> bytes:
    """A header with any schema, as bytes: fastavro would check it."""
    text = json.dumps(schema).encode() if not isinstance(schema, bytes) else schema
    pairs = ((b"avro.codec", codec.encode()), (b"avro.schema", text))
    meta = [long(len(part)) + part for name_and_value in pairs for part in name_and_value]
    return b"".join((b"Obj\x01", long(2), *meta, long(0), SYNC))


def record_of(*kinds: Any) -> dict[str, Any]:
    """The schema of a record with the needed fields, and fields of other kinds."""
    needed = [{"name": name, "type": "string"} for name in ("url", "action", "provenance")]
    others = [{"name": f"f{place}", "type": kind} for place, kind in enumerate(kinds)]
    return {"type": "record", "name": "Record", "fields": needed + others}


def name_of(container: Container) -> str:
    assert isinstance(container.written, dict)
    name: str = container.written["name"]
    return name


# Headers


@pytest.mark.parametrize("kind", [RECORD, MEMBERSHIP])
def test_our_header_has_our_schema(kind: str) -> None:
    header = our_header(kind)
    metadata = fastavro.reader(io.BytesIO(header)).metadata
    assert json.loads(metadata["avro.schema"]) == avro.schema_document(kind)
    container = open_container(header + b"a block", source="")
    assert container == (header, "null", our_sync(kind), None, kind)


def test_records_and_memberships_have_different_sync_markers_of_16_bytes() -> None:
    assert [len(marker) for marker in {our_sync(MEMBERSHIP), our_sync(RECORD)}] == [16, 16]


def test_a_schema_with_other_doc_strings_is_another_schema() -> None:
    document = avro.schema_document("record") | {"doc": "Ours, but for this."}
    written = open_container(header_of(document), source="").written
    assert isinstance(written, dict)
    assert written["doc"] == "Ours, but for this."


def test_a_header_of_fastavro_with_our_schema_is_recognised() -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, avro.schema("record"), [], codec="deflate", sync_marker=SYNC)
    container = open_container(stream.getvalue(), source="")
    assert (container.codec, container.sync, container.written) == ("deflate", SYNC, None)


def test_another_schema_with_group_and_members_is_of_memberships() -> None:
    fields = [{"name": name, "type": "string"} for name in ("members", "since", "group")]
    header = header_of({"type": "record", "name": "Team", "fields": fields})
    container = open_container(header, source="")
    assert (container.kind, name_of(container)) == (MEMBERSHIP, "Team")


def test_a_schema_with_the_fields_of_both_is_of_records() -> None:
    document = record_of()
    document["fields"] += [{"name": name, "type": "string"} for name in ("group", "members")]
    assert open_container(header_of(document), source="").kind == RECORD


def test_a_header_without_a_codec_is_uncompressed() -> None:
    head = b"Obj\x01" + our_header(RECORD)[4:].replace(b"avro.codec", b"some.other")
    assert open_container(head, source="").codec == "null"


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (b"", r"b''; expected an Avro container, which begins with b'Obj\x01'"),
        (b"Obj\x01\x04", f"a header without its end in 5 bytes; {A_WHOLE}"),
        (
            b"Obj\x01\x02\xfe" + b"\xff" * 8 + b"\x01",
            f"a header without its end in 15 bytes; {A_WHOLE}",
        ),
        (
            header_of(record_of(), codec="snappy"),
            "codec 'snappy'; expected deflate or null: write the container again with one of them",
        ),
        (header_of(b"{"), f"avro.schema=b'{{'; {A_SCHEMA}"),
        (
            header_of({"type": "recrod", "name": "Record"}),
            f"""avro.schema=b'{{"type": "recrod", "name": "Record"}}'; {A_SCHEMA}""",
        ),
        (header_of(b"[" * 100_000), f"avro.schema={b'[' * 40!r}; {A_SCHEMA}"),
        (
            header_of({"type": "record", "name": "User", "namespace": "org", "fields": []}),
            f"an Avro container of 'org.User'; {OTHER_RECORD}",
        ),
        (header_of("string"), f"an Avro container of 'string'; {OTHER_RECORD}"),
        (header_of(ARRAY), f"an Avro container of 'array'; {OTHER_RECORD}"),
    ],
    ids=range(10),
)
def test_a_header_that_cannot_be_read_is_a_format_error(head: bytes, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        open_container(head, source="a.avro")
    assert str(caught.value) == f"a.avro: {problem}"


@pytest.mark.parametrize(
    ("kind", "finding"),
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
def test_a_type_that_holds_much_in_few_bytes_is_a_format_error(kind: Any, finding: str) -> None:
    with pytest.raises(FormatError) as caught:
        open_container(header_of(record_of(kind)), source="a.avro")
    assert str(caught.value) == f"a.avro: a schema with {finding}; expected a type that takes bytes"


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
def test_a_schema_with_other_fields_is_accepted(kind: Any) -> None:
    assert name_of(open_container(header_of(record_of(kind)), source="")) == "Record"


# Framing


@pytest.mark.parametrize(
    ("head", "finding"),
    [
        (b"\x02\x04ab", (1, 2, 2)),
        (b"\x00\x00", (0, 0, 2)),
        (b"\x80\x01\x80\x80\x01 and more", (64, 8192, 5)),
        (b"\x02" + long(MAX_BLOCK_BYTES), (1, 1 << 30, 6)),
    ],
)
def test_a_block_states_how_many_records_and_bytes_it_has(
    head: bytes, finding: tuple[int, int, int]
) -> None:
    assert framing(head) == finding


@pytest.mark.parametrize(
    ("head", "code", "reason"),
    [
        *(
            (head, "bad-block", f"{head!r}; expected the size of a block")
            for head in (b"", b"\x02\x80", b"\x80" * 10)
        ),
        (b"\x01\x02", "bad-block", "a block of -1 records in 1 bytes; expected 0 or more of both"),
        (b"\x02\x03", "bad-block", "a block of 1 records in -2 bytes; expected 0 or more of both"),
        (
            *(b"\x02" + long(MAX_BLOCK_BYTES + 1), "block-too-large"),
            "a block of 1 records in 1073741825 bytes; expected at most 1073741824 bytes; "
            "raise --max-content-bytes",
        ),
    ],
)
def test_other_bytes_before_a_block_are_a_record_error(head: bytes, code: str, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        framing(head)
    assert (caught.value.code, caught.value.reason) == (code, reason)


# Codecs


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def test_a_block_is_unpacked() -> None:
    datums = b"datum " * 1000
    assert unpack("null", datums, max_bytes=1) == datums
    assert unpack("deflate", deflate(datums), max_bytes=len(datums)) == datums


@pytest.mark.parametrize(
    ("block", "code", "reason"),
    [
        (
            *(deflate(bytes(1 << 23)), "block-too-large"),
            "a deflate block that unpacks to more; expected at most 1048576 bytes",
        ),
        (
            *(deflate(b"datum " * 1000)[:-4], "bad-block"),
            "30 bytes that are none (its end is missing); expected a deflate block",
        ),
        (
            *(b"\xff" * 40, "bad-block"),
            "40 bytes that are none (Error -3 while decompressing data: invalid block type);"
            " expected a deflate block",
        ),
    ],
    ids=["bomb", "torn", "other"],
)
def test_a_block_that_cannot_be_unpacked_is_a_record_error(
    block: bytes, code: str, reason: str
) -> None:
    with pytest.raises(RecordError) as caught:
        unpack("deflate", block, max_bytes=1 << 20)
    assert (caught.value.code, caught.value.reason) == (code, reason)
