"""The options of `convert`, parsed, and checked against each other. No check opens a file."""

import re
from collections.abc import Iterator, Mapping
from functools import partial

from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.flags import decode, flags_of
from feedferry.pipelines.options.own_options import own_values
from feedferry.pipelines.options.section import Section
from feedferry.schemas.choices import CONTENT_ENCODINGS, DIALECT_5_0, DIALECTS, GROUPS
from feedferry.schemas.errors import ConfigError, raise_together
from feedferry.schemas.feed import FULL, METADATA_AND_URL, check_datasource
from feedferry.transforms.formats import FORMATS, Docids, by_name, check_docids, find_format
from feedferry.transforms.sources import ROWS, Source, find_source

_TREE_TEMPLATE = re.compile(r"\{(?:path|name|stem|extension)\}")


def parse(words: Mapping[str, object]) -> ConvertOptions:
    """Return the options whose texts `words` holds by field names; `None` means not given.

    Raises ConfigError for the first text that cannot be used, else for all combinations.
    """
    options = parse_each(words)
    check_together(options)
    return options


def parse_each(words: Mapping[str, object]) -> ConvertOptions:
    """Return the options without a check of their combinations."""
    given = dict(words)
    if given.get("from_format") == ROWS.name and not given.get("inputs"):
        if given.get("mapping") is None:
            raise ConfigError("⟦mapping⟧: not given; expected the YAML file of a database")
        given["inputs"] = (str(given["mapping"]),)
    if not given.get("inputs"):
        raise ConfigError("⟦inputs⟧: none given; expected files, folders, globs, URLs or -")
    return decode(ConvertOptions, {**given, "own": own_values(given)})


def check_together(options: ConvertOptions) -> None:
    """Raise ConfigError for all options that do not fit the source, the target or each other."""
    conflicts = (*_target_conflicts(options), *_input_conflicts(options))
    raise_together([partial(_check_datasource, options), partial(docids, options)], conflicts)


def _check_datasource(options: ConvertOptions) -> None:
    if options.datasource is not None:
        check_datasource(options.datasource)


def docids(options: ConvertOptions) -> Docids:
    """Return the rule that makes URLs of document ids; files and rows have rules of their own.

    Raises ConfigError for options that are no rule.
    """
    template = options.url_template
    source = find_source(options.from_format)
    if (source is not None and source.makes_urls) or (template and _TREE_TEMPLATE.search(template)):
        return Docids()
    if options.base_url is None and template is None:
        return Docids()
    flag = "⟦url_template⟧" if options.base_url is None else "⟦base_url⟧"
    try:
        return check_docids(Docids(base_url=options.base_url, template=template))
    except ConfigError as exc:
        raise ConfigError(f"{flag}: {exc.text}") from exc


def refuse_flags(options: ConvertOptions, source: Source[object]) -> None:
    """Raise ConfigError for a flag of a source that is not read."""
    for name, declared in flags_of(ConvertOptions).items():
        is_of_one = declared.flag.section in (Section.TREE, Section.SPOOL)
        if is_of_one and declared.flag.fits(source) and getattr(options, name) != declared.default:
            raise ConfigError(
                f"⟦{name}⟧: not for this source; expected {source.noun}"
                f" (⟦from_format {source.name}⟧)"
            )


def _target_conflicts(options: ConvertOptions) -> Iterator[str]:
    """Yield a message for each option that does not fit the target or another option."""
    target = by_name(options.to_format)
    both = sorted(options.accept_loss & options.fail_on_loss)
    if both:
        yield (
            f"⟦accept_loss⟧ and ⟦fail_on_loss⟧: both name {', '.join(both)}; expected each field in"
            " one of them"
        )
    if target.holds_only_memberships and options.feedtype == METADATA_AND_URL:
        yield (
            f"⟦feedtype⟧ {METADATA_AND_URL}: not for ⟦to_format {target.name}⟧; expected full or"
            " incremental"
        )
    for flag, value in (("⟦datasource⟧", options.datasource), ("⟦feedtype⟧", options.feedtype)):
        if value is not None and not target.keeps_feedtypes:
            yield f"{flag} {value}: not for ⟦to_format {target.name}⟧, which has no feeds"
    if options.dialect not in (None, *(target.dialects or DIALECTS)):
        expected = " or ".join(target.dialects) or "none"
        yield f"⟦dialect⟧ {options.dialect}: not for ⟦to_format {target.name}⟧; expected {expected}"
    if (
        options.content_encoding != CONTENT_ENCODINGS[0]
        and "content_encoding" not in target.option_names
    ):
        yield (
            f"⟦content_encoding⟧ {options.content_encoding}: not for ⟦to_format {target.name}⟧,"
            " which has its own encoding; expected auto"
        )
    if options.groups != GROUPS[0] and "groups" not in target.option_names:
        yield f"⟦groups⟧ {options.groups}: not for ⟦to_format {target.name}⟧; expected send"
    if options.content_encoding == "zlib" and options.dialect == DIALECT_5_0:
        yield (
            "⟦content_encoding⟧ zlib: not for ⟦dialect 5.0⟧, which has no compression; expected"
            " auto or base64"
        )


def _input_conflicts(options: ConvertOptions) -> Iterator[str]:
    """Yield a message for each option that does not fit the source or another option."""
    name = options.from_format
    if "://" in (options.state or "") and "://" not in options.output:
        yield f"⟦state⟧ {options.state}: only with an ⟦output⟧ in object storage; expected a file"
    flags, kind = flags_of(ConvertOptions), find_source(name) or find_format(name)
    if options.strict and kind is not None and not flags["strict"].flag.fits(kind):
        yield f"⟦strict⟧: not for ⟦from_format {name}⟧; expected a command stream"
    if options.encoding is not None and kind is not None and not flags["encoding"].flag.fits(kind):
        xml = [one.name for one in FORMATS if one.is_xml]
        expected = f"expected a format in XML: {', '.join(xml)}"
        yield f"⟦encoding⟧: not for ⟦from_format {name}⟧; {expected}"
    if options.mapping is not None and name != ROWS.name:
        yield f"⟦mapping⟧: not for this source; expected it with ⟦from_format {ROWS.name}⟧"
    if not (options.acl or "").startswith("posix"):
        for flag, value in (
            ("⟦acl_namespace⟧", options.acl_namespace),
            ("⟦acl_everyone⟧", options.acl_everyone),
        ):
            if value is not None:
                yield f"{flag}: given without ⟦acl posix⟧; expected both"
    if options.refresh and options.state is None:
        yield "⟦refresh⟧: given without ⟦state FILE⟧; expected both"
    if options.state is not None and options.feedtype == FULL and not options.refresh:
        yield (
            "⟦feedtype⟧ full: not with ⟦state⟧, because a full feed deletes documents that are not"
            " in it, and unchanged documents are left out; ⟦refresh⟧ sends all"
        )
