"""Show what steps make of some records, one step after another; nothing is written."""

from collections.abc import Iterator, Mapping

from pipelines.inspect.inspection import as_line, parse, read_results
from pipelines.options.convert_options import TransformOptions
from pipelines.options.flags import decode
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Filtered, Reject
from transforms.steps import StepResult, read_steps
from transforms.steps.patterns import any_pattern


def explain(words: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield a heading and a text for each record whose URL matches, and for each step.

    The text is a record in JSON, or what the step makes in its place.
    """
    options, chosen = parse({**words, "transform": None}), decode(TransformOptions, words)
    steps = read_steps(chosen.transform_path).make()
    matches = any_pattern((chosen.explain,))
    for result in read_results(options):
        if not isinstance(result, Record | Membership) or not matches(result.url):
            continue
        before = _text(result)
        yield "record", before
        for name, results in steps.explain(result):
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
