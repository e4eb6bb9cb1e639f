"""The steps that map principals, applied again to ACLs as their sources state them."""

from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Action, Record
from feedferry.transforms.steps.step import AppliedSteps

_DIGEST_BYTES = 8
_encode = msgspec.msgpack.Encoder().encode


class AclMapping:
    """Maps stated ACLs as the steps before the step `acl` do.

    `digest` is that of the steps and their tables. `obstacle` is the name of a step that may change
    ACLs by other fields of a record, which are not kept. The step `acl` `keeps_principals` if it
    makes decisions.
    """

    def __init__(
        self, steps: AppliedSteps, *, digest: bytes, obstacle: str | None, keeps_principals: bool
    ) -> None:
        self._steps = steps
        self.digest = digest
        self._obstacle = obstacle
        self._keeps_principals = keeps_principals

    def mapped(self, acl: Acl, result: Record | None = None) -> Acl | None:
        """Return an ACL after the steps, None if they set its record aside.

        A `result` of all steps has it already, unless the step `acl` has changed its principals.
        """
        if result is not None and self._keeps_principals:
            return result.acl
        [made] = self._steps.apply(Record(url="", action=Action.UPDATE, acl=acl))
        return made.acl if isinstance(made, Record) else None

    def check_repeatable(self) -> None:
        """Raise ConfigError if a step cannot be repeated for documents of earlier runs."""
        if self._obstacle is not None:
            raise ConfigError(
                "⟦transform⟧: principals of documents that were sent before have new names, and the"
                f" step {self._obstacle} may change their ACLs, too; expected all documents again:"
                " feedferry state clear lets the next run begin anew"
            )


def digest_of(acl: Acl | None) -> bytes:
    """Return a digest of an ACL after the steps; it is empty if its record was set aside."""
    if acl is None:
        return b""
    stated = replace(acl, alone=False, decision=()) if acl.alone or acl.decision else acl
    return blake2b(_encode(stated), digest_size=_DIGEST_BYTES).digest()
