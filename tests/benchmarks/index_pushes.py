"""Compare a push into an index with `streaming_bulk` of the Python client of OpenSearch.

In the folder `tests`: `python -m benchmarks.index_pushes`, which needs the extra `benchmarks`. Both
send the same documents over loopback to a sink that answers at once. With `--server` they send them
to an OpenSearch server, and `verify` compares its index. Figures are those of the client; the time
of one document is subtracted.
"""

import argparse
import importlib.util
import json
import os
import shutil
import socketserver
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import feeds
from benchmarks.measure import Measured, RunError, measure
from support.search_servers import OPENSEARCH_2, search_server

_ROOT = Path(__file__).resolve().parents[2]
_FEEDFERRY = "from feedferry.pipelines.cli.main import main; raise SystemExit(main())"
_CLIENT = "from benchmarks.index_pushes import stream; stream()"
_SINK = "from benchmarks.index_pushes import answer_at_once; answer_at_once()"
_SOURCE = "feed.xml"
_INDEX = "intranet"
_ALIAS = f"{_INDEX}-benchmark"
_ACTIONS_A_REQUEST = 5000
_REQUEST_BYTES = 10 << 20
_MB = 1_000_000
_JAVA_OPTIONS = ("-Xms2g", "-Xmx2g", "-XX:+UseSerialGC")
_ITEM = (
    b'{"index":{"_index":"intranet-benchmark","_id":"x","_version":1,"result":"created",'
    b'"_shards":{"total":1,"successful":1,"failed":0},"_seq_no":1,"_primary_term":1,"status":201}}'
)
_FILTERED_ITEM = b'{"index":{"result":"created","status":201}}'


class _Sink(socketserver.StreamRequestHandler):
    """Takes requests of `_bulk` at once; it has no index until one is made."""

    rbufsize = 1 << 20

    def handle(self) -> None:
        while line := self.rfile.readline():
            length = 0
            while (header := self.rfile.readline().strip()) != b"":
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body, status = self.rfile.read(length), 200
            answer = b'{"acknowledged":true,"version":{"distribution":"opensearch"}}'
            if b"/_bulk" in line:
                item = _FILTERED_ITEM if b"filter_path" in line else _ITEM
                items = b",".join([item] * (body.count(b'\n{"index":{') + 1))
                answer = b'{"took":1,"errors":false,"items":[%b]}' % items
            elif b"/_mapping" in line:
                status, answer = 404, b'{"error":"no index","status":404}'
            elif b"/_alias " in line:
                answer = b"{}"
            elif b"/_count" in line:
                answer = b'{"count":0}'
            head = b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            self.wfile.write(head % (status, len(answer)) + answer)


class _SinkServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


def answer_at_once() -> None:
    """Serve until the process is ended; print the port."""
    with _SinkServer(("127.0.0.1", 0), _Sink) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


def stream() -> None:
    """Send the documents of a run with the Python client of OpenSearch."""
    from opensearchpy import OpenSearch
    from opensearchpy.helpers import streaming_bulk

    run, url = sys.argv[1:]
    client = OpenSearch(url, timeout=120)
    sent = streaming_bulk(
        client,
        _documents(Path(run)),
        chunk_size=_ACTIONS_A_REQUEST,
        max_chunk_bytes=_REQUEST_BYTES,
    )
    print(sum(is_taken for is_taken, _ in sent))


def _documents(run: Path) -> Iterator[dict[str, object]]:
    for chunk in sorted((run / "chunks").iterdir()):
        with chunk.open("rb") as lines:
            for action in lines:
                key = json.loads(action)["index"]["_id"]
                yield {"_index": _ALIAS, "_id": key, "_source": json.loads(next(lines))}


