"""`feedferry state`: show, change, export and import what a job remembers of its last run.

The ACLs that a job keeps are in a file next to the state, which a job of feeds has without a state.
A change is made under the lock of the state, after a copy of the file was written next to it. It
gives the state a new generation, so that an unfinished run, which has read the state before the
change, cannot update it.
"""

import json
import re
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TypeVar

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.folders.job_folders import STATE, find_home
from feedferry.pipelines.folders.locks import locked_state
from feedferry.pipelines.options.convert_options import ACLS_SUFFIX
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.sent_document import SentDocument
from feedferry.schemas.span import Timestamp, Watermark
from feedferry.schemas.units import counted
from feedferry.transforms.config.yaml_structs import YAML_SUFFIXES
from feedferry.transforms.steps.kept_acls import (
    KeptAcl,
    clear_kept,
    count_kept,
    read_kept,
    remember_acls,
    replace_kept,
)
from feedferry.transforms.steps.stated.group_log import GroupLine
from feedferry.transforms.steps.stated.group_store import count_groups, export_groups
from feedferry.transforms.steps.stated.stated_store import (
    StatedDocument,
    count_stated,
    export_stated,
    import_stated,
)
from feedferry.transforms.storage.state import StateHead, open_state, replace_head, write_state

VERSION = 1
_T = TypeVar("_T")
_DIGITS = re.compile("[0-9]")


