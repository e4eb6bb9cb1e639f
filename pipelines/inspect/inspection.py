"""Count the records of files, or show them as JSON lines."""

from collections.abc import Iterator, Mapping
from contextlib import closing

import msgspec

from feedferry.pipelines.convert.inputs.input_files import listed_spans, read_spans
from feedferry.pipelines.convert.inputs.source_runs import read_options
from feedferry.pipelines.options.convert_checks import parse as parse_convert
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.value_parsers import NO_OUTPUT
from feedferry.schemas.errors import FINDINGS_EXIT, ConfigError
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject, record_error, reject_record
from feedferry.transforms.formats import JSONL, ReadResult, WriteOptions
from feedferry.transforms.inspect import InputCounts, count
from feedferry.transforms.sources import find_source

_jsonl = JSONL.make_encoder(WriteOptions())


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of some inputs, and their names."""

    sources: tuple[str, ...]
    counts: InputCounts

    @property
    def exit_code(self) -> int:
        return FINDINGS_EXIT if self.counts.has_findings else 0


def inspect(options: ConvertOptions) -> Inspection:
    """Return the counts of the inputs."""
    with (
        listed_spans(options) as (spans, _),
        closing(read_spans(spans, read_options(options))) as results,
    ):
        counts = count(results)
    return Inspection(sources=tuple(span.source for span in spans), counts=counts)


def read_lines(options: ConvertOptions) -> Iterator[bytes | Reject]:
    """Yield the records of the inputs as JSON lines, and rejects, in order."""
    yield from filter(None, map(as_line, read_results(options)))


def parse(words: Mapping[str, object], *, to_format: str = JSONL.name) -> ConvertOptions:
    """Return the options; raise ConfigError as `convert` does, and for programs."""
    options = parse_convert({**words, "output": NO_OUTPUT, "to_format": to_format})
    source = find_source(options.from_format)
    if source is not None and not source.is_inspected:
        raise ConfigError(
            f"⟦from_format⟧ {options.from_format}: not for inspect, which starts no program;"
            " expected a format of files"
        )
    return options


def read_results(options: ConvertOptions) -> Iterator[ReadResult]:
    """Yield the results of the inputs, in order."""
    with listed_spans(options) as (spans, _):
        yield from read_spans(spans, read_options(options))


def as_line(result: ReadResult) -> bytes | Reject:
    """Return the line of a record or membership, a Reject, or nothing for other results."""
    if isinstance(result, Reject):
        return result
    if not isinstance(result, Record | Membership):
        return b""
    try:
        return _jsonl.encode(result)
    except Exception as exc:
        return reject_record(result, record_error(exc), stage="write")
