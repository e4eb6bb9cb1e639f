"""A rehearsal appliance without a server: deliveries are written to a folder and digested."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from feedferry.pipelines.serve.rehearsal.delivery_table import FeedRow
from feedferry.pipelines.serve.rehearsal.index import Index
from feedferry.pipelines.serve.worker_process import WorkerProcess
from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.indexed_document import IndexedDocument
from support.spools import FORMATS

Result = TypeVar("Result")

NOON = "2026-11-21T12:00:00+00:00"
DAY = "2026-11-20T08:00:00+00:00"
HOST = "http://www.example.com/"
DATA_HEAD = '<ThunderstoneReplication xmlns:dt="urn:schemas-microsoft-com:datatypes">'
DATA_TAIL = "</ThunderstoneReplication>"


def gsa_feed(*records: str) -> str:
    """A feed with a header that an appliance does not look at."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE gsafeed PUBLIC'
        ' "-//Google//DTD GSA Feeds//EN" "">\n<gsafeed>\n<header><datasource>other</datasource>'
        "<feedtype>incremental</feedtype></header>\n<group>\n"
        + "\n".join(records)
        + "\n</group>\n</gsafeed>\n"
    )


def page(name: str, content: str | None = "text", *, inner: str = "", more: str = "") -> str:
    """A record of a page of the host, in a feed."""
    body = "" if content is None else f"<content>{content}</content>"
    return f'<record url="{HOST}{name}" mimetype="text/plain"{more}>{inner}{body}</record>'


def gone(name: str) -> str:
    """A record that deletes a page of the host."""
    return f'<record url="{HOST}{name}" mimetype="text/plain" action="delete"/>'


def metadata(**pairs: str) -> str:
    metas = "".join(f'<meta name="{name}" content="{value}"/>' for name, value in pairs.items())
    return f"<metadata>{metas}</metadata>"


def acl(name: str, *, url: str | None = None) -> str:
    """Return an ACL that permits one user; with a URL, it is an ACL without a document."""
    where = "" if url is None else f' url="{HOST}{url}"'
    user = f'<principal scope="user" access="permit">{name}</principal>'
    return f"<acl{where}>{user}</acl>"


def xmlgroups(*memberships: str) -> str:
    return "<xmlgroups>\n" + "\n".join(memberships) + "\n</xmlgroups>\n"


def membership(group: str, *users: str) -> str:
    names = "".join(f'<principal scope="USER">{user}</principal>' for user in users)
    return (
        f'<membership><principal scope="GROUP">{group}</principal>'
        f"<members>{names}</members></membership>"
    )


def data(*items: str) -> str:
    return "\n".join((DATA_HEAD, *items, DATA_TAIL))


def item(kind: str, name: str, inner: str = "") -> str:
    """An Item about a page of the host."""
    return f"<Item><Type>{kind}</Type><Url>{HOST}{name}</Url>{inner}</Item>"


class InlineWorker(WorkerProcess):
    """Runs the functions of a worker process in this process."""

    def call(
        self, function: Callable[..., Result], arguments: tuple[object, ...], size: int
    ) -> Result:
        return function(*arguments)


def digest_missing(index: Index, delivery: Delivery, spool: Path) -> None:
    """Digest a delivery unless the index has it."""
    if delivery.ordinal > index.deliveries.applied:
        index.deliveries.begin(delivery)
        index.digest(delivery, spool)


class Rehearsal:
    """An index and its spool; each delivery is digested when it is written."""

    def __init__(self, spool: Path) -> None:
        self.spool = spool
        self.index = Index(spool / "index.db", now=lambda: NOON)
        self._ordinal = 0

    def feed(
        self, markup: str, *, datasource: str = "sample", feedtype: str = "incremental"
    ) -> FeedRow:
        return self.apply(self.write(markup, datasource=datasource, feedtype=feedtype))

    def groups(
        self, markup: str, *, groupsource: str = "ldap", feedtype: str = "incremental"
    ) -> FeedRow:
        return self.apply(
            self.write(markup, endpoint="xmlgroups", datasource=groupsource, feedtype=feedtype)
        )

    def cleanup(self, groupsource: str) -> FeedRow:
        self._ordinal += 1
        return self.apply(
            Delivery(
                ordinal=self._ordinal,
                endpoint="xmlgroups",
                format="gsa-groups",
                path=None,
                bytes=0,
                datasource=groupsource,
                feedtype="cleanup",
            )
        )

    def send(
        self, *items: str, profile: str = "intranet", refused: tuple[str, ...] = ()
    ) -> FeedRow:
        delivery = self.write(data(*items), endpoint="recvdata", profile=profile)
        return self.apply(msgspec.structs.replace(delivery, refused=refused))

    def write(
        self,
        markup: str | bytes,
        *,
        endpoint: str = "xmlfeed",
        datasource: str = "",
        feedtype: str = "",
        profile: str = "",
    ) -> Delivery:
        """Write the file of a delivery; it is neither in the journal nor digested."""
        self._ordinal += 1
        octets = markup.encode() if isinstance(markup, str) else markup
        path = f"{self._ordinal:03d}.xml"
        (self.spool / path).write_bytes(octets)
        return Delivery(
            ordinal=self._ordinal,
            endpoint=endpoint,
            format=FORMATS[endpoint],
            path=path,
            bytes=len(octets),
            datasource=datasource,
            feedtype=feedtype,
            profile=profile,
            at=DAY,
            client="127.0.0.1",
            user_agent="curl/7.88.1",
        )

    def deliver(self, *deliveries: Delivery) -> None:
        """Add lines to the journal, which a feeder reads."""
        with (self.spool / JOURNAL).open("ab") as journal:
            journal.writelines(msgspec.json.encode(entry) + b"\n" for entry in deliveries)

    def apply(self, delivery: Delivery) -> FeedRow:
        digest_missing(self.index, delivery, self.spool)
        return self.index.deliveries.feed_rows()[0]

    def pages(self) -> list[str]:
        """The names of what is held."""
        return [entry.url.removeprefix(HOST) for entry in self.index.documents()]

    def document(self, name: str) -> IndexedDocument:
        (document,) = (entry for entry in self.index.documents() if entry.url == HOST + name)
        return document
