"""The endpoints of a receiver with a spool and an index, without a server."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote_plus

import msgspec
import pytest

from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from feedferry.pipelines.serve.http.endpoints import Callbacks, Endpoints
from feedferry.pipelines.serve.http.server import RefusedError, Reply, Request
from feedferry.pipelines.serve.rehearsal.index import Index
from feedferry.pipelines.serve.rehearsal.scenario import IN_ORDER, Behaviour
from feedferry.pipelines.serve.settings import ServeSettings
from feedferry.pipelines.serve.spool_writer import SpoolWriter
from feedferry.transforms.storage.files.journal import DISK, Disk

URLENCODED = ("content-type", "application/x-www-form-urlencoded")
FEED = "datasource=s&feedtype=full&data=%3Cgsafeed%2F%3E"
GROUPS = "groupsource=s&data=%3Cxmlgroups%2F%3E"
ITEMS = (
    "<ThunderstoneReplication>"
    "<Item><Type>I</Type><Url>http://h/1</Url></Item>"
    "<Item><Type>D</Type><Url>http://h/2</Url></Item>"
    "</ThunderstoneReplication>"
)
DATA = f"profile=p&data={quote_plus(ITEMS)}"
ONE_STATUS = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    "<ThunderstoneReplicationResult>\n"
    "<ItemResult><rid>000000000</rid><Status>{}</Status></ItemResult>\n"
    "<Rows>0</Rows>\n"
    "<Version>Version 5.01.0 20051010 (feedferry, modelled on the manual)\n"
    "2005-10-10 12:34:56</Version>\n"
    "</ThunderstoneReplicationResult>\n"
)
SETTINGS = ServeSettings(spool="unused", min_free_bytes=0)


class StoredEndpoints:
    """A spool and an index, and endpoints that use them."""

    def __init__(self, folder: Path, *, disk: Disk = DISK) -> None:
        self.folder = folder
        self.index = Index(folder / "index.db")
        self.spool = SpoolWriter(folder, disk=disk)
        self.cluster = RehearsalCluster(folder)
        self.waited: list[float] = []
        self.arrivals = 0

    def close(self) -> None:
        self.spool.__exit__(None, None, None)
        self.index.close()
        self.cluster.close()

    def endpoints(self, behaviour: Behaviour = IN_ORDER, **changes: object) -> Endpoints:
        return Endpoints(
            msgspec.structs.replace(SETTINGS, **changes),
            self.spool,
            self.index,
            self.cluster,
            self.callbacks(lambda endpoint: behaviour),
        )

    def callbacks(self, behave: Callable[[str], Behaviour]) -> Callbacks:
        return Callbacks(
            arrived=self._arrive,
            behave=behave,
            wait=self.waited.append,
            backlog=lambda: 7,
            set_aside=list,
            render_page=lambda: b"<html>",
        )

    def _arrive(self) -> None:
        self.arrivals += 1


def post(path: str, body: str, *headers: tuple[str, str], client: str = "127.0.0.1") -> Request:
    length = ("content-length", str(len(body)))
    return Request(
        method="POST",
        path=path,
        headers=(URLENCODED, length, *headers),
        client=client,
        length=len(body),
        blocks=iter([body.encode()] if body else []),
    )


def get(path: str, query: str = "", *, client: str = "127.0.0.1", method: str = "GET") -> Request:
    return Request(method=method, path=path, query=query, client=client)


def body_of(reply: Reply) -> bytes:
    if isinstance(reply.body, bytes):
        return reply.body
    with reply.body as stream:
        stream.seek(0)
        return stream.read()


def refusal_of(endpoints: Endpoints, request: Request) -> tuple[int, str]:
    with pytest.raises(RefusedError) as caught:
        endpoints.answer(request)
    return caught.value.status, caught.value.words
