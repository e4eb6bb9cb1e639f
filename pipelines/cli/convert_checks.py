"""The options of `convert`, parsed, and checked against each other. No check opens a file."""

import re
from collections.abc import Mapping
from typing import Any

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.flags import decode, flags_of
from pipelines.cli.verb import Section
from schemas.choices import CONTENT_ENCODINGS, DIALECT_5_0
from schemas.errors import ConfigError
from schemas.feed import FULL, METADATA_AND_URL, check_datasource
from transforms.formats import Docids, all_formats, by_name, check_docids, find_format
from transforms.sources import PROGRAMS, ROWS, SPOOLS, TREE, Source, find_source

_TREE_TEMPLATE = re.compile(r"\{(?:path|name|stem|extension)\}")
_SECTIONS = {TREE.name: Section.TREE, SPOOLS.name: Section.SPOOL}
"""Flags that only one source has."""


def parse(words: Mapping[str, object]) -> ConvertOptions:
    """Return the options whose texts `words` holds by field names; `None` means not given.

    Raises ConfigError for the first text or combination that cannot be used.
    """
    given = dict(words)
    if given.get("from_format") == ROWS.name and not given.get("inputs"):
        if given.get("mapping") is None:
            raise ConfigError("--mapping: not given; expected the YAML file of a database")
        given["inputs"] = (str(given["mapping"]),)
    if not given.get("inputs"):
        raise ConfigError("INPUT: none given; expected files, folders, globs, URLs or -")
    for name, flag in (("output", "-o/--output"), ("to_format", "--to")):
        if given.get(name) is None:
            raise ConfigError(f"{flag}: not given; see feedferry convert --help")
    options = decode(ConvertOptions, given)
    if options.datasource is not None:
        check_datasource(options.datasource)
    _check_losses(options)
    _check_feed(options)
    _check_streams(options)
    _check_sources(options)
    _check_state(options)
    _check_content_encoding(options)
    return options


def docids(options: ConvertOptions) -> Docids:
    """Return the rule that makes URLs of document ids; files and rows have rules of their own.

    Raises ConfigError for options that are no rule.
    """
    template = options.url_template
    source = find_source(options.from_format)
    if (source is not None and source.makes_urls) or (template and _TREE_TEMPLATE.search(template)):
        return Docids()
    flag = "--url-template" if options.base_url is None else "--base-url"
    try:
        return check_docids(Docids(base_url=options.base_url, template=template))
    except ConfigError as exc:
        raise ConfigError(f"{flag}: {exc}") from exc


def refuse_flags(options: ConvertOptions, source: Source[Any]) -> None:
    """Raise ConfigError for a flag that only this source has."""
    for name, declared in flags_of(ConvertOptions).items():
        is_its_own = declared.flag.section is _SECTIONS.get(source.name)
        if is_its_own and getattr(options, name) != declared.default:
            raise ConfigError(
                f"{declared.names[0]}: not for this source; expected {source.noun}"
                f" (--from {source.name})"
            )


def _check_losses(options: ConvertOptions) -> None:
    both = sorted(options.accept_loss & options.fail_on_loss)
    if both:
        raise ConfigError(
            f"--accept-loss and --fail-on-loss: both name {', '.join(both)}; expected each field"
            " in one of them"
        )


def _check_feed(options: ConvertOptions) -> None:
    target = by_name(options.to_format)
    if target.holds_only_memberships and options.feedtype == METADATA_AND_URL:
        raise ConfigError(
            f"--feedtype {METADATA_AND_URL}: not for --to {target.name}; expected full or"
            " incremental"
        )
    if target.keeps_feedtypes:
        return
    for flag, value in (("--datasource", options.datasource), ("--feedtype", options.feedtype)):
        if value is not None:
            raise ConfigError(
                f"{flag} {value}: not for --to {options.to_format}, which has no feeds"
            )


def _check_streams(options: ConvertOptions) -> None:
    docids(options)
    if not options.strict or options.from_format in (None, PROGRAMS.name):
        return
    source = find_format(options.from_format)
    if source is None or not source.is_command_stream:
        raise ConfigError(
            f"--strict: not for --from {options.from_format}; expected a command stream"
        )


def _check_sources(options: ConvertOptions) -> None:
    source = options.from_format
    xml = [format_.name for format_ in all_formats() if format_.is_xml]
    if options.encoding is not None and source not in (None, SPOOLS.name, *xml):
        raise ConfigError(
            f"--encoding: not for --from {source}; expected a format in XML: {', '.join(xml)}"
        )
    if options.mapping is not None and source != ROWS.name:
        raise ConfigError(f"--mapping: not for this source; expected it with --from {ROWS.name}")
    for owner in (TREE, SPOOLS):
        if source not in (None, owner.name):
            refuse_flags(options, owner)
    if options.acl is None or not options.acl.startswith("posix"):
        for flag, value in (
            ("--acl-namespace", options.acl_namespace),
            ("--acl-everyone", options.acl_everyone),
        ):
            if value is not None:
                raise ConfigError(f"{flag}: given without --acl posix; expected both")


def _check_state(options: ConvertOptions) -> None:
    if options.refresh and options.state is None:
        raise ConfigError("--refresh: given without --state FILE; expected both")
    if options.state is not None and options.feedtype == FULL and not options.refresh:
        raise ConfigError(
            "--feedtype full: not with --state, because a full feed deletes documents that are not"
            " in it, and unchanged documents are left out; --refresh sends all"
        )


def _check_content_encoding(options: ConvertOptions) -> None:
    encoding = options.content_encoding
    if encoding == CONTENT_ENCODINGS[0]:
        return
    if not by_name(options.to_format).has_content_encodings:
        raise ConfigError(
            f"--content-encoding {encoding}: not for --to {options.to_format}, which has its own"
            " encoding; expected auto"
        )
    if encoding == "zlib" and options.dialect == DIALECT_5_0:
        raise ConfigError(
            "--content-encoding zlib: not for --dialect 5.0, which has no compression; expected"
            " auto or base64"
        )
