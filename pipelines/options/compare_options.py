"""Options of `feedferry diff`, `verify`, `compact` and `validate`, declared with their flags."""

import enum

import msgspec

from feedferry.pipelines.options.flags import Flag, declare
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import (
    OUTPUT_FOLDER,
    SAMPLE,
    SampleSize,
    ValueType,
    choice_of,
    count_of,
)
from feedferry.transforms.validate.rules import Finding, Severity


class DifferencesFormat(enum.Enum):
    """How differences are printed."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


URLS = "urls"
"""The target that is the servers of the documents."""

TARGET = "target"
"""In a job file, the appliance that the job pushes to."""

_IGNORED = ValueType(
    "FIELD,...",
    lambda text: frozenset(filter(None, map(str.strip, text.split(",")))),
    lambda names: ",".join(sorted(names)),
    schema={"type": "array", "items": {"type": "string"}},
)
_AGAINST = ValueType(f"URL|INPUT|{URLS}|{TARGET}", str, is_path=True)


class CompareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared, and where a feed of the differences is written."""

    ignore: frozenset[str] = frozenset()
    emit: str | None = None
    differences_format: DifferencesFormat = DifferencesFormat.TEXT


declare(
    CompareOptions,
    Section.CHECK,
    ignore=Flag(
        "Fields that are not compared, such as modified or metadata:X; * matches any text.",
        _IGNORED,
        key="verify.ignore",
    ),
    emit=Flag("Write a feed of the differences, in the format --to.", OUTPUT_FOLDER),
    differences_format=Flag(
        "Text, a line of JSON for each difference, or a page.",
        names=("--format",),
        affects_output=False,
    ),
)


class VerifyOptions(CompareOptions, frozen=True, kw_only=True):
    """Where the documents are looked for."""

    against: str
    held_in: str | None = None
    sample: SampleSize | None = None
    contents: bool = False
    requests: int = 8
    probes: int = 50


declare(
    VerifyOptions,
    Section.CHECK,
    against=Flag(
        "Address of an appliance that lists its documents, such as a rehearsal appliance, or"
        " another input, such as a spool; urls asks the servers of the documents.",
        _AGAINST,
        metavar=f"URL|INPUT|{URLS}",
        key="verify.against",
    ),
    held_in=Flag(
        "Datasource or profile of the appliance.",
        metavar="NAME",
        default="all",
        key="verify.held_in",
    ),
    sample=Flag(
        "Compare this many documents, chosen by their URLs, the same each time.",
        SAMPLE,
        default="all",
        key="verify.sample",
    ),
    contents=Flag(
        "With --against urls, read the documents and compare their SHA-256.", key="verify.contents"
    ),
    requests=Flag(
        "With --against urls, the most requests at a time.",
        count_of("requests", minimum=1, maximum=64),
        key="verify.requests",
    ),
    probes=Flag(
        "At OpenSearch, search for this many documents as a person who is permitted, one who is"
        " denied, and an unknown one.",
        count_of("documents", minimum=0, maximum=10_000),
        key="verify.probes",
    ),
)


class ValidateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which findings are reported; codes are those of rules, rejects and notices."""

    severity: Severity = Severity.WARNING
    rules: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    dtd: bool = True

    def wants(self, finding: Finding) -> bool:
        """Whether a finding is reported."""
        code = finding.code.partition(" ")[0]
        is_severe = self.severity is Severity.WARNING or finding.severity is Severity.ERROR
        return is_severe and (not self.rules or code in self.rules) and code not in self.ignored


declare(
    ValidateOptions,
    Section.CHECK,
    severity=Flag("Report errors only, or warnings too.", choice_of(*Severity)),
    rules=Flag("Report this code only.", names=("--rule",), metavar="CODE"),
    ignored=Flag("Do not report this code.", names=("--ignore",), metavar="CODE"),
    dtd=Flag("Do not check elements against the DTD."),
)
