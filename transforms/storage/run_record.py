"""The record of a run, `run.json` in its folder."""

import os
from pathlib import Path

import msgspec

from schemas.errors import FatalError
from schemas.run_record import RUN_RECORD, RunRecord
from transforms.storage.atomic import whole_file
from transforms.storage.journal import sync_file


def read_run(folder: Path) -> RunRecord | None:
    """Return the record of a run, None for a folder without one; raise FatalError if damaged."""
    path = folder / RUN_RECORD
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunRecord)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise FatalError(f"{path}: {exc.strerror}; expected a readable file") from exc
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FatalError(
            f"{path}: {exc}; expected the record of a run: restore it, or move the folder away"
        ) from exc


def write_run(folder: Path, record: RunRecord) -> RunRecord:
    """Write the record of a run, which is on the disk on return; return it."""
    with whole_file(folder / RUN_RECORD) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    sync_file(folder)
    return record
