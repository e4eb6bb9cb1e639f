"""Parts of the documentation that are made of the program: commands, and the table of formats."""

import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache

import click

from feedferry.pipelines.cli.main import feedferry
from feedferry.pipelines.cli.verb import Verb
from feedferry.pipelines.job.file.job_keys import job_keys
from feedferry.transforms.formats import FORMATS
from feedferry.transforms.sources import SOURCES

SHARING = "convert"
"""The command whose page describes the flags that others have too."""

JOB_SHARING = "run"
"""The command whose page describes `JOB_FLAGS`, those of commands that take a job."""

JOB_FLAGS = ("--set", "--profile")

DISPLAY = "Display"
"""The section of flags that every command has; the pages of other commands do not name them."""

_KEYED = (
    "A flag with a key is described there. A flag for a list, such as `--include`, may be repeated."
)
_WITH_KEY = "With a [key](../job-file.md#keys)"
_FLAG = re.compile(r"(?<!\S)--?[a-z][\w-]*(?!\w|-|\.\w)")
_FACTS = re.compile(r"( May be repeated\.)?(  \[.*\])?$")
_LONG = re.compile(r"--[\w-]+")
_INDEX = """\
# Commands

`feedferry --help` lists the commands, and `feedferry COMMAND --help` shows the text of these pages,
with what each exit code means for the command. Where a command has many flags, `--help` shows the
usual ones, and `--help-all` shows all. A flag that several commands have is listed once, on the
page of [convert](convert.md#flags), and described with its key in [job files](../job-file.md#keys).
[Exit codes](../exit-codes.md) are the same for all commands.

A size is a number and a unit, such as `64KiB`, `900MiB` or `1GB`. A time is numbers and units, such
as `200ms`, `90s`, `1h30m` or `1d`. Data is written to stdout, and everything else to stderr. `-` is
stdin or stdout. The flags of [display](convert.md#display) are those of each command that prints an
account.

| command | effect |
|---|---|
"""


def table_of_formats() -> str:
    """Return the table of `docs/formats/index.md`: a row for each source and each format."""
    rows = [
        *((source.name, "no", source.title) for source in SOURCES),
        *((form.name, "yes" if form.encoder else "no", form.title) for form in FORMATS),
    ]
    head = ("| format | written | contents |", "|---|---|---|")
    lines = (f"| [`{name}`]({name}.md) | {written} | {title} |" for name, written, title in rows)
    return "\n".join((*head, *lines))


def command_pages() -> dict[str, str]:
    """Return the text of each page below `docs/commands/`, by its file name."""
    commands = {name: feedferry.commands[name] for name in sorted(feedferry.commands)}
    rows = (
        f"| [`{name}`]({name}.md) | {_escaped(command.get_short_help_str(120))} |\n"
        for name, command in commands.items()
    )
    pages = {"index.md": _INDEX + "".join(rows)}
    for name, command in commands.items():
        context = click.Context(command, info_name=name, parent=click.Context(feedferry))
        pages[f"{name}.md"] = f"# {name}\n\n" + "\n".join(_lines(context, "##"))
    return pages


def all_commands() -> Iterator[tuple[str, click.Context]]:
    """Yield each command and each of its subcommands, by its words, as in `rejects list`."""
    yield from _below(click.Context(feedferry, info_name="feedferry"), "")


def _below(context: click.Context, words: str) -> Iterator[tuple[str, click.Context]]:
    if isinstance(context.command, click.Group):
        for name, command in context.command.commands.items():
            path = f"{words} {name}".strip()
            inner = click.Context(command, info_name=name, parent=context)
            yield path, inner
            yield from _below(inner, path)


def _lines(context: click.Context, heading: str) -> Iterator[str]:
    command = context.command
    pieces = command.collect_usage_pieces(context)
    yield from ("```", " ".join(["feedferry", _words(context), *pieces]), "```", "")
    yield from _help(command.help or command.get_short_help_str(120), heading)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = click.Context(command.commands[name], info_name=name, parent=context)
            yield from (f"{heading} {_words(inner)}", "")
            yield from _lines(inner, f"{heading}#")
        return
    yield from _flags(context, heading)


