"""Canonical records without loss: an Avro container, and JSON lines."""

import re

from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Record
from feedferry.transforms.formats.base import EVERYTHING, ContentOptions, Format, deferred

AVRO_MAGIC = b"Obj\x01"
_BLANKS = b" \t\r\n\xef\xbb\xbf"
_KEYS = "|".join(Record.__struct_fields__ + Membership.__struct_fields__)
_LINE = re.compile(rf'\{{\s*"(?:{_KEYS})"\s*:'.encode())
"""The beginning of a line: a brace, and the name of a field."""
_ESCAPED_LETTER = re.compile(rb"\\u00[67]")
"""A letter of a name may be written so."""


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
    related_acls=(re.compile(rb"inherit"), re.compile(rb'"alone"'), _ESCAPED_LETTER),
    matches=lambda head: _LINE.match(head.lstrip(_BLANKS)) is not None,
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
