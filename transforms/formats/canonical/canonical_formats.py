"""Canonical records without loss: an Avro container, and JSON lines."""

from transforms.formats.base import EVERYTHING, ContentOptions, Format, deferred

AVRO_MAGIC = b"Obj\x01"
_BLANKS = b" \t\r\n\xef\xbb\xbf"


def _is_avro(head: bytes) -> bool:
    return head.startswith(AVRO_MAGIC)


def _is_json(head: bytes) -> bool:
    return head.lstrip(_BLANKS).startswith(b"{")


AVRO = Format(
    name="avro",
    title="canonical records in an Avro container: lossless, for archives",
    matches=_is_avro,
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
    former_names=("native",),
    title="canonical records as JSON lines: lossless, for eyes and diffs",
    matches=_is_json,
    is_common_text=True,
    read=deferred("canonical.jsonl:read"),
    split=deferred("canonical.jsonl:cut"),
    borders=deferred("canonical.borders:LineBorders"),
    encoder=deferred("canonical.jsonl:JsonlEncoder"),
    holds=EVERYTHING,
    options=(ContentOptions,),
    has_record_ends=True,
)
