"""The page of a run: what it shows, what it leaves out, and how large it becomes."""

import json
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from feedferry.pipelines.report.page_text import span_text
from feedferry.pipelines.report.run_report import write_report
from feedferry.schemas.account import Account, RejectSample
from feedferry.schemas.printable import printable
from feedferry.schemas.run_record import RUN_RECORD, Phase, RunRecord
from feedferry.schemas.timeline import TIMELINE
from feedferry.transforms.storage.run_folders.attempts import SPAN_REJECTS
from support.run_folders import APPLIANCE, BEGIN, account, run_record, write_rejects, write_run

VOID = {"meta", "link", "br", "input"}
SELF_CLOSED = {"line", "rect", "polygon", "polyline"}


class _Texts(HTMLParser):
    """The texts of a page; raises AssertionError for an element that is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        assert tag in SELF_CLOSED, tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and data.strip():
            self.texts.append(" ".join(data.split()))
            if "h2" in self.open:
                self.headings.append(self.texts[-1])


def parsed(folder: Path) -> _Texts:
    """Write the report of a run and parse its page."""
    parser = _Texts()
    parser.feed(write_report(folder).read_text("utf-8"))
    parser.close()
    assert parser.open == []
    return parser


def texts(folder: Path) -> list[str]:
    return parsed(folder).texts


def record_only(folder: Path, record: RunRecord) -> Path:
    folder.mkdir()
    (folder / RUN_RECORD).write_bytes(msgspec.json.encode(record))
    return folder


def test_a_page_shows_the_run_from_its_headline_to_its_files(tmp_path: Path) -> None:
    page = parsed(write_run(tmp_path / "run", record=run_record()))

    assert page.headings == [
        *("Records", "Rejects", "Losses", "Push to", "http://gsa.example.com:19900"),
        *("Over time", "Chunks", "Notices", "Filtered", "Sources", "Settings", "Files"),
    ]
    text = " ".join(page.texts)
    for shown in (
        "intranet ! Done, with rejects Run 20260701T020000Z-4f1c, generation 214."
        " Started 2026-07-01 02:00:00 UTC, ended 2026-07-01 03:24:05 UTC.",
        "1 h 24 min Read 414,052 5.41 GiB Written 413,898 46 chunks, 1.99 GiB Rejected 113 102 new",
        "ADD 412,803 412,690 113 0 DELETE 1,208 1,208 0 0 UPDATE 41 0 0 41 Total 414,052",
        "102 new; 11 are known and accepted. crawled 12, malformed 101",
        "No. Record 1 http://www.example.com/handbook/travel.html a.xml:88 (byte 6248): no content;"
        f" expected some feedferry rejects show {tmp_path}/run 1 2 http://www.example.com/handbook"
        "/travel.html a.xml:91 (byte 6461): no content; expected some"
        f" feedferry rejects show {tmp_path}/run 2 malformed 101 A record that is not well-formed",
        f"The first rejects of each code. All of them: feedferry rejects list {tmp_path}/run",
        "malformed 101 A record that is not well-formed XML.",
        "crawled 12, 11 of them accepted",
        "pagerank 1,704 http://www.example.com/handbook/travel.html?page=1 96",
        "19900 Chunks and records by result Result Chunks Records"
        " Accepted 45 413,886 Refused 1 12 Left 0 0",
        "1.03 GiB on the wire in 1 h 8 min, of which 21 min 52 s waiting for the appliance."
        " Earlier pushes have settled 23 chunks. 49 requests in all.",
        "Conversion, records per second 455 on average, 560 at most",
        "Push, records per second 100 on average, 100 at most",
        "Backlog of the appliance, feeds 1,509 at the end, 4,300 at most",
        "Size of each chunk 46 chunks, 1.99 GiB in all, 45.8 MiB at most",
        "Time until each chunk was accepted 34.6 s on average, 4 min 23 s at most",
        "chunk 7: not accepted",
        "date 12 a.xml (byte 9120): 2001-13-01; read as no date",
        "acl-alone 41",
        "reading.zone UTC",
        "manifest.jsonl a line for each chunk 16.5 KiB",
    ):
        assert shown in text


def test_a_phase_that_was_interrupted_is_drawn_without_the_time_between(tmp_path: Path) -> None:
    words = texts(write_run(tmp_path / "run"))

    assert words.count("interrupted here, and continued later") == 2  # rate and backlog
    assert "02:00:00 UTC: 560 records/s" in words
    ticks = [text for text in words if text.endswith(" min") and len(text) < 7]
    assert ticks[:5] == ["5 min", "10 min", "15 min", "20 min", "40 min"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"exit_code": 0}, "Done"),
        ({"exit_code": 1}, "Done, with rejects"),
        ({"exit_code": 3, "phase": "convert", "message": "too many"}, "Stopped at a limit"),
        ({"exit_code": 4, "phase": "push"}, "Failed"),
        ({"exit_code": 75, "phase": "push"}, "Not finished: the next start goes on"),
        ({"exit_code": 143, "phase": "push"}, "Interrupted: the next start goes on"),
        ({"exit_code": None, "phase": "push"}, "Running, or ended without notice"),
        ({"exit_code": 4, "is_abandoned": True}, "Abandoned: a later run replaced it"),
    ],
)
def test_the_outcome_is_stated_in_words(
    tmp_path: Path, values: dict[str, object], expected: str
) -> None:
    words = texts(record_only(tmp_path / "run", run_record(**values)))

    assert words[0] == f"intranet: {expected}"
    assert ("too many" in words) == ("message" in values)


def test_a_run_that_a_limit_stopped_is_amber_and_a_failed_one_red(tmp_path: Path) -> None:
    pages = [
        write_report(record_only(tmp_path / str(code), run_record(exit_code=code))).read_text(
            "utf-8"
        )
        for code in (3, 4)
    ]
    assert ['class="outcome partly"' in page for page in pages] == [True, False]
    assert ['class="outcome bad"' in page for page in pages] == [False, True]


def test_a_stopped_push_is_worse_than_the_conversion_before_it(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", record=run_record(exit_code=0))
    path = folder / "push" / APPLIANCE / "report.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"stopped": "connection refused"}))

    words = texts(folder)

    assert words[0] == "intranet: The push stopped"
    assert "connection refused" in words


@pytest.mark.parametrize(("accepted", "expected"), [(11, "Done, with rejects"), (12, "Done")])
def test_refused_records_that_are_accepted_rejects_are_no_news(
    tmp_path: Path, accepted: int, expected: str
) -> None:
    folder = write_run(tmp_path / "run", record=run_record(exit_code=0))
    path = folder / "push" / APPLIANCE / "report.json"
    values = json.loads(path.read_text()) | {"accepted_rejects": {"refused": accepted}}
    path.write_text(json.dumps(values))

    assert texts(folder)[0] == f"intranet: {expected}"


def test_a_run_that_was_resumed_lasted_as_long_as_it_worked(tmp_path: Path) -> None:
    day = run_record(attempts=2, ended_at=BEGIN + timedelta(days=1))
    words = texts(write_run(tmp_path / "run", record=day))

    assert words[words.index("Duration") + 1] == "1 h 24 min"
    assert "started 2 times" in " ".join(words)


def test_a_conversion_without_a_job_has_the_name_of_its_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "out")
    for path in (folder / TIMELINE, *(folder / "push" / APPLIANCE).iterdir()):
        path.unlink()
    (folder / "push" / APPLIANCE).rmdir()

    words = texts(folder)

    assert words[0] == "out: Done, with rejects"
    assert ("Over time" in words, "Duration" in words, "Chunks" in words) == (False, False, True)


def test_an_empty_folder_and_a_run_without_records_have_a_page(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert texts(tmp_path / "empty")[0] == "empty: Running, or ended without notice"

    words = texts(write_run(tmp_path / "nothing", total=Account(), chunks=0))
    assert "Read 0 0 B Written 0 0 chunks, 0 B Rejected 0" in " ".join(words)


def test_a_run_that_stopped_at_a_limit_shows_what_it_rejected(tmp_path: Path) -> None:
    stopped = run_record(exit_code=3, phase="convert", message="30 rejects; expected at most 10")
    folder = record_only(tmp_path / "run", stopped)
    write_rejects(folder / ".work" / "abc" / "1" / "1" / f"1{SPAN_REJECTS}", account())
    (folder / ".work" / "abc" / "account.json").write_bytes(msgspec.json.encode(account()))

    page = parsed(folder)

    assert page.headings == ["Records", "Rejects", "Losses", "Notices", "Filtered", "Files"]
    text = " ".join(page.texts)
    assert "Stopped at a limit" in text
    assert "The run has not published this: nothing was sent." in text
    assert "a.xml:1204 (byte 85484): action='ad'; expected add or delete" in text


def test_files_that_cannot_be_read_are_named_and_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", record=run_record())
    (folder / "report.json").write_text('{"account": 1}')
    with (folder / TIMELINE).open("ab") as stream:
        stream.write(b'{"at": "never"}\n{"at": 1')

    page = parsed(folder)

    problems = [text for text in page.texts if text.startswith(str(folder))]
    assert [text.partition(": ")[0] for text in problems] == [
        *(f"{folder}/report.json", f"{folder}/{TIMELINE}:370")
    ]
    assert page.headings[:2] == ["Push to", "http://gsa.example.com:19900"]
    assert ("Records" in page.headings, "Over time" in page.headings) == (False, True)


def test_the_settings_of_a_job_are_those_of_its_rendered_file(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", record=run_record())
    (folder / "config.rendered.yaml").write_text("version: 1\njob: intranet  # <b>\n")

    page = write_report(folder).read_text("utf-8")

    assert '<pre tabindex="0">version: 1\njob: intranet  # &lt;b&gt;\n</pre>' in page
    assert "reading.zone" not in page


@pytest.mark.slow
def test_a_run_of_100_000_chunks_and_rejects_has_a_small_page(tmp_path: Path) -> None:
    total = account()
    long = RejectSample(source="a" * 5_000, url="http://example.com/" + "b" * 5_000, reason="c")
    total.reject_codes = {f"code-{number}": 500 for number in range(1_000)}
    total.reject_samples = dict.fromkeys(total.reject_codes, (long,) * 5)
    folder = write_run(tmp_path / "run", record=run_record(), chunks=100_000, total=total)

    page = write_report(folder).read_text("utf-8")

    assert len(page) < 1_000_000
    assert "chunks 1 to 834: at most 45.8 MiB" in page
    assert "800 more are not shown" in page


def test_a_page_depends_on_nothing_but_its_folder(tmp_path: Path) -> None:
    first = write_report(write_run(tmp_path / "run", record=run_record(phase=Phase.DONE)))
    page = first.read_bytes()

    assert write_report(tmp_path / "run").read_bytes() == page


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        *((0.0, "0.00 s"), (0.0341, "0.03 s"), (1.0, "1 s"), (59.94, "59.9 s"), (59.96, "60 s")),
        *((60.0, "1 min 0 s"), (3_599.6, "1 h 0 min"), (90_061.0, "25 h 1 min")),
    ],
)
def test_a_duration_is_rounded(seconds: float, expected: str) -> None:
    assert span_text(seconds) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Zürich/日本\n", "Zürich/日本\n"),
        ("a\x00\x1b[31m\x7f", r"a\x00\x1b[31m\x7f"),
        ("a\u202egpj.exe", r"a\u202egpj.exe"),
        ("\u200b\ufeff\u2066\u2028\x85", r"\u200b\ufeff\u2066\u2028\x85"),
    ],
)
def test_characters_that_hide_are_made_visible(text: str, expected: str) -> None:
    assert printable(text, kept="\n\t") == expected
