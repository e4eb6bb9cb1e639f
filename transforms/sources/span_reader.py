"""Reads one span, whatever its source is."""

from collections.abc import Generator
from contextlib import closing

from schemas.known import See
from schemas.record import Record
from schemas.span import Span
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.base import SpanRequest
from transforms.sources.registry import SourceConfig, source_of

USUAL = ReadOptions()


class SpanReader:
    """Reads a span, and counts the bytes that it has read."""

    def __init__(
        self,
        span: Span,
        *,
        config: SourceConfig | None = None,
        options: ReadOptions = USUAL,
        see: See | None = None,
        state: str | None = None,
    ) -> None:
        self._source = source_of(span)
        self._request: SpanRequest[SourceConfig] = SpanRequest(
            span=span, config=config, options=options, see=see, state=state
        )

    @property
    def bytes_read(self) -> int:
        return self._request.count.total

    def results(self) -> Generator[ReadResult, None, None]:
        """Yield the records of the span, and everything else that is found there, in order."""
        results = self._source.read(self._request)
        return self._count_contents(results) if self._source.counts_contents else results

    def _count_contents(
        self, results: Generator[ReadResult, None, None]
    ) -> Generator[ReadResult, None, None]:
        count = self._request.count
        with closing(results):
            for result in results:
                if isinstance(result, Record) and result.content is not None:
                    count.add(len(result.content.data))
                yield result
