"""What a run has found before its pipeline begins: sealed, so that damage to it is seen.

The folder of an unfinished run holds listings, plans and selections. A run that is resumed goes on
with them, and one that lost its last lines would leave out documents without a word. So they are
hashed before the pipeline begins, and a run whose seal does not fit begins again.
"""

from pathlib import Path

import msgspec

from schemas.account import SpanFile
from transforms.storage.atomic import whole_file
from transforms.storage.attempts import digest_of, is_untouched, is_whole

SEAL = "seal.json"

_FOUND = ("generation", "*.listing", "*.listed-at", "*.plan.json", "*.gone")
"""The files that sources make before the pipeline begins."""


def seal(work: Path) -> None:
    """Hash the files that were made before the pipeline begins.

    Call this only in a run that has found its seal whole, or none: what is not as it was sealed
    was made anew by this run.
    """
    sealed = {file.path: file for file in _read(work) or ()}
    paths = sorted(path for pattern in _FOUND for path in work.glob(pattern))
    files = [_described(path, sealed.get(path.name)) for path in paths]
    if files != list(sealed.values()) or not (work / SEAL).exists():
        with whole_file(work / SEAL) as stream:
            stream.write(msgspec.json.encode(files))


def is_sealed(work: Path, *, verify: bool) -> bool:
    """Whether a run has sealed what it had found, and all of that is as it was."""
    files = _read(work)
    return files is not None and all(
        is_whole(work / file.path, file, verify=verify) for file in files
    )


def _read(work: Path) -> list[SpanFile] | None:
    """Return what is sealed, None if there is no seal, or one that is damaged."""
    try:
        return msgspec.json.decode((work / SEAL).read_bytes(), type=list[SpanFile])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _described(path: Path, sealed: SpanFile | None) -> SpanFile:
    if sealed is not None and is_untouched(path, sealed):
        return sealed
    status = path.stat()
    return SpanFile(
        path=path.name,
        bytes=status.st_size,
        sha256=digest_of(path),
        modified_ns=status.st_mtime_ns,
    )
