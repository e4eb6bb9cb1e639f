"""The flags of `convert` and `plan`, which tell of the same run, in the sections of their help."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Verb = TypeVar("Verb", bound=Callable[..., Any])
Flag = Callable[[Verb], Verb]


_LAST = "The run"


class _SectionedOption(click.Option):
    """An option that stands under a heading of its own in the help."""

    def __init__(self, *names: Any, section: str, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help has sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", _LAST), []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class ConvertCommand(SectionedCommand):
    """A command that leaves what stands behind `--` to Beam."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.params["beam_flags"] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- BEAM FLAGS]"]


def with_flags(*flags: Flag[Any]) -> Flag[Any]:
    """Return the decorator that gives a verb these flags, in their order."""

    def decorate(verb: Verb) -> Verb:
        for flag in reversed(flags):
            verb = flag(verb)
        return verb

    return decorate


def section(heading: str) -> Callable[..., Flag[Any]]:
    """Return what makes flags that stand under a heading of the help."""

    def flag(*names: str, **attributes: Any) -> Flag[Any]:
        return click.option(*names, cls=_SectionedOption, section=heading, **attributes)

    return flag


_READ = section("What is read")
_TREE = section("Trees of files")
_SPOOL = section("Spools of a receiver")
_STATE = section("What has changed")
_STREAM = section("Command streams and programs")
_WRITE = section("What is written")
_RUN = section(_LAST)

OUTPUT = _WRITE("-o", "--output", metavar="DIR", help="Folder of the run: chunks, rejects, report.")

READING = (
    click.argument("inputs", nargs=-1, metavar="INPUT..."),
    _READ("--from", "from_format", metavar="FORMAT", help="Format to read; else it is sniffed."),
    _READ("--encoding", metavar="NAME", help="Encoding of XML feeds, whatever they declare."),
    _READ("--base-url", metavar="URL", help="Of files: their paths go behind it; of doc ids."),
    _READ("--url-template", metavar="URL", help="With {path} of files, {id} of doc ids in it."),
    _READ("--mapping", metavar="FILE", help="YAML that says how rows of a database are read."),
    _READ("--zone", metavar="IANA", help="Zone of dates that state none.  [default: UTC]"),
    _READ("--span-bytes", metavar="SIZE", help="Share of a source.  [default: 32MiB]"),
    _READ(
        "--max-content-bytes",
        metavar="SIZE",
        help="Most bytes of one document, decoded.  [default: 20MiB]",
    ),
    _TREE("--include", multiple=True, metavar="GLOB", help="Only these; re:REGEX; repeatable."),
    _TREE("--exclude", multiple=True, metavar="GLOB", help="Not these; re:REGEX; repeatable."),
    _TREE("--hidden", is_flag=True, help="Files whose names begin with a dot as well."),
    _TREE("--follow-links", is_flag=True, help="What symbolic links lead to as well."),
    _TREE("--open-archives", is_flag=True, help="The files in zip, tar and gz archives."),
    _TREE("--oversize", metavar="reject|metadata", help="Too large files.  [default: reject]"),
    _TREE("--charset", metavar="NAME", help="Of text that declares none and is not UTF-8."),
    _TREE("--path-metadata", is_flag=True, help="Parts of the path as metadata."),
    _TREE("--display-url", metavar="URL", help="What users are shown, with {path} in it."),
    _TREE("--acl", metavar="posix|posix-inherited|public|CSV", help="Who may see them."),
    _TREE("--acl-namespace", metavar="NAME", help="Namespace of these users and groups."),
    _TREE("--acl-everyone", metavar="GROUP", help="Who the others of a file mode are."),
    _SPOOL("--history", metavar="latest|all", help="Superseded feeds too?  [default: latest]"),
    _SPOOL("--only", multiple=True, metavar="NAME", help="Datasources, profiles; repeatable."),
    _STATE("--state", metavar="FILE", help="What was sent: only what has changed since is read."),
    _STATE("--refresh", is_flag=True, help="Send all, whatever the state has."),
    _STATE("--min-records", metavar="N", help="Stop if fewer stand there.  [default: 1]"),
    _STATE("--max-delete-percent", metavar="P", help="Stop if more are gone.  [default: 20]"),
    _STREAM("--strict", is_flag=True, help="Read command streams as the deployed parser does."),
    _STREAM("--not-found", metavar="skip|delete", help="What it becomes.  [default: skip]"),
    _STREAM("--max-token-bytes", metavar="SIZE", help="Longest token.  [default: 16MiB]"),
)
WRITING = (
    _WRITE("--to", "to_format", metavar="FORMAT", help="Format to write; see the verb formats."),
    _WRITE("--datasource", metavar="NAME", help="Datasource of the feeds that are written."),
    _WRITE("--feedtype", metavar="full|incremental|metadata-and-url", help="Their feedtype."),
    _WRITE("--dialect", metavar="7.x|5.0", help="Their protocol release.  [default: 7.x]"),
    _WRITE(
        "--max-chunk-bytes",
        metavar="SIZE",
        help="Most bytes of one chunk, below 1,000,000,000.  [default: 900MiB]",
    ),
    _WRITE("--max-chunk-records", metavar="N", help="Most records of one.  [default: none]"),
    _WRITE("--content-encoding", metavar="auto|base64|zlib", help="Of contents.  [default: auto]"),
    _WRITE(
        "--empty-metadata", metavar="drop|placeholder", help="Without a value.  [default: drop]"
    ),
    _WRITE("--default-mimetype", metavar="TYPE", help="For documents that state none."),
    _WRITE(
        "--field",
        "fields",
        multiple=True,
        metavar="NAME=FIELD",
        help="Metadata NAME goes to the target's FIELD; may be repeated.",
    ),
    _WRITE("--known-urls", metavar="FILE", help="Urls, one a line, for deletes by pattern."),
    _WRITE("--allow-wide-deletes", is_flag=True, help="Let a pattern delete a whole host."),
    _WRITE(
        "--allow-empty-full",
        is_flag=True,
        help="Write a full feed that has no records. It deletes all documents of its datasource.",
    ),
    _WRITE(
        "--accept-holes",
        is_flag=True,
        help="Write a full feed from which documents are missing. It deletes them.",
    ),
    _WRITE("--delimiter", metavar="TEXT", help=r"Of command streams written.  [default: \0]"),
)
RUNNING = (
    _RUN("--jobs", metavar="N", help="Worker processes.  [default: 1]"),
    _RUN("--max-rejects", metavar="N|P%", help="Stop beyond so many rejects.  [default: none]"),
    _RUN("--accept-loss", metavar="FIELD,...", help="Go on without these, even acl, content."),
    _RUN("--fail-on-loss", metavar="FIELD,...", help="Stop where the target holds them not."),
    _RUN("--fresh", is_flag=True, help="Begin anew, over what an earlier run left in DIR."),
    _RUN(
        "--no-verify",
        "verify",
        is_flag=True,
        flag_value=False,
        default=True,
        help="Resume on chunks of the right size, without their SHA-256.",
    ),
    _RUN("--runner", metavar="NAME", help="Beam runner.  [default: in this process]"),
    _RUN("--progress", metavar="auto|bar|plain|none", help="On stderr.  [default: auto]"),
)
TELLING = (
    _RUN("--format", "report_format", metavar="text|json", help="Account.  [default: text]"),
    _RUN("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors."),
    _RUN("-v", "--verbose", count=True, help="Say what is read and converted; twice: all."),
)
