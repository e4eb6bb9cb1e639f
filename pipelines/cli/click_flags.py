"""The flags of options structs as options of click commands."""

import dataclasses
from collections.abc import Container, Iterable, Mapping
from functools import partial

import click
import msgspec
from click.shell_completion import CompletionItem

from feedferry.pipelines.cli.verb import SectionedOption
from feedferry.pipelines.options.flags import FieldFlag, Flag, flags_of
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import ValueType

USUAL = frozenset(
    (
        *("from_format", "base_url", "mapping", "state", "output", "to_format", "transform"),
        *("datasource", "feedtype", "max_chunk_bytes", "allow_empty_full", "accept_holes", "jobs"),
        *("max_rejects", "accept_loss", "fail_on_loss", "fresh", "runner", "cluster"),
        *("url", "profile"),
    )
)
"""The options of a conversion that the help shows; `--help-all` shows the others too."""

USUAL_OF_PUSH = frozenset(
    (
        *("output", "datasource", "feedtype", "max_rejects", "accepted_rejects", "replay"),
        *("allow_older", "allow_empty_full", "dry_run", "jobs", "url", "profile", "ca_file"),
        *("auth", "on_refusal", "window", "deadline"),
        *("backlog_ceiling", "backlog_floor", "backlog_interval"),
    )
)
"""The options of a push that the help shows."""


def click_option(declared: FieldFlag, *, is_rare: bool = False) -> click.Option:
    default, help_text = declared.default_text, declared.flag.help
    help_text += " May be repeated." if declared.is_repeatable else ""
    help_text += f"  [default: {default}]" if default else ""
    value = (
        {"flag_value": declared.default is not True, "default": None}
        if declared.is_switch
        else {"metavar": declared.metavar, "multiple": declared.is_repeatable}
    )
    return SectionedOption(
        [*declared.names, declared.field],
        section=declared.flag.section,
        is_rare=is_rare,
        help=help_text,
        shell_complete=partial(_complete, declared.value),
        **value,
    )


def click_options(
    options: type[msgspec.Struct],
    *,
    only: Container[str] | None = None,
    omit: Iterable[str | Section] = (),
    replace: Mapping[str, Flag] | None = None,
    usual: Container[str] | None = None,
) -> list[click.Parameter]:
    """Return the click options of a struct.

    `only` are the fields to return, `omit` are fields and sections to leave out, and `replace`
    are other declarations for some fields. Fields that are not in `usual` are shown by --help-all.
    """
    return [
        click_option(
            dataclasses.replace(declared, flag=(replace or {}).get(name, declared.flag)),
            is_rare=usual is not None and name not in usual,
        )
        for name, declared in flags_of(options).items()
        if (only is None or name in only)
        and not {name, declared.flag.section} & {*omit}
        and not declared.is_argument
    ]


def start_flags() -> list[click.Parameter]:
    """Return the flags of all verbs that start a job."""
    from feedferry.pipelines.options.convert_options import ConvertOptions
    from feedferry.pipelines.options.display_options import DisplayOptions
    from feedferry.pipelines.options.job_options import OverrideOptions

    return [
        *click_options(OverrideOptions),
        *click_options(ConvertOptions, only=("jobs", "runner", "cluster")),
        *click_options(DisplayOptions),
    ]


def _complete(
    value: ValueType, _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the values that begin with `incomplete`, for the completion of a shell."""
    if value.is_path:
        return [CompletionItem(incomplete, type="file")]
    enum_names = value.schema.get("enum", ())
    names = enum_names if isinstance(enum_names, list | tuple) else ()
    return [
        CompletionItem(name) for name in (*names, *value.names()) if name.startswith(incomplete)
    ]
