"""The options for the output and the log of a verb, each declared with its flag."""

import enum

import msgspec

from feedferry.pipelines.observer.logs import OutputFormat
from feedferry.pipelines.options.flags import Flag, declare
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import OUTPUT_FILE, choice_of


class ProgressStyle(enum.Enum):
    """How a run shows its progress; AUTO is BAR on a terminal and PLAIN elsewhere."""

    AUTO = "auto"
    BAR = "bar"
    PLAIN = "plain"
    NONE = "none"


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a verb logs; `verbosity` is -1 for `-q`, else the number of `-v`.

    The log is opened when the verb is chosen, by its words.
    """

    log_format: OutputFormat | None = None
    log_file: str | None = None
    verbosity: int = 0


declare(
    LogOptions,
    Section.DISPLAY,
    log_format=Flag(
        "Form of log lines, with the time, the job and the run.",
        choice_of(*OutputFormat),
        key="log.format",
        default="text",
        affects_output=False,
    ),
    log_file=Flag(
        "Append the log to this file.", OUTPUT_FILE, key="log.file", affects_output=False
    ),
)


class DisplayOptions(LogOptions, frozen=True, kw_only=True):
    """How a verb shows its work."""

    progress: ProgressStyle = ProgressStyle.AUTO
    report_format: OutputFormat = OutputFormat.TEXT

    @property
    def is_quiet(self) -> bool:
        return self.verbosity < 0


declare(
    DisplayOptions,
    Section.DISPLAY,
    progress=Flag("Progress on stderr.", affects_output=False),
    report_format=Flag("Format of the account on stdout.", affects_output=False),
)
