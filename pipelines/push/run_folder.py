"""The folder of a run: its manifest, and the report and rejects of a push."""

from pathlib import Path

import msgspec

from pipelines.cli.locks import PUSHES
from pipelines.push.report import as_json
from schemas.account import Chunk
from schemas.errors import ConfigError
from schemas.receipt import ChunkState
from transforms.sinks.push.outcome import PushAccount, with_outcome, write_rejects
from transforms.sinks.push.settings import Keep, PushSettings
from transforms.storage.atomic import whole_file, write_json

MANIFEST = "manifest.jsonl"
REPORT = "report.json"


def receipts_folder(root: Path, settings: PushSettings) -> Path:
    """Return the folder with the receipts of a run for an appliance."""
    return root / PUSHES / settings.appliance.name


def read_manifest(root: Path) -> list[Chunk]:
    """Return the chunks of a run; raise ConfigError if it is unfinished or cannot be read."""
    if not (root / REPORT).exists():
        raise ConfigError(unfinished_message(root))
    try:
        lines = (root / MANIFEST).read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Chunk) for line in lines]
    except (OSError, msgspec.DecodeError) as exc:
        raise ConfigError(f"{root / MANIFEST}: {exc}; expected the manifest of a run") from exc


def write_manifest(root: Path, chunks: list[Chunk]) -> None:
    with whole_file(root / MANIFEST) as stream:
        stream.writelines(msgspec.json.encode(chunk, order="sorted") + b"\n" for chunk in chunks)


def record_push(root: Path, account: PushAccount, settings: PushSettings) -> None:
    """Write report, manifest and rejects of a push; remove accepted chunks if that is asked for."""
    folder = receipts_folder(root, settings)
    write_json(folder / REPORT, as_json(account))
    outcomes = {outcome.chunk.ordinal: outcome for outcome in account.outcomes}
    # An update of indexes that is not pushed stays: receipts belong to all chunks of a run.
    chunks = [
        with_outcome(chunk, outcomes[chunk.ordinal]) if chunk.ordinal in outcomes else chunk
        for chunk in read_manifest(root)
    ]
    write_manifest(root, chunks)
    write_rejects(account.outcomes, root=root, path=root / "rejects" / f"push-{folder.name}.avro")
    if settings.keep is Keep.REFUSED:
        for outcome in account.outcomes:
            if outcome.state is ChunkState.ACCEPTED:
                (root / outcome.chunk.path).unlink(missing_ok=True)


def unfinished_message(path: Path) -> str:
    return (
        f"INPUT: {str(path)!r}: an unfinished run; expected a finished one: start its conversion"
        " again to complete it"
    )
