"""Print the counts of inputs, or their first records."""

import logging
from collections import Counter
from collections.abc import Mapping

import click

from feedferry.pipelines.inspect import counts_text
from feedferry.pipelines.inspect.inspection import inspect, parse, read_lines
from feedferry.pipelines.observer.logs import OutputFormat
from feedferry.pipelines.options.convert_options import ConvertOptions, HeadOptions
from feedferry.pipelines.options.display_options import DisplayOptions
from feedferry.pipelines.options.flags import decode
from feedferry.pipelines.terminal.display import print_defects
from feedferry.schemas.errors import FINDINGS_EXIT
from feedferry.schemas.reject import Reject, defect_type

_log = logging.getLogger(__name__)


def print_counts(words: Mapping[str, object]) -> int:
    """Print the counts of the inputs, or their first records; return the exit code."""
    options, head = parse(words), decode(HeadOptions, words).head
    if head is not None:
        return _print_records(options, head)
    inspection = inspect(options)
    print_defects(inspection.counts.defects)
    if decode(DisplayOptions, words).report_format is OutputFormat.TEXT:
        click.echo(counts_text.as_text(inspection.counts))
    else:
        click.echo(counts_text.as_json_text(inspection.counts, sources=[*inspection.sources]))
    return inspection.exit_code


def _print_records(options: ConvertOptions, head: int) -> int:
    """Print the first records as JSON lines, and rejects on stderr; return the exit code."""
    printed = rejects = 0
    defects: Counter[str] = Counter()
    for line in read_lines(options):
        if isinstance(line, Reject):
            rejects += 1
            if (defect := defect_type(line)) is not None:
                defects[defect] += 1
            _log.warning("%s", line.message)
        else:
            click.echo(line, nl=False)
            printed += 1
        if printed == head:
            break
    print_defects(defects)
    return FINDINGS_EXIT if rejects else 0
