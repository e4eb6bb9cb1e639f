"""Contents in the encoding that their user wants, for targets that hold them in several.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Content Compression"; release 5.0 has no
compression, so that its writer undoes it.
"""

from msgspec.structs import replace

from schemas.content import compress, to_base64
from schemas.errors import RecordError
from schemas.record import Content, Encoding, Record
from transforms.formats.adapt_rules import rejected
from transforms.formats.target import Adapted, Adapter, Outcome, Target


def encoder(adapt: Adapter, target: Target) -> Adapter:
    """Return `adapt`, followed by the encoding that the target's user chose."""
    if target.content_encoding == "auto":
        return adapt

    def adapt_and_encode(record: Record) -> Adapted:
        outcomes, losses = adapt(record)
        try:
            return tuple(_encoded(one, target) for one in outcomes), losses
        except RecordError as exc:
            return rejected(record, exc)

    return adapt_and_encode


def _encoded(one: Outcome, target: Target) -> Outcome:
    if not isinstance(one, Record) or one.content is None:
        return one
    return replace(one, content=_content(one.content, target))


def _content(content: Content, target: Target) -> Content:
    if target.content_encoding == "zlib":
        return compress(content, max_bytes=target.max_content_bytes)
    if content.encoding is Encoding.NONE:
        return Content(to_base64(content), Encoding.BASE64)
    return content
