"""The interface of a source: `Source`, and the arguments that a run gives it."""

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from feedferry.schemas.account import Account
from feedferry.schemas.check import Check
from feedferry.schemas.errors import ConfigError, FileNameError
from feedferry.schemas.sent_document import OnChange
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.sources.files import SpanStream

Config = TypeVar("Config")
"""How one source is read: a `Tree`, a `Mapping`, a `Spool` or `Programs`."""


class SourceRun(msgspec.Struct, Generic[Config], frozen=True, kw_only=True):
    """One source in one run: its whole span, its configuration, and the folder of the run.

    `rewrite` makes the URL that is sent of the URL of a document; None, if it stays.
    """

    span: Span
    config: Config
    work: Path
    reading: ReadOptions
    options: SourceOptions
    rewrite: Callable[[str], str] | None = None

    @property
    def listing(self) -> Path:
        """The file of the listing; a run that is started again uses it again."""
        return self.work / f"{self.span.name}.listing"


class ByteCount:
    """Counts the bytes that a span has read: those of its file, else those of contents.

    `stored` counts the bytes of a compressed file as they are stored.
    """

    def __init__(self) -> None:
        self._bytes = self._stored = 0
        self._stream: SpanStream | None = None

    @property
    def total(self) -> int:
        return self._bytes + (self._stream.bytes_read if self._stream else 0)

    @property
    def stored(self) -> int:
        return self._stored + (self._stream.stored_bytes_read if self._stream else 0)

    def add(self, size: int) -> None:
        self._bytes += size
        self._stored += size

    @contextmanager
    def of(self, stream: SpanStream) -> Iterator[None]:
        """Count the bytes of a stream as it is read in the block."""
        self._stream = stream
        try:
            yield
        finally:
            self._bytes, self._stored, self._stream = self.total, self.stored, None


class SpanRequest(msgspec.Struct, Generic[Config], frozen=True, kw_only=True):
    """The request to read one span.

    `see` takes each document just before its outcome is yielded. `state` is the path of the state
    of earlier runs.
    """

    span: Span
    config: Config | None = None
    options: ReadOptions = ReadOptions()
    see: OnChange | None = None
    state: str | None = None
    count: ByteCount = msgspec.field(default_factory=ByteCount)


class SpanSize(NamedTuple):
    """The amount of a span before it is read, None where it is unknown."""

    bytes: int | None = None
    documents: int | None = None


class Source(Generic[Config]):
    """A place that records come from: how it is found, prepared, split, read and remembered.

    Each source has one object, in `SOURCES`; the rest of the program asks it and never compares
    names. A source is *loaded* and *split* once, before the pipeline, and *read* by workers.
    """

    name: ClassVar[str]
    """The name for --from."""

    title: ClassVar[str]
    """One line for `feedferry formats`."""

    noun: ClassVar[str]
    """How messages call it, with its article."""

    span_formats: ClassVar[frozenset[str]]
    """The formats of the spans that it reads."""

    is_folder: ClassVar[bool] = False
    """Whether an input is a folder that the source lists itself; otherwise it is a file."""

    makes_urls: ClassVar[bool] = False
    """Whether the source makes URLs by rules of its own, and not from document ids."""

    has_state: ClassVar[bool] = False
    """Whether a state can remember what was sent."""

    config_type: ClassVar[type[msgspec.Struct]]
    """The type of the configuration, if the source `has_state`."""

    keeps_rejected: ClassVar[bool] = False
    """Whether a state remembers a rejected document, to read it again by its key."""

    reads_in_threads: ClassVar[bool] = False
    """Whether `--jobs` means threads; worker processes would only cost memory."""

    is_inspected: ClassVar[bool] = False
    """Whether `inspect` reads it."""

    counts_contents: ClassVar[bool] = False
    """Whether progress counts the bytes of contents, and not those of a file."""

    def matches(self, name: str) -> bool:
        """Whether an input whose format is not stated is such a source."""
        return False

    def list_inputs(self, names: Sequence[str], *, first: int) -> list[Span]:
        """Return the whole spans of inputs, numbered from `first`, if the source `is_folder`."""
        raise NotImplementedError

    def check_inputs(self, spans: Sequence[Span], every: Sequence[Span]) -> None:
        """Raise ConfigError where `spans`, those of this source, cannot be read with the others."""

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for a source that is not there; called before a run begins."""

    def check_state(self, span: Span, state: str) -> None:
        """Raise ConfigError where a state cannot remember what is read of the span."""

    def load(self, span: Span, options: SourceOptions) -> Config:
        """Return the configuration; raise ConfigError if it cannot be used."""
        raise NotImplementedError

    def fingerprint(self, config: Config) -> str:
        """Return a fingerprint of everything that decides over records besides the source."""
        return hashlib.sha256(msgspec.json.encode(config, order="sorted")).hexdigest()

    def may_inherit(self, span: Span, config: Config | None) -> bool:
        """Whether an ACL of a span may inherit from another one."""
        return True

    def acls(self, span: Span, config: Config | None) -> Iterator[ReadResult] | None:
        """Return the results of a split span that have ACLs from which others inherit.

        None, if these cannot be read before the conversion.
        """
        return None

    def checks(self, runs: Sequence[SourceRun[Config]]) -> Iterator[Check]:
        """Yield the checks of sources that were loaded; they change nothing."""
        return iter(())

    def split(self, run: SourceRun[Config]) -> Iterator[Span]:
        """Yield the spans of a run, in order.

        Raise SourceError where the source cannot be read, StoppedError where too much is gone.
        """
        raise NotImplementedError

    def check_runs(self, runs: Sequence[SourceRun[Config]]) -> None:
        """Raise ConfigError where sources that were split cannot be one run."""

    def size(self, span: Span) -> SpanSize:
        """Return the amount of a span of a split source; progress counts the part that is read."""
        if span.members:
            return SpanSize(bytes=sum(self.size(member).bytes or 0 for member in span.members))
        size = (span.signature and span.signature.size) or 0
        size = max(size - span.offset, 0) if span.length is None else span.length
        return SpanSize(bytes=size or None)

    def read(self, request: SpanRequest[Config]) -> Generator[ReadResult, None, None]:
        """Yield the records of a span, and everything else that is found there, in order."""
        raise NotImplementedError

    def remember(self, run: SourceRun[Config], account: Account, *, generation: int) -> None:
        """Update the state after a successful run, from the files that the account names."""


def check_input_name(name: str) -> None:
    """Raise ConfigError for a pipe or a device, which is read only once, and for another encoding.

    The error is FileNameError for a name that is not UTF-8: reports and rejects could not show it.
    """
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise FileNameError(f"⟦inputs⟧: {name!r}; expected a name in UTF-8") from exc
    if (path := Path(name)).exists() and not (path.is_file() or path.is_dir()):
        raise ConfigError(
            f"⟦inputs⟧: {name!r}: a pipe or a device; expected a file, or - for stdin"
        )
