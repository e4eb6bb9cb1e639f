"""Verbs that check before a run: `cluster-check`, `doctor`, `loss`."""

import click

from pipelines.cli.verb import BeamVerb, Verb

_OF_TARGET = (
    *("from_format", "to_format", "feedtype", "datasource", "dialect", "empty_metadata"),
    *("default_mimetype", "allow_wide_deletes"),
)
"""The options of `convert` that decide what a target holds."""


def _flags_of(verb: str) -> list[click.Parameter]:
    from pipelines.cli.click_flags import click_options
    from pipelines.options.convert_options import ON_A_CLUSTER, ConvertOptions
    from pipelines.options.display_options import DisplayOptions

    formats = click_options(DisplayOptions, only=("report_format",))
    if verb == "doctor":
        return [click.Argument(["job"], metavar="JOB", type=click.Path()), *formats]
    names = _OF_TARGET if verb == "loss" else ("output", *ON_A_CLUSTER)
    return [*click_options(ConvertOptions, only=names), *formats]


@click.command(cls=Verb, flags=_flags_of, short_help="Show what a conversion cannot carry.")
def loss(**words: object) -> int:
    """Show what a conversion cannot carry, field by field, and what a run does about it.

    The table is made from what the formats declare. With --from, it has only what files of that
    format can hold; without it, or with a source that is no format, everything that a record has.

    \b
    Examples:
      feedferry loss --from gsa-feed --to thunderstone
      feedferry loss --to gsa-feed --feedtype metadata-and-url
      feedferry loss --to thunderstone --format json

    \b
    Exit codes:
      0  the table is printed, also if it is empty
      2  an option cannot be used
    """
    from pipelines.cli.check_results import print_losses

    return print_losses(words)


@click.command(cls=Verb, flags=_flags_of, short_help="Open everything that a job uses.")
def doctor(job: str, **words: object) -> int:
    """Open everything that a job uses, and say what is wrong and how to cure it.

    JOB is a job file. Files and tables are counted, the appliance is asked for its backlog, and
    disk, permissions, certificates, clocks and schedule are checked. Nothing is sent that changes
    the appliance or the source. Each check has ten seconds.

    \b
    Examples:
      feedferry doctor nightly.yaml
      feedferry doctor nightly.yaml --format json

    \b
    Exit codes:
      0  a run can begin; there may be warnings
      2  the job file has errors
      4  a check failed
    """
    import os
    from pathlib import Path

    from pipelines.cli.check_results import print_checks
    from pipelines.job.job_file import load_job
    from pipelines.options.display_options import DisplayOptions
    from pipelines.options.flags import decode

    options = decode(DisplayOptions, words)
    return print_checks(load_job(Path(job), {}, os.environ), options.report_format)


@click.command(cls=BeamVerb, flags=_flags_of, short_help="Check the workers of a cluster.")
def cluster_check(**words: object) -> int:
    """Check that the workers of a cluster can convert into the folder DIR.

    The command and each worker write, read and create files in DIR, and report their versions, the
    names of their variables with credentials, the difference of their clock to that of the
    storage, and their free disk for temporary files. The files are removed.

    \b
    Examples:
      feedferry cluster-check -o s3://feeds/check --runner DaskRunner \\
          --cluster tcp://scheduler:8786
      feedferry cluster-check -o /shared/out --runner FlinkRunner \\
          --cluster flink:8081 --parallelism 16 --format json

    \b
    Exit codes:
      0  a run can begin; there may be warnings
      2  an option cannot be used
      4  a check failed, or the cluster did
      5  a defect of feedferry
    """
    from pipelines.cli.check_results import print_lines
    from pipelines.doctor.cluster_check import check_cluster
    from pipelines.options.convert_options import ConvertOptions
    from pipelines.options.display_options import DisplayOptions
    from pipelines.options.flags import decode
    from transforms.formats import AVRO

    given = {**words, "inputs": ("-",), "to_format": AVRO.name}
    check = check_cluster(decode(ConvertOptions, given))
    about = {"command": check.command, "workers": check.workers}
    return print_lines(check.lines(), decode(DisplayOptions, words).report_format, about)


COMMANDS: tuple[click.Command, ...] = (cluster_check, doctor, loss)
