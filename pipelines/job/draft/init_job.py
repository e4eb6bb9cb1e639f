"""`feedferry init --source … --target …`: a draft of a job file, made by looking at the input."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from feedferry.pipelines.convert.inputs.input_files import listed_spans
from feedferry.pipelines.job.file.job_keys import FEEDS, job_keys
from feedferry.pipelines.job.file.job_text import json_schema
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.own_options import own_flags
from feedferry.pipelines.options.value_parsers import NO_OUTPUT, parse_output, parse_to
from feedferry.schemas.errors import ConfigError, FeedferryError
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.record import Record
from feedferry.schemas.span import Span
from feedferry.transforms.config.secrets import check_no_secret
from feedferry.transforms.config.yaml_structs import (
    PLACEHOLDER,
    YAML_SUFFIXES,
    quote_text,
    read_text,
)
from feedferry.transforms.formats import JSONL, ReadOptions, find_format
from feedferry.transforms.sinks.push.wire.address import find_kind, kinds_for
from feedferry.transforms.sinks.push.wire.protocol import ApplianceProtocol
from feedferry.transforms.sources import (
    PROGRAMS,
    ROWS,
    SPOOLS,
    TREE,
    SpanRequest,
    read_span,
    source_of,
)
from feedferry.transforms.storage.atomic import write_whole

_DATABASE_URL = re.compile(r"(?:sqlite|postgresql|mariadb|mysql|oracle|mssql)(?:\+\w+)?://.*")
_LISTER = re.compile("^lister *:", re.MULTILINE)
_MAPPING = "-mapping"
_SCHEMA = "job-file.schema.json"
_DRAFT = (
    f"""\
# yaml-language-server: $schema={_SCHEMA}
"""
    + """\
# A job of feedferry. docs/job-file.md describes all keys. Before the first run:
#   feedferry check {file}
#   feedferry plan {file}
version: 1
job: {name}

# {note}
source:
  {source}

target:
  {target}