def _flags(context: click.Context, heading: str) -> Iterator[str]:
    """Yield the flags of a command, and the names of those of convert and run."""
    sections = _rows(context)
    if sections:
        yield from (f"{heading} Flags", "")
    if context.command is feedferry.commands[SHARING]:
        yield from (_KEYED, "")
        for title, rows in sections.items():
            yield from (f"{heading}# {title}", "", *_described(rows))
        return
    shared = {title: rows for title, rows in _sections_of(SHARING).items() if title != DISPLAY}
    named_once = {*_sections_of(SHARING)[DISPLAY]}
    others = {row for rows in shared.values() for row in rows} | named_once
    mine = [row for rows in sections.values() for row in rows if row not in others]
    of_jobs: list[tuple[str, str]] = []
    if context.command is not feedferry.commands[JOB_SHARING]:
        declared = {row for rows in _sections_of(JOB_SHARING).values() for row in rows}
        of_jobs = [row for row in mine if row in declared and _name(row) in JOB_FLAGS]
    yield from _described([row for row in mine if row not in of_jobs])
    if of_jobs:
        yield from (f"As for [{JOB_SHARING}]({JOB_SHARING}.md#flags): {_names(of_jobs)}.", "")
    taken = {row for rows in sections.values() for row in rows}
    parts = [part for title, rows in shared.items() if (part := _part_of(title, rows, taken))]
    if parts:
        yield from (f"As for [{SHARING}]({SHARING}.md#flags): {'; '.join(parts)}.", "")


def _part_of(
    title: str, rows: Sequence[tuple[str, str]], taken: Collection[tuple[str, str]]
) -> str:
    """Return the heading of a section without the flags that are missing, or the flags alone."""
    present = [row for row in rows if row in taken]
    missing = [row for row in rows if row not in taken]
    if len(missing) >= len(present) or len(present) == 1:
        return _names(present)
    link = f"[{title}]({SHARING}.md#{title.lower().replace(' ', '-')})"
    return f"{link} but {_names(missing)}" if missing else link


def _names(rows: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"`{_name(row)}`" for row in rows)


def _described(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the flags without a key with their effects, and the names of the others."""
    texts = {
        (key.flag_name.rpartition(" ")[2], key.declared.flag.help) for key in job_keys().values()
    }
    keyed = [row for row in rows if (_name(row), _FACTS.sub("", row[1])) in texts]
    yield from _list([row for row in rows if row not in keyed])
    if keyed:
        yield from (f"{_WITH_KEY}: {_names(keyed)}.", "")


def _name(row: tuple[str, str]) -> str:
    """Return the long name of the flag of a row."""
    return next(match[0] for match in _LONG.finditer(row[0]))


def _list(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield from (f"- `{flag}`: {_marked(_escaped(text))}" for flag, text in rows)
        yield ""


@cache
def _sections_of(name: str) -> dict[str, list[tuple[str, str]]]:
    """Return the flags of a command that describes them for others."""
    command = feedferry.commands[name]
    return _rows(click.Context(command, info_name=name, parent=click.Context(feedferry)))


def _words(context: click.Context) -> str:
    """Return the words of a command after `feedferry`."""
    return context.command_path.strip().removeprefix("feedferry").strip()


def _rows(context: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Return the flags of a command with their help texts, by the headings of its sections."""
    if isinstance(context.command, Verb):
        return context.command.flag_rows(context)
    options = (item for item in context.command.get_params(context) if "--help" not in item.opts)
    rows = [row for option in options if (row := option.get_help_record(context)) and row[1]]
    return {"": rows} if rows else {}


def _help(text: str, heading: str) -> Iterator[str]:
    """Turn a help text into Markdown: its blocks of examples and exit codes into their sections."""
    for block in inspect.cleandoc(text).split("\n\n"):
        lines = block.replace("\b\n", "").splitlines()
        title, body = lines[0].removesuffix(":"), inspect.cleandoc("\n" + "\n".join(lines[1:]))
        match title:
            case "Examples":
                yield from (f"{heading} Examples", "", "```sh", body, "```", "")
            case "Exit codes":  # the page of exit codes explains them
                pass
            case _:
                yield from (*(_marked(line) for line in lines), "")


def _marked(text: str) -> str:
    """Mark the flags in a text as code."""
    parts = text.split("`")
    parts[::2] = [_FLAG.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def _escaped(text: str) -> str:
    return " ".join(text.replace("<", "&lt;").split())
