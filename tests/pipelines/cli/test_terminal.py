"""A run on a real terminal: nothing is wider than it, drawn twice, or colored against NO_COLOR."""

import re
from pathlib import Path

import pytest

from support.archives import BROKEN, documents, gsa_feed, put
from support.terminals import CONTROL, drawn_lines, run_on_terminal

pytestmark = pytest.mark.slow

COLOR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
WORDS = ("convert", "a.xml", "-o", "out", "--to", "gsa-feed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "a.xml", gsa_feed(*documents(1, 2000), BROKEN))
    return tmp_path


@pytest.mark.parametrize("columns", [40, 80])
def test_progress_and_counts_fit_the_terminal(folder: Path, columns: int) -> None:
    lines = drawn_lines(run_on_terminal(*WORDS, cwd=folder, columns=columns))
    assert [line for line in lines if len(line) > columns] == []
    assert lines[0].endswith("starting")
    (last,) = {line for line in lines if line.startswith("convert") and " in 0:" in line}
    assert "100%" in last
    assert "1 reject" in last
    counts = [line.split() for line in lines]
    rows = {cells[0]: cells[1:] for cells in counts if len(cells) > 2}
    if columns == 80:
        assert rows["total"] == ["2,001", "2,000", "1", "0"]
    assert "feedferry push out --to URL" in "".join(lines)


LOGGED = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z INFO - (?:-|out) ")


def test_log_lines_are_above_the_progress_and_nothing_is_shown_twice(folder: Path) -> None:
    text = run_on_terminal(*WORDS, "-v", "--jobs", "2", cwd=folder, columns=120)
    lines = [line for line in drawn_lines(text) if "INFO" in line]
    assert [line for line in lines if not LOGGED.match(line)] == []
    assert len(lines) == len(set(lines))
    assert sum("span 00000-00000 of a.xml: begun" in line for line in lines) == 1


def test_no_color_leaves_no_colors(folder: Path) -> None:
    colored = run_on_terminal(*WORDS, cwd=folder, columns=80)
    plain = run_on_terminal(
        *WORDS, "--fresh", cwd=folder, columns=80, environment={"NO_COLOR": "1"}
    )
    assert (bool(COLOR.search(colored)), COLOR.search(plain)) == (True, None)


def test_quiet_leaves_only_the_account(folder: Path) -> None:
    text = run_on_terminal(*WORDS, "-q", cwd=folder, columns=80)
    lines = CONTROL.sub("", text).split("\n")
    assert [line for line in lines if line.startswith(("convert", "time", "next"))] == []
    assert "out/report." in text
