"""The documents of a listing: retrieved, transformed, and with the ACLs of the authorizer."""

from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial
from typing import TypeGuard

from schemas.record import Action, Record
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.programs.authorizer import authorize
from transforms.sources.programs.calls import map_ordered
from transforms.sources.programs.config import Programs
from transforms.sources.programs.process import CancelToken
from transforms.sources.programs.redact import Mask
from transforms.sources.programs.retriever import Retriever
from transforms.sources.programs.transformer import Transformer


def documents(
    listed: Iterable[ReadResult],
    programs: Programs,
    *,
    options: ReadOptions = ReadOptions(),
) -> Generator[ReadResult, None, None]:
    """Yield the results of all programs for a listing, in its order.

    Each listed ADD is retrieved, and all other items are passed on. No reason and no notice shows a
    secret of the programs. Raise SourceError if a program cannot be started.
    """
    mask = Mask(programs.secrets())
    with (
        mask.errors(),
        closing(_retrieve(listed, programs, options)) as retrieved,
        closing(authorize(retrieved, programs, options=options)) as authorized,
    ):
        yield from map(mask.result, authorized)


def _retrieve(
    listed: Iterable[ReadResult], programs: Programs, options: ReadOptions
) -> Generator[ReadResult, None, None]:
    """Yield notices and one Record, Filtered or Reject for each listed ADD."""
    if not programs.retriever:
        yield from listed
        return
    retriever = Retriever(programs, options)
    transformer = Transformer(programs, options) if programs.transformer else None

    def get(record: Record, token: CancelToken) -> list[ReadResult]:
        results = retriever.retrieve(record, token)
        if transformer is None:
            return results
        return [transformer.transform(one, token) if _is_added(one) else one for one in results]

    items = (partial(get, item) if _is_added(item) else item for item in listed)
    with closing(map_ordered(items, parallel=programs.parallel or 1)) as results:
        yield from results


def _is_added(item: ReadResult) -> TypeGuard[Record]:
    return isinstance(item, Record) and item.action is Action.ADD
