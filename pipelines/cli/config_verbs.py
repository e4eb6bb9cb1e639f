"""Verbs about job files: `config check`, `config schema`, `config render`, `init`."""

import click


@click.group()
def config() -> None:
    """Check and show job files."""


@config.command(short_help="Check a job file.")
@click.argument("job", metavar="JOB")
def check(job: str) -> int:
    """Check a job file, and the mapping or programs file that it names. Nothing else is opened.

    \b
    Exit codes:
      0  no errors
      2  errors, each with its line
    """
    from pipelines.job.job_check import check_job

    click.echo(check_job(job))
    return 0


COMMANDS: tuple[click.Command, ...] = (config,)
