"""The summary of a command: plain text, and a table on a terminal of any width."""

import pytest

from feedferry.pipelines.terminal.display import print_summary
from feedferry.pipelines.terminal.summary import Summary, summary_text
from feedferry.pipelines.terminal.summary_table import print_table

SUMMARY = Summary(
    columns=("read", "written", "rejected", "filtered"),
    rows=(("ADD", (1_119_968, 1_119_900, 60, 8)), ("total", (1_119_968, 1_119_900, 60, 8))),
    lines=(("reject", "a: one reason"), ("reject", "b: another"), ("report", "out/report.html")),
)


def shown(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    monkeypatch.setenv("COLUMNS", columns)
    print_table(SUMMARY, (*SUMMARY.lines, ("next", "feedferry push out --to URL")))
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_plain_text_has_a_label_on_each_line() -> None:
    assert summary_text(SUMMARY).splitlines() == [
        "               read     written    rejected    filtered",
        "ADD       1,119,968   1,119,900          60           8",
        "total     1,119,968   1,119,900          60           8",
        "reject    a: one reason",
        "reject    b: another",
        "report    out/report.html",
    ]


def test_without_a_terminal_only_the_text_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(SUMMARY, time="0:02", next_commands=["feedferry push out --to URL"])
    assert capsys.readouterr() == (summary_text(SUMMARY) + "\n", "")


def test_a_terminal_has_a_table_and_each_label_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown("80", monkeypatch, capsys) == [
        "",
        "               read    written  rejected  filtered",
        "──────────────────────────────────────────────────",
        "ADD       1,119,968  1,119,900        60         8",
        "total     1,119,968  1,119,900        60         8",
        "",
        "reject    a: one reason",
        "          b: another",
        "report    out/report.html",
        "next      feedferry push out --to URL",
    ]


def test_a_narrow_terminal_has_the_table_turned_round(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown("40", monkeypatch, capsys)[1:7] == [
        "                ADD      total",
        "──────────────────────────────",
        "read      1,119,968  1,119,968",
        "written   1,119,900  1,119,900",
        "rejected         60         60",
        "filtered          8          8",
    ]
