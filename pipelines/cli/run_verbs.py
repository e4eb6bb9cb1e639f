"""Verbs that run jobs and operate their runs: `run`, `runs`, `state`."""

import click

from pipelines.cli.verb import BeamVerb


def _run_flags(_verb: str) -> list[click.Parameter]:
    from pipelines.cli.convert_options import ConvertOptions
    from pipelines.cli.flags import click_options
    from pipelines.cli.push_options import PUSH_TO, ApplianceOptions
    from pipelines.job.job_options import JobOptions
    from pipelines.job.run_options import FRESH, RunOptions

    omitted = ("inputs", "output", "state")
    return [
        click.Argument(["job_file"], metavar="JOB"),
        *click_options(ConvertOptions, omit=omitted, replace={"fresh": FRESH}),
        *click_options(ApplianceOptions, omit=("deadline",), replace={"url": PUSH_TO}),
        *click_options(JobOptions),
        *click_options(RunOptions),
    ]


@click.command(cls=BeamVerb, flags=_run_flags, short_help="Run a job, or resume it.")
def run(job_file: str, **words: object) -> int:
    """Run a job: read, convert, push, verify. An interrupted run is resumed by the same command.

    JOB is a job file. Each run has a folder, RUNS/JOB/TIME-ID, with its chunks, rejects, receipts
    and report. The state of the source is updated after the push, and not before. Flags have
    precedence over environment variables, and those over the job file. Words after -- are flags of
    Beam.

    \b
    Examples:
      feedferry run nightly.yaml
      feedferry run nightly.yaml --deadline 06:00
      feedferry run nightly.yaml --fresh --refresh

    \b
    Exit codes:
      0   done, nothing rejected
      1   done, but records were rejected or refused
      2   the job file, an option or an input cannot be used; nothing was sent
      3   stopped at a limit for rejects, losses or deletions
      4   a source, the storage or the appliance failed; start again to resume
      5   a defect of feedferry
      75  the job is running, the appliance is busy, or the deadline has passed;
          start again later to resume
    """
    import os
    from pathlib import Path

    from pipelines.cli.flags import decode
    from pipelines.job.job_file import load_job
    from pipelines.job.run_options import RunOptions

    options = decode(RunOptions, words)
    if words.get("runs") is not None:
        words["runs"] = str(Path(str(words["runs"])).absolute())
    job = load_job(Path(job_file), {**words, "deadline": None}, os.environ)
    from pipelines.job.run import run as run_job  # Beam takes a second to load

    return run_job(job, options)


COMMANDS: tuple[click.Command, ...] = (run,)
