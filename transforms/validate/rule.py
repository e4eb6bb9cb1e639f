"""The parts of a validation: rules, and what they find."""

import enum
from collections.abc import Callable, Iterator

import msgspec

from schemas.feed import FeedHeader
from schemas.membership import Membership
from schemas.printable import printable
from schemas.record import Record


class Severity(enum.Enum):
    """What an appliance does: refuse the data, or ignore or change a part of it."""

    ERROR = "error"
    WARNING = "warning"


CheckRecord = Callable[[Record], Iterator[str]]
CheckMembership = Callable[[Membership], Iterator[str]]
CheckHeader = Callable[[str | None, str | None], Iterator[str]]
"""A check yields *finding; expected …* for each place that breaks the rule."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of a format that its reader does not enforce.

    `section` names the part of the specification. `bad` is a whole document that breaks the rule
    once, and no other; `good` is the same document, corrected. The texts are Markdown. A rule about
    several records has no check here: `cross_rules` makes its findings.
    """

    code: str
    severity: Severity
    meaning: str
    cause: str
    cure: str
    section: str
    bad: str
    good: str
    record: CheckRecord | None = None
    membership: CheckMembership | None = None
    header: CheckHeader | None = None

    def finding(
        self, detail: str, *, source: str, line: int = 0, offset: int = 0, url: str | None = None
    ) -> "Finding":
        """Return a finding of this rule at a place."""
        return Finding(
            code=self.code,
            severity=self.severity,
            detail=detail,
            source=source,
            line=line,
            offset=offset,
            url=url,
        )


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A place that breaks a rule; `detail` is *finding; expected …*. Lines count from 1."""

    code: str
    severity: Severity
    detail: str
    source: str
    line: int = 0
    offset: int = 0
    url: str | None = None

    @property
    def message(self) -> str:
        """The finding as one line: *where: severity: finding; expected … [code]*."""
        place = f"{self.source}:{self.line}" if self.line else self.source
        return printable(f"{place}: {self.severity.value}: {self.detail} [{self.code}]")


def header_of(item: Record | Membership | FeedHeader) -> tuple[str, str | None, str | None]:
    """Return the source, the datasource and the feedtype of the feed of an item."""
    at = item if isinstance(item, FeedHeader) else item.provenance
    return at.source, at.datasource, at.feedtype
