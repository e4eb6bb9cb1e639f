"""The inputs of steps that need to know all records before the first is converted."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import msgspec

from feedferry.pipelines.convert.inputs.input_files import expand_input, read_spans
from feedferry.pipelines.convert.inputs.updated_documents import updated_documents
from feedferry.schemas.errors import ConfigError, FormatError, SourceError, StoppedError
from feedferry.schemas.feed import FULL, FeedHeader
from feedferry.schemas.record import Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import FIRST, Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats import JSONL, ReadOptions, ReadResult, by_name, find_format
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.rules.known_rejects import entry_of
from feedferry.transforms.sources import SourceConfig, sniff_format, source_of
from feedferry.transforms.steps import AppliedSteps, Steps
from feedferry.transforms.steps.kept_acls import CHANGED_ACLS


class SpanInputs(msgspec.Struct, frozen=True, dict=True):
    """Reads spans of files; each call reads them again. `accepted` are the known rejects.

    Groups feeds are left out: no damaged part of one is an ACL. Of the spans of other sources,
    which have `configs`, only ACLs that others inherit are read, for a `target` that needs
    decisions. The target names the feeds of the `run`, too. `kept_acls` is the file of its job.
    """

    spans: Iterable[Span]
    reading: ReadOptions
    accepted: frozenset[str] = frozenset()
    configs: Mapping[str, SourceConfig] = MappingProxyType({})
    target: Target | None = None
    kept_acls: Path | None = None
    run: str = ""
    settles_doubts: bool = False
    withholds: bool = True

    def records(self) -> Generator[ReadResult, None, None]:
        for span in self.spans:
            if (format_ := find_format(span.format)) and format_.holds_only_memberships:
                continue
            if span.source not in self.configs:
                yield from read_spans([span], self.reading)
            elif (acls := self._acls(span)) is not None:
                yield from acls
            else:
                raise ConfigError(
                    f"⟦transform⟧: {span.source}, next to ACLs that inherit; expected files of"
                    " records: write an archive with ⟦to_format avro⟧, and convert that"
                )

    def may_inherit(self) -> bool:
        return any(source_of(of).may_inherit(of, self.configs.get(of.source)) for of in self.spans)

    @property
    def can_be_read(self) -> bool:
        return not any(span.source in self.configs for span in self.spans)

    @property
    def is_full(self) -> bool:
        return self.target is not None and self.target.feedtype == FULL

    @property
    def sends_decisions(self) -> bool:
        return self.target is not None and by_name(self.target.format).needs_decisions

    def has_acls(self) -> bool:
        """Whether the ACLs that others inherit can be read of all sources."""
        others = (span for span in self.spans if span.source in self.configs)
        return all(self._acls(span) is not None for span in others)

    def _acls(self, span: Span) -> Iterator[ReadResult] | None:
        if self.target is None or not by_name(self.target.format).needs_decisions:
            return None
        return source_of(span).acls(span, self.configs[span.source])

    def may_be_acl(self, reject: Reject) -> bool:
        """Whether the bytes of a reject may be an ACL alone, by the patterns of its format."""
        span = self._members.get(reject.source)
        format_ = None if span is None or span.encoding else find_format(span.format)
        return format_ is None or reject.truncated or format_.may_relate_acls(reject.data)

    def feed_of(self, feed: Provenance | FeedHeader) -> tuple[str | None, str | None]:
        target, datasource, feedtype = self.target, feed.datasource, feed.feedtype
        if target is None:
            return datasource, feedtype
        return target.datasource or datasource, target.feedtype or feedtype

    @cached_property
    def _members(self) -> dict[str, Span]:
        """A span of each source."""
        members = (member for span in self.spans for member in span.members or (span,))
        return {span.source: span for span in members}

    def file(self, path: Path) -> Iterable[ReadResult]:
        groups = self._files([str(path)], "a groups feed")
        return read_spans(groups.spans, groups.reading)

    def is_accepted(self, reject: Reject) -> bool:
        return entry_of(reject) in self.accepted

    def updated(self, base: Path, steps: AppliedSteps, folder: Path) -> Iterable[Record]:
        names = (file.path for file in expand_input(str(base)))
        files = self._files(names, "documents")
        return updated_documents(files.records, lambda: steps.results(self.records()), folder)

    def _files(self, names: Iterable[str], expected: str) -> "SpanInputs":
        spans: list[Span] = []
        for name in names:
            span = Span(source=name, source_ordinal=len(spans))
            try:
                spans.append(msgspec.structs.replace(span, format=sniff_format(span)))
            except (SourceError, FormatError) as exc:
                raise ConfigError(f"{exc.text}; expected {expected}") from exc
        return SpanInputs(spans, msgspec.structs.replace(self.reading, batch_records=0))


def prepare_steps(
    spans: Iterable[Span], settings: Settings, *, run: str = "", settles_doubts: bool = False
) -> list[Span]:
    """Store what the steps of a run need to know of all records, in the folder of the run.

    A run that `settles_doubts` does not stop where an ACL inherits from a doubtful one.

    Return a span with the ACLs of earlier runs whose decisions have changed, if there are any. It
    comes before all others: a new version of one of its documents counts. Raise StoppedError if the
    run is to replace their datasources as a whole.
    """
    inputs = SpanInputs(
        spans,
        msgspec.structs.replace(
            settings.reading, batch_records=settings.batch_records, acls_in_blocks=True
        ),
        settings.known_rejects,
        settings.sources,
        settings.target,
        None if settings.kept_acls is None else Path(settings.kept_acls),
        run,
        settles_doubts,
        settings.withhold,
    )
    settings.steps.prepare(inputs, settings.local)
    changed = settings.local / CHANGED_ACLS
    if settings.kept_acls is None or not changed.exists():
        return []
    if inputs.is_full:
        raise StoppedError(
            "⟦feedtype full⟧: documents of datasources that are not in this run inherit from ACLs"
            " that have changed; expected their feeds, too, or a run without ⟦feedtype⟧, which"
            " sends the new decisions"
        )
    source, path = changed.name, str(changed)
    return [Span(source=source, path=path, format=JSONL.name, source_ordinal=FIRST)]


def check_inputs_of_steps(
    spans: Sequence[Span], steps: Steps, configs: dict[str, SourceConfig], *, to_format: str
) -> None:
    """Raise ConfigError for a source that cannot be read twice, if a step needs that."""
    sources = [span for span in spans if span.source in configs]
    target = Target(format=to_format)
    inputs = SpanInputs(sources, ReadOptions(), configs=configs, target=target)
    step = steps.reading_step(may_inherit=inputs.may_inherit(), has_acls=inputs.has_acls())
    if step and configs:
        source = next(iter(configs))
        raise ConfigError(
            f"⟦transform⟧: the step {step} reads {source} before the run; expected"
            " files of records: write an archive with ⟦to_format avro⟧, and convert that"
        )
