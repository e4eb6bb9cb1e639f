"""The page of a receiver, read by a parser; test_page_in_browser.py looks at it."""

import re
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
from lxml import html

from feedferry.pipelines.serve.rehearsal.delivery_table import (
    DeliveryStatus,
    FeedRow,
    SetAsideBy,
    SetAsideDelivery,
)
from feedferry.pipelines.serve.rehearsal.index import DatasourceTotal
from feedferry.pipelines.serve.rehearsal.page import CONTENT_SECURITY_POLICY, PageView, render
from feedferry.pipelines.serve.spool_consumer import BacklogHistory
from feedferry.schemas.indexed_document import DocumentOrigin

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
HOSTILE = [
    *("<script>alert(1)</script>", "\"><img src=x onerror='alert(1)'>", "</title></style><h1>mine"),
    *("{{ view.url }} {% raw %}", "&lt;b&gt; &amp; &#0;", "javascript:alert(1)//'\"`"),
]


def fed(ordinal: int = 1, **fields: Any) -> FeedRow:  # the fields of Fed
    usual: dict[str, Any] = {
        "endpoint": "xmlfeed",
        "datasource": "intranet",
        "feedtype": "incremental",
        "bytes": 2048,
        "at": "2026-07-01T11:59:00Z",
        "status": DeliveryStatus.COMPLETED,
        "client": "10.1.20.31",
    }
    return FeedRow(ordinal=ordinal, **usual | fields)


def view(**fields: Any) -> PageView:  # the fields of View
    usual: dict[str, Any] = {"url": "http://127.0.0.1:19900", "now": NOW}
    return PageView(**usual | fields)


def set_aside(**fields: Any) -> SetAsideDelivery:  # the fields of SetAside
    usual: dict[str, Any] = {
        "ordinal": 12,
        "by": SetAsideBy.INDEX,
        "reason": "not finished after 300 seconds, the limit for 2,048 bytes",
        "set_aside_at": "2026-07-01T11:30:00+00:00",
        "endpoint": "xmlfeed",
        "name": "crm",
        "feedtype": "full",
        "bytes": 2048,
        "at": "2026-07-01T11:20:00+00:00",
    }
    return SetAsideDelivery(**usual | fields)


@dataclass
class Rendered:
    """A page, for questions about it."""

    source: str

    @property
    def tree(self) -> html.HtmlElement:
        return html.document_fromstring(self.source)

    def texts(self, path: str) -> list[str]:
        return [" ".join(item.text_content().split()) for item in self.elements(path)]

    def elements(self, path: str) -> list[html.HtmlElement]:
        results: list[html.HtmlElement] = self.tree.xpath(path)
        return results

    def values(self, path: str) -> list[str]:
        results: list[str] = self.tree.xpath(path)
        return [str(item) for item in results]

    def rows(self, table: int = 1, part: str = "tbody") -> list[list[str]]:
        rows = self.elements(f"(//table)[{table}]/{part}/tr")
        return [[" ".join(cell.text_content().split()) for cell in row] for row in rows]


def rendered(**fields: Any) -> Rendered:  # the fields of View
    return Rendered(render(view(**fields)).decode())


def everything(text: str) -> PageView:
    """A view that has a text wherever one comes from outside."""
    feeds = (
        fed(1, datasource=text, feedtype=text, client=text, user_agent=text, details=(text,)),
        fed(2, endpoint="xmlgroups", datasource=text, feedtype=text, client=text),
    )
    totals = (DatasourceTotal(datasource=text, kind=DocumentOrigin.FEED),)
    aside = (set_aside(name=text, feedtype=text, reason=text),)
    return view(feeds=feeds, totals=totals, notices=(text,), set_aside=aside, spool=text)


def test_the_header_has_the_time_and_notices_follow() -> None:
    page = rendered(notices=("Misbehaves as bad-day.yaml says.", "Forwards to http://a/."))
    assert page.texts("//header//p") == ["As of 2026-07-01 12:00:00 UTC. Reloads every 10 seconds."]
    assert page.values("//header//time/@datetime") == ["2026-07-01T12:00:00+00:00"]
    assert page.texts("//main/*[position() <= 2]") == [
        *("Misbehaves as bad-day.yaml says.", "Forwards to http://a/.")
    ]


