"""Prism, the local runner of Beam in Go, writes the same bytes as this process.

It is looked for on PATH and in FEEDFERRY_PRISM:
`go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.programs_needed import without
from support.runs import ROOT, convert, keep_levels, manifest

PRISM = os.environ.get("FEEDFERRY_PRISM") or shutil.which("prism")
SAMPLE = (str(ROOT / "pipelines" / "sample"), "--to", "gsa-feed", "--accept-loss", "acl")
RUN_SECONDS = 300


@pytest.mark.slow
@pytest.mark.skipif(PRISM is None, reason=without("prism"))
def test_prism_writes_the_same_bytes_as_one_process(tmp_path: Path) -> None:
    with keep_levels():
        convert(*SAMPLE, "-o", str(tmp_path / "expected"))
    main = "from feedferry.pipelines.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", main, "convert", *SAMPLE, "-o", "out", "--runner", "prism"]
    done = subprocess.run(
        [*command, "--", f"--prism_location={PRISM}"],
        check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=RUN_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "out") == digests(tmp_path / "expected")


def digests(folder: Path) -> list[tuple[object, object]]:
    return [(line["path"], line["sha256"]) for line in manifest(folder)]
