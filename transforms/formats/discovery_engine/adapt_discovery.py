"""Adapt records to documents of a data store, whose readers are lists that must all permit.

A full import removes the documents that it leaves out, so that deletions and ACLs alone are left
out of it. An incremental one has whole documents only: a deletion, and a document that is withheld,
become a document without content that no user finds, until the next full import.
"""

import re

from msgspec.structs import replace

from feedferry.schemas.content import decode
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import FULL
from feedferry.schemas.record import Content, Meta, Record
from feedferry.transforms.formats.base import Adapted, Adapter, Target
from feedferry.transforms.formats.discovery_engine.discovery_format import (
    HOLDS,
    MAX_CONTENT_BYTES,
)
from feedferry.transforms.formats.discovery_engine.reader_lists import readers_of_document
from feedferry.transforms.formats.holding.adapt_rules import (
    Draft,
    counted,
    filtered,
    fit_metadata,
    is_alone,
    is_deletion,
)
from feedferry.transforms.formats.holding.decided_documents import (
    close_secure,
    fit_text,
    lose_acl_metadata,
    refuse_undecided,
)
from feedferry.transforms.formats.holding.hold import hold

STORAGE = "gs://"
_OFFICE = "application/vnd.openxmlformats-officedocument."
_BINARIES = (
    "application/pdf",
    _OFFICE + "wordprocessingml.document",
    _OFFICE + "presentationml.presentation",
)
"""The types that the service indexes, next to HTML; other texts become plain text."""

_FIELD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", re.ASCII)


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to documents of a data store."""

    def fit(draft: Draft) -> None:
        _fit(draft, max_bytes=target.max_content_bytes)

    adapt = hold(HOLDS, target, refuse=refuse_undecided, fit=fit)
    is_full = target.feedtype == FULL

    def adapt_or_leave_out(record: Record) -> Adapted:
        is_without_document = is_deletion(record) or is_alone(record)
        if is_full and is_without_document:
            return filtered(record, "left-out"), ()
        acl = record.acl
        if acl is not None and acl.alone and acl.permits_nobody and not acl.inherits:
            return (record,), ()  # a deletion or a document that is withheld
        return adapt(record)

    return adapt_or_leave_out


def _fit(draft: Draft, *, max_bytes: int) -> None:
    if is_deletion(draft.record):
        return
    content = draft.record.content
    if content is not None:
        _fit_content(draft, content, max_bytes=max_bytes)
    if draft.record.charset is not None:
        draft.change(charset=None)
    close_secure(draft)
    lose_acl_metadata(draft)
    if draft.record.metadata:
        fit_metadata(draft, _fit_meta)
    acl = draft.record.acl
    readers_of_document(acl)  # raises RecordError for an ACL that cannot be written
    if acl is not None and is_alone(draft.record):
        draft.change(acl=replace(acl, alone=True))


def _fit_content(draft: Draft, content: Content, *, max_bytes: int) -> None:
    """Decode a document of a type that the service indexes; make others plain text."""
    record = draft.record
    data = decode(content, max_bytes=max_bytes)
    is_utf_8 = (record.charset or "utf-8").lower() in ("utf-8", "us-ascii")
    if record.mimetype in _BINARIES or (record.mimetype == "text/html" and is_utf_8):
        draft.change(content=Content(data), body=None)  # a body is the text of the content
    else:
        fit_text(draft, content, data)
        if draft.record.body is not None and record.mimetype is not None:
            draft.change(mimetype=None)
    body = draft.record.body
    size = len(data) if body is None else len(body.encode("utf-8", "surrogatepass"))
    if size > MAX_CONTENT_BYTES and not record.url.startswith(STORAGE):
        raise RecordError(
            "content-too-large",
            f"{size} bytes; expected at most {MAX_CONTENT_BYTES}: the step `text` makes a shorter"
            " text, or the document is an object with a gs:// URL",
        )


def _fit_meta(draft: Draft, meta: Meta) -> Meta | None:
    if meta.data is not None:
        draft.lose("metadata", f"{meta.name!r}, {counted(len(meta.data), 'byte')} that are no text")
        return None
    if not _FIELD.fullmatch(meta.name):
        draft.lose("metadata", f"{meta.name!r}; expected letters, digits, `_` and `-`")
        return None
    return meta
