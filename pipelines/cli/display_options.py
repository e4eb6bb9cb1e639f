"""Options of all verbs: progress on stderr, the account on stdout, log messages."""

import enum
from typing import Annotated

import msgspec

from pipelines.cli.flags import Flag
from pipelines.cli.verb import Section


class ProgressStyle(enum.Enum):
    """How a run shows its progress; AUTO is BAR on a terminal and PLAIN elsewhere."""

    AUTO = "auto"
    BAR = "bar"
    PLAIN = "plain"
    NONE = "none"


class ReportFormat(enum.Enum):
    """How the account of a run is printed."""

    TEXT = "text"
    JSON = "json"


class DisplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a verb shows its work; `verbosity` is -1 for `-q`, else the number of `-v`."""

    progress: Annotated[
        ProgressStyle, Flag("Progress on stderr.", Section.DISPLAY, affects_output=False)
    ] = ProgressStyle.AUTO
    report_format: Annotated[
        ReportFormat,
        Flag(
            "Format of the account on stdout.",
            Section.DISPLAY,
            names=("--format",),
            affects_output=False,
        ),
    ] = ReportFormat.TEXT
    verbosity: int = 0

    @property
    def is_quiet(self) -> bool:
        return self.verbosity < 0
