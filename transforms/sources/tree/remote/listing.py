"""What stands in a remote tree as lines of a listing: in order, sidecars with their files.

All of it streams. A file waits until none of its sidecars can follow any more: that is a matter of
a few keys, as theirs begin with its own.
"""

import heapq
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from typing import IO

import msgspec

from schemas.errors import SourceError
from transforms.sources.listing import Kind, Listed
from transforms.sources.tree.patterns import SIDECARS, described_by, judge
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.walk import listed_file

RUN_LENGTH = 100_000
"""So many files are sorted in memory; beyond that they wait in a temporary file."""

MOST_WAITING = 10_000
"""Beyond so many, the server is asked for the sidecars of the file that all of them wait for."""

MOST_FOLDERS = 100
"""So many folders stand in each other at most; beyond that they stand in themselves."""

_BLOCK_BYTES = 1 << 16
_LAST_SIDECAR = max(SIDECARS)


class Remote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file as its server tells it, or what else stands there.

    A size or time of `None` is not known. A changed `fingerprint` means
    that the file has changed.
    """

    key: str
    path: str
    kind: Kind = Kind.FILE
    size: int | None = None
    modified_ns: int | None = None
    fingerprint: str = ""
    code: str = ""
    reason: str = ""


Find = Callable[[str], Remote | None]
"""Asks a server for one file by its key; `None` if it is not there."""


Descend = Callable[[Remote], Iterator[Remote]]
"""Lists a folder, in order; raises OSError where that cannot be done."""


class _Waiting(msgspec.Struct):
    remote: Remote
    sidecars: list[Remote]
    is_sidecar: bool = False


_encoder = msgspec.json.Encoder()
_lines = msgspec.json.Decoder(Remote)


def list_files(tree: Tree, found: Iterable[Remote], *, find: Find) -> Iterator[Listed]:
    """Yield the lines of what was found, which is in order; raise SourceError where it is not."""
    by_rules = listed_file(tree)
    only = frozenset(tree.only)
    for waiting in _paired(_checked(tree, found), find):
        remote = waiting.remote
        if only and remote.key not in only:
            continue
        if waiting.is_sidecar:
            yield _plain(remote, Kind.FILTERED, "sidecar")
        elif remote.kind is not Kind.FILE:
            yield _plain(remote, remote.kind, remote.code, remote.reason)
        else:
            paths = tuple(sidecar.path for sidecar in waiting.sidecars)
            listed = by_rules(remote.key, remote.path, remote.size, remote.modified_ns, paths)
            yield _with_around(listed, remote, waiting.sidecars)


def in_order(found: Iterable[Remote], *, run_length: int = RUN_LENGTH) -> Iterator[Remote]:
    """Return all of it in the order of the UTF-8 bytes of its keys, which is that of the keys.

    It is taken at once; what is beyond a run waits in a temporary file.
    """
    runs = _sorted_runs(found, run_length)
    first, second = next(runs, []), next(runs, None)
    if second is None:
        return iter(first)
    with ExitStack() as opened:
        stream = opened.enter_context(tempfile.TemporaryFile())
        places = [_spill(stream, run) for run in chain((first, second), runs)]
        return _merged(stream, places, opened.pop_all())


def walk_folders(tree: Tree, top: Iterator[Remote], descend: Descend) -> Iterator[Remote]:
    """Yield what stands below a folder and those below it, but not the folders themselves."""
    code_of = judge(tree)
    folders = [top]
    while folders:
        child = next(folders[-1], None)
        if child is None:
            folders.pop()
        elif child.kind is not Kind.FOLDER:
            yield child
        elif code := code_of(child.key, None):
            yield filtered(child.key, child.path, code)
        elif len(folders) == MOST_FOLDERS:
            yield _unlistable(child, f"{MOST_FOLDERS} folders above it; expected fewer")
        else:
            try:
                folders.append(descend(child))
            except OSError as exc:
                reason = f"{words_of(exc)}; expected a folder that can be listed"
                yield _unlistable(child, reason)


def words_of(exc: OSError) -> str:
    """Return what went wrong, without number and path."""
    return exc.strerror or str(exc) or type(exc).__name__


def folder(key: str, path: str) -> Remote:
    """A folder; its key ends in `/`, so that it stands where its files do."""
    return Remote(key=key, path=path, kind=Kind.FOLDER)


def filtered(key: str, path: str, code: str, reason: str = "") -> Remote:
    return Remote(key=key, path=path, kind=Kind.FILTERED, code=code, reason=reason)


def rejected(key: str, path: str, code: str, reason: str) -> Remote:
    return Remote(key=key, path=path, kind=Kind.REJECTED, code=code, reason=reason)


def _checked(tree: Tree, found: Iterable[Remote]) -> Iterator[Remote]:
    """Yield what has a name that can stand in a url."""
    last = ""
    for remote in found:
        if remote.key < last:
            raise SourceError(
                f"{tree.root}: {remote.key!r} behind {last!r}; expected names in their order"
            )
        last = remote.key
        if not remote.key:  # the root, as an object of its own
            continue
        yield _with_name(remote) if remote.kind is Kind.FILE else remote


def _with_name(remote: Remote) -> Remote:
    if remote.key.endswith("/"):
        return filtered(remote.key, remote.path, "no-file", "an object that stands for a folder")
    if not {"", ".", ".."}.isdisjoint(remote.key.split("/")):
        reason = f"{remote.key!r}; expected no '//', '.' or '..' in the name of a file"
        return rejected(remote.key, remote.path, "file-name", reason)
    return remote


def _paired(found: Iterable[Remote], find: Find) -> Iterator[_Waiting]:
    """Yield all in their order, each file when its sidecars are known."""
    queue: deque[_Waiting] = deque()
    owners: dict[str, _Waiting] = {}
    for remote in found:
        _forget(owners, remote.key)
        waiting = _Waiting(remote, [])
        queue.append(waiting)
        owner = _owner(remote, owners)
        if owner is not None:
            owner.sidecars.append(remote)
            waiting.is_sidecar = True
        elif remote.kind is Kind.FILE:
            owners[remote.key] = waiting
        yield from _settled(queue, remote.key, find)
    yield from queue


def _forget(owners: dict[str, _Waiting], key: str) -> None:
    """Keep only the files of which a sidecar may still come: the key of each begins the next's."""
    while owners and key > next(reversed(owners)) + _LAST_SIDECAR:
        owners.popitem()


