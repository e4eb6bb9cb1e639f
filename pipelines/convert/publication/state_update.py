"""The update of a source's state: prepared before a run is published, made after it is pushed.

It is kept in the folder of the run. A run that is killed between both goes on without its source
and its options, which may have changed meanwhile.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.publication.publish import check_files
from feedferry.pipelines.convert.publication.work_folder import is_sealed
from feedferry.pipelines.folders.locks import STATE_UPDATE
from feedferry.schemas.account import Account, SpanFile
from feedferry.schemas.errors import FatalError
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats import ReadOptions
from feedferry.transforms.sources import SourceOptions, SourceRun, source_of, unsure_changes
from feedferry.transforms.storage.atomic import write_whole
from feedferry.transforms.storage.run_folders.mirrors import shown
from feedferry.transforms.storage.state import open_state, update_state

_GENERATION = "generation"


class StateUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a run with a state, and the files that its spans wrote."""

    span: Span
    config: msgspec.Raw
    files: list[SpanFile]


def store_generation(settings: Settings) -> None:
    """Store the generation of the state in the folder of the run, once."""
    path = settings.local / _GENERATION
    if settings.state is not None and not path.exists():
        with open_state(Path(settings.state)) as state:
            write_whole(path, str(state.head.generation).encode())


def store_update(
    runs: Sequence[SourceRun[object]],
    files: Sequence[SpanFile],
    work: Path,
) -> None:
    """Store how the state will be updated; nothing if the run, which has one source then, has none.

    A run that is resumed is known by this to have no state, although its job has one now. `files`
    are those of the spans that are in the folder of the run.
    """
    update = None
    for run in runs:
        if run.options.state is not None:
            config = msgspec.Raw(msgspec.json.encode(run.config))
            update = StateUpdate(span=run.span, config=config, files=[*files])
    write_whole(work / STATE_UPDATE, msgspec.json.encode(update))


def remember(work: Path, state: str | None) -> None:
    """Update the state after a successful run, if it has one; this may be repeated.

    Raises FatalError if files of the run are damaged.
    """
    if state is None:
        return
    update = _read_update(work, state)
    if update is None:
        return
    source = source_of(update.span)
    run = SourceRun(
        span=update.span,
        config=msgspec.json.decode(update.config, type=source.config_type),
        work=work.absolute(),
        reading=ReadOptions(),
        options=SourceOptions(to_format="", state=str(Path(state).absolute())),
    )
    source.remember(
        run, Account(files=update.files), generation=int((work / _GENERATION).read_text())
    )


def mark_unsure(work: Path, state: str) -> None:
    """Have the next run send or delete all documents of a run that has sent a part of them.

    The state keeps the documents before that run, and gets its new ones; none of them has a digest,
    because it is not known what the appliance has. Raises FatalError as `remember` does.
    """
    update = _read_update(work, state)
    path = Path(state)
    with open_state(path) as known:
        if update is None or known.head.run in (shown(work.absolute()), _unsure(work)):
            return
        changes = unsure_changes(work, update.files, known)
        before = known.head.generation
        stamp = replace(known.head, source=known.head.source or update.span.path)
    update_state(path, changes, before=before, stamp=replace(stamp, run=_unsure(work)))


def is_unsure(work: Path, state: str) -> bool:
    """Whether `mark_unsure` has changed the state for this run, which can then not go on."""
    with open_state(Path(state)) as known:
        return known.head.run == _unsure(work)


def _unsure(work: Path) -> str:
    return f"{shown(work.absolute())} (begun anew)"


def _read_update(work: Path, state: str) -> StateUpdate | None:
    """Return the update of an unfinished run, whose files are checked; None without a state."""
    path = work / STATE_UPDATE
    try:
        update = msgspec.json.decode(path.read_bytes(), type=StateUpdate | None)
    except (OSError, msgspec.DecodeError) as exc:
        raise FatalError(
            f"{path}: {exc}; expected the update of {state}: begin again with ⟦fresh⟧"
        ) from exc
    if update is None:
        return None
    if not is_sealed(work, verify=True):
        raise FatalError(f"{work}: files of the run are damaged; begin again with ⟦fresh⟧")
    check_files(Account(files=update.files), work, verify=True)
    return update
