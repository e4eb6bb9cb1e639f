"""The pages of a run and of a job in a real browser: how they fit and what they need."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from feedferry.pipelines.report.job_index import write_index
from feedferry.pipelines.report.run_report import write_report
from feedferry.schemas.run_record import RUN_RECORD
from support.browser import Page, needs_chromium
from support.page_checks import CONTRAST, OWN_TEXTS
from support.run_folders import BEGIN, account, reject, run_record, write_run

pytestmark = [pytest.mark.slow, needs_chromium]

HOSTILE = "\"'></style></script><script>document.title = 'mine'</script><img src=//example.com/x>"
WIDTHS = (320, 400, 720, 1280, 1920)


def pages(home: Path, *, text: str = "") -> list[str]:
    """Write a job with two runs, one of them failed; return the URLs of all kinds of pages."""
    failed = run_record(
        id="20260702T020000Z-0000", exit_code=4, job=text or "intranet", message=text
    )
    write_run(home / failed.id, record=failed, text=text)
    begun = run_record(id="20260703T020000Z-0000", exit_code=None, ended_at=None)
    (home / begun.id).mkdir()
    (home / begun.id / RUN_RECORD).write_bytes(msgspec.json.encode(begun))
    paths = [write_report(home / failed.id), write_report(home / begun.id), write_index(home)]
    return [path.as_uri() for path in paths]


@pytest.fixture(scope="module", params=["", HOSTILE, "w" * 300], ids=["usual", "hostile", "long"])
def urls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return pages(tmp_path_factory.mktemp("runs") / "intranet", text=request.param)


def test_nothing_scrolls_sideways(page: Page, urls: list[str]) -> None:
    widths = []
    for url in urls:
        for width in WIDTHS:
            page.set_device(width, mobile=width < 800)
            page.open(url)
            widths.append(page.evaluate("document.documentElement.scrollWidth"))
    assert widths == [*WIDTHS] * len(urls)


def test_a_page_asks_for_nothing_else_and_nothing_is_wrong(page: Page, urls: list[str]) -> None:
    for url in urls:
        page.open(url)
        elsewhere = [asked for asked in page.requests if not asked.startswith("data:")]
        assert (elsewhere, page.complaints) == ([url], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_large_and_has_enough_contrast(page: Page, urls: list[str], scheme: str) -> None:
    page.set_colours(scheme)
    page.set_device(400, mobile=True)
    sizes = f"({OWN_TEXTS}).map(one => parseFloat(getComputedStyle(one).fontSize))"
    for url in urls:
        page.open(url)
        assert page.evaluate(CONTRAST % OWN_TEXTS) == []
        assert page.evaluate(f"Math.min(...{sizes})") >= 13


def test_each_page_has_one_main_part_and_each_table_a_caption(page: Page, urls: list[str]) -> None:
    for url in urls:
        page.open(url)
        assert page.evaluate("document.querySelectorAll('main').length") == 1
        tables = "[...document.querySelectorAll('table')]"
        assert page.evaluate(f"{tables}.length > 0 && {tables}.every(table => table.caption)")


def test_rejects_are_grouped_by_code_with_the_cause_above_them(page: Page, tmp_path: Path) -> None:
    url, *_ = pages(tmp_path / "intranet")
    page.open(url)
    groups = "[...document.querySelectorAll('.codes a')].map(a => document.querySelector(a.hash))"
    tags = f"{groups}.map(group => [...group.children].map(child => child.tagName).join(' '))"
    assert page.evaluate(tags) == ["H3 P P DIV", "H3 P P DIV"]
    assert page.evaluate(f"{groups}.map(group => group.querySelectorAll('tbody tr').length)") == [
        *(2, 5)
    ]
    heads = page.evaluate(f"{groups}.map(group => group.querySelector('h3').innerText)")
    assert heads == ["crawled 12, 11 of them accepted", "malformed 101"]


@pytest.mark.parametrize("width", [400, 1280])
def test_codes_and_actions_are_not_cut(page: Page, tmp_path: Path, width: int) -> None:
    total = account()
    total.read["MEMBERSHIP"] = 2
    total.filter_codes["membership-not-of-the-target"] = 2
    total.reject_codes["bad-membership"] = 3
    total.reject_samples["bad-membership"] = (reject("w" * 300, 3, None),) * 3
    write_run(tmp_path / "run", total=total)
    page.set_device(width, mobile=width < 800)
    page.open(write_report(tmp_path / "run").as_uri())
    cut = """
    [...document.querySelectorAll('.codes a, .counts th, h3')].flatMap(part => {
      const text = document.createTreeWalker(part, NodeFilter.SHOW_TEXT).nextNode();
      return [...text.data.matchAll(/\\w+/g)].filter(word => {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        return range.getClientRects().length > 1;
      }).map(word => word[0]);
    })
    """
    assert page.evaluate(cut) == []


@pytest.mark.kind("browser")
def test_untrusted_values_are_shown_as_text(page: Page, tmp_path: Path) -> None:
    url, *_ = pages(tmp_path / "intranet", text=HOSTILE)
    page.open(url)
    assert page.evaluate("document.querySelectorAll('script, img').length") == 0
    assert page.evaluate("document.querySelector('h1').innerText") == HOSTILE
    assert page.evaluate("document.querySelector('.reason').innerText") == HOSTILE
    assert page.evaluate("document.title").startswith(HOSTILE)


def test_a_chart_has_a_name_in_words_and_its_parts_have_titles(page: Page, tmp_path: Path) -> None:
    url, *_ = pages(tmp_path / "intranet")
    page.open(url)
    assert page.named("image") == [
        "Conversion, records per second: 455 on average, 560 at most",
        "Push, records per second: 100 on average, 100 at most",
        "Backlog of the appliance, feeds: 1,509 at the end, 4,300 at most",
        "Size of each chunk: 46 chunks, 1.99 GiB in all, 45.8 MiB at most",
        "Time until each chunk was accepted: 34.6 s on average, 4 min 23 s at most",
    ]
    assert page.evaluate("document.querySelectorAll('.bar').length") == 92
    assert page.evaluate("document.querySelector('.bar + title').textContent") == (
        "chunk 1: 45.8 MiB"
    )


@pytest.mark.parametrize("width", [400, 1280])
def test_labels_of_charts_do_not_overlap(page: Page, tmp_path: Path, width: int) -> None:
    page.set_device(width, mobile=width < 800)
    overlaps = """
    [...document.querySelectorAll('.plot')].flatMap(plot => {
      const boxes = [...plot.querySelectorAll('text')].map(one => one.getBoundingClientRect());
      return boxes.flatMap((a, at) => boxes.slice(at + 1).filter(b => a.left < b.right
        && b.left < a.right && a.top + 4 < b.bottom && b.top + 4 < a.bottom));
    }).length
    """
    home = tmp_path / "intranet"
    for hour in range(5):
        record = run_record(
            id=f"20260704T{hour:02}0000Z-0000", started_at=BEGIN + timedelta(days=3, hours=hour)
        )
        write_run(home / record.id, record=record)
    for url in pages(home):
        page.open(url)
        assert page.evaluate(overlaps) == 0


def test_the_rows_of_all_runs_link_to_their_reports(page: Page, tmp_path: Path) -> None:
    home = tmp_path / "intranet"
    *_, index = pages(home)
    page.open(index)
    links = page.evaluate("[...document.querySelectorAll('table a')].map(one => one.href)")
    assert links == [
        (home / name / "report.html").as_uri()
        for name in ("20260703T020000Z-0000", "20260702T020000Z-0000")
    ]
    page.open(links[1])
    back = page.evaluate("document.querySelector('.brand a').href")
    assert back == index


def test_a_printed_page_is_dark_on_white(page: Page, tmp_path: Path) -> None:
    url, *_ = pages(tmp_path / "intranet")
    page.print_with("dark")
    page.open(url)
    colours = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.documentElement)"
        ".colorScheme, getComputedStyle(document.body).backgroundColor]"
    )
    assert colours == ["rgb(26, 36, 44)", "light", "rgba(0, 0, 0, 0)"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
