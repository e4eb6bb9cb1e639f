"""The actions on a document are found in a chunk without reading the others."""

from io import BytesIO

import pytest

from feedferry.schemas.acl import Acl
from feedferry.schemas.record import Action, Record
from feedferry.transforms.formats import OPENSEARCH, WriteOptions
from feedferry.transforms.formats.opensearch.bulk_search import find_records

LONG = "http://x/" + "a" * 600
RECORDS = [
    Record(url="http://x/a", action=Action.ADD, body="1"),
    Record(url="http://x/ab", action=Action.ADD, body='{"index":{"_id":"http://x/a"}}'),
    Record(url="http://x/a", action=Action.DELETE),
    Record(url=LONG, action=Action.ADD, body="2"),
    Record(url="http://x/b", action=Action.DELETE),
    Record(url="http://x/a", action=Action.UPDATE, acl=Acl(alone=True)),
    Record(url='http://x/"ü', action=Action.ADD, body="3"),
    Record(url="http://x/a", action=Action.ADD, body="4"),
]


@pytest.mark.parametrize("block_bytes", [1, 50, 300, 1 << 20])
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://x/a", [0, 2, 5, 7]),
        ("http://x/b", [4]),
        (LONG, [3]),
        ('http://x/"ü', [6]),
        ("http://x/", []),
    ],
)
def test_all_actions_on_a_url_are_found_in_order(
    url: str, expected: list[int], block_bytes: int
) -> None:
    encoder = OPENSEARCH.make_encoder(WriteOptions())
    pieces = [encoder.encode(record) for record in RECORDS]
    offsets = [sum(map(len, pieces[:at])) for at in range(len(pieces))]
    found = [*find_records(BytesIO(b"".join(pieces)), [url], block_bytes=block_bytes)]
    assert [(record.action, record.body, record.provenance.offset) for record in found] == [
        (RECORDS[at].action, RECORDS[at].body, offsets[at]) for at in expected
    ]
