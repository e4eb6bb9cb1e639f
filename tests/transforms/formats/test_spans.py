"""A stream that is read in spans gives what it gives as a whole, wherever it is cut."""

import io
from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.errors import FormatError, UnavailableError
from schemas.feed import FeedHeader
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Filtered
from schemas.span import Span
from support.hostile_streams import hostile
from transforms.formats import (
    FORMATS,
    THUNDERSTONE,
    Format,
    Mode,
    ReadOptions,
    ReadResult,
    StreamOptions,
)

WHOLE = Format(name="whole", title="a format that cannot be split", read=THUNDERSTONE.read)
SPLIT = [format_ for format_ in FORMATS if format_.split is not WHOLE.split]


class Outcome(NamedTuple):
    """The results of a reading, and the error that ended it."""

    results: list[ReadResult]
    error: str


def read(format_: Format, text: bytes, span: Span, mode: Mode) -> Outcome:
    """Read a span; a header has no place, and each span may have one."""
    end = None if span.length is None else span.offset + span.length
    results: list[ReadResult] = []
    stream, options = (
        io.BytesIO(text[span.offset : end]),
        ReadOptions(own=(StreamOptions(mode=mode),)),
    )
    try:
        for result in format_.read(stream, span=span, options=options):
            if not isinstance(result, FeedHeader):
                results.append(without_span(result))
    except (FormatError, UnavailableError) as exc:
        return Outcome(results, str(exc))
    return Outcome(results, "")


def without_span(result: ReadResult) -> ReadResult:
    if isinstance(result, Record | Membership):
        return replace(result, provenance=replace(result.provenance, span=0))
    return result if isinstance(result, FeedHeader | Filtered) else replace(result, span=0)


def read_spans(format_: Format, text: bytes, span_bytes: int, mode: Mode) -> Outcome:
    """Read span by span, up to the first error; a stream that cannot be cut is one span."""
    spans, results = [Span(source="s")], list[ReadResult]()
    with suppress(FormatError):
        spans = list(format_.split(io.BytesIO(text), source="s", span_bytes=span_bytes))
    for span in spans:
        outcome = read(format_, text, span, mode)
        results += outcome.results
        if outcome.error:
            return Outcome(results, outcome.error)
    return Outcome(results, "")


@pytest.mark.slow
@pytest.mark.parametrize("format_", SPLIT, ids=lambda format_: format_.name)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_spans_read_as_the_whole(format_: Format, data: st.DataObject) -> None:
    text = data.draw(hostile(format_.name))
    span_bytes = data.draw(st.integers(1, max(1, len(text))))
    mode = data.draw(st.sampled_from(Mode))
    whole = read(format_, text, Span(source="s"), mode)
    assert read_spans(format_, text, span_bytes, mode) == whole
