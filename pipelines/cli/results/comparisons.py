"""Print differences, and write the feeds that remove them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from feedferry.pipelines.cli.results.result_observer import observer_of
from feedferry.pipelines.compare.diff import ComparedInputs, diff, folded
from feedferry.pipelines.compare.verify import find_listing, verify
from feedferry.pipelines.folders.job_folders import find_run
from feedferry.pipelines.job.file.job import verify_options
from feedferry.pipelines.job.file.job_file import job_file_of, load_job, refuse_layers
from feedferry.pipelines.observer.observer import Observer
from feedferry.pipelines.options.compare_options import (
    TARGET,
    CompareOptions,
    DifferencesFormat,
    VerifyOptions,
)
from feedferry.pipelines.options.display_options import DisplayOptions
from feedferry.pipelines.options.flags import decode
from feedferry.pipelines.options.job_options import OverrideOptions
from feedferry.pipelines.options.push_options import CONNECTION
from feedferry.pipelines.report.differences import (
    DIFF,
    VERIFY,
    Labels,
    differences_page,
    json_lines,
    summary_json,
    summary_of,
    text_lines,
)
from feedferry.pipelines.terminal.display import print_summary
from feedferry.schemas.errors import FINDINGS_EXIT, ConfigError
from feedferry.transforms.sinks.push.wire.protocol import Appliance


def print_diff(words: Mapping[str, object]) -> int:
    """Print the differences of two inputs; return the exit code."""
    before, after = str(words["before"]), str(words["after"])
    with diff((before,), (after,), words) as compared:
        return _print(compared, words, labels=DIFF, names=(before, after))


def print_verification(words: Mapping[str, object]) -> int:
    """Print the documents that a target lacks; return the exit code."""
    inputs = _inputs(words)
    if (path := job_file_of(words)) is None:
        refuse_layers(words)
        options = decode(VerifyOptions, words)
        appliance = find_listing(options, words)
    else:
        inputs, options, appliance = _job_to_verify(path, words)
    others = {name: word for name, word in words.items() if name not in CONNECTION}
    with verify(inputs, others, options, appliance) as compared:
        names = options.against, ", ".join(inputs)
        return _print(compared, others, labels=VERIFY, names=names)


def _job_to_verify(
    path: Path, words: Mapping[str, object]
) -> tuple[Sequence[str], VerifyOptions, Appliance | None]:
    """Return the folder of the newest run of a job, and how it is compared with its target."""
    names = {*VerifyOptions.__struct_fields__, *OverrideOptions.__struct_fields__}
    given = {name: word for name, word in words.items() if name in names}
    job = load_job(path, given, os.environ)
    with job.errors_in_keys():
        options = job.verify or verify_options(decode(VerifyOptions, {"against": TARGET}), job.push)
        appliance = find_listing(options, {}, job.push)
    return (str(find_run(str(job.home))),), options, appliance


def print_compacted(words: Mapping[str, object]) -> int:
    """Fold a history and convert it; return the exit code."""
    if words.get("output") is None:
        raise ConfigError("⟦output⟧: not given; expected the folder of the run")
    from feedferry.pipelines.job.run.emitted_feed import emit  # loads Beam

    observer = observer_of(words)
    with folded(_inputs(words), words) as history:
        result = emit(history, str(words["output"]), words, observer, is_whole=True)
    if result is None:
        click.echo("feedferry: no documents are left of this history; nothing is written", err=True)
        return 0
    return max(result.exit_code, FINDINGS_EXIT if history.counts.after.rejects else 0)


def _inputs(words: Mapping[str, object]) -> Sequence[str]:
    inputs = words["inputs"]
    if not isinstance(inputs, tuple) or not inputs:
        raise ConfigError("⟦inputs⟧: none given; expected files, folders, globs or URLs")
    return inputs


def _print(
    compared: ComparedInputs,
    words: Mapping[str, object],
    *,
    labels: Labels,
    names: tuple[str, str],
) -> int:
    options, display = decode(CompareOptions, words), decode(DisplayOptions, words)
    form, counts = options.differences_format, compared.counts
    if form is DifferencesFormat.HTML:
        page = differences_page(counts, compared.comparer.differences(), labels, names)
        click.echo(page, nl=False)
    elif form is DifferencesFormat.JSON:
        for line in json_lines(compared.comparer.differences(), labels):
            click.echo(line)
        click.echo(summary_json(counts, labels))
    else:
        for line in text_lines(compared.comparer.differences(), labels):
            click.echo(line)
        print_summary(summary_of(counts, labels, names), is_quiet=display.is_quiet)
    if options.emit is not None:
        from feedferry.pipelines.job.run.emitted_feed import emit  # loads Beam

        # After JSON or a page, the account of the feed is only in its folder.
        observer = observer_of(words) if form is DifferencesFormat.TEXT else Observer()
        emit(compared, options.emit, words, observer)
    return compared.exit_code
