"""A run that has not begun, as an appliance compares it: its chunks are those of a plan."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from feedferry.schemas.account import Chunk
from feedferry.schemas.share_limit import ShareLimit
from feedferry.transforms.sinks.push.model import ApplianceResponse, open_chunk_file
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sinks.push.wire.reader import TargetReader


class PlannedRun:
    """The chunks of a plan, whose paths are relative to its temporary `folder`."""

    def __init__(
        self,
        settings: PushSettings,
        client: ApplianceClient,
        *,
        chunks: Sequence[Chunk],
        folder: Path,
    ) -> None:
        self._settings = settings
        self._reader = TargetReader(settings.appliance, client)
        self.chunks = chunks
        self.folder = folder

    @property
    def appliance(self) -> Appliance:
        return self._settings.appliance

    @property
    def max_widened(self) -> ShareLimit | None:
        """The most documents that may become visible to more users."""
        return self._settings.max_widened

    def open(self, chunk: Chunk) -> AbstractContextManager[IO[bytes]]:
        """Open the file of a chunk; raise SourceError if it cannot be read."""
        return open_chunk_file(self.folder / chunk.path)

    def show(self, progress: str) -> None:
        """Show nothing: a plan has no progress."""

    def request(
        self,
        path: str,
        body: RequestBody | None = None,
        *,
        method: str = "GET",
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        """Return a response of any status; raise TargetError if there is none."""
        return self._reader.request(path, body, method=method, is_below_address=is_below_address)
