"""Verbs of the command: click commands with sections in their help, and flags that load late.

Logging is configured before a verb runs.

This module imports click only, so that `feedferry --help` answers at once.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence

import click

from feedferry.pipelines.options.section import Section

_log = logging.getLogger(__name__)

HELP_ALL = "feedferry.help_all"
"""Mark of a context whose help shows all flags."""

TASKS: Mapping[str, Sequence[str]] = {
    "Every day": ("init", "check", "plan", "run", "convert", "push"),
    "Prove": ("verify", "diff", "access", "inspect", "validate"),
    "Repair": ("rejects", "runs", "state", "compact"),
    "Look up": ("formats", "config"),
    "All the time": ("serve",),
}
"""The commands, by the task that they are for."""


class SectionedOption(click.Option):
    """An option under a heading of the help."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        section: Section,
        is_rare: bool = False,
        **attributes: object,
    ) -> None:
        super().__init__(names, **attributes)  # type: ignore[arg-type]  # click checks them
        self.section = section
        self.is_rare = is_rare


class TaskGroup(click.Group):
    """A group whose help lists its commands by task."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for task, names in TASKS.items():
            with formatter.section(task):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(60)) for name in names]
                )


class Verb(click.Command):
    """A command whose `flags` are loaded when it is chosen, by its name.

    `-q` and `-v` become the parameter `verbosity`; logging is configured before the command runs.
    """

    def __init__(
        self, *, flags: Callable[[str], Sequence[click.Parameter]], **attributes: object
    ) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]  # click checks them
        self._flags = flags

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not self.params:
            self.params = [*self._flags(self.name or ""), *_verbosity_options(), _help_all()]
        return super().get_params(ctx)

    def flag_rows(
        self, ctx: click.Context, *, is_all: bool = True
    ) -> dict[str, list[tuple[str, str]]]:
        """Return the flags with their help texts, by the headings of their sections."""
        options = [
            option
            for option in self.get_params(ctx)
            if isinstance(option, SectionedOption) and (is_all or not option.is_rare)
        ]
        rows: dict[str, list[tuple[str, str]]] = {}
        for section in Section:
            for option in options:
                if option.section is section and (row := option.get_help_record(ctx)):
                    rows.setdefault(section.value, []).append(row)
        return rows

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, rows in self.flag_rows(ctx, is_all=HELP_ALL in ctx.meta).items():
            with formatter.section(heading):
                formatter.write_dl(rows)
        if HELP_ALL not in ctx.meta and self.flag_rows(ctx) != self.flag_rows(ctx, is_all=False):
            formatter.write_paragraph()
            formatter.write_text("--help-all shows all flags.")

    def invoke(self, ctx: click.Context) -> object:
        quiet, verbose = ctx.params.pop("quiet"), ctx.params.pop("verbose")
        ctx.params["verbosity"] = -1 if quiet else verbose
        _start_logging(ctx.params)
        _log.info("%s: begun", ctx.command_path)
        exit_code = super().invoke(ctx)
        _log.info("%s: ended with exit code %s", ctx.command_path, exit_code or 0)
        return exit_code


class BeamVerb(Verb):
    """A command that passes the words after `--` on to Beam."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.params["beam_flags"] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- BEAM FLAGS]"]


def _help_all() -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
        if is_given and not ctx.resilient_parsing:
            ctx.meta[HELP_ALL] = True
            click.echo(ctx.get_help())
            ctx.exit()

    return click.Option(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show
    )


def _verbosity_options() -> list[click.Option]:
    section = Section.DISPLAY
    return [
        SectionedOption(
            ["-q", "--quiet"], section=section, is_flag=True, help="Print only errors on stderr."
        ),
        SectionedOption(
            ["-v", "--verbose"], section=section, count=True, help="Log more; -vv logs everything."
        ),
    ]


def _start_logging(words: Mapping[str, object]) -> None:
    """Log as the words of a command line say; the parser of the flags reports unknown words."""
    from feedferry.pipelines.observer.logs import LogSettings, OutputFormat, configure_logging
    from feedferry.pipelines.options.value_parsers import parse_output  # --help does not load them

    path, name, verbosity = (words.get(key) for key in ("log_file", "log_format", "verbosity"))
    settings = LogSettings(
        verbosity=verbosity if isinstance(verbosity, int) else 0,
        files=() if path is None else (os.path.abspath(parse_output(str(path), "--log-file: ")),),
        format=next((form for form in OutputFormat if form.value == name), None),
    )
    configure_logging(settings)
