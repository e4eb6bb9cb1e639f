"""Records that an appliance refused, as rejects: their bytes and the appliance's words."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from schemas.errors import FormatError, RecordError
from schemas.reject import Reject
from transforms.sinks.push.model import ChunkPart
from transforms.sinks.push.outcome import REFUSED, ChunkOutcome
from transforms.sinks.push.splitter import ChunkSplitter
from transforms.storage.atomic import RejectFile

CODE = "refused"
EXPECTED = "; expected "


def write_rejects(outcomes: Iterable[ChunkOutcome], *, root: Path, path: Path) -> int:
    """Write all that was refused, in the order of the chunks; return how many rejects these are.

    A chunk of several records that was refused as a whole is one reject, with its first bytes: it
    keeps its file.
    """
    refused = [fate for fate in outcomes if fate.refused or fate.state == REFUSED]
    if not refused:
        path.unlink(missing_ok=True)  # of a push before this one: what it refused is taken now
        return 0
    path.parent.mkdir(exist_ok=True)
    rejects = RejectFile(path)
    for fate in refused:
        for reject in _rejects(fate, root):
            rejects.add(reject)
    rejects.close(whole=True)
    return rejects.count


def _rejects(fate: ChunkOutcome, root: Path) -> Iterator[Reject]:
    cutter = ChunkSplitter(fate.chunk, root)
    if fate.state == REFUSED and not fate.refusals:
        yield cutter.reject(cutter.whole, _refused(fate.reply or ""))
    for refusal in fate.refusals:
        yield cutter.reject(_single(cutter, refusal.record), _refused(refusal.words))


def _single(cutter: ChunkSplitter, record: int) -> ChunkPart:
    """One record; or the whole of a chunk that cannot be cut, as it is in another encoding."""
    try:
        return cutter.single(cutter.whole, record)
    except FormatError:
        return cutter.whole


def _refused(words: str) -> RecordError:
    if EXPECTED in words:  # it was said of a request as a whole, with all that there is to say
        return RecordError(CODE, words)
    return RecordError(CODE, f"the appliance said {words!r}; expected it to take the record")
