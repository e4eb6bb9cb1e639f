"""The trace of a run: a span for each phase, for a collector of OpenTelemetry.

Only with a variable of `ENDPOINTS` in the environment is a trace recorded, or its library loaded.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from feedferry.pipelines.observer.logs import logged_trace
from feedferry.pipelines.observer.run_trace import RunTrace
from feedferry.schemas.errors import ConfigError

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_MODULES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


@contextmanager
def traced(name: str, attributes: Mapping[str, str]) -> Iterator[RunTrace]:
    """Record the spans of a block below one of this name, and send them at its end.

    The lines of logs have the id of the trace. A collector that does not answer is a warning.
    """
    if not is_traced():
        yield RunTrace()
        return
    from feedferry.pipelines.observer.otlp_trace import OtlpTrace

    trace = OtlpTrace()
    try:
        with trace.span(name) as own, logged_trace(trace.trace_id):
            try:
                yield trace
            finally:
                own.update(attributes)
                own.update(trace.attributes)
    finally:
        trace.send()


def is_traced() -> bool:
    """Whether the environment names a collector; raise ConfigError without its library."""
    endpoint = next((name for name in ENDPOINTS if os.environ.get(name)), None)
    if endpoint is None:
        return False
    try:
        is_installed = all(find_spec(name) is not None for name in _MODULES)
    except ModuleNotFoundError:  # a package above it
        is_installed = False
    if not is_installed:
        raise ConfigError(
            f"{endpoint}: needs packages that are not installed; install them with:"
            " pip install 'feedferry[otel]'"
        )
    return True
