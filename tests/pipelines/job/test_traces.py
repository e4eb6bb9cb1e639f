"""A collector of OpenTelemetry gets the spans of a run; without one, no library is loaded."""

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.observer import trace
from support.archives import gsa_feed
from support.runs import keep_levels
from support.served import Served, serving

JOB = """\
version: 1
job: traced
source: {{type: gsa-feed, path: feed.xml}}
target: {{type: opensearch, url: "{url}", index: traced}}
verify: target
"""
messages = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
RECORD = '<record url="http://a.example.com/1" mimetype="text/plain"><content>a</content></record>'
LOADED = """\
import sys
from feedferry.pipelines.cli.main import main
code = main(sys.argv[1:])
print(code, [name for name in sys.modules if name.startswith("opentelemetry")])
"""


class Collector(HTTPServer):
    """Decodes the spans that are posted to it, and answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: dict[str, Any] = {}  # messages of protobuf have no types here
        self.services: set[str] = set()
        self.paths: list[str] = []
        self.status = 200


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        self.server.paths.append(self.path)
        for resource in messages.ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {item.key: item.value.string_value for item in resource.resource.attributes}
            self.server.services.add(names["service.name"])
            for scope in resource.scope_spans:
                self.server.spans.update({span.name: span for span in scope.spans})
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def served(here: Path, tmp_path: Path) -> Iterator[Served]:
    Path("feed.xml").write_bytes(gsa_feed(RECORD))
    with serving(tmp_path / "spool") as server, keep_levels():
        Path("job.yaml").write_text(JOB.format(url=server.url))
        yield server


def attributes(span: Any) -> dict[str, object]:
    """Return the values of a span, by their names."""
    values = {item.key: item.value for item in span.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values.items()}


@pytest.mark.slow
def test_a_collector_gets_the_phases_of_a_run_with_their_counts(
    collector: Collector, served: Served
) -> None:
    assert main(["run", "job.yaml", "-q", "--log-file", "a.log", "--log-format", "json"]) == 0

    assert (collector.paths, collector.services) == (["/v1/traces"], {"feedferry"})
    spans = collector.spans
    assert sorted(spans) == ["convert", "push", "remember", "run", "verify"]
    run = spans.pop("run")
    assert {span.parent_span_id for span in spans.values()} == {run.span_id}
    assert attributes(run)["feedferry.job"] == "traced"
    assert attributes(run)["feedferry.exit_code"] == 0
    counts = attributes(spans["convert"])
    assert (counts["feedferry.read"], counts["feedferry.written"]) == (1, 1)
    assert attributes(spans["push"])["feedferry.accepted"] == 1
    assert attributes(spans["verify"])["feedferry.same"] == 1
    lines = [json.loads(line) for line in Path("a.log").read_text("utf-8").splitlines()]
    of_run = {line.get("trace_id") for line in lines if line["run"] is not None}
    assert of_run == {run.trace_id.hex()}


@pytest.mark.slow
def test_a_run_that_fails_and_a_collector_that_fails_end_as_without_traces(
    collector: Collector, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    collector.status = 400
    target = ["--set", "target.url=http://127.0.0.1:1", "--set", "push.attempts=1"]
    assert main(["run", "job.yaml", *target]) == 4
    assert attributes(collector.spans["run"])["feedferry.exit_code"] == 4
    assert "the collector of traces has not taken the spans of the run" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_without_a_collector_loads_no_library_of_traces(served: Served) -> None:
    command = [sys.executable, "-c", LOADED, "run", "job.yaml", "-q"]
    assert subprocess.check_output(command, text=True).splitlines()[-1] == "0 []"


def test_a_missing_library_is_an_error_before_the_run_begins(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(trace, "_MODULES", ("opentelemetry.missing.sdk",))
    Path("feed.xml").write_bytes(gsa_feed(RECORD))
    with keep_levels():
        assert main(["convert", "feed.xml", "-o", "out", "--to", "jsonl"]) == 2
    message = "OTEL_EXPORTER_OTLP_ENDPOINT: needs packages that are not installed"
    assert message in capsys.readouterr().err
    assert not Path("out").exists()
