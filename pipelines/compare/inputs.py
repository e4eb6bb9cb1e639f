"""The inputs of a comparison: files, folders, archives, spools, and the folders of runs."""

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice
from pathlib import Path

from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.input_files import (
    STDIN_COPY,
    examine_inputs,
    list_spans,
    read_spans,
)
from feedferry.pipelines.convert.inputs.source_runs import (
    read_known_urls,
    read_options,
    settings_of,
)
from feedferry.pipelines.convert.inputs.step_inputs import prepare_steps
from feedferry.pipelines.folders.gateway_folders import (
    acls_in,
    find_spool,
    waiting_deliveries,
)
from feedferry.pipelines.folders.manifest import MANIFEST, Manifest, read_manifest
from feedferry.pipelines.folders.remote_runs import holds_run, opened_remote
from feedferry.pipelines.inspect.inspection import parse
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.errors import FeedferryError
from feedferry.schemas.feed import Feed, FeedHeader
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Provenance, Record, withheld
from feedferry.schemas.reject import Reject, is_until_acl, record_error, reject_record
from feedferry.schemas.run_record import RUN_RECORD
from feedferry.schemas.span import Span
from feedferry.transforms.compare.history import each
from feedferry.transforms.conversion.conversion_settings import BATCH_RECORDS
from feedferry.transforms.formats import JSONL, ReadResult, by_name, find_format
from feedferry.transforms.rules.adapt import Adapter, Target, adapt_membership, adapter
from feedferry.transforms.rules.normalize import normalize
from feedferry.transforms.sources.spool import spans_of
from feedferry.transforms.steps import AppliedSteps

_EXAMINED_CHUNKS = 1000
"""The chunks of a run that are examined at a time."""


