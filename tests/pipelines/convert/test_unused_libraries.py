"""A process of the command has no libraries that only Beam would load."""

import subprocess
import sys
from pathlib import Path

import pytest

from feedferry.pipelines.convert.workers.unused_libraries import without_unused_libraries
from support.runs import ROOT

_CONVERT = """
import sys
from feedferry.pipelines.cli.main import main
assert main(["convert", "feed.xml", "-o", "out", "--to", "jsonl", "--jobs", sys.argv[1], "-q"]) == 0
assert "apache_beam" in sys.modules
print(sorted({"pandas", "pyarrow", "pymongo"}.intersection(sys.modules)))
"""
_FEED = (
    "<gsafeed><header><datasource>d</datasource><feedtype>incremental</feedtype></header><group>"
    '<record url="http://a.example.com/" mimetype="text/plain"><content>quay</content></record>'
    "</group></gsafeed>"
)


def test_beam_does_not_find_them_and_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pymongo", raising=False)
    finders = [*sys.meta_path]
    with without_unused_libraries():
        with pytest.raises(ModuleNotFoundError, match="No module named 'pymongo' for Beam"):
            exec("import pymongo", {"__name__": "apache_beam.io.mongodbio"})
        exec("import bson", {"__name__": "apache_beam.io.mongodbio"})
        exec("import pymongo", {"__name__": "step"})
    assert finders == sys.meta_path


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_conversion_does_not_load_them(jobs: str, tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_text(_FEED)
    command = [sys.executable, "-c", _CONVERT, jobs]
    environment = {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1] == "[]"