class ExportHead(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The first line of an exported state.

    A line for each ACL, each stated ACL of a document, each group, and each document follows.
    `mapping` is the digest of the steps that map principals.
    """

    version: int
    state: StateHead
    acls: int = 0
    stated: int = 0
    groups: int = 0
    mapping: bytes = b""


_UNREADABLE = """
acls       removed, as they could not be read: send all ACLs and documents again now,
           as those that were sent before do not follow a changed ACL until then"""
_RESEND = """
acls       send all ACLs and documents again, also those of earlier feeds: a document
           below an ACL that comes again is hidden until it comes again, too"""


class _Document(SentDocument, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document of an exported state, which must have no other keys."""


def find_state(text: str) -> Path:
    """Return the state at `text`: a state, its file of ACLs, or a job, as in `find_home`."""
    path = Path(text.removesuffix(ACLS_SUFFIX))
    if path.suffix not in YAML_SUFFIXES and (path.is_file() or _acls_of(path).is_file()):
        return path
    return find_home(text) / STATE


def show_state(path: Path, *, as_json: bool) -> str:
    """Return the head of a state as text or JSON."""
    head = _head_of(path)
    mark = _mark_of(head)
    acls, unknown = count_kept(_acls_of(path))
    listed = datetime.fromtimestamp(head.listed_at_ns / 1e9, UTC).isoformat(timespec="seconds")
    lines = {
        "state": str(path),
        "source": head.source,
        "documents": head.documents,
        "updates": head.generation,
        "run": head.run or None,
        "watermark": mark.text if mark else None,
        "listed": listed if head.listed_at_ns else None,
        "acls": acls if acls + unknown else None,
        "unknown": unknown or None,
        "stated": count_stated(_acls_of(path))[0] or None,
        "groups": count_groups(_acls_of(path)) or None,
    }
    if as_json:
        return json.dumps({"version": VERSION, **lines}, indent=2, ensure_ascii=False)
    return "\n".join(
        f"{name:<11}{value:,}" if isinstance(value, int) else f"{name:<11}{value}"
        for name, value in lines.items()
        if value is not None
    )


def set_watermark(path: Path, text: str) -> str:
    """Set the watermark of a database: the next run reads the rows above it. Return what was done.

    This and the functions below return a line for the backup and a line for the change.
    """
    with locked_state(_existing(path)):
        head = _head_of(path)
        mark = _mark_of(head)
        if mark is None:
            raise ConfigError(
                f"{path}: a state without a watermark; expected that of a database with"
                " incremental: timestamp"
            )
        new = _checked(replace(mark, text=text), like=mark)
        encoded = msgspec.json.encode(new).decode()
        backup = _back_up(path)
        replace_head(path, replace(head, mark=encoded, generation=head.generation + 1, run=""))
    return f"{backup}watermark  {new.text}, before {mark.text}"


def clear_state(path: Path) -> str:
    """Remove a state: the next run reads and sends everything.

    ACLs that are kept are unknown until they are stated again.
    """
    with locked_state(_existing(path)):
        _head_of(path)  # raises ConfigError for another file
        cleared = f"{_back_up(path)}cleared    the next run sends all documents, and deletes none"
        path.unlink(missing_ok=True)
        if has_acls := _acls_of(path).exists():
            try:
                clear_kept(_acls_of(path))
            except ConfigError:  # no version of it can be read
                _acls_of(path).unlink()
                return f"{cleared}{_UNREADABLE}"
    return f"{cleared}{_RESEND}" if has_acls else cleared


def export_state(path: Path, stream: IO[bytes]) -> None:
    """Write a state as JSON lines."""
    acls = _acls_of(path)
    with open_state(_existing(path)) as state:
        stated, mapping = count_stated(acls)
        head = ExportHead(
            version=VERSION,
            state=state.head,
            acls=sum(count_kept(acls)),
            stated=stated,
            groups=count_groups(acls),
            mapping=mapping,
        )
        stream.write(msgspec.json.encode(head) + b"\n")
        stream.writelines(msgspec.json.encode(one) + b"\n" for one in read_kept(acls))
        stream.writelines(msgspec.json.encode(one) + b"\n" for one in export_stated(acls))
        stream.writelines(msgspec.json.encode(one) + b"\n" for one in export_groups(acls))
        stream.writelines(msgspec.json.encode(one) + b"\n" for one in state.documents())


def import_state(path: Path, stream: IO[bytes], *, name: str) -> str:
    """Replace a state by an exported one, which is read to its end before that.

    Raises ConfigError, and changes nothing, for a file that is damaged or not complete.
    """
    lines = enumerate(stream, start=1)
    head = _decode(next(lines, (1, b"")), ExportHead, name)
    if head.version != VERSION:
        raise ConfigError(f"{name}:1: version {head.version}; expected {VERSION}")
    with locked_state(path), TemporaryDirectory(prefix=".", dir=path.parent) as folder:
        with open_state(path) as current:
            generation = max(current.head.generation, head.state.generation) + 1
        imported = Path(folder, path.name)
        replace_kept(
            _acls_of(imported), (_decode(line, KeptAcl, name) for line in islice(lines, head.acls))
        )
        if head.stated or head.groups:
            stated = (_decode(line, StatedDocument, name) for line in islice(lines, head.stated))
            groups = (_decode(line, GroupLine, name) for line in islice(lines, head.groups))
            import_stated(_acls_of(imported), stated, groups, head.mapping)
        new = replace(head.state, generation=generation, run="")
        try:
            write_state(imported, new, (_decode(line, _Document, name) for line in lines))
        except ValueError as exc:
            raise ConfigError(f"{name}: {exc}, as the state had when it was exported") from exc
        backup = _back_up(path)
        remember_acls(_acls_of(imported), _acls_of(path))
        imported.replace(path)
    imported_parts = [
        f"{counted(new.documents, 'document')} of {new.source}" if new.source else "",
        counted(head.acls, "ACL") if head.acls else "",
        counted(head.groups, "group") if head.groups else "",
    ]
    return f"{backup}imported   {', '.join(filter(None, imported_parts)) or 'an empty state'}"


def _head_of(path: Path) -> StateHead:
    with open_state(_existing(path)) as state:
        return state.head


def _back_up(path: Path) -> str:
    """Copy a state and its ACLs next to it; return a line for each copy that says where."""
    lines, now = "", f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    for file in filter(Path.exists, (path, _acls_of(path))):
        copy = file.with_name(f"{file.name}.backup-{now}")
        shutil.copy2(file, copy)
        lines += f"backup     {copy}\n"
    return lines


def _acls_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{ACLS_SUFFIX}")


def _existing(path: Path) -> Path:
    if not path.exists() and not _acls_of(path).exists():
        raise ConfigError(f"{path}: no such file; expected the state of a job that has run")
    return path


def _mark_of(head: StateHead) -> Watermark | None:
    return msgspec.json.decode(head.mark or "null", type=Watermark | None)


def _checked(new: Watermark, *, like: Watermark) -> Watermark:
    """Return a watermark that has the form of another one; raise ConfigError otherwise."""
    with suppress(ValueError):
        if _form_of(new.value()) == _form_of(like.value()):
            return new
    raise ConfigError(f"⟦watermark⟧: {new.text!r}; expected a value such as {like.text!r}")


def _form_of(value: Timestamp) -> object:
    """Return what two timestamps of one column have in common."""
    if isinstance(value, str):
        return _DIGITS.sub("0", value)
    return type(value), getattr(value, "tzinfo", None) is None


def _decode(line: tuple[int, bytes], type_: type[_T], name: str) -> _T:
    number, text = line
    try:
        return msgspec.json.decode(text, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"{name}:{number}: {exc}; expected a line that state export has written"
        ) from exc
