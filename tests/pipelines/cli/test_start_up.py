"""Commands load what they use: no Beam where no Beam runs, no library of another source or format.

docs/benchmarks.md has the processor time that each of them takes.
"""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from feedferry.schemas.account import Chunk
from support.archives import document, gsa_feed, put
from support.runs import ROOT

NEVER = {
    "apache_beam",
    "fastavro",
    "fsspec",
    "httpx2",
    "jinja2",
    "obstore",
    "smart_open",
    "sqlalchemy",
}
OTHER_FORMATS = {
    "feedferry.transforms.formats.command_stream.syntax",
    "feedferry.transforms.formats.thunderstone.dataload",
    "feedferry.transforms.formats.gsa.groups",
    "feedferry.transforms.formats.canonical.avro",
}
OTHER_SOURCES = {
    "feedferry.transforms.sources.programs.calls",
    "feedferry.transforms.sources.tree.folders.walk",
}
JOB = b"""\
version: 1
job: docs
source: {type: gsa-feed, path: feed.xml}
target: {type: gsa-feed, url: "http://gsa.example.com:19900"}
"""
PUSH = ["push", "out", "--to", "http://gsa.example.com:19900", "--dry-run"]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("args", "absent"),
    [
        (["formats"], {*NEVER, "lxml", "feedferry.transforms.formats.gsa.feed"}),
        (["inspect", "feed.xml"], {*NEVER, *OTHER_FORMATS, *OTHER_SOURCES}),
        (["diff", "feed.xml", "feed.xml"], {*NEVER, *OTHER_SOURCES} - {"httpx2"}),
        (
            ["validate", "feed.xml", "--rule", "dtd"],
            {*NEVER, *OTHER_FORMATS, *OTHER_SOURCES},
        ),
        (["plan", "feed.xml", "--to", "jsonl"], {*NEVER, *OTHER_FORMATS, *OTHER_SOURCES}),
        (["plan", "job.yaml"], {*NEVER, *OTHER_FORMATS, *OTHER_SOURCES}),
        (PUSH, {*NEVER, "feedferry.transforms.sources", "feedferry.transforms.formats.gsa.feed"}),
    ],
    ids=["formats", "inspect", "diff", "validate", "plan", "plan of a job", "push --dry-run"],
)
def test_a_command_loads_only_what_it_uses(args: list[str], absent: set[str], here: Path) -> None:
    feed = gsa_feed(document(1))
    put(here / "feed.xml", feed)
    put(here / "job.yaml", JOB)
    chunk = Chunk(
        path="chunks/000001.xml",
        bytes=len(feed),
        sha256="",
        records={"ADD": 1},
        first_url="",
        last_url="",
        source="",
        span=0,
        format="gsa-feed",
        datasource="intranet",
        feedtype="incremental",
    )
    put(here / "out/chunks/000001.xml", feed)
    put(here / "out/manifest.jsonl", msgspec.json.encode(chunk) + b"\n")
    put(here / "out/report.json", b"{}")
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from feedferry.pipelines.cli.main import main\n"
        f"code = main({args}); print(code, sorted({absent} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout.splitlines()[-1] == "0 []", run.stderr
