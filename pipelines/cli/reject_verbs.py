"""Verbs about records that were set aside: `rejects list`, `show`, `export`, `replay`, `accept`."""

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, Unpack

import click

from feedferry.pipelines.cli.verb import BeamVerb

_FILTERS = (
    click.option("--code", "codes", metavar="CODE", multiple=True, help="Only rejects of a code."),
    click.option("--url", metavar="GLOB", help="Only records with such a URL."),
    click.option("--source", metavar="GLOB", help="Only records of such a source."),
)


class Filters(TypedDict):
    """Which rejects a command is about, as click passes it."""

    codes: tuple[str, ...]
    url: str | None
    source: str | None


def _filtered(command: Callable[..., int]) -> Callable[..., int]:
    for option in reversed(_FILTERS):
        command = option(command)
    return command


@click.group(short_help="List, correct, replay and accept rejects.")
def rejects() -> None:
    """List, show, correct, replay and accept the records that were set aside.

    RUN is the folder of a run, or a job, of which it is the newest run that is no replay.
    """


@rejects.command("list", short_help="Count the rejects of runs by code, or list some.")
@click.argument("runs", type=click.Path(), metavar="RUN...", nargs=-1, required=True)
@_filtered
@click.option("--run", "run_id", metavar="ID", help="A run of the job, by the name of its folder.")
@click.option("--accepted-rejects", metavar="FILE", help="Another list of known rejects.")
@click.option(
    "--format",
    "report_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Table, or a line of JSON for each reject.",
)
def list_(
    runs: tuple[str, ...],
    run_id: str | None,
    accepted_rejects: str | None,
    report_format: str,
    **filters: Unpack[Filters],
) -> int:
    """Count the rejects of runs by code: new, accepted and replayed ones, with a sample of each.

    With --code, --url or --source, list all these rejects in order, each with the number that show
    takes. With --format json, each reject is one line of JSON, without its bytes.

    \b
    Examples:
      feedferry rejects list out
      feedferry rejects list nightly.yaml --code malformed
    """
    from feedferry.pipelines.rejects.run_rejects import RejectFilter, as_json_line, rejects_of
    from feedferry.pipelines.rejects.tables import reject_lines, reject_table

    known = Path(accepted_rejects) if accepted_rejects else None
    for run in runs:
        if not (_find(run, run_id) / "report.json").exists():
            text = "not finished; only rejects of parts that were converted to their end are known"
            click.echo(f"feedferry: {run}: {text}", err=True)
    found = (
        reject
        for run in runs
        for reject in rejects_of(_find(run, run_id), RejectFilter(**filters), known_path=known)
    )
    text_lines = reject_lines if any(filters.values()) else reject_table
    for line in map(as_json_line, found) if report_format == "json" else text_lines(found):
        click.echo(line)
    return 0


@rejects.command(short_help="Show a reject, its cure and its bytes.")
@click.argument("run", type=click.Path())
@click.argument("number", type=int, metavar="N", required=False)
@click.option("--url", help="The record with this URL, in place of N.")
def show(run: str, number: int | None, url: str | None) -> int:
    """Show where a record was rejected, what was found and expected, its cure and its bytes.

    N is the number that list shows. The place of the fault is marked.

    \b
    Examples:
      feedferry rejects show out 3
      feedferry rejects show nightly.yaml --url http://www.example.com/a
    """
    from feedferry.pipelines.rejects import excerpts
    from feedferry.pipelines.rejects.run_rejects import find_reject
    from feedferry.schemas.errors import ConfigError

    if (number is None) == (url is None):
        raise ConfigError("N: expected the number of a reject, or --url")
    for line in excerpts.show(find_reject(_find(run), number=number, url=url)):
        click.echo(line)
    return 0


@rejects.command("export", short_help="Write rejects as files to be corrected.")
@click.argument("run", type=click.Path())
@_filtered
@click.option("-o", "--output", metavar="DIR", required=True, help="New folder for the files.")
def export_(run: str, output: str, **filters: Unpack[Filters]) -> int:
    """Write the new rejects of a run as files that can be corrected and replayed.

    Records of feeds become one feed for each header, with the reason of each in a comment. Damaged
    bytes are written as they are, in raw/: correct them there. A full feed becomes incremental.
    Rejects without bytes are not exported; their cure is printed.

    \b
    Examples:
      feedferry rejects export out -o corrections
      feedferry rejects export nightly.yaml --code bad-action -o corrections
    """
    from feedferry.pipelines.options.value_parsers import parse_output
    from feedferry.pipelines.rejects.export import cures_without_bytes, export
    from feedferry.pipelines.rejects.run_rejects import RejectFilter
    from feedferry.schemas.units import counted

    parse_output(output, "--output: ")
    found = _find(run)
    base = found.absolute().parent.parent.parent  # the folder of the job file
    made = export(found, chosen := RejectFilter(**filters), Path(output), base=base)
    for file in made.files:
        click.echo(f"{output}/{file.path}: {counted(len(file.numbers), 'reject')}")
    for line in cures_without_bytes(found, chosen):
        click.echo(f"feedferry: {line}", err=True)
    return 0


