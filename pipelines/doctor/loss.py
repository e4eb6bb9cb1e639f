"""`feedferry loss`: what a conversion cannot carry, field by field."""

import json
from collections.abc import Mapping, Sequence

import click
import msgspec

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.display import ReportFormat
from pipelines.cli.flags import decode
from pipelines.cli.value_parsers import NO_OUTPUT
from pipelines.doctor.table import aligned
from schemas.errors import ConfigError
from transforms.rules.adapt import Target
from transforms.rules.losses import LossRow, loss_table

FLAGS = (
    *("from_format", "to_format", "feedtype", "datasource", "dialect", "empty_metadata"),
    *("default_mimetype", "allow_wide_deletes", "report_format"),
)
"""The options of `convert` that decide what a target holds."""

_FOOTER = (
    "A field that stops the run is converted without by --accept-loss FIELD. A run stops at any"
    " other\nfield with --fail-on-loss FIELD. Rejects are kept, with their records."
)


def run(words: Mapping[str, object]) -> int:
    """Print the losses of a conversion as a table or as JSON."""
    if words.get("to_format") is None:
        raise ConfigError("--to: not given; see feedferry loss --help")
    options = decode(ConvertOptions, {"inputs": ("-",), "output": NO_OUTPUT, **words})
    target = Target(
        format=options.to_format,
        feedtype=options.feedtype,
        datasource=options.datasource,
        dialect=options.dialect,
        empty_metadata=options.empty_metadata,
        default_mimetype=options.default_mimetype,
        wide_deletes=options.allow_wide_deletes,
    )
    rows = loss_table(options.from_format, target)
    if options.report_format is ReportFormat.JSON:
        report = {"version": 1, "from": options.from_format, "to": target.format, "losses": rows}
        click.echo(json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False))
    else:
        click.echo(as_text(rows, target, source=options.from_format))
    return 0


def as_text(rows: Sequence[LossRow], target: Target, *, source: str | None) -> str:
    if not rows:
        return f"{source or 'any record'} to {target.format}: nothing is lost"
    head = ("what", "by default", "as", "detail")
    lines = [
        (row.item, row.effect.value, row.name, "; ".join(filter(None, (row.detail, flag_of(row)))))
        for row in rows
    ]
    return f"{aligned([head, *lines])}\n\n{_FOOTER}"


def flag_of(row: LossRow) -> str:
    """Return how a reject is avoided; the flags of losses are the same for all fields."""
    return "" if row.change.startswith(("--accept-loss", "--fail-on-loss")) else row.change
