"""What both canonical formats ask of a record before they let it in."""

import msgspec

from schemas.content import check, clean_base64
from schemas.record import Content, Encoding, Record


def admit(record: Record, *, max_content_bytes: int) -> Record:
    """Return the record with a content that every writer can use; raise RecordError without."""
    content = record.content
    if content is None:
        return record
    if content.encoding is not Encoding.NONE:
        content = _clean(content)
    check(content, max_bytes=max_content_bytes)
    if content is record.content:
        return record
    return msgspec.structs.replace(record, content=content)


def _clean(content: Content) -> Content:
    text = clean_base64(content.data)
    return content if text is content.data else Content(text, content.encoding)