def test_set_aside_deliveries_have_a_reason_and_a_command() -> None:
    page = rendered(set_aside=(set_aside(),), spool="/var/spool/old feeds")
    assert page.rows() == [
        [
            "12 arrived 2026-07-01 11:20:00",
            *("crm", "full", "2 KiB", "2026-07-01 11:30:00", "the index"),
        ],
        ["not finished after 300 seconds, the limit for 2,048 bytes"],
    ]
    assert page.texts("//section[@aria-labelledby='set-aside']//pre") == [
        "feedferry serve --spool '/var/spool/old feeds' --retry all"
    ]


def test_figures_are_first() -> None:
    page = rendered(
        backlog=4100,
        totals=(
            DatasourceTotal(datasource="a", kind=DocumentOrigin.FEED, documents=1000),
            DatasourceTotal(datasource="b", kind=DocumentOrigin.DATA, documents=234),
        ),
        groups=1204,
        spool_bytes=3_120_000_000,
        free_bytes=181_000_000_000,
    )
    assert list(zip(page.texts("//dt"), page.texts("//dd"), strict=True)) == [
        ("Documents", "1,234"),
        ("Backlog, in feeds", "4,100"),
        ("Groups", "1,204"),
        ("In the spool", "2.91 GiB"),
        ("Free on its disk", "169 GiB"),
    ]


@pytest.mark.parametrize("history", [(), ((0.0, 5),)])
def test_there_is_no_line_of_one_moment(history: tuple[tuple[float, int], ...]) -> None:
    assert rendered(history=history).elements("//figure") == []


def test_a_line_goes_from_then_to_now_and_is_described_in_words() -> None:
    page = rendered(history=((1800, 7), (900, 6000), (450, 3000), (0, 312)))
    assert page.values("//polyline/@points") == ["0,97.0 250.0,97.0 625.0,0.0 875.0,50.0 1000,50.0"]
    assert page.texts("//*[@class='top quiet']") == ["6,000"]
    assert page.texts("//figcaption") == [
        "Feeds in the backlog: 312 now; highest 6,000, 15 minutes ago; lowest 7."
    ]


def test_page_without_feeds_shows_how_to_send_one() -> None:
    page = rendered(url="https://feeds.example.com:19902")
    assert page.texts("//pre") == [
        "feedferry push out/feeds --to https://feeds.example.com:19902",
        "curl -F datasource=sample -F feedtype=incremental -F data=@feed.xml "
        "https://feeds.example.com:19902/xmlfeed",
    ]


def test_a_row_is_a_feed() -> None:
    feed = fed(included=9812, in_error=2, bytes=48_211_004, user_agent="Java/1.8.0_202")
    page = rendered(feeds=(feed,))
    assert page.rows(part="thead") == [
        ["Time", "Type", "Status", "Records", "In error", "Size", "Client"]
    ]
    assert page.rows() == [
        [
            *("2026-07-01 11:59:00 60 seconds ago", "incremental", "✓ Completed", "9,812", "2"),
            *("46 MiB", "10.1.20.31 Java/1.8.0_202"),
        ]
    ]


