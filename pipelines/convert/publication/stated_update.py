"""The stated ACLs and groups of a run: listed before it is published, kept after it is pushed."""

from pathlib import Path

import msgspec

from feedferry.pipelines.convert.inputs.source_runs import steps_of
from feedferry.pipelines.convert.publication.publish import check_files
from feedferry.pipelines.folders.locks import STATED_UPDATE
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.account import Account, SpanFile
from feedferry.schemas.errors import FatalError
from feedferry.schemas.units import counted
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.steps.kept_acls import replace_kept
from feedferry.transforms.steps.stated.group_log import GROUPS, read_groups
from feedferry.transforms.steps.stated.stated_log import STATED, read_stated
from feedferry.transforms.steps.stated.stated_store import has_mapping, has_stated, remember_stated
from feedferry.transforms.storage.atomic import write_whole


class StatedUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The lists of the spans of a run, and the digest of the steps that have mapped principals."""

    files: list[SpanFile]
    digest: bytes


def store_stated(account: Account, settings: Settings) -> None:
    """Store which files have the stated ACLs and groups of a run, if its job keeps any."""
    files = [file for file in account.files if file.path.endswith((STATED, GROUPS))]
    kept = None if settings.kept_acls is None else Path(settings.kept_acls)
    if files or (kept is not None and has_stated(kept)):
        mapping = settings.steps.mapping(settings.local)
        update = StatedUpdate(files=files, digest=b"" if mapping is None else mapping.digest)
        write_whole(settings.local / STATED_UPDATE, msgspec.json.encode(update))


def keep_stated(work: Path, acls: Path, *, is_unsure: bool = False) -> None:
    """Add the stated ACLs of a run to the file with the ACLs of its job; this may be repeated.

    See `remember_stated` for a run that `is_unsure`. Raise FatalError if files are damaged.
    """
    path = work / STATED_UPDATE
    if not path.exists():
        return
    try:
        update = msgspec.json.decode(path.read_bytes(), type=StatedUpdate)
    except (OSError, msgspec.DecodeError) as exc:
        raise FatalError(f"{path}: {exc}; begin again with ⟦fresh⟧") from exc
    check_files(Account(files=update.files), work, verify=True)
    if not acls.exists():
        replace_kept(acls, ())
    remember_stated(
        read_stated(work, update.files),
        () if is_unsure else read_groups(work, update.files),
        acls,
        update.digest,
        is_unsure=is_unsure,
    )


def notice_of_earlier_names(options: ConvertOptions, runs: int) -> str | None:
    """Return a notice if a job maps principals for the first time after some runs, else None.

    These runs have not kept the stated ACLs of their documents, which cannot be mapped.
    """
    if options.acls_path is None or not options.target_format.needs_decisions or not runs:
        return None
    mapping = steps_of(options).mapping(Path(options.acls_path).parent)
    if mapping is None or not mapping.is_needed or has_mapping(Path(options.acls_path)):
        return None
    return (
        f"documents of {counted(runs, 'earlier run')} keep the users and groups that they were sent"
        " with, because their stated ACLs were not kept; expected all documents again"
    )
