"""An appliance that is a function, and chunks to send to it."""

import hashlib
import math
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
import pytest

from feedferry.schemas.account import Chunk
from feedferry.schemas.feed import Feed
from feedferry.schemas.receipt import Receipt
from feedferry.schemas.record import Action, Content, Record
from feedferry.transforms.formats import WriteOptions, by_name
from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart
from feedferry.transforms.sinks.push.wire.body import RequestBody, verified_blocks
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA

GSA = Appliance(protocol=FEEDERGATE, url="http://gsa.example.com:19900")
THUNDERSTONE = Appliance(
    protocol=RECVDATA, url="http://www.example.com/texis/dowalk/recvdata.xml", profile="intranet"
)
SUCCESS = ApplianceResponse(status=200, content_type="text/plain", body=b"Success", sent_bytes=10)
ILL_FORMED = ApplianceResponse(status=400, content_type="text/plain", body=b"malformed feed")
_NAME = re.compile(rb'(?:<record url="|<Url>)http://www\.example\.com/([^"<]+)')


class Sent(NamedTuple):
    """One request: the chunk, its feedtype, and the last parts of the URLs of its records."""

    chunk: int
    feedtype: str | None
    names: tuple[str, ...]


class FakeClient(ApplianceClient):
    """A client with a function in place of the appliance; it keeps what it was sent."""

    def __init__(
        self,
        answer: Callable[[Sent], ApplianceResponse],
        *,
        backlog: ApplianceResponse | None = None,
    ) -> None:
        self._answer = answer
        self._backlog = backlog or ApplianceResponse(status=200, body=b"0")
        self._lock = threading.Lock()
        self.sent: list[Sent] = []
        self.texts: list[bytes] = []
        self.begun: object = None
        self.has_failures = False

    def __call__(self, _appliance: Appliance) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def send(self, part: ChunkPart, *, feedtype: str | None) -> ApplianceResponse:
        text = b"".join(verified_blocks(part))
        names = tuple(name.decode() for name in _NAME.findall(text))
        sent = Sent(part.chunk.ordinal, feedtype, names)
        with self._lock:
            self.sent.append(sent)
            self.texts.append(text)
        return self._answer(sent)

    def request(
        self,
        method: str,
        path: str,
        body: RequestBody | None,
        *,
        max_seconds: float = math.inf,
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        """Answer a request that is no chunk, as one for the chunk 0."""
        with self._lock:
            self.sent.append(Sent(0, None, ()))
            self.texts.append(b"" if body is None else b"".join(body.blocks()))
        return self._answer(self.sent[-1])

    def request_bytes(self, part: ChunkPart, *, feedtype: str | None) -> int:
        """Return the size of the document and the feedtype, without a form around them."""
        return part.size + len(feedtype or "")

    def backlog(self) -> ApplianceResponse:
        return self._backlog


def replace_client(
    patch: pytest.MonkeyPatch, answer: Callable[[Sent], ApplianceResponse]
) -> FakeClient:
    """Replace the client of all pushes, also of those in other functions of this process."""
    client = FakeClient(answer)
    patch.setattr("feedferry.transforms.sinks.push.pusher.ApplianceClient", client)
    return client


def chunk_of(
    root: Path, ordinal: int, names: Iterable[str], *, feedtype: str = "incremental", **more: object
) -> Chunk:
    """Write a chunk of gsafeed records with these names; return its line of the manifest."""
    feed = Feed(datasource=str(more.get("datasource", "wiki")), feedtype=feedtype)
    action = Action(more.get("action", "DELETE"))
    return _written(root, ordinal, [_record(name, action) for name in names], "gsa-feed", feed)


def items_of(root: Path, ordinal: int, names: Iterable[str]) -> Chunk:
    """Write a chunk of Thunderstone Items with these names."""
    records = [_record(name, Action.DELETE) for name in names]
    return _written(root, ordinal, records, "thunderstone", None)


def _written(
    root: Path, ordinal: int, records: Sequence[Record], format_name: str, feed: Feed | None
) -> Chunk:
    encoder = by_name(format_name).make_encoder(WriteOptions(feed=feed) if feed else WriteOptions())
    text = encoder.prolog() + encoder.frame(list(map(encoder.encode, records))) + encoder.epilog()
    path = root / "chunks" / f"{ordinal:06d}.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return Chunk(
        ordinal=ordinal,
        path=f"chunks/{path.name}",
        bytes=len(text),
        sha256=hashlib.sha256(text).hexdigest(),
        records={records[0].action.value: len(records)} if records else {},
        first_url=records[0].url if records else "",
        last_url=records[-1].url if records else "",
        source="feed.xml",
        span=0,
        format=format_name,
        datasource=feed.datasource if feed else None,
        feedtype=feed.feedtype if feed else None,
    )


def _record(name: str, action: Action) -> Record:
    url = f"http://www.example.com/{name}"
    if action is not Action.ADD:
        return Record(url=url, action=action)
    content = Content(data=f"the text of {name}".encode())
    return Record(url=url, action=action, mimetype="text/plain", content=content)


def read_receipts(folder: Path) -> list[Receipt]:
    """Return the receipts of the newest push from a folder, in their order."""
    newest = max(folder.glob("receipts-*.jsonl"), default=None)
    lines = newest.read_bytes().splitlines(keepends=True)[1:] if newest else []
    return [
        msgspec.json.decode(line, type=Receipt)
        for line in lines
        if line.endswith(b"\n") and not line.startswith(b'{"finished"')
    ]


def finished(folder: Path, chunks: Sequence[Chunk]) -> Path:
    """Make a folder with these chunks that of a finished run; return it."""
    lines = b"".join(msgspec.json.encode(chunk) + b"\n" for chunk in chunks)
    (folder / "manifest.jsonl").write_bytes(lines)
    (folder / "report.json").write_text("{}")
    return folder
