"""Compare two inputs, and write a feed that makes the second of the first."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from feedferry.pipelines.compare.inputs import CompareInput
from feedferry.pipelines.options.compare_options import CompareOptions
from feedferry.pipelines.options.flags import decode
from feedferry.schemas.errors import FINDINGS_EXIT
from feedferry.transforms.compare.comparison import Comparer, Comparison
from feedferry.transforms.formats import by_name
from feedferry.transforms.rules.adapt import Target


class ComparedInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Two inputs that were compared; the differences are in a folder of the comparison."""

    counts: Comparison
    comparer: Comparer
    after: CompareInput

    @property
    def exit_code(self) -> int:
        return FINDINGS_EXIT if self.counts.has_findings else 0


@contextmanager
def diff(
    before: Iterable[str], after: Iterable[str], words: Mapping[str, object]
) -> Iterator[ComparedInputs]:
    """Compare two inputs, both as `--to` would hold them if it is given."""
    options = decode(CompareOptions, words)
    with tempfile.TemporaryDirectory(prefix="feedferry-compare-") as name:
        folder = Path(name)
        target = target_of(words)
        first, second = (
            CompareInput(names, words, folder=folder, target=target) for names in (before, after)
        )
        with closing(
            Comparer(folder, ignored=options.ignore, is_updated=takes_updates(target))
        ) as comparer:
            comparer.is_by_datasource = _is_by_datasource(target)
            comparer.add_before(first.results())
            comparer.add_after(second.results())
            yield ComparedInputs(counts=comparer.compare(), comparer=comparer, after=second)


@contextmanager
def folded(inputs: Iterable[str], words: Mapping[str, object]) -> Iterator[ComparedInputs]:
    """Fold a history; all documents that an appliance would hold are added ones."""
    with tempfile.TemporaryDirectory(prefix="feedferry-compact-") as name:
        history = CompareInput(inputs, words, folder=Path(name))
        with closing(Comparer(Path(name))) as comparer:
            comparer.is_by_datasource = _is_by_datasource(target_of(words))
            comparer.add_before(())
            comparer.add_after(history.results())
            yield ComparedInputs(counts=comparer.compare(), comparer=comparer, after=history)


def _is_by_datasource(target: Target | None) -> bool:
    """Whether a target has an index for each datasource, so that a URL may be in several."""
    return target is not None and by_name(target.format).needs_decisions


def takes_updates(target: Target | None) -> bool:
    """Whether a target takes changes of fields without the content."""
    return target is not None and by_name(target.format).takes_updates(target)


def target_of(words: Mapping[str, object]) -> Target | None:
    name = words.get("to_format")
    return None if name is None else Target(format=str(name))
