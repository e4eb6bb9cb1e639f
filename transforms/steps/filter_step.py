"""`keep` and `drop`: filter records by their fields."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

import msgspec

from feedferry.schemas.content import CHECKED, decode
from feedferry.schemas.record import DELETIONS, Action, Content, Record
from feedferry.transforms.config.yaml_structs import Size, Value, several, text_where
from feedferry.transforms.formats.text.dates import parse_date
from feedferry.transforms.steps.patterns import NamedPatterns, Patterns, any_pattern
from feedferry.transforms.steps.step import TransformStep

_CACHED = 8192
_ACTIONS = {action.value.lower().replace("_", "-"): action for action in Action}


def _parse_moment(value: object) -> datetime:
    moment = parse_date(str(value))
    if moment is None:
        raise ValueError
    return moment.astimezone(UTC)


def _parse_acl(value: object) -> bool:
    if value not in ("present", "absent"):
        raise ValueError
    return value == "present"


_Actions = Annotated[
    tuple[str, ...],
    Value(
        several(text_where(_ACTIONS.__contains__)), f"an action, or a list of {', '.join(_ACTIONS)}"
    ),
]
_Moment = Annotated[datetime, Value(_parse_moment, "a date such as 2024-01-31")]
_Acl = Annotated[bool, Value(_parse_acl, "present or absent")]

Condition = Callable[[Record], bool]


class Conditions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions on a record; all conditions that are stated must hold.

    Deletions meet no condition unless `action` names them, so that no filter undoes one.
    """

    url: Patterns | None = None
    mimetype: Patterns | None = None
    datasource: Patterns | None = None
    action: _Actions | None = None
    metadata: NamedPatterns = {}
    principal: Patterns | None = None
    acl: _Acl | None = None
    modified_after: _Moment | None = None
    modified_before: _Moment | None = None
    larger_than: Size | None = None
    smaller_than: Size | None = None

    def check(self) -> None:
        if not any(msgspec.structs.asdict(self).values()) and self.acl is None:
            raise ValueError("no condition; expected one, such as url")

    @property
    def names_deletions(self) -> bool:
        return any(_ACTIONS[name] in DELETIONS for name in self.action or ())

    @property
    def is_of_model(self) -> bool:
        """Whether there are no conditions about values that differ between alike records."""
        constant = ("mimetype", "datasource", "action", "acl")
        return not any(
            getattr(self, name) for name in self.__struct_fields__ if name not in constant
        )

    @property
    def patterns(self) -> list[str]:
        stated = (self.url, self.mimetype, self.datasource, self.principal)
        return [text for texts in (*stated, *self.metadata.values()) for text in texts or ()]

    def compile(self, used: set[str]) -> Condition:
        """Return whether a record meets all conditions; patterns that match are added to `used`."""
        first, *others = self._conditions(used)
        if not others:
            return first
        return lambda record: first(record) and all(meets(record) for meets in others)

    def _conditions(self, used: set[str]) -> Iterator[Condition]:
        """Yield the conditions, those first that need the least of a record."""
        if self.action is not None:
            actions = {_ACTIONS[name] for name in self.action}
            yield lambda record: record.action in actions
        if self.datasource is not None:
            in_datasource = lru_cache(_CACHED)(any_pattern(self.datasource, used))
            yield lambda record: in_datasource(record.provenance.datasource or "")
        if self.mimetype is not None:
            is_type = lru_cache(_CACHED)(any_pattern(self.mimetype, used))
            yield lambda record: is_type(record.mimetype or "")
        if self.acl is not None:
            is_expected = self.acl
            yield lambda record: (record.acl is not None) is is_expected
        if self.principal is not None:
            is_named = lru_cache(_CACHED)(any_pattern(self.principal, used))
            yield (
                lambda record: (
                    record.acl is not None
                    and any(map(is_named, [principal.name for principal in record.acl.principals]))
                )
            )
        for name, patterns in self.metadata.items():
            yield _has_metadata(name, any_pattern(patterns, used))
        if self.modified_after is not None or self.modified_before is not None:
            yield self._is_in_time
        if self.larger_than is not None:
            limit = self.larger_than
            yield lambda record: size_of(record.content) > limit
        if self.smaller_than is not None:
            most = self.smaller_than
            yield lambda record: record.content is not None and size_of(record.content) < most
        if self.url is not None:
            is_url = any_pattern(self.url, used)
            yield lambda record: is_url(record.url)

    def _is_in_time(self, record: Record) -> bool:
        """Whether the date is in the range; a record without a date is in none."""
        at = record.modified
        return (
            at is not None
            and (self.modified_after is None or at >= self.modified_after)
            and (self.modified_before is None or at < self.modified_before)
        )


def _has_metadata(name: str, is_value: Callable[[str], bool]) -> Condition:
    return lambda record: any(
        meta.name == name and is_value(meta.value) for meta in record.metadata
    )


def size_of(content: Content | None) -> int:
    """Return the size of a decoded content."""
    return 0 if content is None else len(decode(content, max_bytes=CHECKED))


class FilterStep(TransformStep):
    """Keeps records that meet conditions, or those that do not."""

    def __init__(self, conditions: Conditions, *, is_kept: bool) -> None:
        self.used: set[str] = set()
        self._meets = conditions.compile(self.used)
        self._is_kept = is_kept
        self.is_of_model = conditions.is_of_model
        self._passes = () if conditions.names_deletions else DELETIONS

    def apply(self, record: Record) -> Record | None:
        if record.action in self._passes or self._meets(record) is self._is_kept:
            return record
        return None
