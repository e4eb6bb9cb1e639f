"""The tests that `feedferry.testing` has for appliances, of both of ours."""

import re
from collections.abc import Sequence
from urllib.parse import unquote_plus

import pytest

from feedferry.testing import ApplianceKit, ApplianceTests, ScriptedReply
from feedferry.transforms.formats import GSA_FEED, THUNDERSTONE
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA


def urls_of_feed(body: bytes) -> list[str]:
    return re.findall(r'<record url="([^"]*)"', body.decode())


def urls_of_items(body: bytes) -> list[str]:
    return re.findall("<Url>([^<]*)</Url>", unquote_plus(body.decode()))


def results(*statuses: str) -> ScriptedReply:
    """A result with the status of each Item."""
    items = "".join(f"<ItemResult><Status>{status}</Status></ItemResult>" for status in statuses)
    text = f"<ThunderstoneReplicationResult>{items}<Rows>{len(statuses)}</Rows>"
    return ScriptedReply(body=f"{text}</ThunderstoneReplicationResult>".encode())


def refuse_items(urls: Sequence[str], refused: object) -> ScriptedReply:
    assert isinstance(refused, set)
    return results(*("fail" if url in refused else "OK" for url in urls))


FEEDERGATE_KIT = ApplianceKit(
    appliance=FEEDERGATE,
    format=GSA_FEED,
    settings={"datasource": "docs", "feedtype": "incremental"},
    urls_of=urls_of_feed,
    accept=lambda _urls: ScriptedReply(body=b"Success"),
)
RECVDATA_KIT = ApplianceKit(
    appliance=RECVDATA,
    format=THUNDERSTONE,
    path="/texis/dowalk/recvdata.xml",
    profile="intranet",
    urls_of=urls_of_items,
    accept=lambda urls: results(*["OK"] * len(urls)),
    refuse=refuse_items,
    others=lambda _request: results("OK"),
)


@pytest.mark.slow
class TestAppliances(ApplianceTests):
    kits = FEEDERGATE_KIT, RECVDATA_KIT
