"""Print the checks of `cluster-check`."""

from collections.abc import Mapping

import click
import msgspec

from pipelines.cli.check_results import check_as_text
from pipelines.doctor.cluster_check import check_cluster
from pipelines.options.convert_options import ConvertOptions
from pipelines.options.display_options import DisplayOptions, ReportFormat
from pipelines.options.flags import decode
from schemas.check import Level
from schemas.errors import FatalError
from transforms.formats import AVRO


def print_cluster_check(words: Mapping[str, object]) -> int:
    """Print a line for each worker; return 4 if one of them cannot work."""
    given = {**words, "inputs": ("-",), "to_format": AVRO.name}
    check = check_cluster(decode(ConvertOptions, given))
    lines = list(check.lines())
    if decode(DisplayOptions, words).report_format is ReportFormat.JSON:
        report = {"version": 1, "checks": lines, "command": check.command, "workers": check.workers}
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        for line in lines:
            click.echo(check_as_text(line))
    return FatalError.exit_code if any(line.level is Level.FAIL for line in lines) else 0
