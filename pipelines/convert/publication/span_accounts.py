"""The stored accounts of the spans of a run; those of many chunks are larger than the memory.

The account of a run names them. They are read once, one after another, into a file of chunks.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.folders.manifest import Manifest
from feedferry.schemas.account import Account, SpanFile, place_of
from feedferry.schemas.errors import FatalError
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.storage.run_folders.attempts import account_of

_LINES = "chunks.lines"
_THREADS = 32
_BATCH = 256


def collect(account: Account, settings: Settings, check: Callable[[Account], None]) -> Account:
    """Return the account of a run with the chunks of its spans, and their files that are no chunks.

    `check` raises FatalError if a file of a span has changed.
    """
    path = settings.local / _LINES
    files: list[SpanFile] = []
    with path.open("wb") as lines:
        for stored in _stored(account, settings):
            check(stored)
            for chunk in sorted(stored.chunks, key=place_of):
                lines.write(msgspec.json.encode(chunk) + b"\n")
            files += stored.other_files
    chunks = Manifest(path)
    path.unlink()  # the file stays open
    return replace(account, chunks=chunks, files=files)


def _stored(account: Account, settings: Settings) -> Iterator[Account]:
    """Yield the accounts in the order of their spans; many requests are made at a time."""
    run, names = settings.storage, iter(account.stored)
    is_remote = settings.local_folder is not None
    with ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(islice(names, _BATCH)):
            texts = pool.map(run.get, batch) if is_remote else map(run.get, batch)
            for name, data in zip(batch, texts, strict=True):
                stored = account_of(data)
                if stored is None:
                    raise FatalError(
                        f"{run.locate(name)}: damaged; expected the account of a span; start again"
                        " to convert it again"
                    )
                yield stored