@pytest.mark.parametrize(
    ("fields", "column", "expected"),
    [
        ({"status": DeliveryStatus.COMPLETED}, 2, "✓ Completed"),
        ({"status": DeliveryStatus.WITH_ERRORS}, 2, "! Completed with errors"),
        ({"status": DeliveryStatus.FAILED}, 2, "✕ Failed in error"),
        ({"status": DeliveryStatus.IN_PROGRESS}, 2, "… In progress"),
        ({"status": DeliveryStatus.WAITING}, 2, "… Waiting"),
        ({"at": "2026-07-01T12:00:09Z"}, 0, "2026-07-01 12:00:09 just now"),
        ({"at": "2026-07-01T11:59:57.25Z"}, 0, "2026-07-01 11:59:57 2 seconds ago"),
        ({"at": "2026-07-01T12:30:00+02:00"}, 0, "2026-07-01 10:30:00 90 minutes ago"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_status_has_a_sign_and_a_time_is_absolute_and_relative(
    fields: dict[str, Any], column: int, expected: str
) -> None:
    assert rendered(feeds=(fed(**fields),)).rows()[0][column] == expected


def test_reasons_are_below_their_feed() -> None:
    details = ("line 1204: action='ad'; expected add or delete", "line 88012: no url")
    page = rendered(feeds=(fed(2), fed(1, details=details)))
    assert [len(row) for row in page.rows()] == [7, 7, 1]
    assert page.texts("//li[../../@colspan]") == list(details)


def test_each_datasource_has_its_table_and_each_door() -> None:
    feeds = (
        fed(1, datasource="wiki"),
        fed(2, datasource="others", endpoint="xmlgroups"),
        fed(3, datasource="others"),
        fed(4, datasource="products", endpoint="recvdata"),
        fed(5, datasource="others"),
    )
    assert rendered(feeds=feeds).texts("//caption") == [
        *("others · feeds", "others · groups", "products · Thunderstone data", "wiki · feeds")
    ]


TOTALS = (
    DatasourceTotal(
        datasource="intranet", kind=DocumentOrigin.FEED, documents=1442, crawled=31, acls=12
    ),
    DatasourceTotal(
        datasource="products", kind=DocumentOrigin.DATA, documents=20, unsearchable=7, bytes=2048
    ),
    DatasourceTotal(datasource="wiki", kind=DocumentOrigin.FEED, acls=3),
)


def test_totals_of_datasources_add_up() -> None:
    page = rendered(totals=TOTALS)
    assert page.rows(part="*") == [
        [
            *("Datasource", "Arrived as", "Documents", "To be crawled", "Not yet searchable"),
            *("ACLs alone", "Content"),
        ],
        ["intranet", "feeds", "1,442", "31", "0", "12", "0 B"],
        ["products", "Thunderstone data", "20", "0", "7", "0", "2 KiB"],
        ["wiki", "feeds", "0", "0", "0", "3", "0 B"],
        ["All datasources", "1,462", "31", "7", "15", "2 KiB"],
    ]


def test_more_than_fit_are_counted() -> None:
    totals = tuple(
        DatasourceTotal(datasource=f"wiki{n}", kind=DocumentOrigin.FEED, documents=2)
        for n in range(201)
    )
    feeds = tuple(fed(n, datasource=f"wiki{n}") for n in range(203))
    aside = tuple(set_aside(ordinal=number) for number in range(202))
    page = rendered(totals=totals, feeds=feeds, set_aside=aside)
    assert page.texts("//tfoot//td")[0] == "402"
    hidden = [text for text in page.texts("//section/p") if "more" in text]
    assert hidden == ["2 more are not shown.", "3 more are not shown.", "1 more are not shown."]


@pytest.mark.parametrize("text", HOSTILE)
def test_it_is_text(text: str) -> None:
    page = Rendered(render(everything(text)).decode())
    assert page.texts("//bdi") == [text] * 13


@pytest.mark.parametrize("text", HOSTILE)
def test_it_adds_no_element_and_no_attribute(text: str) -> None:
    hostile = Rendered(render(everything(text)).decode())
    harmless = Rendered(render(everything("intranet")).decode())
    assert [element.tag for element in hostile.tree.iter()] == [
        element.tag for element in harmless.tree.iter()
    ]
    assert hostile.values("//@*[name() != 'href']") == harmless.values("//@*[name() != 'href']")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\0b\x1b[31m\x7f", "a\\x00b\\x1b[31m\\x7f"),
        ("a\r\nb", "a\\r b"),
        ("\ud800", "\\ud800"),
        ("ümläut 漢字 🙂", "ümläut 漢字 🙂"),
        ("x" * 401, "x" * 400 + " …"),
    ],
)
def test_it_can_be_seen(text: str, expected: str) -> None:
    page = Rendered(render(view(feeds=(fed(details=(text,)),))).decode())
    assert page.texts("//li[../../@colspan]") == [expected]


def test_its_digest_is_that_of_the_style_sheet() -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", rendered().source, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in CONTENT_SECURITY_POLICY


def test_the_history_has_the_highest_backlog_of_each_ten_seconds_of_an_hour() -> None:
    clock = iter((0, 5, 9, 10, 25, 3605, 3605))
    counts = iter((3, 7, 4, 5, 6, 1, 2))
    history = BacklogHistory(lambda: next(counts), now=lambda: next(clock))
    assert [history.sample() for _ in range(6)] == [3, 7, 4, 5, 6, 1]
    assert history.ages() == ((3595, 5), (3580, 6), (0, 1), (0.0, 2))
