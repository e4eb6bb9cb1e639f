"""Parts of the documentation that are made of the program: commands, and the table of formats."""

import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache

import click

from pipelines.cli.main import feedferry
from pipelines.cli.verb import Verb
from transforms.formats import FORMATS
from transforms.sources import SOURCES

DEFECT = "5"
"""The exit code that means the same for every command, so that only the index explains it."""

SHARING = "convert"
"""The command whose page describes the flags that others have too."""

_FLAG = re.compile(r"(?<!\S)--?[a-z][\w-]*(?![\w.])")
_LONG = re.compile(r"--[\w-]+")
_INDEX = """\
# Commands

`feedferry --help` lists the commands, and `feedferry COMMAND --help` shows the text of these pages.
Where a command has many flags, `--help` shows the usual ones, and `--help-all` shows all. A flag
that several commands have is described once, on the page of [convert](convert.md#flags).
[Job files](../job-file.md#keys) have a key for most of them. The [exit code](../exit-codes.md) 5 of
each command is a defect of feedferry.

A size is a number and a unit, such as `64KiB`, `900MiB` or `1GB`. A time is numbers and units, such
as `200ms`, `90s`, `1h30m` or `1d`. Data is written to stdout, and everything else to stderr. `-` is
stdin or stdout.

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
        f"| [`{name}`]({name}.md) | {_cell(command.get_short_help_str(120))} |\n"
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
    """Yield tables of the flags of a command, or a table and the names of those of convert."""
    sections = _rows(context)
    if sections:
        yield from (f"{heading} Flags", "")
    if context.command is feedferry.commands[SHARING]:
        for title, rows in sections.items():
            yield from (f"{heading}# {title}", "", *_table(rows))
        return
    shared = _shared_sections()
    others = {row for rows in shared.values() for row in rows}
    yield from _table([row for rows in sections.values() for row in rows if row not in others])
    taken = {row for rows in sections.values() for row in rows} & others
    if taken:
        yield from (f"As for [{SHARING}]({SHARING}.md#flags):", "")
        yield from (
            f"- {title}: {_names(rows, taken)}" for title, rows in shared.items() if taken & {*rows}
        )
        yield ""


def _names(rows: Sequence[tuple[str, str]], taken: Collection[tuple[str, str]]) -> str:
    """Name the flags of a section that another command has too."""
    names, missing = (
        ", ".join(f"`{_LONG.findall(row[0])[0]}`" for row in rows if (row in taken) is is_taken)
        for is_taken in (True, False)
    )
    if not missing:
        return "all"
    return f"all but {missing}" if len(missing) < len(names) else names


def _table(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield from ("| flag | effect |", "|---|---|")
        yield from (f"| {_code(flag)} | {_marked(_cell(text))} |" for flag, text in rows)
        yield ""


@cache
def _shared_sections() -> dict[str, list[tuple[str, str]]]:
    """Return the flags of convert, which describes them for other commands."""
    command = feedferry.commands[SHARING]
    return _rows(click.Context(command, info_name=SHARING, parent=click.Context(feedferry)))


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
            case "Exit codes":
                yield from (f"{heading} Exit codes", "", "| code | meaning |", "|---|---|")
                yield from (*_codes(body), "")
            case _:
                yield from (*(_marked(line) for line in lines), "")


def _codes(body: str) -> Iterator[str]:
    """Yield the rows of a table of exit codes, some of which span several lines."""
    rows: list[str] = []
    for line in body.splitlines():
        if line[0].isdigit():
            rows.append(line)
        else:
            rows[-1] += f" {line.strip()}"
    for row in rows:
        code, _, meaning = row.partition(" ")
        if code == DEFECT:
            continue
        yield f"| {code} | {_marked(_cell(meaning))} |"


def _marked(text: str) -> str:
    """Mark the flags in a text as code."""
    parts = text.split("`")
    parts[::2] = [_FLAG.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def _code(flag: str) -> str:
    """Mark a flag as code; a site and GitHub read a bar within backticks in different ways."""
    if "|" in flag:
        return f"<code>{flag.replace('<', '&lt;').replace('|', '&#124;')}</code>"
    return f"`{_cell(flag)}`"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
