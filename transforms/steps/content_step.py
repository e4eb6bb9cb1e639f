"""`content`: leave out contents by MIME type or size."""

import msgspec
from msgspec.structs import replace

from schemas.record import Record
from transforms.config.yaml_structs import Size
from transforms.steps.filter_step import size_of
from transforms.steps.patterns import Patterns, any_pattern
from transforms.steps.step import RecordStep


class ContentRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which contents are left out: those of some types, and those that are too large.

    `keep` are the types to keep, `drop` those to leave out.
    """

    keep: Patterns | None = None
    drop: Patterns | None = None
    max_bytes: Size | None = None

    def check(self) -> None:
        if self.keep is None and self.drop is None and self.max_bytes is None:
            raise ValueError("no rule; expected keep, drop or max_bytes")


class ContentStep(RecordStep):
    """Leaves the content out; the other fields of the document stay."""

    def __init__(self, rules: ContentRules) -> None:
        self._is_kept = any_pattern(rules.keep) if rules.keep else None
        self._is_dropped = any_pattern(rules.drop or ())
        self._max_bytes = rules.max_bytes
        self.is_of_model = rules.max_bytes is None

    def apply(self, record: Record) -> Record:
        if record.content is None and record.body is None:
            return record
        mimetype = record.mimetype or ""
        is_kept = self._is_kept is None or self._is_kept(mimetype)
        if not is_kept or self._is_dropped(mimetype) or self._is_too_large(record):
            return replace(record, content=None, body=None, size=None)
        return record

    def _is_too_large(self, record: Record) -> bool:
        if self._max_bytes is None:
            return False
        size = size_of(record.content) or len((record.body or "").encode())
        return size > self._max_bytes
