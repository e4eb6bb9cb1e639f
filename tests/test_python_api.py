"""The Python API: the examples of its page, its names, and what a program gets that uses it."""

import doctest
import inspect
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import feedferry
from feedferry.pipelines import python_api
from support.archives import documents, gsa_feed
from support.runs import ROOT, keep_levels
from support.served import serving

FEED = gsa_feed(*documents(1, 2))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_bytes(FEED)
    return tmp_path


def test_the_package_exports_its_names_and_nothing_else() -> None:
    assert dir(feedferry) == feedferry.__all__
    assert all(hasattr(feedferry, name) for name in feedferry.__all__)
    with pytest.raises(AttributeError, match="'feedferry' has no attribute 'Path'"):
        _ = feedferry.Path  # type: ignore[attr-defined]
    functions = {name for name in feedferry.__all__ if inspect.isfunction(getattr(feedferry, name))}
    assert functions == {"convert", "formats", "inspect", "plan", "push", "read", "run"}
    assert all(getattr(feedferry, name) is getattr(python_api, name) for name in functions)
    modules_here = sorted(path.name for path in (ROOT / "feedferry").glob("*.py"))
    assert modules_here == [
        *("__init__.py", "__main__.py", "access.py", "beam.py", "extend.py"),
        *("public.py", "yaml_provider.py"),
    ]


@pytest.mark.slow
def test_the_examples_of_the_page_give_what_it_shows(here: Path) -> None:
    page = str(ROOT / "docs" / "python.md")
    failed, tried = doctest.testfile(page, module_relative=False)
    assert (failed, tried > 5) == (0, True)


def test_beam_and_click_are_not_loaded_by_the_import() -> None:
    code = "import sys, feedferry; print({'apache_beam', 'click', 'rich'} & {*sys.modules})"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert run.stdout == "set()\n"


def test_settings_are_python_values_or_the_texts_of_flags(here: Path) -> None:
    plan = feedferry.plan(
        Path("feed.xml"),
        to_format="thunderstone",
        accept_loss=["acl"],
        fields={"Author": "author"},
        max_chunk_bytes=65536,
        max_content_bytes="1MiB",
        allow_wide_deletes=True,
    )
    settings = plan.report.settings
    assert settings["max_chunk_bytes"] == 65536
    assert plan.report.chunks == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_reject": 1}, "max_reject: no such setting; did you mean 'max_rejects'?"),
        ({"max_rejects": -1}, "max_rejects: '-1'; expected a number of records or a percentage"),
    ],
)
def test_a_setting_that_cannot_be_used_is_an_error(
    here: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(feedferry.ConfigError) as caught:
        feedferry.plan("feed.xml", observer=None, to_format="avro", **settings)
    assert str(caught.value).startswith(message)


def test_times_are_numbers_of_seconds(here: Path) -> None:
    settings: dict[str, Any] = {"connect_timeout": 2.5, "max_wait": 90, "attempts": 3}
    with pytest.raises(feedferry.ConfigError, match=r"^inputs: 'nowhere': no such file"):
        feedferry.push("nowhere", "http://127.0.0.1:1", observer=None, **settings)


def test_damage_is_a_reject_between_the_records(here: Path) -> None:
    Path("feed.xml").write_bytes(FEED.replace(b"</record>", b"&x;</record>", 1))
    items = [*feedferry.read("feed.xml")]
    assert [type(item) for item in items] == [feedferry.Reject, feedferry.Record]


class Recorder(feedferry.Observer):
    """Keeps the names of steps, the notices and the types of results."""

    progress_seconds = 0.1

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.notices: list[str] = []
        self.results: list[str] = []
        self.records = 0

    def begun(self, step: feedferry.Step) -> None:
        self.steps.append(step.value)

    def progress(self, progress: feedferry.Progress) -> None:
        self.records = progress.now.records

    def notice(self, message: str, level: int = logging.INFO) -> None:
        self.notices.append(message)

    def finished(self, step: feedferry.Step, result: object = None) -> None:
        if result is not None:
            self.results.append(type(result).__name__)


@pytest.mark.slow
def test_a_conversion_is_followed_and_pushed(here: Path) -> None:
    recorder = Recorder()
    with keep_levels(), serving(here / "spool") as appliance:
        result = feedferry.convert(
            "feed.xml", "out", to_format="gsa-feed", push_to=appliance.url, observer=recorder
        )
        assert result.push is not None
        assert (result.exit_code, result.push.account.stopped) == (0, None)
        again = feedferry.push("out", appliance.url)
    assert [push.account.is_settled_before for push in again] == [True]
    assert recorder.records == 2
    assert recorder.steps == [
        *("listing inputs", "running", "listing documents", "publishing", "push", "settling")
    ]
    assert recorder.results == ["ConversionResult", "PushResult", "Settlement"]


@pytest.mark.slow
def test_a_program_keeps_its_streams_and_its_log(here: Path) -> None:
    code = (
        "import logging, feedferry\n"
        "logging.getLogger('feedferry').setLevel(logging.INFO)\n"
        "feedferry.convert('feed.xml', 'out', to_format='avro')\n"
        "print(logging.getLogger().level, logging.getLogger().handlers)\n"
        "print(logging.getLogger('feedferry').level)"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert (run.stdout, run.stderr) == (f"{logging.WARNING} []\n{logging.INFO}\n", "")
    assert "published" in Path("out/run.log").read_text()


@pytest.mark.slow
def test_a_job_has_a_result_for_each_run(here: Path) -> None:
    Path("nightly.yaml").write_text(
        "version: 1\njob: nightly\nsource: {type: gsa-feed, path: feed.xml}\ntarget: {type: avro}\n"
    )
    result = feedferry.run("nightly.yaml", max_rejects=0, environment={})
    assert [run.exit_code for run in result.runs] == [0]
    assert result.runs[0].folder.parent.name == "nightly"


@pytest.mark.slow
def test_a_conversion_says_whether_a_push_follows(here: Path) -> None:
    with keep_levels(), serving(here / "spool") as appliance:
        alone = feedferry.convert("feed.xml", "alone", to_format="gsa-feed")
        pushed = feedferry.convert(
            "feed.xml", "pushed", to_format="gsa-feed", push_to=appliance.url
        )
    assert alone.conversion is not None
    assert pushed.conversion is not None
    assert (alone.conversion.is_pushed, pushed.conversion.is_pushed) == (False, True)
