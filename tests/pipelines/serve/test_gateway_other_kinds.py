"""A gateway forwards to an appliance of another package, or refuses it at once with the reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.serve.gateway import check_forwarding
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Action
from feedferry.schemas.setting import in_flags
from feedferry.transforms.formats import Holds, registered
from feedferry.transforms.sinks.push.wire.address import parse_target
from feedferry.transforms.sinks.push.wire.protocol import Appliance, ApplianceProtocol, Endpoint
from support.archives import document, gsa_feed
from support.bulk_server import BulkServer, known, serving
from support.bulk_target import BULK, BULK_SERVER
from support.gateways import GatewayRun
from support.spools import HandSpool

GROUPS = b"<xmlgroups/>"


@pytest.fixture
def server() -> Iterator[BulkServer]:
    with known(), serving() as server:
        yield server


@pytest.mark.slow
def test_full_feeds_become_documents_and_deletions(server: BulkServer, tmp_path: Path) -> None:
    spool = HandSpool(tmp_path / "spool")
    spool.feed(gsa_feed(document(1), document(2)), feedtype="full")
    spool.groups(GROUPS)
    spool.feed(gsa_feed(document(2), document(3)), feedtype="full")
    gateway = GatewayRun(spool, appliance=parse_target(server.url)).to_the_end()
    assert gateway.warnings == []
    names = {url.rpartition("/")[2]: each for url, each in server.documents.items()}
    assert {name: each["generation"] for name, each in names.items()} == {"2.txt": 3, "3.txt": 3}
    assert [len(sent) for sent in server.requests] == [2, 1, 2]
    assert [each.state.value for each in gateway.journal()] == [
        "forwarded",
        "left-out",
        "forwarded",
    ]


def refusal(protocol: ApplianceProtocol, kept_acls: str | None = None) -> str:
    options = ConvertOptions(inputs=(), output="", to_format="", kept_acls=kept_acls)
    appliance = Appliance(protocol=protocol, url="http://search.example.com/hr")
    with pytest.raises(ConfigError) as info:
        check_forwarding(appliance, options)
    return in_flags(info.value.text)


def test_what_a_gateway_cannot_forward_to_is_refused() -> None:
    fix = (
        "; expected another kind: convert the spool and push the run, feedferry convert SPOOL"
        " --push-to URL"
    )
    begin = "--forward: http://search.example.com/hr: the kind bulk-server "
    groups = (*BULK_SERVER.endpoints, Endpoint(name="groups", formats=("gsa-groups",)))
    with known():
        refused = refusal(replace(BULK_SERVER, endpoints=groups))
        no_cleanup = "takes groups, and has no request that removes those of a groupsource"
        assert refused == f"{begin}{no_cleanup}{fix}"
        assert refusal(BULK_SERVER, "acls.db") == (
            "--state: not for http://search.example.com/hr, which takes bulk: it resolves ACLs"
            " itself; expected a search server"
        )
    with registered(replace(BULK, holds=Holds(actions={Action.ADD}))):
        assert refusal(BULK_SERVER) == f"{begin}takes bulk, which has no deletions{fix}"
    with registered(replace(BULK, encoder=None)):
        assert refusal(BULK_SERVER) == f"{begin}takes bulk, which is only read{fix}"
