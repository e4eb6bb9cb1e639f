"""`feedferry init --source … --target …`: a draft of a job file, made by looking at the input."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import msgspec

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.value_parsers import parse_to
from pipelines.convert.inputs import list_spans
from pipelines.inspect.init_mapping import draft_for
from pipelines.job.job_keys import FEEDS
from schemas.errors import ConfigError, FeedferryError
from schemas.feed import FULL, FeedHeader
from schemas.record import Record
from schemas.span import Span
from transforms.formats import NATIVE, ReadOptions, find_format
from transforms.sinks.push.wire.address import RECVDATA_PATH
from transforms.sources import (
    PROGRAMS,
    ROWS,
    SPOOLS,
    TREE,
    SpanRequest,
    find_source,
    read_span,
    source_of,
)
from transforms.sources.secrets import check_no_secret
from transforms.sources.yaml_structs import quote_text
from transforms.storage.atomic import whole_file

_DATABASE_URL = re.compile(r"(?:sqlite|postgresql|mariadb|mysql|oracle|mssql)(?:\+\w+)?://.*")
_MAPPING = "-mapping"
_YAML = (".yaml", ".yml")
_DRAFT = """\
# A job of feedferry. docs/job-file.md describes all keys. Before the first run:
#   feedferry config check {file}
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
# rejects: {{max: 0.1%}}           # stop if more records are rejected
# loss: {{accept: [acl]}}          # convert without fields that the target cannot hold
# safety: {{min_records: 1000}}    # stop if the source has fewer records
# schedule: {{deadline: 06:00}}    # end at this time; the next run goes on
keep: 14 runs
"""


class InputSketch(msgspec.Struct, frozen=True, kw_only=True):
    """What is found in an input: the type of the source, and the feed of its first record."""

    type: str
    path: str
    note: str
    datasource: str | None = None
    feedtype: str | None = None


def write_job(
    source: str | None,
    target: str | None,
    output: str | None,
    *,
    table: str | None,
    schema: str | None,
) -> int:
    """Write the draft to a file, or print it; raise ConfigError for an input that is unknown."""
    for flag, value in (("--source", source), ("--target", target)):
        if value is None:
            raise ConfigError(f"{flag}: not given; see feedferry init --help")
        try:
            check_no_secret(value)
        except ValueError as exc:
            raise ConfigError(f"{flag}: {exc}") from None
    folder = Path(output).parent if output else Path()
    if output and Path(output).exists():
        raise ConfigError(f"-o {output}: exists; expected the name of a new file")
    if _DATABASE_URL.fullmatch(str(source)):
        sketch = _write_mapping(str(source), output, table=table, schema=schema)
    else:
        sketch = _look_at(str(source))
    stem = Path(output or "job").stem
    name = _name_of(Path(sketch.path).stem if stem == "job" else stem)
    text = _DRAFT.format(
        file=output or "job.yaml",
        name=quote_text(name),
        note=sketch.note,
        source="\n".join(f"  {line}" for line in _source_lines(sketch, folder)),
        target="\n".join(f"  {line}" for line in _target_lines(str(target), sketch)),
    )
    if output is None:
        click.echo(text, nl=False)
    else:
        with whole_file(Path(output)) as stream:
            stream.write(text.encode())
    return 0


def _write_mapping(
    url: str, output: str | None, *, table: str | None, schema: str | None
) -> InputSketch:
    """Write the mapping of a table next to the job file."""
    if output is None:
        raise ConfigError("-o: not given; expected a file, because its mapping is a second file")
    name, text = draft_for(url, table=table, schema=schema)
    path = Path(output).with_name(f"{_name_of(name)}{_MAPPING}.yaml")
    if path.exists():
        raise ConfigError(f"{path}: exists; expected another table, or --source {path}")
    with whole_file(path) as stream:
        stream.write(text.encode())
    return InputSketch(
        type=ROWS.name, path=str(path), note=f"Table {name}. Edit the mapping first."
    )


def _look_at(name: str) -> InputSketch:
    """Return what an input is; raise ConfigError if it is unknown or missing."""
    if name.endswith(_YAML):
        return _look_at_yaml(name)
    with tempfile.TemporaryDirectory() as folder:
        options = ConvertOptions(inputs=(name,), output="-", to_format=NATIVE.name)
        spans = list_spans(options, stdin_copy=Path(folder, "stdin"))
        source = source_of(spans[0])
        if source is TREE and "://" not in name:
            files = sum(len(names) for _, _, names in os.walk(name))
            return InputSketch(type=TREE.name, path=name, note=f"A folder of {files:,} files.")
        if source in (TREE, SPOOLS):
            return InputSketch(type=source.name, path=name, note=f"{source.title}.".capitalize())
        formats = {span.format for span in spans if find_format(span.format)}
        feed = _first_feed(spans)
    type_ = formats.pop() if len(formats) == 1 else FEEDS
    count = f"{len(spans):,} file{'s' if len(spans) > 1 else ''} of {type_}"
    label = f"{feed.datasource or '-'}/{feed.feedtype or '-'}"
    note = f"{count}. The first feed is {label}, as DATASOURCE/FEEDTYPE."
    return InputSketch(
        type=type_, path=name, note=note, datasource=feed.datasource, feedtype=feed.feedtype
    )


def _look_at_yaml(name: str) -> InputSketch:
    text = Path(name).read_text("utf-8", "replace")
    source = PROGRAMS if re.search("^lister *:", text, re.MULTILINE) else ROWS
    return InputSketch(type=source.name, path=name, note=f"{source.title}.".capitalize())


def _first_feed(spans: list[Span]) -> FeedHeader:
    """Return the header of the first feed; without names if there is none."""
    for span in spans[:1]:
        try:
            with closing(read_span(SpanRequest(span=span, options=ReadOptions()))) as results:
                for result in results:
                    if isinstance(result, FeedHeader):
                        return result
                    if isinstance(result, Record):
                        origin = result.provenance
                        return FeedHeader(
                            source=span.source,
                            datasource=origin.datasource,
                            feedtype=origin.feedtype,
                        )
        except FeedferryError:
            break  # the run reports it
    return FeedHeader(source="")


def _source_lines(sketch: InputSketch, folder: Path) -> Iterator[str]:
    yield f"type: {sketch.type}"
    key = "mapping" if sketch.type == ROWS.name else "path"
    yield f"{key}: {quote_text(_relative(sketch.path, folder))}"
    format_ = find_format(sketch.type)
    if sketch.type == TREE.name:
        yield "base_url: https://docs.example.com/  # replace: where users open the documents"
        yield "# include: ['*.pdf', '*.html']"
        yield "# acl: posix  # who may see a document: as the permissions of its file say"
    elif sketch.type == PROGRAMS.name or (format_ is not None and format_.is_command_stream):
        yield "base_url: https://docs.example.com/  # replace: document ids are appended"


def _target_lines(target: str, sketch: InputSketch) -> Iterator[str]:
    is_url = "://" in target
    is_recvdata = target.rstrip("/").endswith(RECVDATA_PATH)
    type_ = ("thunderstone" if is_recvdata else "gsa-feed") if is_url else _parse_target(target)
    yield f"type: {type_}"
    yield f"url: {quote_text(target)}" if is_url else "# url: http://HOST:19900"
    if is_recvdata:
        yield "profile: default  # replace: the profile that receives the documents"
    format_, source = find_format(type_), find_source(sketch.type)
    if format_ is not None and format_.has_feedtypes:
        name = _name_of(Path(sketch.path).stem.removesuffix(_MAPPING))
        prefix = "# " if sketch.datasource else ""  # a feed that has one keeps it
        yield f"{prefix}datasource: {sketch.datasource or name}"
        if sketch.feedtype != FULL and source is None:
            yield "# feedtype: full  # the source is complete: other documents are deleted"


def _parse_target(target: str) -> str:
    try:
        return parse_to(target)
    except ConfigError as exc:
        raise ConfigError(f"--target: {exc}, or the URL of an appliance") from exc


def _relative(path: str, folder: Path) -> str:
    """Return the path of an input as it is written in a job file in `folder`."""
    return path if "://" in path or Path(path).is_absolute() else os.path.relpath(path, folder)


def _name_of(text: str) -> str:
    return re.sub(r"\W+", "-", text, flags=re.ASCII).strip("-_") or "job"
