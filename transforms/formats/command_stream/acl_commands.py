"""The ACL of a document of a command stream, built command by command."""

from collections.abc import Callable

from msgspec.structs import replace

from feedferry.schemas.acl import Acl, Principal
from feedferry.schemas.errors import RecordError
from feedferry.transforms.formats.command_stream.syntax import TRIMMED, require_argument
from feedferry.transforms.formats.command_stream.vocabulary import CASES, INHERITANCES, PRINCIPALS

_DOMAIN_MARKS = ("\\", "/", "@")


class Repetitions:
    """The pairs and principals that were read."""

    def __init__(self, *, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._seen: set[object] = set()

    def is_repeated(self, key: object) -> bool:
        """Whether the deployed parser drops a pair or a principal, which it keeps once."""
        if not self._is_strict:
            return False
        is_repeated = key in self._seen
        self._seen.add(key)
        return is_repeated


class AclCommands:
    """The commands of one ACL; `note` takes the code and the detail of a repair."""

    def __init__(self, note: Callable[[str, str], None], *, is_strict: bool) -> None:
        self.parent: str | None = None
        """The doc id that the ACL inherits from."""

        self._note, self._is_strict = note, is_strict
        self._is_repeated = Repetitions(is_strict=is_strict).is_repeated
        self._is_sent = False
        self._settings: dict[str, object] = {}
        self._principals: list[Principal] = []
        self._namespace: str | None = None
        self._lacks_namespace = False
        self._case_sensitive: bool | None = None

    def set(self, name: str, argument: str | None) -> None:
        """Apply a command about the ACL as a whole, or about the principals after it."""
        match name:
            case "acl":
                self._is_sent = True
            case "namespace":  # without an argument, the deployed parser throws at a principal
                self._namespace, self._lacks_namespace = argument, argument is None
            case "acl-inherit-from":
                self.parent = require_argument(name, argument)
                self._settings.pop("inherit_fragment", None)
            case "acl-inherit-fragment":
                if self.parent is None:
                    reason = f"{name} first; expected acl-inherit-from before it"
                    raise RecordError("bad-acl", reason)
                self._settings["inherit_fragment"] = argument
            case "acl-inheritance-type":
                if argument not in INHERITANCES:
                    expected = ", ".join(sorted(INHERITANCES))
                    raise RecordError("bad-acl", f"{name}={argument!r}; expected one of {expected}")
                self._settings["inheritance"] = INHERITANCES[argument]
            case _:
                self._case_sensitive = CASES[name]

    def add_principal(self, name: str, argument: str | None) -> None:
        """Add a principal. The deployed parser keeps one of `bob@d` and `d/bob`."""
        principal = require_argument(name, argument).strip(TRIMMED)
        if not principal:
            raise RecordError("bad-acl", f"{name}={argument!r}; expected a name")
        if self._lacks_namespace:
            reason = f"{name} after namespace without an argument; expected namespace=…"
            raise RecordError("no-argument", reason)
        scope, access = PRINCIPALS[name]
        namespace = "Default" if self._namespace is None else self._namespace
        if not self._is_repeated((scope, access, namespace, *_split_domain(principal))):
            self._principals.append(
                Principal(name=principal, scope=scope, access=access, namespace=self._namespace)
            )

    def sent(self, parent_url: str | None, *, has_content: bool, is_final: bool) -> Acl | None:
        """Return the ACL; None if it is not sent, or `is_final`: no document follows.

        The deployed parser drops it without content; a deletion needs none.
        """
        if not self._is_sent and (self._principals or self._settings or self.parent is not None):
            self._note("acl-ignored", "acl-… commands without acl; ignored, as it asks for that")
        if not self._is_sent or is_final:
            return None
        if not has_content:
            kept = "forgotten" if self._is_strict else "kept"
            self._note("acl-without-content", f"an ACL that no content follows; {kept}")
            if self._is_strict:
                return None
        principals = tuple(self._principals)
        if self._case_sensitive is not None:  # the last rule of case is for all
            case = self._case_sensitive
            principals = tuple(replace(each, case_sensitive=case) for each in principals)
        return replace(Acl(inherit_from=parent_url, principals=principals), **self._settings)


def _split_domain(principal: str) -> tuple[str, str]:
    """Return the name and the domain of a principal."""
    at = min((principal.find(mark) for mark in _DOMAIN_MARKS if mark in principal), default=-1)
    if at < 0:
        return principal, ""
    left, right = principal[:at], principal[at + 1 :]
    return (left, right) if principal[at] == "@" else (right, left)
