"""Verify a migration at its target: every document of an input is there, with the same fields.

The target is a rehearsal appliance, which lists its documents, another input, such as a spool or an
archive, or the servers of the documents, which are asked for each URL.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from pipelines.compare.diff import ComparedInputs, takes_updates, target_of
from pipelines.compare.inputs import CompareInput
from pipelines.compare.target_documents import HELD_FIELDS, listed_documents
from pipelines.compare.url_checks import UrlChecker
from pipelines.options.compare_options import URLS, VerifyOptions
from schemas.membership import Membership
from schemas.record import Record
from transforms.compare.comparison import ALL, Comparer, Sample
from transforms.compare.differences import CONTENT
from transforms.compare.events import Event
from transforms.compare.history import each
from transforms.formats import ReadResult

_ADDRESSES = ("http://", "https://")


@contextmanager
def verify(
    names: Iterable[str], words: Mapping[str, object], options: VerifyOptions
) -> Iterator[ComparedInputs]:
    """Compare a target with an input, which is as `--to` would hold it if that is given.

    The differences lead from the target to the input: an added document is missing at the target,
    and a removed document was deleted by the input and is still there. Documents of the target that
    the input does not mention are only counted.
    """
    with tempfile.TemporaryDirectory(prefix="feedferry-verify-") as name:
        folder = Path(name)
        expected = CompareInput(names, words, folder=folder, target=target_of(words))
        comparer = Comparer(
            folder,
            ignored=options.ignore,
            only=_stated_fields(options),
            is_updated=takes_updates(words),
            is_one_sided=True,
        )
        comparer.sample = _sample_of(options)
        with closing(comparer):
            comparer.add_after(_comparable(expected.results(), options))
            if options.against == URLS:
                requests, reads = options.requests, options.contents
                checker = UrlChecker(requests=requests, reads_contents=reads)
                comparer.add_before(checker.events(comparer.documents()))
            else:
                comparer.add_before(_held_documents(options, words, folder))
            yield ComparedInputs(counts=comparer.compare(), comparer=comparer, after=expected)


def _stated_fields(options: VerifyOptions) -> frozenset[str] | None:
    """Return the fields that the target can state, None for all."""
    if options.against == URLS:
        return frozenset({CONTENT} if options.contents else ())
    return HELD_FIELDS if options.against.startswith(_ADDRESSES) else None


def _sample_of(options: VerifyOptions) -> Sample:
    size = options.sample
    if size is None:
        return ALL
    if size.percent is not None:
        return Sample.share(float(size.percent) / 100)
    return Sample(count=size.count)


def _held_documents(
    options: VerifyOptions, words: Mapping[str, object], folder: Path
) -> Iterator[ReadResult | Event]:
    if options.against.startswith(_ADDRESSES):
        return listed_documents(options.against, held_in=options.held_in)
    return CompareInput((options.against,), words, folder=folder).results()


def _comparable(
    results: Iterable[ReadResult], options: VerifyOptions
) -> Iterable[ReadResult | Event]:
    """Return the results that a target can be asked about.

    No appliance lists groups, and no server knows them. An ACL alone is at no URL.
    """
    if options.against == URLS:
        return filter(_has_url, each(_without_groups(results)))
    return _without_groups(results) if options.against.startswith(_ADDRESSES) else results


def _without_groups(results: Iterable[ReadResult]) -> Iterator[ReadResult]:
    return (item for item in results if not isinstance(item, Membership))


def _has_url(item: ReadResult | Event) -> bool:
    return not (isinstance(item, Record) and item.acl is not None and item.acl.alone)
