"""Canonical records without loss: an Avro container, and JSON lines."""

from transforms.formats.base import EVERYTHING, ContentOptions, Format, deferred

AVRO_MAGIC = b"Obj\x01"
_BLANKS = b" \t\r\n\xef\xbb\xbf"


AVRO = Format(
    name="avro",
    title="canonical records in an Avro container: lossless, for archives",
    matches=lambda head: head.startswith(AVRO_MAGIC),
    read=deferred("canonical.avro:read"),
    split=deferred("canonical.avro:cut"),
    borders=deferred("canonical.borders:BlockBorders"),
    encoder=deferred("canonical.avro:AvroEncoder"),
    holds=EVERYTHING,
    options=(ContentOptions,),
    has_record_ends=True,
)

JSONL = Format(
    name="jsonl",
    title="canonical records as JSON lines: lossless, for eyes and diffs",
    matches=lambda head: head.lstrip(_BLANKS).startswith(b"{"),
    is_common_text=True,
    read=deferred("canonical.jsonl:read"),
    split=deferred("canonical.jsonl:cut"),
    borders=deferred("canonical.borders:LineBorders"),
    places=deferred("canonical.jsonl:places"),
    encoder=deferred("canonical.jsonl:JsonlEncoder"),
    holds=EVERYTHING,
    options=(ContentOptions,),
    has_record_ends=True,
)
