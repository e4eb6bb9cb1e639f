"""Spools written by hand, as a receiver leaves them."""

from pathlib import Path

import msgspec

from feedferry.schemas.delivery import JOURNAL, Delivery
from support.archives import put

_NOTHING_POSTED = {"datasource": "", "feedtype": "", "profile": ""}
ENDS = {"xmlfeed": "xml", "xmlgroups": "groups.xml", "recvdata": "data.xml"}
FORMATS = {"xmlfeed": "gsa-feed", "xmlgroups": "gsa-groups", "recvdata": "thunderstone"}
"""The format of what arrives at an endpoint."""


def delivered(ordinal: int, endpoint: str = "xmlfeed", **more: str | int | None) -> Delivery:
    """Return a delivery, by default of an incremental feed of `intranet`."""
    usual = {
        "endpoint": endpoint,
        "format": FORMATS[endpoint],
        "path": f"feeds/{ordinal:06d}.xml",
        "bytes": 0,
        "datasource": "intranet",
        "feedtype": "incremental",
    }
    return msgspec.convert({"ordinal": ordinal, **usual, **more}, Delivery)


def journal(spool: Path, *deliveries: Delivery) -> None:
    """Write a journal, and nothing else."""
    lines = (msgspec.json.encode(delivery) + b"\n" for delivery in deliveries)
    put(spool / JOURNAL, b"".join(lines))


class HandSpool:
    """A spool that feeds are delivered to one by one."""

    def __init__(self, root: str | Path = "spool") -> None:
        self.root = Path(root)
        self.count = 0

    def feed(self, text: bytes, datasource: str = "intranet", feedtype: str = "incremental") -> str:
        """Deliver a feed; return the path of its file."""
        return self._deliver("xmlfeed", text, datasource=datasource, feedtype=feedtype)

    def groups(self, text: bytes, groupsource: str = "ldap", feedtype: str = "incremental") -> str:
        """Deliver groups; return the path of their file."""
        return self._deliver("xmlgroups", text, datasource=groupsource, feedtype=feedtype)

    def data(self, text: bytes, profile: str = "intranet") -> str:
        """Deliver Thunderstone data; return the path of its file."""
        return self._deliver("recvdata", text, profile=profile)

    def cleanup(self, groupsource: str = "ldap") -> None:
        """Deliver an order to remove the groups of a groupsource."""
        self._note("xmlgroups", None, 0, datasource=groupsource, feedtype="cleanup")

    def tear(self, line: bytes = b'{"ordinal":9') -> None:
        """Begin a line of the journal that has no end so far."""
        with (self.root / JOURNAL).open("ab") as stream:
            stream.write(line)

    def _deliver(self, endpoint: str, text: bytes, **posted: str) -> str:
        path = f"feeds/{self.count + 1:06d}.{ENDS[endpoint]}"
        put(self.root / path, text)
        self._note(endpoint, path, len(text), **posted)
        return str(self.root / path)

    def _note(self, endpoint: str, path: str | None, size: int, **posted: str) -> None:
        self.count += 1
        delivery = delivered(
            self.count, endpoint, path=path, bytes=size, **{**_NOTHING_POSTED, **posted}
        )
        (self.root / "feeds").mkdir(parents=True, exist_ok=True)
        self.tear(msgspec.json.encode(delivery) + b"\n")
