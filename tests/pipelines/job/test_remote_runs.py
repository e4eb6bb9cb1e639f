"""The verbs about runs take the URI of a run in object storage; no local copy is needed."""

import json
from pathlib import Path

import pytest

import feedferry
from feedferry.pipelines.cli.main import main
from feedferry.schemas.errors import StoppedError
from support import remotes
from support.archives import BROKEN, document, gsa_feed

BASE = f"s3://{remotes.BUCKET}/runs"
URI = f"{BASE}/first"
OPTIONS = {"to_format": "gsa-feed", "accept_holes": True}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("s3")]


@pytest.fixture(autouse=True)
def feed(here: Path) -> None:
    Path("feed.xml").write_bytes(gsa_feed(*map(document, range(5)), BROKEN))


def _convert(output: str, **options: object) -> None:
    given = {**OPTIONS, **options}
    feedferry.convert("feed.xml", output, **given)  # type: ignore[arg-type]  # texts of flags


def _called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main([*words])
    text = "".join(capsys.readouterr())
    assert "/feedferry-" not in text  # the mirror of the run
    return code, text


def test_rejects_are_listed_exported_and_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    _convert(URI)
    assert _called(capsys, "rejects", "list", URI)[0] == 0
    assert f"reject    1 of {URI}" in _called(capsys, "rejects", "show", URI, "1")[1]
    code, text = _called(capsys, "rejects", "export", URI, "-o", "corrections")
    assert (code, text) == (0, "corrections/raw/000001.xml: 1 reject\n")
    assert json.loads(Path("corrections/export.json").read_text())["run"] == URI
    assert _called(capsys, "rejects", "accept", URI, "-o", "known") == (0, "known: 1 added\n")
    _convert(f"{BASE}/second", accepted_rejects="known")
    assert _called(capsys, "rejects", "accept", f"{BASE}/second") == (0, "known: 0 added\n")
    code, text = _called(capsys, "rejects", "accept", URI)
    assert (code, URI in text) == (2, True)
    code, text = _called(capsys, "rejects", "replay", URI)
    assert (code, "expected a run in a folder of this machine" in text) == (2, True)


def test_a_run_that_stopped_at_a_limit_shows_its_account_and_rejects(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for output in (URI, "out"):
        with pytest.raises(StoppedError):
            _convert(output, max_rejects="1%")
        assert "exit code 3" in _called(capsys, "runs", "show", output)[1]
        text = _called(capsys, "runs", "show", output, "--format", "json")[1]
        assert json.loads(text)["rejected"] == 1
        assert "malformed         1" in _called(capsys, "rejects", "list", output)[1]


def test_runs_below_a_uri_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    _convert(URI)
    _convert(f"{BASE}/second")
    for uri in (BASE, f"{BASE}/"):
        lines = _called(capsys, "runs", "list", uri)[1].splitlines()
        assert lines[0] == f"{BASE}/"
        assert [line.split()[0] for line in lines[2:]] == ["second", "first"]
    assert len(_called(capsys, "runs", "list", URI)[1].splitlines()) == 3
    assert _called(capsys, "runs", "list", f"{BASE}/none") == (0, f"no runs in {BASE}/none\n")


def test_a_retention_of_runs_in_object_storage_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = _called(capsys, "runs", "clean", URI, "--keep", "1")
    assert (code, f"--keep: given for {URI}" in text, "lifecycle" in text) == (2, True, True)


def test_runs_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    _convert(URI)
    _convert("out")
    assert _called(capsys, "diff", URI, "out")[0] == 0
    assert _called(capsys, "verify", URI, "--against", "out")[0] == 0
    assert _called(capsys, "push", URI, "--to", "http://127.0.0.1:9", "--dry-run")[0] == 0
