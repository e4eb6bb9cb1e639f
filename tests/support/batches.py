"""Conversions of one span with batches of any size, for comparison."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.formats import ReadOptions, WriteOptions
from feedferry.transforms.formats.xml.bulk.element_runs import ElementRuns
from feedferry.transforms.rules.adapt import Target

SIZES = (1, 2, 7, 1024)
"""The sizes of batches whose results are compared with those of single records."""

_MEMORY = Path("/dev/shm")


def new_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder, in memory if there is a file system for that."""
    folder = _MEMORY if _MEMORY.is_dir() else None
    return tempfile.TemporaryDirectory(prefix="feedferry-batches-", dir=folder)


class Conversion(NamedTuple):
    """The account of a span, without the random names of its files, and their bytes."""

    account: bytes
    files: dict[str, bytes]


def conversion(
    data: bytes,
    target: Target,
    *,
    batch_records: int,
    format_: str = "gsa-feed",
    reading: ReadOptions = ReadOptions(),
    **stated: Any,
) -> Conversion:
    """Convert a stream as one span; nothing but the size of batches may change the result."""
    with new_folder() as folder:
        path = Path(folder, "source")
        path.write_bytes(data)
        span = Span(source="f", path=str(path), format=format_)
        return span_conversion(span, target, batch_records=batch_records, reading=reading, **stated)


def span_conversion(
    span: Span,
    target: Target,
    *,
    batch_records: int,
    reading: ReadOptions = ReadOptions(),
    **stated: Any,
) -> Conversion:
    """Convert a span."""
    with new_folder() as work:
        settings = Settings(
            folder=work,
            target=target,
            reading=reading,
            writing=WriteOptions(own=target.own),
            batch_records=batch_records,
            **{"refused": frozenset(), "max_chunk_bytes": 1 << 20, **stated},
        )
        account = convert(span, settings)
        files = {file.path: Path(work, file.path).read_bytes() for file in account.files}
        account.files = [replace(file, modified_ns=0) for file in account.files]
        text = msgspec.json.encode(account).decode()
        for number, name in enumerate(sorted({name.rpartition("/")[0] for name in files} - {""})):
            text = text.replace(name, f"attempt-{number}")
        return Conversion(
            text.encode(), {name.rpartition("/")[2]: data for name, data in files.items()}
        )


@contextmanager
def by_parser() -> Iterator[None]:
    """Read all elements of XML with a parser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ElementRuns, "bulk", lambda *_arguments: None)
        yield
