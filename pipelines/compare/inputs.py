"""The inputs of a comparison: files, folders, archives, spools, and the folders of runs."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from pipelines.convert.inputs import list_spans
from pipelines.convert.source_runs import read_options
from pipelines.folders.manifest import MANIFEST, read_manifest
from pipelines.folders.remote_folder import holds_run, opened_remote
from pipelines.inspect.inspection import parse
from schemas.feed import FeedHeader
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Reject, record_error, reject_record
from transforms.compare.history import each
from transforms.conversion_settings import BATCH_RECORDS
from transforms.formats import ReadResult
from transforms.rules.adapt import Adapter, Target, adapt_membership, adapter
from transforms.rules.normalize import normalize
from transforms.sources import SpanRequest, read_span


class CompareInput:
    """An input that can be read several times, with the same results in the same order.

    The folder of a run is read as its chunks. With a `target`, the records are adapted to that
    format; losses are left out. Standard input is copied to `folder`.
    """

    def __init__(
        self,
        names: Iterable[str],
        words: Mapping[str, object],
        *,
        folder: Path,
        target: Target | None = None,
    ) -> None:
        self.names = tuple(names)
        paths = tuple(path for name in self.names for path in _paths(name))
        options = parse({**words, "inputs": paths})
        self._reading = replace(read_options(options), batch_records=0 if target else BATCH_RECORDS)
        self._spans = list_spans(options, stdin_copy=folder / "stdin")
        self._target = target

    def results(self) -> Generator[ReadResult, None, None]:
        """Yield the results of the input, in order; records that are alike may be in batches."""
        for span in self._spans:
            with closing(read_span(SpanRequest(span=span, options=self._reading))) as results:
                yield from results if self._target is None else _adapted(results, self._target)


def _paths(name: str) -> Iterator[str]:
    if holds_run(name):
        with opened_remote(name, is_read_only=True) as remote:
            yield from (f"{remote.uri}/{chunk.path}" for chunk in read_manifest(remote.mirror))
    elif (Path(name) / MANIFEST).is_file():
        yield from (str(Path(name) / chunk.path) for chunk in read_manifest(Path(name)))
    else:
        yield name


def _adapted(results: Iterable[ReadResult], target: Target) -> Iterator[ReadResult]:
    adapt = adapter(target)
    for item in each(results):
        if isinstance(item, Membership):
            yield adapt_membership(item, target, is_mixed=True)
        elif isinstance(item, Record):
            yield from _outcomes(item, adapt)
        elif isinstance(item, Reject | FeedHeader):
            yield item


def _outcomes(record: Record, adapt: Adapter) -> Iterable[ReadResult]:
    try:
        return adapt(normalize(record))[0]
    except Exception as exc:
        return (reject_record(record, record_error(exc), stage="adapt"),)
