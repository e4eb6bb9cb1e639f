"""The manifest of a run, and the folders of its receipts."""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from feedferry.pipelines.folders.locks import LOCK, PUSHES, WORK
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError, FatalError
from feedferry.schemas.lazy_sequence import LazySequence
from feedferry.schemas.run_record import RUN_RECORD
from feedferry.transforms.sinks.push import receipts
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.storage.atomic import whole_file
from feedferry.transforms.storage.files.line_file import LineFile
from feedferry.transforms.storage.storage import PARTIAL

MANIFEST = "manifest.jsonl"
REPORT = "report.json"
RUN_LOG = "run.log"

EXPECTED_INPUT = (
    "expected the folder of a finished run (the -o of convert), or feed files with ⟦output DIR⟧"
)

_decoder = msgspec.json.Decoder(Chunk)


class Manifest(LazySequence[Chunk]):
    """The chunks of a run by their ordinals, as the file has them when it is first read.

    In memory is only where the lines begin: 8 bytes for each chunk.
    """

    def __init__(self, path: Path) -> None:
        """Read the file once; raise OSError, MsgspecError or UnicodeDecodeError for a bad one."""
        self._lines = LineFile(path)
        begins, ordinals, offset = array("q"), array("q"), 0
        for line in self._lines:
            ordinals.append(_decoder.decode(line).ordinal)
            begins.append(offset)
            offset += len(line) + 1
        indexes = range(len(ordinals))
        self._is_ordered = all(ordinals[index - 1] <= ordinals[index] for index in indexes[1:])
        if not self._is_ordered:
            ordered = sorted(indexes, key=ordinals.__getitem__)
            begins = array("q", map(begins.__getitem__, ordered))
        super().__init__(begins, lambda begin: _decoder.decode(self._lines.line_at(begin)))

    def __iter__(self) -> Iterator[Chunk]:
        return map(_decoder.decode, self._lines) if self._is_ordered else super().__iter__()


def check_own_folder(output: Path) -> None:
    """Raise ConfigError for an output folder with files, hidden ones apart, that has no run."""
    names = {path.name for path in output.glob("[!.]*") if path.suffix != PARTIAL}
    names -= {LOCK, RUN_LOG}  # a run that ends at once leaves these
    if names and not (output / WORK).exists() and not names & {"chunks", REPORT, RUN_RECORD}:
        raise ConfigError(
            f"⟦output⟧ {output}: holds {min(names)}, and no run; expected a new or empty folder"
        )


def receipts_folder(root: Path, settings: PushSettings) -> Path:
    """Return the folder with the receipts of a run for an appliance."""
    return root / PUSHES / settings.appliance.name


def has_sent(root: Path) -> bool:
    """Whether targets may have a part of a run; they may if its receipts are damaged."""
    try:
        return any(map(receipts.has_sent, root.glob(f"{PUSHES}/*")))
    except FatalError:
        return True


def read_manifest(root: Path) -> Manifest:
    """Return the chunks of a run.

    Raises ConfigError for an unfinished run, and FatalError for a damaged manifest.
    """
    if not (root / REPORT).exists():
        raise ConfigError(unfinished_message(root))
    path = root / MANIFEST
    try:
        return Manifest(path)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FatalError(
            f"{path}: {exc}; expected the manifest of a run: restore it, or convert again with"
            " ⟦fresh⟧"
        ) from exc


def write_manifest(root: Path, chunks: Iterable[Chunk]) -> None:
    with whole_file(root / MANIFEST) as stream:
        stream.writelines(msgspec.json.encode(chunk, order="sorted") + b"\n" for chunk in chunks)


def unfinished_message(path: Path) -> str:
    return (
        f"⟦inputs⟧: {str(path)!r}: an unfinished run; expected a finished one: start its conversion"
        " again to complete it"
    )
