"""The documents of programs: the listing of a lister, and the answers of other programs for it.

**Spec:** GSA adaptor library, CommandLineAdaptor, getDocIds. Unlike the library, we stop the run
if the lister exits with another code than 0, is killed, exceeds its limits, or writes a stream
that cannot be read to its end.
"""

import shlex
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeGuard

from feedferry.schemas.errors import ProgramError, SourceError
from feedferry.schemas.record import Action, Record
from feedferry.schemas.span import Span
from feedferry.transforms.formats import LISTER_STREAM
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.net.redaction import Mask
from feedferry.transforms.sources.programs.authorizer import authorize
from feedferry.transforms.sources.programs.calls import ProgramCalls, map_ordered
from feedferry.transforms.sources.programs.config import Programs
from feedferry.transforms.sources.programs.process import run as run_program
from feedferry.transforms.sources.programs.retriever import retrieve
from feedferry.transforms.sources.programs.transformer import transform
from feedferry.transforms.storage.atomic import whole_file


def list_documents(programs: Programs, path: Path, options: ReadOptions = ReadOptions()) -> None:
    """Write the output of the lister to `path`, atomically.

    Raise SourceError if the lister fails or reports that the repository is unavailable, and
    FormatError if its output is not a lister stream. No message shows a secret.
    """
    command = shlex.join(programs.lister)
    try:
        with Mask(programs.secrets()).errors(), whole_file(path) as stream:
            run_program(programs, programs.lister, listing=stream)
            stream.flush()
            with open(stream.name, "rb") as listed:  # its end can report that it is incomplete
                results = LISTER_STREAM.read(listed, span=Span(source=command), options=options)
                deque(results, maxlen=0)
    except ProgramError as exc:
        code = exc.code.replace("program", "lister")
        raise SourceError(f"{command} ({code}): {exc.reason}") from exc


def documents(
    listed: Iterable[ReadResult], programs: Programs, *, options: ReadOptions = ReadOptions()
) -> Generator[ReadResult, None, None]:
    """Yield the results of all programs for a listing, in its order.

    Each listed ADD is retrieved, and all other items are passed on. No reason and no notice shows a
    secret of the programs. Raise SourceError if a program cannot be started.
    """
    mask = Mask(programs.secrets())
    calls = ProgramCalls(programs, options)
    with (
        mask.errors(),
        closing(_retrieve(listed, calls)) as retrieved,
        closing(authorize(retrieved, calls)) as authorized,
    ):
        yield from map(mask.result, authorized)


def _retrieve(
    listed: Iterable[ReadResult], calls: ProgramCalls
) -> Generator[ReadResult, None, None]:
    """Yield notices and one Record, Filtered or Reject for each listed ADD."""
    if not calls.programs.retriever:
        yield from listed
        return

    def get(record: Record, cancelled: Event) -> list[ReadResult]:
        results = retrieve(calls, record, cancelled)
        if not calls.programs.transformer:
            return results
        return [transform(calls, one, cancelled) if _is_added(one) else one for one in results]

    items = (partial(get, item) if _is_added(item) else item for item in listed)
    with closing(map_ordered(items, parallel=calls.programs.parallel or 1)) as results:
        yield from results


def _is_added(item: ReadResult) -> TypeGuard[Record]:
    return isinstance(item, Record) and item.action is Action.ADD
