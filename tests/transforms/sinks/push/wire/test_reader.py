"""Requests that read from an appliance are repeated for a while, and pages may be too long."""

import json

import pytest

from feedferry.schemas.errors import BusyError, TargetError
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sinks.push.wire.reader import TargetReader
from feedferry.transforms.sinks.push.wire.rehearsal_documents import list_documents
from feedferry.transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES
from support.fake_appliance import GSA, THUNDERSTONE


class ScriptedClient(ApplianceClient):
    """Gives one response after another, and keeps what was asked for."""

    def __init__(self, *responses: ApplianceResponse) -> None:
        self._responses = [*responses]
        self.asked: list[tuple[str, bool]] = []

    def request(
        self,
        method: str,
        path: str,
        body: RequestBody | None,
        *,
        max_seconds: float = 0.0,
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        self.asked.append((f"{method} {path}", is_below_address))
        return self._responses.pop(0)


def reader(client: ScriptedClient, appliance: Appliance = GSA) -> tuple[TargetReader, list[float]]:
    """Return a reader, and the list of its pauses."""
    pauses: list[float] = []
    return TargetReader(appliance, client, sleep=pauses.append), pauses


DOWN = ApplianceResponse(error="http://gsa: connection refused", is_unsent=True)
BUSY = ApplianceResponse(status=503, retry_after="2")
EMPTY = ApplianceResponse(status=200, body=b'{"documents": [], "next": null}')


def test_a_request_that_fails_for_a_while_is_repeated() -> None:
    client = ScriptedClient(DOWN, BUSY, EMPTY)
    reading, pauses = reader(client)
    assert reading.request("/x") == EMPTY
    assert client.asked == [("GET /x", True)] * 3
    assert (pauses[0] <= 0.5, pauses[1]) == (True, 2.0)


@pytest.mark.parametrize("status", [401, 404])
def test_another_status_is_returned_at_once(status: int) -> None:
    response = ApplianceResponse(status=status)
    client = ScriptedClient(response)
    assert reader(client)[0].request("/x") == response


def test_no_response_is_an_error_after_three_attempts() -> None:
    client = ScriptedClient(DOWN, DOWN, DOWN)
    with pytest.raises(TargetError, match="connection refused"):
        reader(client)[0].request("/x")
    untrusted = ApplianceResponse(error="its certificate is not trusted", is_permanent=True)
    with pytest.raises(TargetError, match="not trusted"):
        reader(ScriptedClient(untrusted))[0].request("/x")


def test_a_page_that_is_too_long_is_asked_for_in_halves() -> None:
    long = ApplianceResponse(status=200, body=b" " * MAX_RESPONSE_BYTES)
    client = ScriptedClient(long, EMPTY)
    assert list(list_documents(reader(client, THUNDERSTONE)[0], "intranet")) == []
    assert client.asked == [
        ("GET /documents?datasource=intranet&limit=1000", False),
        ("GET /documents?datasource=intranet&limit=500", False),
    ]


def test_feeds_that_wait_are_waited_for_up_to_a_minute() -> None:
    waiting = json.dumps({"documents": [], "next": None, "backlog": 2}).encode()
    client = ScriptedClient(*[ApplianceResponse(status=200, body=waiting)] * 61)
    reading, pauses = reader(client)
    with pytest.raises(BusyError, match="2 feeds are not indexed yet"):
        list(list_documents(reading, None))
    assert pauses == [1.0] * 60
