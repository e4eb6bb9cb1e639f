"""Options of `feedferry validate`, each declared with its flag."""

import msgspec

from pipelines.options.flags import Flag, declare
from pipelines.options.section import Section
from pipelines.options.value_parsers import choice_of
from transforms.validate.rules import Finding, Severity


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
