"""The command `feedferry`: its verbs, and what the shell is told at the end.

Everything but click is imported where it is used, so that `--help` answers at once.
"""

from collections.abc import Sequence

import click

from pipelines.cli import convert_flags, push_flags
from pipelines.cli.signals import Terminated, raised

USAGE_EXIT = 2
FATAL_EXIT = 4
INTERNAL_EXIT = 5
INTERRUPTED_EXIT = 130
TERMINATED_EXIT = 143


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line `args`, or that of this process; return its exit code."""
    try:
        with raised():
            return int(feedferry.main(args, prog_name="feedferry", standalone_mode=False) or 0)
    except Terminated:
        return _end("terminated", TERMINATED_EXIT)
    except Exception as exc:  # nobody stands above who could do more with it
        return _explain(exc)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="feedferry", message="%(prog)s %(version)s")
def feedferry() -> None:
    """Carry documents between search appliances, with nothing lost in silence."""


@feedferry.command()
def formats() -> None:
    """List the formats, and whether they are read and written."""
    from pipelines.cli.format_list import format_lines

    for line in format_lines():
        click.echo(line)


@feedferry.command(cls=convert_flags.ConvertCommand, short_help="Convert feeds, files or rows.")
@convert_flags.with_flags(
    *convert_flags.READING,
    convert_flags.OUTPUT,
    *convert_flags.WRITING,
    *convert_flags.RUNNING,
    *push_flags.BEHIND,
    *push_flags.APPLIANCE,
    *push_flags.ENDS,
    *convert_flags.TELLING,
)
def convert(*, quiet: bool, verbose: int, **words: object) -> int:
    """Convert records, files or rows into chunk files of another format.

    INPUT is a file, a folder, a glob, a uri or - for stdin; .gz, .bz2, .xz and .zst are
    decompressed. A folder of anything else is a tree of documents. What stands behind -- goes to
    Beam. With --push-to, what is written is pushed, as the verb push does.

    \b
    Examples:
      feedferry convert archive/ -o out --to thunderstone --accept-loss acl
      feedferry convert feed.xml.gz -o out --to avro --jobs 2
      feedferry convert out/chunks -o back --to gsa-feed --datasource intranet
      feedferry convert ./pdfs -o out --to gsa-feed --base-url https://docs.example.com/ \\
          --datasource pdfs
      feedferry convert --from database --mapping people.yaml -o out --to gsa-feed \\
          --datasource people
      feedferry convert archive/ -o out --to gsa-feed --push-to http://gsa.example.com:19900

    \b
    Exit codes:
      0   done, nothing rejected
      1   done, but there are rejects
      2   the command line cannot be used; nothing was touched
      3   stopped at a threshold of rejects or losses
      4   an input, the output or the appliance gave up; start again to resume
      5   a defect of feedferry
      75  not now: the backlog, the deadline, another run or push; start again to resume
    """
    from pipelines.cli.convert_options import parse
    from pipelines.cli.push_options import parse_push_to, without_appliance

    verbosity = -1 if quiet else verbose
    _log_to_stderr(verbosity)
    appliance = parse_push_to(words)
    options = parse({**without_appliance(words), "verbosity": verbosity})
    # Beam takes a second: the command line is checked before.
    from pipelines.convert.run_and_push import run

    return run(options, appliance)


@feedferry.command(cls=convert_flags.SectionedCommand, short_help="Push chunks to an appliance.")
@click.argument("inputs", nargs=-1, metavar="DIR|FILE...")
@convert_flags.with_flags(
    *push_flags.PUSHED,
    *push_flags.APPLIANCE,
    *push_flags.ENDS,
    push_flags.PROGRESS,
    *convert_flags.TELLING,
)
def push(*, quiet: bool, verbose: int, **words: object) -> int:
    """Push chunks to an appliance: in order, throttled by its backlog, each accepted once.

    DIR is the folder of a finished run. Several runs are pushed one after another, in the order
    given. FILEs are feeds that exist already, in the order in which they are sent; -o names the
    folder for their receipts. An interrupted push continues when it is started again. Ctrl-C stops
    the push after the current chunk.

    \b
    Examples:
      feedferry push out --to http://gsa.example.com:19900
      feedferry push monday tuesday --to http://gsa.example.com:19900
      feedferry push out --to https://gsa.example.com:19902 --ca-file gsa.pem \\
          --window "20:00-06:00 Europe/Berlin"
      feedferry push out --to http://search.example.com/texis/dowalk/recvdata.xml --profile intranet
      feedferry push monday.xml tuesday.xml -o pushed --to http://gsa.example.com:19900
      feedferry push out --to http://gsa.example.com:19900 --replay

    \b
    Exit codes:
      0   all is accepted
      1   all is settled, but records were refused
      2   the command line cannot be used; nothing was sent
      3   more records were refused than --max-rejects allows
      4   the appliance takes nothing, or not this; push again to go on
      5   a defect of feedferry
      75  not now: the backlog, the window, the deadline or another push; push again to go on
    """
    from pipelines.cli.push_options import parse_push
    from pipelines.push.run import run

    verbosity = -1 if quiet else verbose
    _log_to_stderr(verbosity)
    return run(*parse_push({**words, "verbosity": verbosity}))


@feedferry.command(
    cls=convert_flags.SectionedCommand, short_help="Take what connectors and appliances push."
)
@convert_flags.with_flags(*push_flags.SERVED, *push_flags.APPLIANCE, *push_flags.TOLD)
def serve(*, quiet: bool, verbose: int, **words: object) -> int:
    """Take what the clients of a GSA push, and what a Thunderstone appliance replicates.

    What comes is kept in a spool, which is a source: feedferry convert --from spool DIR. With
    --forward, it is converted and pushed on as it comes. As a rehearsal appliance it keeps an index
    of what a real one would then hold, shows it on a page and at /documents, and misbehaves as a
    --scenario says. The first line on stdout is its url.

    \b
    Examples:
      feedferry serve --spool spool --host 0.0.0.0 --trust 10.1.0.0/16
      feedferry serve --spool rehearsal --port 0 --scenario disk-full.yaml
      feedferry serve --spool spool --forward http://new.example.com:19900
    """
    from pipelines.serve.run import run

    verbosity = -1 if quiet else verbose
    _log_to_stderr(verbosity)
    return run({**words, "verbosity": verbosity})


@feedferry.command(
    cls=convert_flags.ConvertCommand,
    short_help="Say what convert would read, and what would come of it.",
)
@convert_flags.with_flags(*convert_flags.READING, *convert_flags.WRITING, *convert_flags.TELLING)
def plan(*, quiet: bool, verbose: int, **words: object) -> int:
    """Say what convert would read of a tree or a database, and what would come of it.

    Its flags are those of convert. Nothing is written, and no state moves. Five documents are
    shown, taken from all over the source, with what would become of each.

    \b
    Examples:
      feedferry plan ./pdfs --to gsa-feed --base-url https://docs.example.com/ --datasource pdfs
      feedferry plan --from database --mapping people.yaml --to gsa-feed --datasource people

    \b
    Exit codes:
      0  it can be read
      2  the command line cannot be used
      3  a run would stop: fewer documents, or more deletions, than are safe
      4  the source cannot be read
      5  a defect of feedferry
    """
    verbosity = -1 if quiet else verbose
    _log_to_stderr(verbosity)
    from pipelines.cli.convert_options import parse

    options = parse({**words, "output": "-", "verbosity": verbosity})
    from pipelines.inspect.plan import run

    return run(options)


@feedferry.command(short_help="Print a first mapping file for a database.")
@click.option("--from", "from_format", metavar="database", help="What it is for.")
@click.argument("connection", metavar="URL")
@click.option("--table", metavar="NAME", help="Table to read.  [default: the only one]")
@click.option("--schema", metavar="NAME", help="Where the table stands.")
def init(connection: str, **words: str | None) -> int:
    """Print a first mapping file for a database, to be edited and given to convert.

    URL is SQLAlchemy's; a password in it is a reference, as in
    postgresql+psycopg://reader:${env:PGPASSWORD}@db.example.com/people.

    \b
    Examples:
      feedferry init --from database sqlite:///people.db > people.yaml
    """
    from pipelines.inspect.init_mapping import run

    return run(connection, **words)


@feedferry.command(short_help="Say what is in files of records.")
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--from", "from_format", metavar="FORMAT", help="Format to read; else it is sniffed.")
@click.option("--encoding", metavar="NAME", help="Encoding of XML feeds, whatever they declare.")
@click.option("--head", metavar="N", help="Print the first N records in native form, count none.")
@click.option("--format", "report_format", metavar="text|json", help="Census.  [default: text]")
@click.option("--strict", is_flag=True, help="Read command streams as the deployed parser does.")
@click.option("--base-url", metavar="URL", help="Urls of doc ids, as the adaptor makes them.")
@click.option("--url-template", metavar="URL", help="Urls of doc ids, with {id} in them.")
@click.option("--zone", metavar="IANA", help="Zone of dates that state none.  [default: UTC]")
@click.option("--max-token-bytes", metavar="SIZE", help="Longest token.  [default: 64MiB]")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
@click.option("-v", "--verbose", count=True, help="Say what is read and converted; twice: all.")
def inspect(*, quiet: bool, verbose: int, **words: object) -> int:
    """Say what is in files of records: how many of each kind, how big, who may see them.

    INPUT is what it is for convert. Groups that an ACL or another group names are looked for among
    those that the groups feeds of the input define; give both. Nothing is written.

    \b
    Examples:
      feedferry inspect archive/
      feedferry inspect feed.xml.gz groups.xml --format json
      feedferry inspect feed.xml --head 3

    \b
    Exit codes:
      0  nothing to report
      1  there are rejects, or groups that are named and that no groups feed of the input defines
      2  the command line cannot be used
      4  an input cannot be read
      5  a defect of feedferry
    """
    _log_to_stderr(-1 if quiet else verbose)
    from pipelines.inspect.run import parse, run

    return run(parse(words))


def _log_to_stderr(verbosity: int) -> None:
    from pipelines.cli.logs import configure

    configure(verbosity)


def _explain(exc: Exception) -> int:
    """Say on stderr what went wrong; return the exit code that tells it to a script."""
    from schemas.errors import FeedferryError

    if ended := _signalled(exc):
        return _end(*ended)
    match exc:
        case click.exceptions.NoArgsIsHelpError():
            exc.show()
            return USAGE_EXIT
        case click.UsageError():
            return _end(f"{exc.format_message()} See {_command_path(exc)} --help.", USAGE_EXIT)
        case FeedferryError():
            _log_traceback(exc)
            return _end(str(exc), exc.exit_code)
        case OSError() if exc.strerror:
            _log_traceback(exc)
            return _end(f"{exc.filename or 'stream'}: {exc.strerror}", FATAL_EXIT)
    _log_traceback(exc)
    found = f"{type(exc).__name__}: {exc}"
    return _end(f"a defect of feedferry: {found}; -v shows where", INTERNAL_EXIT)


def _signalled(exc: BaseException | None) -> tuple[str, int] | None:
    """What is said of the signal that `exc` was raised for, at any remove, and its exit code.

    Inside a step, Beam makes a RuntimeError of it.
    """
    while exc is not None:
        match exc:
            case KeyboardInterrupt():
                return "interrupted", INTERRUPTED_EXIT
            case Terminated():
                return "terminated", TERMINATED_EXIT
        exc = exc.__cause__ or exc.__context__
    return None


def _command_path(exc: click.UsageError) -> str:
    return exc.ctx.command_path if exc.ctx else "feedferry"


def _log_traceback(exc: Exception) -> None:
    import logging

    logging.getLogger(__name__).info("where it came from", exc_info=exc)


def _end(message: str, exit_code: int) -> int:
    click.echo(f"feedferry: {message}", err=True)
    return exit_code
