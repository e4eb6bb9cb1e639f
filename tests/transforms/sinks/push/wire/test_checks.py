"""The response to a request that changes nothing tells whether an appliance trusts this machine."""

import pytest

from transforms.sinks.push.model import ApplianceResponse
from transforms.sinks.push.wire.feedergate import FEEDERGATE
from transforms.sinks.push.wire.recvdata import RECVDATA

RESULT = (
    "<?xml version='1.0'?><ThunderstoneReplicationResult><Status>{}</Status>"
    "</ThunderstoneReplicationResult>"
)
DENIED = (
    "<html><title>Denied</title>This Search Appliance is configured to deny administration from"
    " your location</html>"
)


def response(status: int, text: str) -> ApplianceResponse:
    return ApplianceResponse(status=status, body=text.encode(), url="http://appliance")


@pytest.mark.parametrize(
    ("status", "text", "level", "cure"),
    [
        (200, "0\n", "ok", ""),
        (200, "Error - Unauthorized Request", "fail", "List of Trusted IP Addresses"),
        (401, "<html><title>Login</title></html>", "fail", "List of Trusted IP Addresses"),
        (404, "", "warn", "if a push is refused, add the address"),
        (500, "Internal Error", "fail", "expected Success"),
        (200, "", "fail", "expected a number of feeds"),
    ],
)
def test_a_feedergate_shows_its_backlog_to_those_that_it_trusts(
    status: int, text: str, level: str, cure: str
) -> None:
    line = FEEDERGATE.judge_probe(response(status, text))
    assert (line.what, line.level.value) == ("trust", level)
    assert cure in line.cure


@pytest.mark.parametrize(
    ("status", "text", "level", "cure"),
    [
        (200, RESULT.format("No Profile"), "ok", ""),
        (200, RESULT.format("NODATA"), "ok", ""),
        (200, RESULT.format("Not Allowed"), "fail", "Cluster Members"),
        (200, DENIED, "fail", "Admin Access IPs"),
        (403, "", "fail", "Cluster Members"),
        (404, "", "fail", "check ⟦url⟧"),
        (405, "expected POST", "warn", "if a push is refused, add the address"),
        (503, "", "warn", "if a push is refused, add the address"),
    ],
)
def test_thunderstone_refuses_a_request_without_data_of_those_that_it_does_not_trust(
    status: int, text: str, level: str, cure: str
) -> None:
    line = RECVDATA.judge_probe(response(status, text))
    assert (line.what, line.level.value) == ("trust", level)
    assert cure in line.cure
