"""What a Thunderstone appliance replies to data, as its manual has it."""

from io import BytesIO
from typing import IO

import pytest
from lxml import etree

from pipelines.serve.rehearsal.thunderstone_result import ItemReplies
from support.rehearsal import DATA_HEAD, HOST, data, item


def reply(*items: str, **options: object) -> bytes:
    replies = ItemReplies(**options)  # type: ignore[arg-type]
    return read(replies.write(BytesIO(data(*items).encode())))


def read(stream: IO[bytes]) -> bytes:
    with stream:
        stream.seek(0)
        return stream.read()


def results_of(*items: str, **options: object) -> list[dict[str, str | None]]:
    """The elements of each ItemResult, but for the id that is ignored."""
    root = etree.fromstring(reply(*items, **options))
    return [
        {str(child.tag): child.text for child in element if child.tag != "rid"}
        for element in root.findall("ItemResult")
    ]


def test_deletion_of_a_missing_document_is_ok() -> None:
    rows = results_of(item("D", "a"), item("D", "b"), has_document=lambda url: url == f"{HOST}a")
    assert rows == [
        {"Type": "D", "Status": "OK"},
        {"Type": "D", "Status": "OK", "Info": "Not found"},
    ]


def test_deletion_by_pattern_reports_its_count() -> None:
    rows = results_of(item("DP", "dir/*"), count_matching=len)
    assert rows == [{"Type": "DP", "DP": "28", "Status": "OK"}]


def test_a_pattern_of_a_whole_host_fails() -> None:
    assert results_of(item("DP", "*")) == [
        {
            "Type": "DP",
            "DP": "0",
            "Status": "FAIL",
            "Info": "a deletion of all URLs like 'http://www.example.com/*'; expected a pattern"
            " that names part of a path, as this one empties a host or more",
        }
    ]


def test_unknown_type_is_echoed() -> None:
    assert results_of(item("X", "a"), item("I", "b")) == [
        {
            "Type": "X",
            "Status": "FAIL_UNKNOWNTYPE",
            "Info": "Type 'X'; expected I, D, DP, U or UI",
        },
        {"Type": "I", "Status": "OK"},
    ]


def test_an_item_that_cannot_be_parsed_fails_alone() -> None:
    assert results_of(item("I", "a"), item("I", "b", "<Title>x & y</Title>"), item("I", "c")) == [
        {"Type": "I", "Status": "OK"},
        {
            "Type": "I",
            "Status": "FAIL",
            "Info": "an & that is not escaped; expected &amp;",
        },
        {"Type": "I", "Status": "OK"},
    ]


def test_an_url_that_is_to_be_refused_fails() -> None:
    rows = results_of(item("I", "a"), item("I", "b"), refused_urls=frozenset({f"{HOST}a"}))
    assert rows == [
        {"Type": "I", "Status": "FAIL", "Info": "refused by the scenario"},
        {"Type": "I", "Status": "OK"},
    ]


def test_characters_outside_xml_are_replaced() -> None:
    assert results_of("<Item><Type>\x01</Type></Item>")[0]["Type"] == "?"


def test_markup_in_a_reason_is_escaped() -> None:
    torn = "<Item><Type>I</Type><Url>u</Url>" + item("I", "a")
    assert b"<Info>'&lt;Item' inside &lt;Item&gt;; expected &lt;/Item&gt; before it" in reply(torn)


def test_a_document_without_its_end_is_answered_as_far_as_it_goes() -> None:
    torn = BytesIO((DATA_HEAD + item("I", "a")).encode())
    assert b"<Rows>1</Rows>" in read(ItemReplies().write(torn))


@pytest.mark.slow
def test_a_long_document_is_answered_from_a_file() -> None:
    text = reply(item("I", "a") * 20_000)
    assert (text.count(b"<ItemResult>"), text.count(b"<Rows>20000</Rows>")) == (20_000, 1)
