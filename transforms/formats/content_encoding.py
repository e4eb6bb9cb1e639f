"""Encode contents as the user chose, for targets that allow several encodings.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Content Compression". Release 5.0 has no
compression; its writer undoes it.
"""

from msgspec.structs import replace

from schemas.content import compress, to_base64
from schemas.errors import RecordError
from schemas.record import Content, Encoding, Record
from transforms.formats.adapt_rules import rejected
from transforms.formats.target import Adapted, Adapter, Outcome, Target


def encoder(adapt: Adapter, target: Target) -> Adapter:
    """Return `adapt`, followed by the encoding of the target."""
    if target.content_encoding == "auto":
        return adapt

    def adapt_and_encode(record: Record) -> Adapted:
        outcomes, losses = adapt(record)
        try:
            return tuple(_encode(outcome, target) for outcome in outcomes), losses
        except RecordError as exc:
            return rejected(record, exc)

    return adapt_and_encode


def _encode(outcome: Outcome, target: Target) -> Outcome:
    if not isinstance(outcome, Record) or outcome.content is None:
        return outcome
    content = outcome.content
    if target.content_encoding == "zlib":
        content = compress(content, max_bytes=target.max_content_bytes)
    elif content.encoding is Encoding.NONE:
        content = Content(to_base64(content), Encoding.BASE64)
    return replace(outcome, content=content)
