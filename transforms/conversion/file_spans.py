"""The spans of a file: cut by a scan, begun to be converted in turn, or guessed from a survey.

docs/decisions/borders-of-spans.md has the rule of the borders and its reasons.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import FatalError, FeedferryError
from feedferry.schemas.reject import record_error
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions, by_name, find_format
from feedferry.transforms.formats.base import Survey
from feedferry.transforms.sources import begin_file, cut_file, open_span
from feedferry.transforms.storage.run_folders.find_storage import storage_of

_SURVEYS = "surveys"
_log = logging.getLogger(__name__)
_survey_of = msgspec.json.Decoder(Survey).decode


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


def guess(first: Span, surveys: Iterable[Survey]) -> Iterator[Span]:
    """Yield the spans after the first of a file as they seem to be, each as soon as possible."""
    format_ = by_name(first.format)
    if format_.borders is not None:
        before = first
        for end in format_.borders().guess(surveys):
            if (span := before.next(end)).ordinal > before.ordinal:
                yield span
                before = span


class GuessedSpans:
    """The spans of a file as they seem to be, by surveys that the workers of a machine share.

    A worker surveys the parts up to its own that no other one has surveyed, so that none waits. It
    converts its part next, which is then still in memory: a file is read from the disk once.
    """

    def __init__(self, first: Span, folder: Path) -> None:
        self._first, self._storage = first, storage_of(str(folder))
        self._asked: int
        self._last: Span | None
        self._begin()

    def find(self, ordinal: int) -> Span | None:
        """Return the span of a part, None if there seems to be none; fast in ascending order."""
        if ordinal < self._asked:
            self._begin()
        self._asked = ordinal
        while self._last is not None and self._last.ordinal < ordinal:
            self._last = next(self._spans, None)
        return self._last if self._last is not None and self._last.ordinal == ordinal else None

    def _begin(self) -> None:
        self._spans = guess(self._first, map(self._survey, parts(self._first)))
        self._asked = self._first.ordinal
        self._last = self._first

    def _survey(self, part: Span) -> Survey:
        name = f"{_SURVEYS}/{part.name}.json"
        with suppress(msgspec.DecodeError):  # of a machine that lost its power
            if (text := self._storage.get(name)) is not None:
                return _survey_of(text)
        made = survey(part) or Survey(begin=None)
        if made.begin is not None:  # else it may be readable the next time
            with suppress(FatalError):  # the span fails by its own files
                self._storage.make(_SURVEYS)
                self._storage.put_if_absent(name, msgspec.json.encode(made))
        return made
