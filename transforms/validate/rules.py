"""The rules of `validate`, and what breaks them; the table of all rules is `rules.tsv`.

Rejects and notices of the readers are findings as well; `schemas/codes.tsv` explains them. The
rules here are those that a reader does not enforce, because it keeps what it can.
"""

import enum
from functools import cache
from importlib.resources import files

import msgspec

from feedferry.schemas.printable import printable


class Severity(enum.Enum):
    """The action of an appliance: refuse the data, or ignore or change a part of it."""

    ERROR = "error"
    WARNING = "warning"


class Rule(msgspec.Struct, frozen=True):
    """A rule of a format that its reader does not enforce.

    `section` names the part of the specification. The texts are Markdown.
    """

    code: str
    severity: Severity
    meaning: str
    cause: str
    cure: str
    section: str

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


@cache
def all_rules() -> dict[str, Rule]:
    """Return the rules by their codes, in the order of the table."""
    text = files("feedferry.transforms.validate").joinpath("rules.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return {code: Rule(code, Severity(severity), *texts) for code, severity, *texts in rows}
