"""Verify a migration at its target: every document of an input is there, with the same fields.

The target is a rehearsal appliance, which lists its documents, another input, such as a spool or an
archive, or the servers of the documents, which are asked for each URL.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from feedferry.pipelines.compare.diff import ComparedInputs, takes_updates, target_of
from feedferry.pipelines.compare.inputs import CompareInput
from feedferry.pipelines.compare.target_documents import HELD_FIELDS, listed_documents
from feedferry.pipelines.compare.url_checks import url_events
from feedferry.pipelines.options.compare_options import URLS, VerifyOptions
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Record
from feedferry.transforms.compare.comparison import ALL, Comparer, Sample
from feedferry.transforms.compare.differences import CONTENT
from feedferry.transforms.compare.events import Event
from feedferry.transforms.compare.history import each
from feedferry.transforms.formats import ReadResult


@contextmanager
def verify(
    names: Iterable[str], words: Mapping[str, object], options: VerifyOptions
) -> Iterator[ComparedInputs]:
    """Compare a target with an input, which is as `--to` would hold it if that is given.

    The differences lead from the target to the input: an added document is missing at the target,
    and a removed document was deleted by the input and is still there. Documents of the target that
    the input does not mention are only counted.
    """
    against = options.against
    is_listed = against.startswith(("http://", "https://"))
    with tempfile.TemporaryDirectory(prefix="feedferry-verify-") as name:
        folder = Path(name)
        target = target_of(words)
        expected = CompareInput(names, words, folder=folder, target=target)
        results: Iterable[ReadResult | Event] = expected.results()
        fields = HELD_FIELDS if is_listed else None
        if is_listed or against == URLS:  # no appliance lists groups, and no server knows them
            results = (item for item in results if not isinstance(item, Membership))
        if against == URLS:
            results = filter(_has_url, each(results))
            fields = frozenset({CONTENT} if options.contents else ())
        comparer = Comparer(
            folder,
            ignored=options.ignore,
            only=fields,
            is_updated=takes_updates(target),
            is_one_sided=True,
        )
        comparer.sample = _sample_of(options)
        with closing(comparer):
            comparer.add_after(results)
            if against == URLS:
                documents, reads = comparer.documents(), options.contents
                comparer.add_before(
                    url_events(documents, requests=options.requests, reads_contents=reads)
                )
            elif is_listed:
                comparer.add_before(listed_documents(against, held_in=options.held_in))
            else:
                comparer.add_before(CompareInput((against,), words, folder=folder).results())
            yield ComparedInputs(counts=comparer.compare(), comparer=comparer, after=expected)


def _sample_of(options: VerifyOptions) -> Sample:
    size = options.sample
    if size is None:
        return ALL
    if size.percent is not None:
        return Sample.share(float(size.percent) / 100)
    return Sample(count=size.count)


def _has_url(item: ReadResult | Event) -> bool:
    """Whether an item is at a URL; an ACL alone is at none."""
    return not (isinstance(item, Record) and item.acl is not None and item.acl.alone)
