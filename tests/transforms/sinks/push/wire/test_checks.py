"""The response to a request that changes nothing tells whether an appliance trusts this machine."""

import pytest

from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.protocol import ApplianceProtocol
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA

TRUSTED = "List of Trusted IP Addresses"
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
    ("protocol", "status", "text", "level", "cure"),
    [
        (FEEDERGATE, 200, "0\n", "ok", ""),
        (FEEDERGATE, 200, "Error - Unauthorized Request", "fail", TRUSTED),
        (FEEDERGATE, 401, "<html><title>Login</title></html>", "fail", TRUSTED),
        (FEEDERGATE, 404, "", "warn", "if a push is refused, add the address"),
        (FEEDERGATE, 500, "Internal Error", "fail", "expected Success"),
        (FEEDERGATE, 200, "", "fail", "expected a number of feeds"),
        (RECVDATA, 200, RESULT.format("No Profile"), "ok", ""),
        (RECVDATA, 200, RESULT.format("NODATA"), "ok", ""),
        (RECVDATA, 200, RESULT.format("Not Allowed"), "fail", "Cluster Members"),
        (RECVDATA, 200, DENIED, "fail", "Admin Access IPs"),
        (RECVDATA, 403, "", "fail", "Cluster Members"),
        (RECVDATA, 404, "", "fail", "check ⟦url⟧"),
        (RECVDATA, 405, "expected POST", "warn", "if a push is refused, add the address"),
        (RECVDATA, 503, "", "warn", "if a push is refused, add the address"),
    ],
)
def test_the_response_shows_whether_an_appliance_trusts_this_machine(
    protocol: ApplianceProtocol, status: int, text: str, level: str, cure: str
) -> None:
    line = protocol.judge_probe(response(status, text))
    assert (line.what, line.level.value) == ("trust", level)
    assert cure in line.cure