class CompareInput:
    """An input that can be read several times, with the same results in the same order.

    The folder of a run is read as its chunks. With a `target`, the records are adapted to that
    format; losses are left out. If the target needs decisions, the records are converted as in a
    run: the steps are applied, and a document that is rejected is shown to no user. Those of the
    spool of a gateway inherit from the ACLs that it keeps, too. Standard input is copied to
    `folder`.
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
        paths = [*map(_paths, self.names)]
        needs_decisions = target is not None and by_name(target.format).needs_decisions
        form = target.format if target is not None and needs_decisions else JSONL.name
        options = parse({**words, "inputs": self.names}, to_format=form)
        self._reading = replace(read_options(options), batch_records=0 if target else BATCH_RECORDS)
        self._spans: Iterable[Span]
        runs = [of for of in paths if isinstance(of, _ChunkPaths)]
        if runs == paths and (options.from_format is None or not any(paths)):
            self._spans = _ChunkSpans(runs, options)
        else:
            options = replace(options, inputs=tuple(chain.from_iterable(paths)))
            self._spans = list_spans(options, stdin_copy=folder / STDIN_COPY)
        self._target = target
        self.has_steps = needs_decisions
        self._steps: Callable[[], AppliedSteps] = lambda: AppliedSteps(())
        if needs_decisions:
            work = Path(tempfile.mkdtemp(prefix="steps-", dir=folder))
            spool, stated = find_spool(self.names[0]), self._spans
            if spool is not None and acls_in(spool).exists():
                options = replace(options, kept_acls=str(acls_in(spool)))
                stated = _waiting_spans(spool)
            settings = settings_of(options, read_known_urls(options), work, {})
            prepare_steps(stated, settings, settles_doubts=spool is not None)
            self._target = settings.target
            self._steps = partial(settings.steps.make, work)

    def results(self) -> Iterator[ReadResult]:
        """Yield the results of the input, in order; records that are alike may be in batches."""
        results = read_spans(self._spans, self._reading)
        return results if self._target is None else _adapted(results, self._target, self._steps())


class _ChunkPaths(Collection[str]):
    """The paths or URIs of the chunks of a run, which are read from its manifest.

    `feeds` are the feeds of chunks whose actions do not state theirs.
    """

    def __init__(self, begin: str, chunks: Manifest) -> None:
        self._begin, self._chunks = begin, chunks

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[str]:
        return (path for path, _ in self.feeds())

    def feeds(self) -> Iterator[tuple[str, Feed | None]]:
        for chunk in self._chunks:
            format_, datasource = find_format(chunk.format), chunk.datasource
            has_feed = datasource is not None and format_ is not None and format_.needs_decisions
            stated = Feed(datasource=datasource or "", feedtype=chunk.feedtype or "")
            feed = stated if has_feed else None
            yield f"{self._begin}{chunk.path}", feed

    def __contains__(self, path: object) -> bool:
        return any(path == of_chunk for of_chunk in self)


class _ChunkSpans(Iterable[Span]):
    """The chunks of runs as spans, which are made each time they are read: there may be millions.

    Raises the error of the first chunk if none can be read.
    """

    def __init__(self, runs: Sequence[_ChunkPaths], options: ConvertOptions) -> None:
        self._runs, self._options = runs, options
        faults = chain.from_iterable(faults or (None,) for _, faults in self._examined())
        first = next(faults, None)
        if first is not None and None not in faults:
            raise first

    def __iter__(self) -> Iterator[Span]:
        is_only = sum(map(len, self._runs)) == 1
        for spans, _ in self._examined():
            yield from (replace(span, is_only=is_only) for span in spans)

    def _examined(self) -> Iterator[tuple[list[Span], list[FeedferryError]]]:
        chunks = chain.from_iterable(run.feeds() for run in self._runs)
        while batch := dict(islice(chunks, _EXAMINED_CHUNKS)):
            options = replace(self._options, inputs=tuple(batch))
            for spans, faults in examine_inputs(options, Path()):
                yield [replace(span, feed=batch.get(span.source)) for span in spans], faults


def _waiting_spans(spool: Path) -> list[Span]:
    """Return the feeds of a spool whose ACLs its gateway does not keep yet."""
    waiting = (delivery for delivery in waiting_deliveries(spool) if delivery.path is not None)
    return [*spans_of(waiting, Span(source=str(spool), path=str(spool)), rejects_missing=True)]


def _paths(name: str) -> Collection[str]:
    """Return the paths of the chunks of a run, else the name."""
    if holds_run(name):
        with opened_remote(name, is_read_only=True) as remote:
            return _ChunkPaths(f"{remote.uri}/", read_manifest(remote.mirror))
    if any((Path(name) / of_run).is_file() for of_run in (MANIFEST, RUN_RECORD)):
        begin = str(Path(name) / MANIFEST).removesuffix(MANIFEST)
        return _ChunkPaths(begin, read_manifest(Path(name)))
    return (name,)


def _adapted(
    results: Iterable[ReadResult], target: Target, steps: AppliedSteps
) -> Iterator[ReadResult]:
    adapt, withholds = adapter(target), by_name(target.format).withholds
    stepped = steps.results(results) if steps.has_any else results
    with closing(steps):
        for item in each(stepped):
            if isinstance(item, Membership):
                yield adapt_membership(item, target)
            elif isinstance(item, Record | Reject):
                for outcome in _outcomes(item, adapt) if isinstance(item, Record) else (item,):
                    yield outcome
                    if withholds and isinstance(outcome, Reject):
                        yield from _withheld(outcome, item, steps)
            elif isinstance(item, FeedHeader):
                yield item


def _withheld(reject: Reject, item: Record | Reject, steps: AppliedSteps) -> Iterator[Record]:
    at = Provenance(datasource=reject.datasource, feedtype=reject.feedtype)
    until_acl = is_until_acl(reject, item if isinstance(item, Record) else None)
    return (withheld(url, at, until_acl=until_acl) for url in steps.urls_of(reject))


def _outcomes(record: Record, adapt: Adapter) -> Iterable[ReadResult]:
    try:
        return adapt(normalize(record))[0]
    except Exception as exc:
        return (reject_record(record, record_error(exc), stage="adapt"),)