def _owner(remote: Remote, owners: dict[str, _Waiting]) -> _Waiting | None:
    if remote.kind is not Kind.FILE:
        return None
    described = described_by(remote.key)
    return None if described is None else owners.get(described)


def _settled(queue: deque[_Waiting], key: str, find: Find) -> Iterator[_Waiting]:
    while queue and not _waits(queue[0], key):
        yield queue.popleft()
    if len(queue) > MOST_WAITING:
        first = queue.popleft()
        beside = (find(first.remote.key + sidecar) for sidecar in sorted(SIDECARS))
        first.sidecars = [sidecar for sidecar in beside if sidecar is not None]
        yield first


def _waits(waiting: _Waiting, key: str) -> bool:
    is_owner = waiting.remote.kind is Kind.FILE and not waiting.is_sidecar
    return is_owner and key <= waiting.remote.key + _LAST_SIDECAR


def _plain(remote: Remote, kind: Kind, code: str, reason: str = "") -> Listed:
    return Listed(
        key=remote.key,
        kind=kind,
        path=remote.path,
        size=remote.size or 0,
        modified_ns=remote.modified_ns,
        code=code,
        reason=reason,
    )


def _with_around(listed: Listed, remote: Remote, sidecars: list[Remote]) -> Listed:
    """Add what tells that the file or one of its sidecars has changed."""
    marks = (
        f"{one.key} {one.size} {one.modified_ns} {one.fingerprint}".rstrip() for one in sidecars
    )
    fingerprint = "\n".join(filter(None, (listed.fingerprint, remote.fingerprint, *marks)))
    return msgspec.structs.replace(listed, fingerprint=fingerprint) if fingerprint else listed


def _unlistable(remote: Remote, reason: str) -> Remote:
    return rejected(remote.key, remote.path, "unlistable-folder", reason)


def _key(remote: Remote) -> str:
    return remote.key


def _sorted_runs(found: Iterable[Remote], run_length: int) -> Iterator[list[Remote]]:
    rest = iter(found)
    while run := list(islice(rest, run_length)):
        run.sort(key=_key)
        yield run


def _merged(
    stream: IO[bytes], places: Iterable[tuple[int, int]], opened: ExitStack
) -> Iterator[Remote]:
    with opened:
        yield from heapq.merge(*(_unspill(stream, *place) for place in places), key=_key)


def _spill(stream: IO[bytes], run: list[Remote]) -> tuple[int, int]:
    begin = stream.tell()
    stream.writelines(_encoder.encode(remote) + b"\n" for remote in run)
    return begin, stream.tell()


def _unspill(stream: IO[bytes], begin: int, end: int) -> Iterator[Remote]:
    rest = b""
    while begin < end:
        stream.seek(begin)
        block = stream.read(min(_BLOCK_BYTES, end - begin))
        begin += len(block)
        *lines, rest = (rest + block).split(b"\n")
        yield from map(_lines.decode, lines)
