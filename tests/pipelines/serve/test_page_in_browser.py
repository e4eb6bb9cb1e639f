"""The page of a receiver in a real browser: how it fits, what it needs, who can read it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from feedferry.pipelines.serve.rehearsal.delivery_table import DeliveryStatus, FeedRow
from feedferry.pipelines.serve.rehearsal.index import DatasourceTotal
from feedferry.pipelines.serve.rehearsal.page import CONTENT_SECURITY_POLICY, PageView, render
from feedferry.schemas.indexed_document import DocumentOrigin
from support.browser import Page, needs_chromium
from support.forks import run
from support.page_checks import CONTRAST, OWN_TEXTS
from support.runs import ROOT
from support.served import serving

pytestmark = [pytest.mark.slow, needs_chromium]

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
LONG = "w" * 300
HOSTILE = "\"'><script>document.title = 'mine'</script><img src=http://example.com/x.png>"


def fed(
    ordinal: int, status: DeliveryStatus, *, text: str = "intranet", endpoint: str = "xmlfeed"
) -> FeedRow:
    return FeedRow(
        ordinal=ordinal,
        endpoint=endpoint,
        datasource=text,
        feedtype="incremental" if text == "intranet" else text,
        bytes=930_000_000,
        at="2026-07-01T11:53:20Z",
        status=status,
        included=120_400_000,
        in_error=120_400_000,
        details=("line 1204: action='ad'; expected add or delete", text),
        client="2001:db8:85a3:8d3:1319:8a2e:370:7348",
        user_agent=text,
    )


def full(text: str) -> PageView:
    """A view of everything there is, with a text wherever one comes from outside."""
    return PageView(
        url="http://127.0.0.1:19900",
        now=NOW,
        backlog=312,
        history=((1800, 7), (300, 6000), (0, 312)),
        feeds=(
            fed(1, DeliveryStatus.COMPLETED, text=text),
            fed(2, DeliveryStatus.WITH_ERRORS, text=text),
            fed(3, DeliveryStatus.FAILED, text=text),
            fed(4, DeliveryStatus.IN_PROGRESS, text=text),
            fed(5, DeliveryStatus.COMPLETED, text=text, endpoint="xmlgroups"),
        ),
        totals=(
            DatasourceTotal(
                datasource=text,
                kind=DocumentOrigin.FEED,
                documents=140_442_000,
                bytes=2_930_112_994,
            ),
            DatasourceTotal(
                datasource=text, kind=DocumentOrigin.DATA, documents=5_120, unsearchable=120_000_000
            ),
        ),
        notices=(text,),
        refresh_seconds=600,
    )


VIEWS = {
    "/empty": PageView(url="http://127.0.0.1:19900", now=NOW, refresh_seconds=600),
    "/full": full("intranet"),
    "/long": full(LONG),
    "/hostile": full(HOSTILE),
}
WIDTHS = (320, 360, 480, 720, 1024, 1136, 1280, 1920)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Serve each view at its path."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = render(VIEWS[self.path])
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def overhang(page: Page, url: str, width: int) -> list[object]:
    """Return how wide the page is on a device, and what is wider than the card that it is in."""
    page.set_device(width, mobile=width < 800)
    page.open(url)
    cards = "[...document.querySelectorAll('.card')].filter(o => o.scrollWidth > o.clientWidth)"
    wide: list[object] = page.evaluate(f"{cards}.map(o => o.innerText)")
    return [page.evaluate("document.documentElement.scrollWidth"), *wide]


@pytest.mark.parametrize("path", VIEWS)
def test_nothing_scrolls_sideways(page: Page, site: str, path: str) -> None:
    widths = {width: overhang(page, site + path, width) for width in WIDTHS}
    assert widths == {width: [width] for width in WIDTHS}


@pytest.mark.parametrize("path", VIEWS)
def test_it_asks_for_nothing_else_and_nothing_is_wrong(page: Page, site: str, path: str) -> None:
    page.open(site + path)
    elsewhere = [url for url in page.requests if not url.startswith("data:")]
    assert (elsewhere, page.complaints) == ([site + path], [])


def test_the_policy_is_in_force(page: Page, site: str) -> None:
    page.open(f"{site}/full")
    page.evaluate("document.body.append(Object.assign(new Image, {src: '/full'})); 0")
    page.evaluate("document.body.setAttribute('style', 'color: red'); 0")
    refused = [words.partition(" violates")[0] for words in page.complaints]
    assert [words.split(" '")[0] for words in refused] == [
        *("Loading the image", "Applying inline style")
    ]


def test_untrusted_values_are_shown_as_text(page: Page, site: str) -> None:
    page.open(f"{site}/hostile")
    assert page.evaluate("document.querySelectorAll('script, img').length") == 0
    assert page.evaluate("document.querySelector('.notice').innerText") == HOSTILE
    assert page.evaluate("document.querySelector('caption bdi').innerText") == HOSTILE


@pytest.mark.parametrize("path", VIEWS)
def test_text_and_links_are_large_enough_on_a_phone(page: Page, site: str, path: str) -> None:
    page.set_device(360, mobile=True)
    page.open(site + path)
    sizes = f"({OWN_TEXTS}).map(one => parseFloat(getComputedStyle(one).fontSize))"
    assert page.evaluate(f"Math.min(...{sizes})") == 16
    heights = "[...document.querySelectorAll('a')].map(o => o.getBoundingClientRect().height)"
    assert page.evaluate(f"Math.min(...{heights})") >= 44


@pytest.mark.parametrize("path", ["/empty", "/full"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(page: Page, site: str, path: str, scheme: str) -> None:
    page.set_colours(scheme)
    page.open(site + path)
    assert page.evaluate(CONTRAST % OWN_TEXTS) == []


@pytest.mark.parametrize(
    ("scheme", "expected"), [("light", "rgb(243, 245, 247)"), ("dark", "rgb(16, 22, 27)")]
)
def test_it_is_light_or_dark_as_its_reader_likes(
    page: Page, site: str, scheme: str, expected: str
) -> None:
    page.set_colours(scheme)
    page.open(f"{site}/full")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == expected


@pytest.mark.parametrize("width", [360, 1280])
def test_tables_are_tables_to_a_screen_reader_also_as_cards(
    page: Page, site: str, width: int
) -> None:
    page.set_device(width)
    page.open(f"{site}/full")
    assert page.named("columnheader")[:7] == [
        *("Time", "Type", "Status", "Records", "In error", "Size", "Client")
    ]
    assert len(page.named("table")) == 3
    assert len(page.named("rowheader")) == 8


@pytest.mark.parametrize("width", [360, 1280])
def test_the_line_of_the_backlog_has_words(page: Page, site: str, width: int) -> None:
    page.set_device(width)
    page.open(f"{site}/full")
    assert page.named("image") == [
        "Backlog Feeds in the backlog: 312 now; highest 6,000, 5 minutes ago; lowest 7."
    ]


def test_the_page_of_a_receiver_has_the_feeds_that_were_pushed(page: Page, tmp_path: Path) -> None:
    sample = str(ROOT / "pipelines" / "sample")
    with serving(tmp_path / "spool") as appliance:
        flags = ("-o", str(tmp_path / "out"), "--to", "gsa-feed", "-q", "--push-to", appliance.url)
        run("convert", sample, *flags)
        appliance.settle()
        page.set_device(360, mobile=True)
        page.open(appliance.url)
        text = page.evaluate("document.body.innerText")
    assert [name for name in ("intranet", "people", "wiki", "Completed") if name not in text] == []
    assert (page.evaluate("document.documentElement.scrollWidth"), page.complaints) == (360, [])
