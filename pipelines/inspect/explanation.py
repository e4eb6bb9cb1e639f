"""Show what steps make of some records, one step after another; nothing is written."""

from collections.abc import Iterator
from contextlib import closing

from feedferry.pipelines.convert.inputs.input_files import listed_spans
from feedferry.pipelines.convert.inputs.source_runs import read_options, steps_of
from feedferry.pipelines.convert.inputs.step_inputs import SpanInputs
from feedferry.pipelines.inspect.inspection import as_line
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.transforms.steps import AppliedSteps, StepResult
from feedferry.transforms.steps.patterns import any_pattern


def explain(options: ConvertOptions, url: str) -> Iterator[tuple[str, str]]:
    """Yield a heading and a text for each record whose URL matches, and for each step, if any.

    The text is a record in JSON, or the result of the step in its place.
    """
    listed, matches = steps_of(options), any_pattern((url,))
    with listed_spans(options) as (spans, folder):
        inputs = SpanInputs(spans, read_options(options))
        listed.prepare(inputs, folder)
        with closing(listed.make(folder)) as steps:
            for result in inputs.records():
                if isinstance(result, Record | Membership) and matches(result.url):
                    yield from _explained(result, steps)


def _explained(item: Record | Membership, steps: AppliedSteps) -> Iterator[tuple[str, str]]:
    before = _text(item)
    yield "record", before
    for name, results in steps.explain(item):
        after = "\n".join(map(_text, results))
        yield name, "unchanged" if after == before else after
        before = after


def _text(result: StepResult) -> str:
    if isinstance(result, Filtered):
        return f"filtered by {result.code}"
    line = result if isinstance(result, Reject) else as_line(result)
    if isinstance(line, Reject):
        return f"rejected: {line.code}: {line.reason}"
    return line.decode().rstrip()
