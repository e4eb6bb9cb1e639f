"""The canonical formats, which keep every field of a record: avro and jsonl (JSON lines)."""

import msgspec

from feedferry.schemas.content import check, clean_base64
from feedferry.schemas.record import Content, Encoding, Record


def admit(record: Record, *, max_content_bytes: int) -> Record:
    """Return the record with a content that every writer can use; raise RecordError otherwise.

    White space and missing padding of base64, as in a file written by hand, are repaired.
    """
    content = record.content
    if content is None:
        return record
    if content.encoding is not Encoding.NONE:
        text = clean_base64(content.data)
        content = content if text is content.data else Content(text, content.encoding)
    check(content, max_bytes=max_content_bytes)
    return record if content is record.content else msgspec.structs.replace(record, content=content)