def _replay_flags(_name: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import click_options, start_flags
    from feedferry.pipelines.options.job_options import RunOptions

    return [
        click.Argument(["run"], type=click.Path()),
        click.Argument(["folder"], type=click.Path(), required=False),
        click.Option(["--job", "job_file"], metavar="FILE", help="The job file of the run."),
        click.Option(["--code", "codes"], metavar="CODE", multiple=True, help="Without FOLDER."),
        *click_options(RunOptions, only=("deadline", "allow_older")),
        *start_flags(),
    ]


@rejects.command("replay", cls=BeamVerb, flags=_replay_flags, short_help="Convert rejects again.")
def replay_(
    run: str, folder: str | None, job_file: str | None, codes: tuple[str, ...], **words: object
) -> int:
    """Convert rejects again, and push them if the job does.

    FOLDER is an export whose files were corrected. Without it, all new rejects are converted again,
    which is of use after the job file or feedferry has changed. With a job, FOLDER decides which of
    its runs is replayed. The replay is a new run of the job, and never full. The job of a RUN
    without one is config.rendered.yaml, the settings of its conversion; its replays are in
    RUN/rejects/replays. Replayed rejects are marked, and not sent again.

    \b
    Examples:
      feedferry rejects replay out corrections
      feedferry rejects replay nightly.yaml --set target.default_mimetype=text/html

    \b
    Exit codes:
      0   all are converted, now or by an earlier replay
      1   records were rejected again, or files are still damaged
      2   nothing can be replayed, or a newer run might be undone
      3   stopped at a limit for losses
      4   the storage or the appliance failed; replay the same folder to resume
      75  the job is running, or the appliance is busy; start again later
    """
    import os

    from feedferry.schemas.errors import ConfigError
    from feedferry.transforms.storage.storage import is_object

    if is_object(run):
        raise ConfigError(
            f"{run}: a replay writes into the folder of its run; expected a run in a folder of this"
            " machine: use feedferry rejects export, and convert the corrected files"
        )
    found = _find(run)
    from feedferry.pipelines.cli.results.result_observer import observer_of
    from feedferry.pipelines.rejects.replay import (  # Beam takes a second to load
        ReplayRequest,
        exported_run,
        replay,
    )
    from feedferry.pipelines.rejects.run_rejects import RejectFilter

    if folder and found.absolute() != Path(run).absolute():  # the newest run of a job
        found = exported_run(Path(folder), found.parent)

    source = Path(folder) if folder else RejectFilter(codes)
    request = ReplayRequest(words, os.environ, _job_file(job_file or run))
    return replay(found, source, request, observer_of(words))


@rejects.command(short_help="Add rejects to the list of known ones.")
@click.argument("run", type=click.Path())
@_filtered
@click.option("-o", "--output", metavar="FILE", help="The list.  [default: that of the job or run]")
def accept(run: str, output: str | None, **filters: Unpack[Filters]) -> int:
    """Add the rejects of a run to the list of known rejects, which do not count as new.

    The list is the key rejects.accepted of the job file as it is now, or the --accepted-rejects of
    a run without a job.

    \b
    Examples:
      feedferry rejects accept out -o known-rejects.txt
      feedferry rejects accept nightly.yaml --code content-too-large
    """
    from feedferry.pipelines.folders.job_folders import shown_path
    from feedferry.pipelines.options.value_parsers import parse_output
    from feedferry.pipelines.rejects.run_rejects import RejectFilter, accept_rejects

    known = None if output is None else Path(parse_output(output, "--output: "))
    chosen, job_file = RejectFilter(**filters), _job_file(run)
    path, count = accept_rejects(_find(run), chosen, known, job_file=job_file)
    click.echo(f"{shown_path(path)}: {count:,} added")
    return 0


def _job_file(text: str) -> Path | None:
    path = Path(text)
    return path if path.is_file() and path.suffix in (".yaml", ".yml") else None


def _find(run: str, run_id: str | None = None) -> Path:
    from feedferry.pipelines.folders.job_folders import find_home, find_run
    from feedferry.pipelines.folders.locks import WORK

    if Path(run, WORK).is_dir():
        return Path(run)  # of a conversion that stopped
    return find_run(str(find_home(run) / run_id)) if run_id else find_run(run)


COMMANDS: tuple[click.Command, ...] = (rejects,)
