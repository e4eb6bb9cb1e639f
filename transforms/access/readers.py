"""The decision about a document as lists of readers, for targets that have no denials.

A user must be a member of each list, or of a group in it. No list at all is everyone, and a list
without members is nobody.
"""

from itertools import chain
from typing import Final

from feedferry.schemas.acl import Acl, identity
from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Member
from feedferry.transforms.access.decision import (
    LAYERS,
    DecisionPart,
    decision_of,
    fit,
    may_share_users,
)

Readers = tuple[tuple[Member, ...], ...]
"""Lists of members, each of which a user must be in."""

EVERYONE: Final[Readers] = ()
NOBODY: Final[Readers] = ((),)
NO_USER: Final = "google:fakeUserToPreventMissingAcl"
"""A user that no target has. Without readers, a target may show a document to everyone."""


def readers_of(acl: Acl | None, *, lists: int) -> Readers:
    """Return the readers of a document in so many lists at most.

    Raise RecordError if that is not exact: a denial names a user whom a permit may name as well,
    or more lists must all permit.
    """
    if acl is None:
        return EVERYONE
    if acl.withholds:
        return NOBODY
    decision = decision_of(acl)
    parts = (fit(decision, parts=lists, layers=LAYERS) or decision).parts
    readers = tuple(map(_members, parts))
    if not all(readers):
        return NOBODY
    if len(readers) > lists:
        raise RecordError(
            "acl-parts",
            f"{len(readers)} lists of principals, all of which must permit a user; expected"
            f" {lists} at most",
        )
    return readers


def name_of(member: Member, *, namespace: str | None) -> str:
    """Return the name of a reader for a target whose names have no namespaces.

    Raise RecordError for a reader of another namespace.
    """
    expected, _ = identity(namespace, "")
    stated, name = identity(member.namespace, member.name)
    if stated != expected:
        raise RecordError(
            "acl-namespace",
            f"{name!r} of the namespace {stated!r}; expected principals of {expected!r}, as the"
            " same name may be that of another person",
        )
    return name


def _members(part: DecisionPart) -> tuple[Member, ...]:
    """Return who is permitted by a part, whose denials deny nobody else."""
    for number, layer in enumerate(part.layers):
        later = [member for each in part.layers[number:] for member in each.permits]
        if may_share_users(layer.denies, later):
            raise RecordError(
                "acl-denies",
                f"a denial of {next(iter(layer.denies)).name!r}, who may be permitted as a member"
                " of a group; expected permits only",
            )
    return tuple(dict.fromkeys(chain.from_iterable(layer.permits for layer in part.layers)))
