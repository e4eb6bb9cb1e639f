"""Print the formats, and what a conversion cannot carry."""

import json
from collections.abc import Mapping

import click
import msgspec

from feedferry.pipelines.observer.logs import OutputFormat
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.display_options import DisplayOptions
from feedferry.pipelines.options.flags import decode
from feedferry.pipelines.options.value_parsers import NO_OUTPUT
from feedferry.pipelines.terminal.loss_table import as_text as losses_as_text
from feedferry.transforms.formats import FORMATS, FeedOptions
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.rules.losses import loss_table
from feedferry.transforms.sources import SOURCES


def print_formats(words: Mapping[str, object]) -> int:
    """List the sources and the formats, and whether they are read and written."""
    kinds = [(source.name, "read", source.title) for source in SOURCES]
    for format_ in FORMATS:
        uses = "/".join(["read"] * format_.is_read + ["write"] * bool(format_.encoder))
        kinds.append((format_.name, uses, format_.title))
    for registry in (SOURCES, FORMATS):
        faults = registry.faults.items()
        kinds += [(name, "-", f"cannot be used: {fault}") for name, fault in faults]
    if decode(DisplayOptions, words).report_format is OutputFormat.JSON:
        rows = [dict(zip(("name", "uses", "title"), kind, strict=True)) for kind in kinds]
        click.echo(json.dumps({"version": 1, "formats": rows}, indent=2, ensure_ascii=False))
    else:
        for name, uses, title in kinds:
            click.echo(f"{name:<19}{uses:<12}{title}")
    return 0


def print_losses(words: Mapping[str, object]) -> int:
    """Print the losses of a conversion as a table or as JSON."""
    options = decode(ConvertOptions, {"inputs": ("-",), "output": NO_OUTPUT, **words})
    target = Target(
        format=options.to_format,
        feedtype=options.feedtype,
        datasource=options.datasource,
        default_mimetype=options.default_mimetype,
        allow_wide_deletes=options.allow_wide_deletes,
        own=(FeedOptions(dialect=options.dialect, empty_metadata=options.empty_metadata),),
    )
    rows = loss_table(options.from_format, target)
    if decode(DisplayOptions, words).report_format is OutputFormat.JSON:
        report = {"version": 1, "from": options.from_format, "to": target.format, "losses": rows}
        click.echo(json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False))
    else:
        click.echo(losses_as_text(rows, target, source=options.from_format))
    return 0
