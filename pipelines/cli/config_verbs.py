"""Verbs about job files: `config schema`, `config render`, `init`."""

import click

from feedferry.pipelines.cli.verb import Verb


@click.group(short_help="Show job files.")
def config() -> None:
    """Show the settings of a job, and the schema of job files."""


@config.command(short_help="Print the JSON Schema of job files.")
def schema() -> int:
    """Print the JSON Schema of job files, for editors."""
    import json

    from feedferry.pipelines.job.file.job_text import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
    return 0


def _flags_of_render(_: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import click_options
    from feedferry.pipelines.options.job_options import OverrideOptions

    origins = click.Option(["--origins"], is_flag=True, help="Show where each value came from.")
    job = click.Argument(["job"], type=click.Path(), metavar="JOB")
    return [job, origins, *click_options(OverrideOptions)]


@config.command(cls=Verb, flags=_flags_of_render, short_help="Print all settings of a job.")
def render(job: str, *, origins: bool, **words: object) -> int:
    """Print all settings of a job as a job file, with its defaults and environment variables.

    Secrets are references, as in the file.
    """
    import os
    from pathlib import Path

    from feedferry.pipelines.job.file.job_file import load_job
    from feedferry.pipelines.job.file.job_text import render as render_job

    click.echo(render_job(load_job(Path(job), words, os.environ), has_origins=origins), nl=False)
    return 0


@click.command(short_help="Write a first job file or mapping file.")
@click.option("--source", metavar="INPUT|URL", help="What a job reads: an input of convert.")
@click.option("--target", metavar="URL|FORMAT", help="The appliance, or the format to write.")
@click.option("-o", "--output", metavar="FILE", help="File to write.  [default: stdout]")
@click.option("--from", "from_format", metavar="database", help="Print a mapping file for URL.")
@click.argument("connection", metavar="[URL]", required=False)
@click.option("--table", metavar="NAME", help="Table to read.  [default: the only one]")
@click.option("--schema", metavar="NAME", help="Database schema of the table.")
def init(
    source: str | None, target: str | None, output: str | None, connection: str | None, **words: str
) -> int:
    """Write a first job file by looking at the input, to be edited and given to run.

    The source is a file, folder, glob or URL of feeds or documents, a spool, a mapping file, a
    programs file, or the SQLAlchemy URL of a database. With --from database, a mapping file for URL
    is printed instead. The JSON Schema of job files is written next to the file of -o, for the
    completion and the checks of editors. The password in a URL is a reference, as in
    postgresql+psycopg://reader:${env:PGPASSWORD}@db.example.com/people.

    \b
    Examples:
      feedferry init --source archive/ -o job.yaml \\
          --target http://search.example.com/texis/dowalk/recvdata.xml
      feedferry init --source ./pdfs --target gsa-feed > pdfs.yaml
      feedferry init --source sqlite:///people.db --target gsa-feed -o job.yaml
      feedferry init --from database sqlite:///people.db > people.yaml
    """
    table, schema = words["table"], words["schema"]
    if connection is None:
        from feedferry.pipelines.job.draft.init_job import write_job

        text = write_job(source, target, output, table=table, schema=schema)
    else:
        from feedferry.schemas.errors import ConfigError
        from feedferry.transforms.sources import ROWS

        if (from_format := words["from_format"]) not in (None, ROWS.name):
            raise ConfigError(f"--from {from_format}: not for init; expected {ROWS.name}")
        text = ROWS.draft_mapping(connection, table=table, schema=schema)[1]
    click.echo(text, nl=False)
    return 0


COMMANDS: tuple[click.Command, ...] = (config, init)
