"""What a Thunderstone appliance replies to data, as its manual has it."""

from io import BytesIO
from typing import IO

import pytest
from lxml import etree

from feedferry.pipelines.serve.rehearsal.item_replies import ItemReplies
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


OK = {"Type": "I", "Status": "OK"}
WHOLE_HOST = (
    "a deletion of all URLs like 'http://www.example.com/*'; expected a pattern that names part of"
    " a path, as this one empties a host or more"
)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (item("D", "a"), {"Type": "D", "Status": "OK"}),
        (item("D", "missing"), {"Type": "D", "Status": "OK", "Info": "Not found"}),
        (item("DP", "dir/*"), {"Type": "DP", "DP": "28", "Status": "OK"}),
        (item("DP", "*"), {"Type": "DP", "DP": "0", "Status": "FAIL", "Info": WHOLE_HOST}),
        (
            item("X", "a"),
            {
                "Type": "X",
                "Status": "FAIL_UNKNOWNTYPE",
                "Info": "Type 'X'; expected I, D, DP, U or UI",
            },
        ),
        (
            item("I", "b", "<Title>x & y</Title>"),
            {"Type": "I", "Status": "FAIL", "Info": "an & that is not escaped; expected &amp;"},
        ),
        (item("I", "bad"), {"Type": "I", "Status": "FAIL", "Info": "refused by the scenario"}),
    ],
)
def test_each_item_has_its_result(sent: str, expected: dict[str, str]) -> None:
    results = results_of(
        *(item("I", "a"), sent, item("I", "c")),
        has_document=lambda url: url == f"{HOST}a",
        count_matching=len,
        refused_urls=frozenset({f"{HOST}bad"}),
    )
    assert results == [OK, expected, OK]


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
