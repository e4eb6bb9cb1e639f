"""A spool, the gateway of it to an index, and the feeds that are posted to it."""

from pathlib import Path

from msgspec.structs import replace

from feedferry.transforms.sinks.push.wire.address import parse_target
from feedferry.transforms.sinks.push.wire.auth import Auth
from feedferry.transforms.sinks.push.wire.opensearch.index_options import IndexOptions
from support.archives import gsa_feed
from support.gateways import GatewayRun
from support.index_searches import found_by
from support.spools import HandSpool

HOST = "http://h.example/"


def acl(path: str, user: str) -> str:
    """Return an ACL alone from which others may inherit."""
    return (
        f'<acl url="{HOST}{path}" inheritance-type="child-overrides">'
        f'<principal scope="user" access="permit">{user}</principal></acl>'
    )


def permit(user: str) -> str:
    return f'<acl><principal scope="user" access="permit">{user}</principal></acl>'


def below(parent: str) -> str:
    return f'<acl inherit-from="{HOST}{parent}"/>'


def page(path: str, inside: str = "", *, mimetype: str = "text/plain", text: str = "text") -> str:
    content = f"<content>{text}</content>"
    return f'<record url="{HOST}{path}" mimetype="{mimetype}">{inside}{content}</record>'


class Night:
    """A spool, the gateway of it, and the index that it fills."""

    def __init__(
        self, folder: Path, url: str, *, groups_index: str | None = None, auth: Auth | None = None
    ) -> None:
        self.spool = HandSpool(folder / "spool")
        self.url = f"{url}/intranet"
        target = parse_target(self.url, auth=auth)
        self.appliance = replace(target, own=IndexOptions(groups_index=groups_index))
        self.acls = folder / "spool" / "forward" / "state.acls"

    def forward(self, *, transform: Path | None = None) -> GatewayRun:
        run = GatewayRun(self.spool, appliance=self.appliance, transform=transform)
        return run.to_the_end()

    def posted(self, *items: str, source: str = "docs", feedtype: str = "incremental") -> None:
        self.spool.feed(gsa_feed(*items, datasource=source, feedtype=feedtype), source, feedtype)

    def seen(self) -> dict[str, list[str]]:
        """Return the documents that users find."""
        return {user: found_by(self.url, user, base=HOST) for user in ("ann", "bob")}
