"""Verify a migration at its target: every document of an input is there, with the same fields.

The target is a rehearsal appliance, which lists its documents, or another input, such as a spool or
an archive.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from pipelines.compare.diff import ComparedInputs, takes_updates, target_of
from pipelines.compare.inputs import CompareInput
from pipelines.compare.target_documents import HELD_FIELDS, listed_documents
from pipelines.options.compare_options import VerifyOptions
from pipelines.options.flags import decode
from transforms.compare.comparison import Comparer

_ADDRESSES = ("http://", "https://")


@contextmanager
def verify(names: Iterable[str], words: Mapping[str, object]) -> Iterator[ComparedInputs]:
    """Compare a target with an input, which is as `--to` would hold it if that is given.

    The differences lead from the target to the input: an added document is missing at the target,
    and a removed document was deleted by the input and is still there. Documents of the target that
    the input does not mention are only counted.
    """
    options = decode(VerifyOptions, words)
    with tempfile.TemporaryDirectory(prefix="feedferry-verify-") as name:
        folder = Path(name)
        expected = CompareInput(names, words, folder=folder, target=target_of(words))
        is_listed = options.against.startswith(_ADDRESSES)
        comparer = Comparer(
            folder,
            ignored=options.ignore,
            only=HELD_FIELDS if is_listed else None,
            is_updated=takes_updates(words),
            is_one_sided=True,
        )
        with closing(comparer):
            if is_listed:
                comparer.add_before(listed_documents(options.against, held_in=options.held_in))
            else:
                found = CompareInput((options.against,), words, folder=folder)
                comparer.add_before(found.results())
            comparer.add_after(expected.results())
            yield ComparedInputs(counts=comparer.compare(), comparer=comparer, after=expected)
