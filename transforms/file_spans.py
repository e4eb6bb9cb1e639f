"""The spans of a file: cut by a scan, begun to be converted in turn, or guessed from a survey.

docs/decisions/borders-of-spans.md has the rule of the borders and its reasons.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from schemas.errors import FeedferryError
from schemas.reject import record_error
from schemas.span import Span
from transforms.formats import ReadOptions, by_name, find_format
from transforms.formats.base import Survey
from transforms.sources import begin_file, cut_file, open_span

_log = logging.getLogger(__name__)


def cut(whole: Span, *, span_bytes: int, options: ReadOptions) -> list[Span]:
    """Return the spans of a file; a file that cannot be split is one, whose account says why."""
    return _spans_of(cut_file, whole, span_bytes, options)


def begin(whole: Span, *, span_bytes: int, options: ReadOptions) -> list[Span]:
    """Return the spans of a file as far as they are known without scanning it; see `begin_file`."""
    return _spans_of(begin_file, whole, span_bytes, options)


def _spans_of(
    cutter: Callable[..., Iterator[Span]], whole: Span, span_bytes: int, options: ReadOptions
) -> list[Span]:
    try:
        return list(cutter(whole, span_bytes=span_bytes, options=options))
    except (FeedferryError, OSError):
        return [whole]
    except Exception as exc:  # a defect of ours must not cost the file
        _log.warning("%s: read in one piece: %s", whole.source, record_error(exc))
        return [whole]


def parts(first: Span) -> Iterator[Span]:
    """Yield the multiples of the grid of a file as spans, to be surveyed; else the span."""
    size = first.signature.size if first.signature is not None else None
    if not first.grid or size is None:
        yield first
        return
    for ordinal, offset in enumerate(range(0, size, first.grid)):
        yield replace(first, ordinal=ordinal, offset=offset)


def survey(part: Span) -> Survey | None:
    """Return the survey of a part; None if there is nothing to guess, or if it cannot be read."""
    format_ = find_format(part.format)
    if not part.grid or format_ is None or format_.borders is None:
        return None
    try:
        return format_.borders().survey(lambda at: open_span(replace(part, offset=at)), part)
    except (FeedferryError, OSError):
        return Survey(begin=None)  # the account of the span says why
    except Exception as exc:  # a defect of ours must not cost the file
        _log.warning("%s: not surveyed: %s", part.source, record_error(exc))
        return Survey(begin=None)


def guess(first: Span, surveys: Sequence[Survey]) -> Iterator[Span]:
    """Yield the spans after the first of a file as they seem to be."""
    format_ = by_name(first.format)
    if format_.borders is not None:
        before = first
        for end in format_.borders().guess(surveys):
            if (span := before.next(end)).ordinal > before.ordinal:
                yield span
                before = span