def main(words: Sequence[str] | None = None) -> int:
    """Measure in turn, and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index_pushes", description=__doc__)
    parser.add_argument("--server", action="store_true", help="send to an OpenSearch server, too")
    parser.add_argument("--size", type=int, default=100_000, help="documents")
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the median is shown")
    options = parser.parse_args(words)
    if importlib.util.find_spec("opensearchpy") is None:
        print("no opensearch-py; expected the extra `benchmarks`", file=sys.stderr)
        return 1
    os.environ["PYTHONPATH"] = f"{_ROOT}{os.pathsep}{_ROOT / 'tests'}"
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as name:
        folder = Path(name)
        size = {"run": options.size, "single": 1}
        for run, records in size.items():
            _convert(folder, run, records)
        print("target  client           docs/s  CPU µs  MB   × streaming_bulk: clock, CPU")
        _compare("sink", folder, options.size, options.repeat, _sink)
        if options.server:
            _compare("server", folder, options.size, options.repeat, partial(_server, folder))
    return 0


def _convert(folder: Path, run: str, records: int) -> None:
    feeds.texts(folder / _SOURCE, records)
    flags = ("--to", "opensearch", "--fresh", "-q", "-o", run)
    subprocess.run(
        [sys.executable, "-c", _FEEDFERRY, "convert", _SOURCE, *flags],
        cwd=folder,
        check=True,
        capture_output=True,
    )


@contextmanager
def _sink() -> Iterator[str]:
    command = [sys.executable, "-c", _SINK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    home = folder / "server"
    home.mkdir()
    with search_server(OPENSEARCH_2, home, _JAVA_OPTIONS) as server:
        yield server.url


def _compare(
    target: str,
    folder: Path,
    size: int,
    repeat: int,
    serve: Callable[[], AbstractContextManager[str]],
) -> None:
    with serve() as url:
        runs = [_of_turn(folder, url) for _ in range(repeat)]
        figures = [_medians(of_client, size) for of_client in zip(*runs, strict=True)]
        (client_seconds, client_cpu, _), *_ = figures
        for name, (seconds, cpu, most) in zip(("streaming_bulk", "push"), figures, strict=True):
            print(
                f"{target:8}{name:15}{size / seconds:8,.0f}{cpu / size * 1e6:8.1f}{most / _MB:5.0f}"
                f"{client_seconds / seconds:10.2f}{client_cpu / cpu:8.2f}",
                flush=True,
            )
        if target == "server":
            words = _words("verify", str(folder / "run"), "--against", f"{url}/{_INDEX}")
            verified = measure(words, cwd=folder)
            print(f"verify: {verified.seconds:.0f} s, {verified.max_bytes / _MB:.0f} MB")


def _of_turn(folder: Path, url: str) -> list[tuple[Measured, Measured]]:
    """Send one document and all of them, with the client and with a push."""
    pairs = []
    for send in (_stream, _push):
        _renew_index(folder, url)
        single = send(folder, "single", url)
        pairs.append((send(folder, "run", url), single))
    return pairs


def _renew_index(folder: Path, url: str) -> None:
    """Remove the index, and make it with its fields by the push of one document."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(urllib.request.Request(f"{url}/{_INDEX}-*", method="DELETE")).close()
    _push(folder, "single", url)


def _stream(folder: Path, run: str, url: str) -> Measured:
    return measure([sys.executable, "-c", _CLIENT, str(folder / run), url], cwd=folder)


def _push(folder: Path, run: str, url: str) -> Measured:
    shutil.rmtree(folder / run / "push", ignore_errors=True)  # the receipts
    return measure(_words("push", str(folder / run), "--to", f"{url}/{_INDEX}"), cwd=folder)


def _words(*words: str) -> list[str]:
    return [sys.executable, "-c", _FEEDFERRY, *words, "-q"]


def _medians(pairs: Sequence[tuple[Measured, Measured]], size: int) -> tuple[float, float, int]:
    """Return the seconds, the processor time and the peak memory, without the start-up."""
    seconds = median(all_.seconds - single.seconds for all_, single in pairs)
    cpu = median(all_.cpu_seconds - single.cpu_seconds for all_, single in pairs)
    if seconds <= 0 or cpu <= 0:
        raise RunError(f"{size} documents take less time than the start-up; expected more")
    return seconds, cpu, max(all_.max_bytes for all_, _ in pairs)


if __name__ == "__main__":
    sys.exit(main())
