"""Verbs that work without a job file: `convert`, `push`, `serve`, `plan`, `inspect`.

Everything but click is imported where it is used, so that `feedferry --help` answers at once.
"""

import click

from feedferry.pipelines.cli.verb import BeamVerb, SectionedOption, Verb
from feedferry.pipelines.options.section import Section

_EXPLAIN = "Show only the records with this URL, before and after each step; * matches any text."


def _inputs(metavar: str = "INPUT...") -> click.Argument:
    paths = click.Path(allow_dash=True)  # for the completion of shells
    return click.Argument(["inputs"], type=paths, nargs=-1, metavar=metavar)


def _flags_of_convert(_: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import USUAL, click_options
    from feedferry.pipelines.options.convert_options import ConvertOptions
    from feedferry.pipelines.options.display_options import DisplayOptions
    from feedferry.pipelines.options.job_options import SET_KEY, OverrideOptions
    from feedferry.pipelines.options.push_options import (
        DRY_RUN,
        PUSH_TO,
        ApplianceOptions,
        PushOptions,
    )

    return [
        _inputs(),
        *click_options(ConvertOptions, usual=USUAL),
        *click_options(OverrideOptions, only=("overrides",), replace={"overrides": SET_KEY}),
        *click_options(PushOptions, only=("dry_run",), replace={"dry_run": DRY_RUN}),
        *click_options(ApplianceOptions, replace={"url": PUSH_TO}, usual=USUAL),
        *click_options(DisplayOptions),
    ]


def _flags_of_push(_: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import USUAL_OF_PUSH, click_options
    from feedferry.pipelines.options.display_options import DisplayOptions
    from feedferry.pipelines.options.job_options import SET_KEY, OverrideOptions
    from feedferry.pipelines.options.push_options import ApplianceOptions, PushOptions

    return [
        _inputs("DIR|FILE..."),
        *click_options(PushOptions, usual=USUAL_OF_PUSH),
        *click_options(OverrideOptions, only=("overrides",), replace={"overrides": SET_KEY}),
        *click_options(ApplianceOptions, usual=USUAL_OF_PUSH),
        *click_options(DisplayOptions),
    ]


def _flags_of_serve(_: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import click_options
    from feedferry.pipelines.options.job_options import SET_KEY, OverrideOptions
    from feedferry.pipelines.options.push_options import FORWARD, ApplianceOptions
    from feedferry.pipelines.serve.settings import ServeSettings

    endless = ("max_wait", "deadline")
    return [
        *click_options(ServeSettings),
        *click_options(OverrideOptions, only=("overrides",), replace={"overrides": SET_KEY}),
        *click_options(ApplianceOptions, omit=endless, replace={"url": FORWARD}),
    ]


def _flags_of_plan(_: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import USUAL, click_options
    from feedferry.pipelines.options.convert_options import (
        ON_A_CLUSTER,
        ConvertOptions,
        PlanOptions,
    )
    from feedferry.pipelines.options.display_options import DisplayOptions
    from feedferry.pipelines.options.job_options import OverrideOptions

    unused = ("output", "fresh", "verify", *ON_A_CLUSTER)
    return [
        _inputs(),
        *click_options(OverrideOptions),
        *click_options(PlanOptions),
        SectionedOption(["--explain"], section=Section.READ, metavar="URL", help=_EXPLAIN),
        *click_options(ConvertOptions, omit=unused, usual=USUAL),
        *click_options(DisplayOptions),
    ]


def _flags_of_inspect(_: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import click_options
    from feedferry.pipelines.options.convert_options import ConvertOptions, HeadOptions
    from feedferry.pipelines.options.display_options import DisplayOptions

    shared = ("from_format", "encoding", "base_url", "url_template", "zone", "strict")
    return [
        _inputs(),
        *click_options(ConvertOptions, only=(*shared, "max_token_bytes")),
        *click_options(HeadOptions),
        *click_options(DisplayOptions, only=("report_format",)),
    ]


@click.command(cls=BeamVerb, flags=_flags_of_convert, short_help="Convert feeds, files or rows.")
def convert(**words: object) -> int:
    """Convert records, files or database rows into chunk files of another format.

    INPUT is a file, a folder, a glob, a URL, or - for standard input. Files that end in .gz, .bz2,
    .xz or .zst are decompressed. A folder without feeds is a tree of documents. With --push-to, the
    chunks are pushed after the conversion, as `feedferry push` does. Words after -- are flags of
    Beam.

    \b
    Examples:
      feedferry convert archive/ -o out --to thunderstone --accept-loss acl
      feedferry convert feed.xml.gz -o out --to avro --jobs 2
      feedferry convert out/chunks -o back --to gsa-feed --datasource intranet
      feedferry convert ./pdfs -o out --to gsa-feed --datasource pdfs \\
          --base-url https://docs.example.com/
      feedferry convert --from database --mapping people.yaml -o out \\
          --to gsa-feed --datasource people
      feedferry convert archive/ -o out --to gsa-feed \\
          --push-to http://gsa.example.com:19900

    \b
    Exit codes:
      0   done, nothing rejected that is not known
      1   done, but records were rejected
      2   an option or input cannot be used; nothing was written
      3   stopped at a limit for rejects or losses
      4   an input, the output or the appliance failed; start again to resume
      5   a defect of feedferry
      75  the appliance or another run is busy; start again later to resume
    """
    if words["dry_run"]:
        from feedferry.pipelines.cli.results.plans import print_plan

        return print_plan(words)
    from contextlib import ExitStack

    from feedferry.pipelines.terminal.display import show_start

    with ExitStack() as servers:
        with show_start(words):
            from feedferry.pipelines.convert.workers.fork_server import early_fork_server
            from feedferry.pipelines.job.file.flag_job import job_of_flags

            job = job_of_flags(words)
            servers.enter_context(early_fork_server(job.convert))
            from feedferry.pipelines.cli.results.result_observer import observer_of
            from feedferry.pipelines.job.run.engine import (
                convert as convert_job,  # Beam takes a second to load
            )

        return convert_job(job, observer_of(words)).exit_code


@click.command(cls=Verb, flags=_flags_of_push, short_help="Push chunks to an appliance.")
def push(**words: object) -> int:
    """Push chunks to an appliance: in order, throttled by its backlog, each accepted once.

    DIR is the folder of a finished run. Several runs are pushed one after another, in the order
    given. FILEs are feeds that exist already, in the order in which they are sent; -o names the
    folder for their receipts. An interrupted push continues when it is started again. Ctrl-C stops
    the push after the current chunk.

    \b
    Examples:
      feedferry push out --to http://gsa.example.com:19900
      feedferry push monday tuesday --to http://gsa.example.com:19900
      feedferry push out --to https://gsa.example.com:19902 \\
          --ca-file gsa.pem --window "20:00-06:00 Europe/Berlin"
      feedferry push out --profile intranet \\
          --to http://search.example.com/texis/dowalk/recvdata.xml
      feedferry push monday.xml tuesday.xml -o pushed \\
          --to http://gsa.example.com:19900

    \b
    Exit codes:
      0   all records were accepted
      1   done, but records were refused
      2   an option or input cannot be used; nothing was sent
      3   more records were refused than --max-rejects allows
      4   the appliance failed or refused the feed; push again to resume
      5   a defect of feedferry
      75  the appliance or another push is busy, or the deadline has passed;
          push again later to resume
    """
    from feedferry.pipelines.terminal.display import show_start

    with show_start(words):
        from feedferry.pipelines.cli.results.result_observer import observer_of
        from feedferry.pipelines.options.push_options import parse_push
        from feedferry.pipelines.push.engine import plan_push
        from feedferry.pipelines.push.engine import push as push_runs
        from feedferry.pipelines.report.push_report import plan_text

        if words.get("overrides") and words.get("url"):
            from feedferry.pipelines.job.file.job_file import words_with_set
            from feedferry.transforms.sinks.push.wire.address import find_kind

            kind, _ = find_kind(str(words["url"]))
            words = words_with_set({**words, "to_format": kind.default_format})
        options, target = parse_push(words)
        observer = observer_of(words)
    if options.dry_run:
        for plan in plan_push(options, target):
            click.echo(plan_text(plan.chunks, plan.settings))
        return 0
    return max(result.exit_code for result in push_runs(options, target, observer))


@click.command(cls=Verb, flags=_flags_of_serve, short_help="Receive feeds as an appliance does.")
def serve(**words: object) -> int:
    """Receive feeds as a GSA does, and replicated data as a Thunderstone appliance does.

    Received feeds are stored in a spool, which `feedferry convert` can read. With --forward, they
    are also converted and pushed to another appliance. For rehearsals, the receiver keeps an index
    of the documents that an appliance would have, shows it on a web page and at /documents, and
    simulates faults that --scenario describes. The first line on stdout is its URL.

    \b
    Examples:
      feedferry serve --spool spool --host 0.0.0.0 --trust 10.1.0.0/16
      feedferry serve --spool rehearsal --port 0 --scenario disk-full.yaml
      feedferry serve --spool spool --forward http://new.example.com:19900
    """
    from feedferry.pipelines.serve.service import run

    return run(words)


@click.command(cls=Verb, flags=_flags_of_plan, short_help="Show what a run would do.")
def plan(**words: object) -> int:
    """Show what a run would read, write, reject and lose.

    INPUT and the flags are those of convert, or INPUT is a job file, with --set and --profile.
    Everything is read and converted, and nothing is stored. The account is the one that the run
    will have. An index is asked who would see more documents, and who fewer. With --sample, the
    account is an estimate.

    \b
    Examples:
      feedferry plan nightly.yaml
      feedferry plan nightly.yaml --explain 'http://www.example.com/a*'
      feedferry plan archive/ --to thunderstone --sample 1%
      feedferry plan ./pdfs --to gsa-feed --datasource pdfs \\
          --base-url https://docs.example.com/
      feedferry plan --from database --mapping people.yaml --to gsa-feed \\
          --datasource people

    \b
    Exit codes:
      0  the run would have no rejects
      1  the run would have rejects, or no record has the URL of --explain
      2  an option or input cannot be used
      3  the run would stop at a limit for rejects, losses or safety
      4  an input cannot be read
      5  a defect of feedferry
    """
    from feedferry.pipelines.cli.results.plans import print_plan

    return print_plan(words)


@click.command(cls=Verb, flags=_flags_of_inspect, short_help="Count the records in files.")
def inspect(**words: object) -> int:
    """Count the records in files: how many of each kind, how large, and who may see them.

    INPUT is as for convert. Groups that an ACL or another group names are looked up in the groups
    feeds of the input, so give both. Nothing is written.

    \b
    Examples:
      feedferry inspect archive/
      feedferry inspect feed.xml.gz groups.xml --format json
      feedferry inspect feed.xml --head 3

    \b
    Exit codes:
      0  nothing to report
      1  records were rejected, or a group is named and not defined
      2  an option or input cannot be used
      4  an input cannot be read
      5  a defect of feedferry
    """
    from feedferry.pipelines.cli.results.input_counts import print_counts

    return print_counts(words)


COMMANDS: tuple[click.Command, ...] = (convert, push, serve, plan, inspect)
