"""The command `feedferry`: its verbs, its messages on errors, and its exit codes.

Everything but click is imported where it is used, so that `feedferry --help` answers at once.
"""

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from feedferry.pipelines.cli import (
    check_verbs,
    compare_verbs,
    config_verbs,
    reject_verbs,
    run_verbs,
)
from feedferry.pipelines.cli.verb import BeamVerb, SectionedOption, TaskGroup, Verb
from feedferry.pipelines.observer.signals import DeadlinePassed, Terminated, raised
from feedferry.pipelines.options.section import Section

_log = logging.getLogger(__name__)

USAGE_EXIT = 2
FAILED_EXIT = 4
BUSY_EXIT = 75
_EXPLAIN = "Show only the records with this URL, before and after each step; * matches any text."
_NO_LIMIT = "A part of the records could replace all: use plan --sample N, or inspect --head N. "


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line `args`, or that of this process; return its exit code.

    If it can be resumed, the last line on stderr is the command that does it.
    """
    error: BaseException | None = None
    try:
        with raised(), _warnings_in_a_line():
            status = feedferry.main(args, prog_name="feedferry", standalone_mode=False) or 0
    except (Exception, KeyboardInterrupt, Terminated, DeadlinePassed) as exc:
        error, status = exc, _explain(exc)
    if status in (FAILED_EXIT, BUSY_EXIT):
        from feedferry.pipelines.observer.endings import next_start

        command = next_start(sys.argv[1:] if args is None else args, error)
        click.echo(f"feedferry: start again: {command}", err=True)
    return int(status)


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Show the warning of an object of another package as a message of the command."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if category.__name__ == "UnusableWarning":  # its module is not loaded for --help
            click.echo(f"feedferry: {message}", err=True)
        else:
            usual(message, category, *place, **more)

    usual = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual


@click.group(
    cls=TaskGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(package_name="feedferry", message="%(prog)s %(version)s")
def feedferry() -> None:
    """Carry documents between search appliances. No document is lost without a report.

    A job is a file: init writes one, check and plan look at it, run runs it.
    """


def _flags_of(verb: str) -> list[click.Parameter]:
    """Return the arguments and flags of a verb, in the order of its help."""
    from feedferry.pipelines.cli.click_flags import USUAL, USUAL_OF_PUSH, click_options
    from feedferry.pipelines.options.convert_options import (
        ON_A_CLUSTER,
        ConvertOptions,
        HeadOptions,
        PlanOptions,
    )
    from feedferry.pipelines.options.display_options import DisplayOptions
    from feedferry.pipelines.options.job_options import OverrideOptions
    from feedferry.pipelines.options.push_options import (
        DRY_RUN,
        FORWARD,
        PUSH_TO,
        ApplianceOptions,
        PushOptions,
    )

    if verb == "serve":
        from feedferry.pipelines.serve.settings import ServeSettings

        endless = ("max_wait", "deadline")
        appliance = click_options(ApplianceOptions, omit=endless, replace={"url": FORWARD})
        return [*click_options(ServeSettings), *appliance]
    metavar = "DIR|FILE..." if verb == "push" else "INPUT..."
    paths = click.Path(allow_dash=True)  # for the completion of shells
    inputs = click.Argument(["inputs"], type=paths, nargs=-1, metavar=metavar)
    display = click_options(DisplayOptions)
    if verb == "push":
        own = [
            *click_options(PushOptions, usual=USUAL_OF_PUSH),
            *click_options(ApplianceOptions, usual=USUAL_OF_PUSH),
        ]
    elif verb == "plan":
        unused = ("output", "fresh", "verify", *ON_A_CLUSTER)
        own = [
            *click_options(OverrideOptions),
            *click_options(PlanOptions),
            SectionedOption(["--explain"], section=Section.READ, metavar="URL", help=_EXPLAIN),
            *click_options(ConvertOptions, omit=unused, usual=USUAL),
        ]
    elif verb == "inspect":
        shared = ("from_format", "encoding", "base_url", "url_template", "zone", "strict")
        options = click_options(ConvertOptions, only=(*shared, "max_token_bytes"))
        display = click_options(DisplayOptions, only=("report_format",))
        own = [*options, *click_options(HeadOptions)]
    else:
        appliance = click_options(ApplianceOptions, replace={"url": PUSH_TO}, usual=USUAL)
        dry_run = click_options(PushOptions, only=("dry_run",), replace={"dry_run": DRY_RUN})
        own = [*click_options(ConvertOptions, usual=USUAL), *dry_run, *appliance]
    return [inputs, *own, *display]


@feedferry.command(cls=BeamVerb, flags=_flags_of, short_help="Convert feeds, files or rows.")
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
        from feedferry.pipelines.cli.plan_results import print_plan

        return print_plan(words)
    from contextlib import ExitStack

    from feedferry.pipelines.terminal.display import show_start

    with ExitStack() as servers:
        with show_start(words):
            from feedferry.pipelines.convert.workers.fork_server import early_fork_server
            from feedferry.pipelines.job.flag_job import job_of_flags

            job = job_of_flags(words)
            servers.enter_context(early_fork_server(job.convert))
            from feedferry.pipelines.cli.terminal_results import observer_of
            from feedferry.pipelines.job.engine import (
                convert as convert_job,  # Beam takes a second to load
            )

        return convert_job(job, observer_of(words)).exit_code


@feedferry.command(cls=Verb, flags=_flags_of, short_help="Push chunks to an appliance.")
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
        from feedferry.pipelines.cli.terminal_results import observer_of
        from feedferry.pipelines.options.push_options import parse_push
        from feedferry.pipelines.push.engine import plan_push
        from feedferry.pipelines.push.engine import push as push_runs
        from feedferry.pipelines.report.push_report import plan_text

        options, target = parse_push(words)
        observer = observer_of(words)
    if options.dry_run:
        for plan in plan_push(options, target):
            click.echo(plan_text(plan.chunks, plan.settings))
        return 0
    return max(result.exit_code for result in push_runs(options, target, observer))


@feedferry.command(cls=Verb, flags=_flags_of, short_help="Receive feeds as an appliance does.")
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


@feedferry.command(cls=Verb, flags=_flags_of, short_help="Show what a run would do.")
def plan(**words: object) -> int:
    """Show what a run would read, write, reject and lose.

    INPUT and the flags are those of convert, or INPUT is a job file, with --set and --profile.
    Everything is read and converted, and nothing is stored: no chunk, no state, no lock. The
    account is the one that the run will have. With --sample, a part of the input is converted, and
    the account is an estimate.

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
      3  the run would stop at a limit for rejects, losses or deletions
      4  an input cannot be read
      5  a defect of feedferry
    """
    from feedferry.pipelines.cli.plan_results import print_plan

    return print_plan(words)


@feedferry.command(cls=Verb, flags=_flags_of, short_help="Count the records in files.")
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
    from feedferry.pipelines.cli.inspect_results import print_counts

    return print_counts(words)


for _module in (config_verbs, run_verbs, reject_verbs, check_verbs, compare_verbs):
    for _command in _module.COMMANDS:
        feedferry.add_command(_command)


def _explain(exc: BaseException) -> int:
    """Print the error on stderr; return the exit code of its kind."""
    from feedferry.pipelines.observer.endings import ending_of

    match exc:
        case click.exceptions.NoArgsIsHelpError():
            exc.show()
            return USAGE_EXIT
        case click.UsageError():
            verb = exc.ctx.command_path if exc.ctx else "feedferry"
            instead = _NO_LIMIT if getattr(exc, "option_name", "") == "--limit" else ""
            return _end(f"{exc.format_message()} {instead}See {verb} --help.", USAGE_EXIT)
    ending = ending_of(exc)
    if ending.exit_code < BUSY_EXIT:  # neither a lock, a deadline nor a signal
        _log.info("traceback", exc_info=exc)
    return _end(*ending)


def _end(message: str, exit_code: int) -> int:
    from feedferry.schemas.printable import printable

    click.echo("feedferry: " + printable(message, kept="\n"), err=True)
    if _log.hasHandlers():  # otherwise it would be printed again
        _log.error("exit code %s: %s", exit_code, message, extra={"is_shown": True})
    return exit_code
