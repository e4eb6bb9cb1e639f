"""Verbs about records that were set aside: `rejects list`, `show`, `export`, `replay`, `accept`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_FILTERS = (
    click.option("--code", "codes", metavar="CODE", multiple=True, help="Only rejects of a code."),
    click.option("--url", metavar="GLOB", help="Only records with such a URL."),
    click.option("--source", metavar="GLOB", help="Only records of such a source."),
)


def _filtered(command: Callable[..., int]) -> Callable[..., int]:
    for option in reversed(_FILTERS):
        command = option(command)
    return command


@click.group()
def rejects() -> None:
    """List, show, correct, replay and accept the records that were set aside.

    RUN is the folder of a run, or a job, of which it is the newest run.
    """


@rejects.command("list", short_help="Count the rejects of runs by code.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@_filtered
@click.option("--run", "run_id", metavar="ID", help="A run of the job, by the name of its folder.")
@click.option("--accepted-rejects", metavar="FILE", help="Another list of known rejects.")
@click.option("--format", "report_format", type=click.Choice(["text", "json"]), default="text")
def list_(
    runs: tuple[str, ...],
    run_id: str | None,
    accepted_rejects: str | None,
    report_format: str,
    **filters: Any,  # as click passes them
) -> int:
    """Count the rejects of runs by code: new, accepted and replayed ones, with a sample of each.

    With --format json, each reject is one line of JSON, without its bytes.

    \b
    Examples:
      feedferry rejects list out
      feedferry rejects list nightly.yaml --code malformed --format json
    """
    from pipelines.rejects.run_rejects import RejectFilter, as_json_line, rejects_of
    from pipelines.rejects.tables import reject_table

    known = Path(accepted_rejects) if accepted_rejects else None
    found = (
        reject
        for run in runs
        for reject in rejects_of(_find(run, run_id), RejectFilter(**filters), known_path=known)
    )
    for line in map(as_json_line, found) if report_format == "json" else reject_table(found):
        click.echo(line)
    return 0


@rejects.command(short_help="Show a reject, its cure and its bytes.")
@click.argument("run")
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
    from pipelines.rejects import excerpts
    from pipelines.rejects.run_rejects import find_reject
    from schemas.errors import ConfigError

    if (number is None) == (url is None):
        raise ConfigError("N: expected the number of a reject, or --url")
    for line in excerpts.show(find_reject(_find(run), number=number, url=url)):
        click.echo(line)
    return 0


@rejects.command(short_help="Add rejects to the list of known ones.")
@click.argument("run")
@_filtered
@click.option("-o", "--output", metavar="FILE", help="The list.  [default: that of the run]")
def accept(run: str, output: str | None, **filters: Any) -> int:
    """Add the rejects of a run to the list of known rejects, which do not count as new.

    The list is that of the run: --accepted-rejects, or the key rejects.accepted of its job.

    \b
    Examples:
      feedferry rejects accept out -o known-rejects.txt
      feedferry rejects accept nightly.yaml --code content-too-large
    """
    from pipelines.rejects.run_rejects import RejectFilter, accept_rejects

    path, count = accept_rejects(
        _find(run), RejectFilter(**filters), Path(output) if output else None
    )
    click.echo(f"{path}: {count:,} added")
    return 0


def _find(run: str, run_id: str | None = None) -> Path:
    from pipelines.job.folders import find_home, find_run

    return find_run(str(find_home(run) / run_id)) if run_id else find_run(run)


COMMANDS: tuple[click.Command, ...] = (rejects,)
