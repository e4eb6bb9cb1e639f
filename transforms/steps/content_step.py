"""`content`: leave out contents by MIME type or size, and re-encode texts."""

from typing import Annotated

import msgspec
from msgspec.structs import replace

from feedferry.schemas.content import CHECKED, compress, decode, to_base64
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Content, Encoding, Record
from feedferry.transforms.config.yaml_structs import Size, Value, text_where
from feedferry.transforms.content_types.charset import (
    UTF_8,
    find_charset,
    has_one_charset,
    is_charset,
    to_utf8,
)
from feedferry.transforms.steps.filter_step import size_of
from feedferry.transforms.steps.patterns import Patterns, any_pattern
from feedferry.transforms.steps.step import TransformStep

DECLARED = "declared"


_Charset = Annotated[
    str,
    Value(
        text_where(lambda text: text == DECLARED or is_charset(text)),
        f"{DECLARED}, or a charset such as windows-1252",
    ),
]


class ContentRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which contents are left out, and which are re-encoded.

    `keep` are the types to keep, `drop` those to leave out. With `utf8`, texts become UTF-8, from
    the charset that they or their record state, else from the one that is named.
    """

    keep: Patterns | None = None
    drop: Patterns | None = None
    max_bytes: Size | None = None
    utf8: _Charset | None = None

    @property
    def patterns(self) -> list[str]:
        return [*(self.keep or ()), *(self.drop or ())]

    def check(self) -> None:
        if not any(msgspec.structs.asdict(self).values()):
            raise ValueError("no rule; expected keep, drop, max_bytes or utf8")


class ContentStep(TransformStep):
    """Leaves the content out, or re-encodes it; the other fields of the document stay."""

    def __init__(self, rules: ContentRules) -> None:
        self.used: set[str] = set()
        self._is_kept = any_pattern(rules.keep, self.used) if rules.keep else None
        self._is_dropped = any_pattern(rules.drop or (), self.used)
        self._max_bytes = rules.max_bytes
        self._utf8 = rules.utf8
        self.is_of_model = rules.max_bytes is None and rules.utf8 is None

    def apply(self, record: Record) -> Record:
        if record.content is None and record.body is None:
            return record
        mimetype = record.mimetype or ""
        is_kept = self._is_kept is None or self._is_kept(mimetype)
        if not is_kept or self._is_dropped(mimetype) or self._is_too_large(record):
            return replace(record, content=None, body=None, size=None)
        if self._utf8 is None or record.content is None:
            return record
        return self._in_utf8(record, record.content, self._utf8)

    def _is_too_large(self, record: Record) -> bool:
        if self._max_bytes is None:
            return False
        size = size_of(record.content) or len((record.body or "").encode())
        return size > self._max_bytes

    def _in_utf8(self, record: Record, content: Content, otherwise: str) -> Record:
        """Return a record whose text is UTF-8; raise RecordError if its charset is not known."""
        mimetype = (record.mimetype or "").partition(";")[0].strip().lower()
        if not has_one_charset(mimetype):
            return record
        named = None if otherwise == DECLARED else otherwise
        data = decode(content, max_bytes=CHECKED)
        charset = find_charset(data, mimetype=mimetype, stated=record.charset or named)
        if charset is None:
            found = "a text that is not UTF-8 and declares no charset"
            raise RecordError("charset-unknown", f"{found}; expected it named: utf8: CHARSET")
        try:
            text = to_utf8(data, charset, mimetype=mimetype)
        except ValueError as exc:
            found = f"a text that is not {charset}, as it is declared"
            raise RecordError("charset-wrong", f"{found}; expected its own charset") from exc
        if text == data and record.charset in (None, UTF_8):
            return record
        size = None if record.size is None else len(text)
        return replace(record, content=_encoded(text, content.encoding), charset=UTF_8, size=size)


def _encoded(data: bytes, encoding: Encoding) -> Content:
    """Return a content in the encoding that it had."""
    if encoding is Encoding.NONE:
        return Content(data)
    if encoding is Encoding.ZLIB_BASE64:
        return compress(Content(data), max_bytes=CHECKED)
    return Content(to_base64(Content(data)), encoding)
