"""The documents of a listing: retrieved, transformed, and with the ACLs of the authorizer."""

from collections.abc import Generator, Iterable
from contextlib import closing

from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.programs.authorizer import authorize
from transforms.sources.programs.config import Programs
from transforms.sources.programs.redact import Mask
from transforms.sources.programs.retriever import retrieve
from transforms.sources.programs.transformer import transform


def documents(
    listed: Iterable[ReadResult],
    programs: Programs,
    *,
    options: ReadOptions = ReadOptions(),
) -> Generator[ReadResult, None, None]:
    """Yield the results of all programs for a listing, in its order.

    No reason and no notice shows a secret of the programs.
    """
    mask = Mask(programs.secrets())
    with (
        mask.errors(),
        closing(retrieve(listed, programs, options=options)) as retrieved,
        closing(transform(retrieved, programs, options=options)) as transformed,
        closing(authorize(transformed, programs, options=options)) as authorized,
    ):
        yield from authorized if mask.is_empty else map(mask.result, authorized)
