"""Write the records that an appliance refused as rejects, with its words."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from schemas.errors import FormatError, RecordError
from schemas.reject import Reject
from transforms.sinks.push.outcome import REFUSED, ChunkOutcome
from transforms.sinks.push.splitter import ChunkSplitter
from transforms.storage.atomic import RejectFile

CODE = "refused"
EXPECTED = "; expected "


def write_rejects(outcomes: Iterable[ChunkOutcome], *, root: Path, path: Path) -> int:
    """Write all refused records, in the order of the chunks; return the number of rejects.

    A chunk of several records that was refused as a whole is one reject, with its first bytes. Its
    file is kept.
    """
    refused = [outcome for outcome in outcomes if outcome.refused or outcome.state == REFUSED]
    if not refused:
        path.unlink(missing_ok=True)  # an earlier push wrote it; its records are accepted now
        return 0
    path.parent.mkdir(exist_ok=True)
    rejects = RejectFile(path)
    for outcome in refused:
        for reject in _rejects(outcome, root):
            rejects.add(reject)
    rejects.close(whole=True)
    return rejects.count


def _rejects(outcome: ChunkOutcome, root: Path) -> Iterator[Reject]:
    splitter = ChunkSplitter(outcome.chunk, root)
    if outcome.state == REFUSED and not outcome.refusals:
        yield splitter.reject(splitter.whole, _error(outcome.reply or ""))
    for refusal in outcome.refusals:
        try:
            part = splitter.single(splitter.whole, refusal.record)
        except FormatError:  # a chunk in another encoding cannot be split
            part = splitter.whole
        yield splitter.reject(part, _error(refusal.words))


def _error(words: str) -> RecordError:
    if EXPECTED in words:  # a message about the whole request, which is complete
        return RecordError(CODE, words)
    return RecordError(CODE, f"the appliance responded {words!r}; expected it to take the record")