# Each key has a default. These are often changed:
# chunk: {{max_bytes: 900MiB}}
# push: {{backlog: {{ceiling: 4000, floor: 1000}}, timeout: {{read: 15m}}}}
# rejects: {{max: 0.1%, accepted: known-rejects.txt}}  # most rejects; those that are expected
# loss: {{accept: [acl]}}          # convert without fields that the target cannot hold
# safety: {{min_records: 1000}}    # stop if the source has fewer records
# schedule: {{deadline: 06:00}}    # end at this time; the next run goes on
{more}keep: 14 runs
"""
)


_VERIFY = "# verify: target               # compare documents and ACLs after each run\n"


class InputSketch(msgspec.Struct, frozen=True, kw_only=True):
    """The findings about an input: the type of the source, and the first feed."""

    type: str
    path: str
    note: str
    feed: FeedHeader = FeedHeader(source="")

    @property
    def name(self) -> str:
        return _name_of(Path(self.path).stem.removesuffix(_MAPPING))


def write_job(
    source: str | None,
    target: str | None,
    output: str | None,
    *,
    table: str | None,
    schema: str | None,
) -> str:
    """Write the draft to a file, or return it; raise ConfigError for an input that is unknown.

    The schema of job files is written next to the file, for editors, unless one is there.
    """
    for flag, value in (("⟦source⟧", source), ("⟦target⟧", target)):
        if value is None:
            raise ConfigError(f"{flag}: not given; see feedferry init --help")
        try:
            check_no_secret(value)
        except ValueError as exc:
            raise ConfigError(f"{flag}: {exc}") from None
    output = None if output == "-" else output and parse_output(output, "⟦output⟧: ")
    if output and Path(output).exists():
        raise ConfigError(f"⟦output⟧ {output}: exists; expected the name of a new file")
    if _DATABASE_URL.fullmatch(str(source)):
        sketch = _write_mapping(str(source), output, table=table, schema=schema)
    else:
        sketch = _look_at(str(source))
    stem = Path(output or "job").stem
    folder = Path(output).parent if output else Path()
    kind = _kind_of(str(target))
    text = _DRAFT.format(
        file=output or "job.yaml",
        name=quote_text(sketch.name if stem == "job" else _name_of(stem)),
        note=sketch.note,
        source="\n  ".join(_source_lines(sketch, folder)),
        target="\n  ".join(_target_lines(str(target), kind, sketch)),
        more=_VERIFY if kind is not None and kind.probe is not None else "",
    )
    if output is None:
        return text
    write_whole(Path(output), text.encode())
    if not (schema_path := folder / _SCHEMA).exists():
        write_whole(schema_path, json.dumps(json_schema(), indent=2).encode() + b"\n")
    return ""


def _write_mapping(
    url: str, output: str | None, *, table: str | None, schema: str | None
) -> InputSketch:
    """Write the mapping of a table next to the job file."""
    if output is None:
        raise ConfigError(
            "⟦output⟧: not given; expected a file, because its mapping is a second file"
        )
    name, text = ROWS.draft_mapping(url, table=table, schema=schema)
    path = Path(output).with_name(f"{_name_of(name)}{_MAPPING}.yaml")
    if path.exists():
        raise ConfigError(f"{path}: exists; expected another table, or ⟦source {path}⟧")
    write_whole(path, text.encode())
    return InputSketch(
        type=ROWS.name, path=str(path), note=f"Table {name}. Edit the mapping first."
    )


def _look_at(name: str) -> InputSketch:
    """Return the type of an input; raise ConfigError if it is unknown or missing."""
    if name.endswith(YAML_SUFFIXES):
        is_programs = _LISTER.search(read_text(Path(name)))
        described = PROGRAMS if is_programs else ROWS
        return InputSketch(type=described.name, path=name, note=f"{described.title}.".capitalize())
    options = ConvertOptions(inputs=(name,), output=NO_OUTPUT, to_format=JSONL.name)
    with listed_spans(options) as (spans, _):
        source = source_of(spans[0])
        if source in (TREE, SPOOLS):
            files = sum(len(names) for _, _, names in os.walk(name))
            note = f"{source.noun}, {files:,} files.".capitalize()
            return InputSketch(type=source.name, path=name, note=note)
        formats = {span.format for span in spans if find_format(span.format)}
        feed = _first_feed(spans[0])
    type_ = formats.pop() if len(formats) == 1 else FEEDS
    count = f"{len(spans):,} file{'s' if len(spans) > 1 else ''} of {type_}"
    label = f"{feed.datasource or '-'}/{feed.feedtype or '-'}"
    note = f"{count}. The first feed is {label}, as DATASOURCE/FEEDTYPE."
    return InputSketch(type=type_, path=name, note=note, feed=feed)


def _first_feed(span: Span) -> FeedHeader:
    """Return the header of the first feed of a file; without names if there is none."""
    with (
        suppress(FeedferryError),  # the run reports it
        closing(read_span(SpanRequest(span=span, options=ReadOptions()))) as results,
    ):
        for result in results:
            if isinstance(result, FeedHeader):
                return result
            if isinstance(result, Record):
                origin = result.provenance
                feed = FeedHeader(source=span.source, datasource=origin.datasource)
                return msgspec.structs.replace(feed, feedtype=origin.feedtype)
    return FeedHeader(source=span.source)


def _source_lines(sketch: InputSketch, folder: Path) -> Iterator[str]:
    is_relative = "://" not in sketch.path and not Path(sketch.path).is_absolute()
    path = os.path.relpath(sketch.path, folder) if is_relative else sketch.path
    yield f"type: {sketch.type}"
    yield f"{'mapping' if sketch.type == ROWS.name else 'path'}: {quote_text(path)}"
    if job_keys()["source.base_url"].fits(sketch.type) and sketch.type != FEEDS:
        yield f"base_url: https://docs.{PLACEHOLDER}.com/  # replace: what URLs begin with"
    if sketch.type == TREE.name:
        yield "# include: ['*.pdf', '*.html']"
        yield "# acl: posix  # who may see a document: as the permissions of its file say"


def _kind_of(target: str) -> ApplianceProtocol | None:
    """Return the kind of the appliance at an address, or of one that takes a format."""
    if "://" in target:
        return find_kind(target, setting="target")[0]
    return next(kinds_for(_format_of(target)), None)


def _target_lines(
    target: str, kind: ApplianceProtocol | None, sketch: InputSketch
) -> Iterator[str]:
    is_url = "://" in target
    prefix = "" if is_url else "# "
    type_ = kind.default_format if is_url and kind else _format_of(target)
    yield f"type: {type_}"
    option = "" if kind is None else kind.path_option
    if kind is not None:
        url, name = (target if is_url else kind.addresses), ""
        if option:
            url, _, name = url.rstrip("/").rpartition("/")
        yield f"{prefix}url: {quote_text(url) if is_url else url}"
        if option:
            yield f"{prefix}{option}: {name}"
    if kind is not None and kind.has_profiles:
        yield f"{prefix}profile: {PLACEHOLDER}  # replace: the profile that receives the documents"
    format_ = find_format(type_)
    if format_ is not None and format_.has_feedtypes:
        prefix = "# " if sketch.feed.datasource else ""  # a feed that has one keeps it
        name = sketch.name if sketch.name[0].isalpha() else f"_{sketch.name}"
        yield f"{prefix}datasource: {sketch.feed.datasource or name}"
    for key in own_flags().values():
        name = key.key.partition(".")[2]
        if format_ is not None and key.flag.fits(format_) and name != option:
            yield f"# {name}: {key.metavar}  # {key.flag.help}"


def _format_of(target: str) -> str:
    try:
        return parse_to(target)
    except ConfigError as exc:
        raise ConfigError(f"⟦target⟧: {exc}, or the URL of an appliance") from exc


def _name_of(text: str) -> str:
    return re.sub(r"\W+", "-", text, flags=re.ASCII).strip("-_") or "job"
