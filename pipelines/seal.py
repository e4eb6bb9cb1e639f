"""What a run has found before its pipeline begins: sealed, so that damage to it is seen.

The folder of an unfinished run holds listings, plans and selections. A run that is resumed goes on
with them, and one that lost its last lines would leave out documents without a word. So they are
hashed when all of them are there, and a run whose seal does not fit begins again.
"""

from pathlib import Path

import msgspec

from schemas.account import SpanFile
from transforms.sinks.attempts import digest_of, is_whole
from transforms.sinks.files import whole_file

SEAL = "seal.json"


def seal(work: Path) -> None:
    """Hash the files of a run that were made before its pipeline begins, unless that was done."""
    if (work / SEAL).exists():
        return
    files = [_described(path) for path in sorted(work.iterdir()) if path.is_file()]
    with whole_file(work / SEAL) as stream:
        stream.write(msgspec.json.encode(files))


def is_sealed(work: Path, *, verify: bool) -> bool:
    """Whether a run had begun its pipeline, and the files it began with are as they were."""
    try:
        files = msgspec.json.decode((work / SEAL).read_bytes(), type=list[SpanFile])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return all(is_whole(work / file.path, file, verify=verify) for file in files)


def _described(path: Path) -> SpanFile:
    status = path.stat()
    return SpanFile(
        path=path.name,
        bytes=status.st_size,
        sha256=digest_of(path),
        modified_ns=status.st_mtime_ns,
    )
