"""The pages of the command reference, as the help texts of the commands have them."""

import inspect
import re
from collections.abc import Iterator

import click

from pipelines.cli.main import feedferry
from pipelines.cli.verb import Verb

_FLAG = re.compile(r"(?<!\S)--?[a-z][\w-]*(?![\w.])")
_INDEX = """\
# Commands

`feedferry --help` lists the commands, and `feedferry COMMAND --help` shows the text of these pages.
Data is written to stdout, and everything else to stderr. `-` is stdin or stdout.

| command | effect |
|---|---|
"""


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
    rows = _rows(context)
    if rows:
        yield from (f"{heading} Flags", "")
    for title, section in rows.items():
        if title:
            yield from (f"{heading}# {title}", "")
        yield from ("| flag | effect |", "|---|---|")
        yield from (f"| `{_cell(flag)}` | {_marked(_cell(text))} |" for flag, text in section)
        yield ""


def _words(context: click.Context) -> str:
    """Return the words of a command after `feedferry`."""
    return context.command_path.strip().removeprefix("feedferry").strip()


def _rows(context: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Return the flags of a command with their help texts, by the headings of its sections."""
    if isinstance(context.command, Verb):
        return context.command.flag_rows(context)
    options = (one for one in context.command.get_params(context) if "--help" not in one.opts)
    rows = [row for one in options if (row := one.get_help_record(context)) and row[1]]
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
        yield f"| {code} | {_marked(_cell(meaning))} |"


def _marked(text: str) -> str:
    """Mark the flags in a text as code."""
    parts = text.split("`")
    parts[::2] = [_FLAG.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
