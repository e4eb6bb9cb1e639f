"""Verbs that answer before a run: `check`, `formats`."""

import click

from feedferry.pipelines.cli.verb import BeamVerb, Verb

_OF_TARGET = (
    *("feedtype", "datasource", "dialect", "empty_metadata", "default_mimetype"),
    "allow_wide_deletes",
)
"""The options of `convert` that decide what a target holds."""


def _flags_of(verb: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import click_options
    from feedferry.pipelines.options.convert_options import ON_A_CLUSTER, ConvertOptions
    from feedferry.pipelines.options.display_options import DisplayOptions
    from feedferry.pipelines.options.flags import Flag
    from feedferry.pipelines.options.job_options import OverrideOptions
    from feedferry.pipelines.options.section import Section
    from feedferry.pipelines.options.value_parsers import RUN_FOLDER

    display = click_options(DisplayOptions, only=("report_format",))
    if verb == "formats":
        names = [click.Argument([name], required=False) for name in ("from_format", "to_format")]
        return [*names, *click_options(ConvertOptions, only=_OF_TARGET), *display]
    output = Flag(
        "Check this folder too, from all workers of the cluster if there is one.",
        RUN_FOLDER,
        section=Section.RUN,
        names=("-o", "--output"),
        default="that of the runs",
    )
    chosen, replaced = ("output", *ON_A_CLUSTER), {"output": output}
    return [
        click.Argument(["job"], metavar="JOB", type=click.Path()),
        click.Option(["--offline"], is_flag=True, help="Open no other file and no connection."),
        *click_options(OverrideOptions),
        *click_options(ConvertOptions, only=chosen, replace=replaced),
        *display,
    ]


@click.command(cls=Verb, flags=_flags_of, short_help="List the formats, or what is lost.")
def formats(from_format: str | None, to_format: str | None, **words: object) -> int:
    """List the formats, or show what a conversion of FROM_FORMAT to TO_FORMAT cannot carry.

    The table of losses is made from what the formats declare, field by field, with what a run does
    about it. For a source that is no format, such as files, it has everything that a record has.
    The other flags are those of convert.

    \b
    Examples:
      feedferry formats
      feedferry formats gsa-feed thunderstone
      feedferry formats files gsa-feed --feedtype metadata-and-url

    \b
    Exit codes:
      0  the table is printed, also if it is empty
      2  an option cannot be used
    """
    from feedferry.pipelines.cli.results.format_tables import print_formats, print_losses
    from feedferry.schemas.errors import ConfigError

    if from_format is None:
        return print_formats(words)
    if to_format is None:
        raise ConfigError(f"{from_format}: given alone; expected FROM_FORMAT and TO_FORMAT")
    return print_losses({**words, "from_format": from_format, "to_format": to_format})


@click.command(cls=BeamVerb, flags=_flags_of, short_help="Check everything that a job uses.")
def check(job: str, *, offline: bool, output: str | None, **words: object) -> int:
    """Check a job file with all its profiles, and open everything that the job uses.

    Files and tables are counted, the appliance is asked for its backlog, and disk, permissions,
    certificates, clocks and schedule are checked. Nothing is sent that changes the appliance or the
    source. Each check has ten seconds. With --offline, only the job file is checked, and the
    mapping or programs file that it names.

    With a cluster, in the job file or by --runner, the command and each worker write, read and
    create files, which are removed, and report their versions, the names of their variables with
    credentials, their clock and their free disk. Words after -- are flags of Beam.

    \b
    Examples:
      feedferry check nightly.yaml
      feedferry check nightly.yaml --offline
      feedferry check nightly.yaml -o s3://feeds/check --runner DaskRunner \\
          --cluster tcp://scheduler:8786

    \b
    Exit codes:
      0  a run can begin; there may be warnings
      2  the job file has errors, each with its line
      4  a check failed, or the cluster did
      5  a defect of feedferry
    """
    from pathlib import Path

    from feedferry.pipelines.cli.results.job_checks import print_checks
    from feedferry.pipelines.job.file.job_file import load_checked
    from feedferry.pipelines.options.display_options import DisplayOptions
    from feedferry.pipelines.options.flags import decode

    loaded = load_checked(Path(job), words)
    report_format = decode(DisplayOptions, words).report_format
    return print_checks(loaded, report_format, is_offline=offline, shared=output)


COMMANDS: tuple[click.Command, ...] = (check, formats)
