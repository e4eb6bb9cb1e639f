"""Verbs that run jobs and operate their runs: `run`, `runs`, `state`."""

from typing import IO

import click

from feedferry.pipelines.cli.verb import BeamVerb


def _run_flags(_verb: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import click_options, start_flags
    from feedferry.pipelines.options.convert_options import ConvertOptions
    from feedferry.pipelines.options.job_options import FRESH, JobOptions, RunOptions
    from feedferry.pipelines.options.push_options import DRY_RUN, PushOptions

    return [
        click.Argument(["job_file"], type=click.Path(), metavar="JOB"),
        *click_options(ConvertOptions, only=("fresh", "refresh"), replace={"fresh": FRESH}),
        *click_options(RunOptions),
        *click_options(JobOptions, only=("on_end",)),
        *click_options(PushOptions, only=("dry_run",), replace={"dry_run": DRY_RUN}),
        *start_flags(),
    ]


@click.command(cls=BeamVerb, flags=_run_flags, short_help="Run a job, or resume it.")
def run(job_file: str, **words: object) -> int:
    """Run a job: read, convert, push, verify. An unfinished run is finished first.

    JOB is a job file. Each run has a folder, RUNS/JOB/TIME-ID, with its chunks, rejects, receipts
    and report. The state of the source is updated after the push, and not before. A run that was
    interrupted or has failed is finished by the next start, which then begins a new one. --set has
    precedence over environment variables, those over --profile, and that over the job file. Words
    after -- are flags of Beam.

    --on-end starts a command after the run, however it has ended, with FEEDFERRY_REPORT (the path
    of report.json), FEEDFERRY_EXIT_CODE, FEEDFERRY_RUN and FEEDFERRY_JOB in its environment. If
    it fails, the run and its exit code stay as they are.

    \b
    Examples:
      feedferry run nightly.yaml
      feedferry run nightly.yaml --deadline 06:00
      feedferry run nightly.yaml --only-resume
      feedferry run nightly.yaml --fresh --refresh
      feedferry run nightly.yaml --profile staging --set chunk.max_bytes=1MiB

    \b
    Exit codes:
      0   done, nothing rejected that is not known
      1   done, but records were rejected or refused
      2   the job file, an option or an input cannot be used; no new run was begun
      3   stopped at a limit for rejects, losses or safety
      4   a source, the storage or the appliance failed; start again to resume
      5   a defect of feedferry
      75  the job is running, the appliance is busy, or the deadline has passed;
          start again later to resume
    """
    import os
    from contextlib import ExitStack
    from pathlib import Path

    from feedferry.pipelines.terminal.display import show_start

    with ExitStack() as servers:
        with show_start(words):
            from feedferry.pipelines.convert.workers.fork_server import early_fork_server
            from feedferry.pipelines.job.file.job_file import load_job
            from feedferry.pipelines.options.flags import decode
            from feedferry.pipelines.options.job_options import RunOptions

            options = decode(RunOptions, words)
            words["deadline"] = None
            job = load_job(Path(job_file), words, os.environ)
            if words["dry_run"]:
                from feedferry.pipelines.cli.results.plans import print_plan

                return print_plan({**words, "inputs": (job_file,)})
            servers.enter_context(early_fork_server(job.convert))
            from feedferry.pipelines.cli.results.result_observer import (
                observer_of,  # Beam takes a second to load
            )
            from feedferry.pipelines.job.run.engine import run as run_job

        return run_job(job, options, observer_of(words, wording=job.reword)).exit_code


_FORMAT = click.option(
    "--format",
    "as_json",
    type=click.Choice(["text", "json"]),
    callback=lambda ctx, param, value: value == "json",
    default="text",
    help="Format of the output.",
    show_default=True,
)


@click.group()
def runs() -> None:
    """List, show and remove the runs of jobs."""


@runs.command("list", short_help="List the runs of a job.")
@click.argument("job", type=click.Path(), required=False)
@_FORMAT
def list_(job: str | None, *, as_json: bool) -> None:
    """List the runs of a job, the newest first; without JOB, those of all jobs in runs/.

    JOB is a job file, the folder of a job, the name of a job in runs/, or a URI of object storage
    with runs below it. The name of a run of a job is the time of its begin, in UTC. A phase other
    than done is that of a run that the next start resumes.

    \b
    Examples:
      feedferry runs list nightly.yaml
      feedferry runs list --format json
    """
    from feedferry.pipelines.job.history.list_runs import list_runs

    lines = list(list_runs(job, as_json=as_json))
    for line in lines:
        click.echo(line)
    if not lines:
        click.echo(f"no runs in {job or 'runs/'}", err=True)


@runs.command(short_help="Show one run.")
@click.argument("run", type=click.Path())
@_FORMAT
def show(run: str, *, as_json: bool) -> None:
    """Show one run: its phase, its account, its pushes, and why it ended.

    RUN is the folder of a run, or a job, of which it is the newest run that is no replay.

    \b
    Examples:
      feedferry runs show nightly.yaml
      feedferry runs show runs/people/20261122T020000Z-ab12
    """
    from feedferry.pipelines.job.history.list_runs import show_run

    click.echo(show_run(run, as_json=as_json))


@runs.command(short_help="Remove old runs of a job.")
@click.argument("job", type=click.Path())
@click.option("--keep", metavar="N|TIME", help="Runs to keep.  [default: keep in the job file]")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
def clean(job: str, keep: str | None, *, dry_run: bool) -> None:
    """Remove the old runs of a job: finished ones, and those that a later run replaced.

    The newest of them is always kept, and so is a run that the next start resumes. --keep is their
    number, or an age such as 30d. Rejects of a removed run are removed with it.

    JOB may be the URI of a run in object storage. The run stays: what killed attempts have left is
    removed, and uploads that they have begun are aborted (on S3).

    \b
    Examples:
      feedferry runs clean nightly.yaml --keep 30d --dry-run
      feedferry runs clean s3://feeds/archive
    """
    import os
    from pathlib import Path

    from feedferry.pipelines.job.file.job import Retention
    from feedferry.pipelines.job.history.list_runs import clean_runs, parse_keep
    from feedferry.transforms.storage.storage import is_object

    if is_object(job):
        if keep is not None:
            raise click.UsageError(
                f"--keep: given for {job}; expected none for a run in object storage, which stays:"
                " let a lifecycle rule of the bucket remove old runs"
            )
        retention = Retention()
    elif keep is not None:
        retention = parse_keep(keep)
    elif Path(job).is_file():
        from feedferry.pipelines.job.file.job_file import load_job

        retention = load_job(Path(job), {}, os.environ).keep
    else:
        raise click.UsageError(f"--keep: not given for {job}, which is not a job file.")
    for folder in clean_runs(job, retention, is_dry=dry_run):
        click.echo(f"{'would remove' if dry_run else 'removed'}  {folder}")


@click.group()
def state() -> None:
    """Show and change the state of a source: what was sent, and up to where.

    STATE is a state file, or a job: its file, its folder, or its name in runs/. Each change is made
    in a new generation, and the state before it is kept in a file next to it.
    """


@state.command("show", short_help="Show a state.")
@click.argument("state", type=click.Path())
@_FORMAT
def show_state(state: str, *, as_json: bool) -> None:
    """Show the source of a state, its watermark, and its numbers of documents and of ACLs."""
    from feedferry.pipelines.job.history.edit_state import find_state, show_state

    click.echo(show_state(find_state(state), as_json=as_json))


@state.command("set", short_help="Change the watermark of a database.")
@click.argument("state", type=click.Path())
@click.option("--watermark", required=True, metavar="VALUE", help="New value, as it is shown.")
def set_(state: str, watermark: str) -> None:
    """Set the watermark of a database: the next run reads the rows above it, less the lag.

    Rows that were sent and have not changed are not sent again.

    \b
    Examples:
      feedferry state set nightly.yaml --watermark 2026-11-01T00:00:00
    """
    from feedferry.pipelines.job.history.edit_state import find_state, set_watermark

    click.echo(set_watermark(find_state(state), watermark))


@state.command(short_help="Forget what was sent.")
@click.argument("state", type=click.Path())
def clear(state: str) -> None:
    """Remove a state: the next run sends everything, and deletes nothing that is gone by then.

    The ACLs and groups that the job keeps are unknown until they are sent again. Documents below an
    ACL that comes again are hidden until they come again, too.

    To send everything and keep track of deletions, use feedferry run --refresh instead.
    """
    from feedferry.pipelines.job.history.edit_state import clear_state, find_state

    click.echo(clear_state(find_state(state)))


@state.command(short_help="Write a state as JSON lines.")
@click.argument("state", type=click.Path())
@click.option("-o", "--output", type=click.File("wb"), default="-", help="File to write.")
def export(state: str, output: IO[bytes]) -> None:
    """Write a state as JSON lines: a head, then a line for each ACL and each document.

    \b
    Examples:
      feedferry state export people -o people.jsonl
    """
    from feedferry.pipelines.job.history.edit_state import export_state, find_state

    export_state(find_state(state), output)


@state.command("import", short_help="Replace a state by an exported one.")
@click.argument("state", type=click.Path())
@click.argument("file", type=click.File("rb"))
def import_(state: str, file: IO[bytes]) -> None:
    """Replace a state by one that was exported; the file is read to its end before that.

    \b
    Examples:
      feedferry state import people people.jsonl
    """
    from feedferry.pipelines.job.history.edit_state import find_state, import_state

    click.echo(import_state(find_state(state), file, name=file.name))


COMMANDS: tuple[click.Command, ...] = (run, runs, state)
