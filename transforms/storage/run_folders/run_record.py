"""The record of a run, `run.json` in its folder."""

import os
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.run_record import RUN_RECORD, RunRecord
from feedferry.schemas.setting import in_flags
from feedferry.transforms.storage.atomic import read_json, whole_file
from feedferry.transforms.storage.files.journal import sync_file


def read_run(folder: Path) -> RunRecord | None:
    """Return the record of a run, None for a folder without one; raise FatalError if damaged."""
    expected = "the record of a run: restore it, or move the folder away"
    return read_json(folder / RUN_RECORD, RunRecord, expected=expected)


def write_run(folder: Path, record: RunRecord) -> RunRecord:
    """Write the record of a run with a message that names flags, to the disk; return it."""
    record = replace(record, message=record.message and in_flags(record.message))
    with whole_file(folder / RUN_RECORD) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    sync_file(folder)
    return record
