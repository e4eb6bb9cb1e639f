"""The findings of the inputs, in their order."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from feedferry.pipelines.convert.inputs.input_files import listed_spans
from feedferry.pipelines.convert.inputs.source_runs import read_options
from feedferry.pipelines.inspect.inspection import parse
from feedferry.pipelines.options.compare_options import ValidateOptions
from feedferry.pipelines.options.flags import decode
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions, find_format
from feedferry.transforms.sinks.push.model import REQUEST_BYTES_LIMIT
from feedferry.transforms.sources import SpanRequest, open_span, read_span
from feedferry.transforms.validate.cross_checks import CrossChecks
from feedferry.transforms.validate.markup_checks import markup_findings
from feedferry.transforms.validate.rules import Finding, all_rules
from feedferry.transforms.validate.validation import Validation


def validate(words: Mapping[str, object]) -> Iterator[Finding]:
    """Yield the findings of the inputs that the options ask for, those of several records last."""
    options, chosen = parse(words), decode(ValidateOptions, words)
    with listed_spans(options) as (spans, folder):
        for finding in _findings(spans, read_options(options), folder, chosen):
            if chosen.wants(finding):
                yield finding


def _findings(
    spans: list[Span], reading: ReadOptions, folder: Path, chosen: ValidateOptions
) -> Iterator[Finding]:
    cross = CrossChecks(folder)
    validation = Validation(cross)
    for span in spans:
        yield from _of_file(span, reading, is_checked=chosen.dtd)
        format_ = find_format(span.format)
        names = format_.element_names if format_ is not None else None
        has_header = names is not None and bool(names.header)
        with closing(read_span(SpanRequest(span=span, options=reading))) as results:
            yield from validation.findings(results, has_header=has_header)
    yield from cross.findings()


def _of_file(span: Span, reading: ReadOptions, *, is_checked: bool) -> Iterator[Finding]:
    """Yield what is wrong with a whole file of XML: its size, and its markup."""
    format_ = find_format(span.format)
    if format_ is None or format_.element_names is None:
        return
    size = span.signature.size if span.signature else None
    if size is not None and size >= REQUEST_BYTES_LIMIT:
        detail = f"{size:,} bytes; expected less than {REQUEST_BYTES_LIMIT:,}"
        yield all_rules()["feed-too-large"].finding(detail, source=span.source)
    if is_checked:
        with open_span(span) as stream:
            yield from markup_findings(stream, format_, span=span, options=reading)
