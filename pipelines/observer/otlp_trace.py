"""Spans as OpenTelemetry records and sends them, by HTTP."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import Status, StatusCode

from feedferry.pipelines.observer.run_trace import Attributes, RunTrace

_log = logging.getLogger(__name__)


class OtlpTrace(RunTrace):
    """Records the spans of a run, which are few, and sends them together."""

    def __init__(self) -> None:
        super().__init__()
        own = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "feedferry"}
        self._ended = EndedSpans()
        self._provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False)
        self._provider.add_span_processor(self._ended)
        self._tracer = self._provider.get_tracer("feedferry")
        self.trace_id = ""

    @contextmanager
    def span(self, name: str) -> Iterator[Attributes]:
        attributes: Attributes = {}
        with self._tracer.start_as_current_span(name, record_exception=False) as span:
            self.trace_id = format(span.get_span_context().trace_id, "032x")
            try:
                yield attributes
            except BaseException as exc:
                span.set_status(Status(StatusCode.ERROR, type(exc).__name__))
                raise
            finally:
                for key, value in attributes.items():
                    span.set_attribute(f"feedferry.{key}", value)

    def send(self) -> None:
        """Send the spans that have ended; the collector may be down."""
        exporter = OTLPSpanExporter()
        if exporter.export(self._ended.spans) is not SpanExportResult.SUCCESS:
            _log.warning("the collector of traces has not taken the spans of the run")
        exporter.shutdown()  # type: ignore[no-untyped-call]  # it states no result


class EndedSpans(SpanProcessor):
    """Keeps the spans that have ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)
