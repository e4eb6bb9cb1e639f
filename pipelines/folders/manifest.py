"""The manifest of a run, and the folders of its receipts."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from pipelines.folders.locks import PUSHES
from schemas.account import Chunk
from schemas.errors import ConfigError, FatalError
from transforms.sinks.push.settings import PushSettings
from transforms.storage.atomic import whole_file

MANIFEST = "manifest.jsonl"
REPORT = "report.json"

EXPECTED_INPUT = (
    "expected the folder of a finished run (the -o of convert), or feed files with ⟦output DIR⟧"
)


def receipts_folder(root: Path, settings: PushSettings) -> Path:
    """Return the folder with the receipts of a run for an appliance."""
    return root / PUSHES / settings.appliance.name


def read_manifest(root: Path) -> list[Chunk]:
    """Return the chunks of a run.

    Raises ConfigError for an unfinished run, and FatalError for a damaged manifest.
    """
    if not (root / REPORT).exists():
        raise ConfigError(unfinished_message(root))
    path = root / MANIFEST
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Chunk) for line in lines]
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
