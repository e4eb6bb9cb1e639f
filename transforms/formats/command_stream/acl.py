"""The ACL of a document, as commands of a retriever.

**Spec:** GSA adaptor library, CommandStreamParser, "Retriever Commands", `acl`.
"""

from collections.abc import Callable, Iterator

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError
from transforms.formats.command_stream.text import Separator
from transforms.formats.command_stream.tokenizer import TRIMMED

_CASES = {True: "acl-case-sensitive", False: "acl-case-insensitive"}
_INHERITANCES = {one: one.value.lower().replace("_", "-") for one in Inheritance}
_PRINCIPALS = {
    (Access.PERMIT, Scope.USER): "acl-permit-user",
    (Access.DENY, Scope.USER): "acl-deny-user",
    (Access.PERMIT, Scope.GROUP): "acl-permit-group",
    (Access.DENY, Scope.GROUP): "acl-deny-group",
}


def acl_tokens(acl: Acl, separator: Separator, *, id_of: Callable[[str], str]) -> Iterator[bytes]:
    """Yield the commands; raise RecordError where they cannot say it."""
    _check(acl)
    yield separator.flag("acl")
    if acl.inheritance is not None:
        yield separator.token("acl-inheritance-type", _INHERITANCES[acl.inheritance])
    if acl.inherit_from is not None:
        yield separator.token("acl-inherit-from", id_of(acl.inherit_from))
    if acl.inherit_fragment is not None:
        yield separator.token("acl-inherit-fragment", acl.inherit_fragment)
    case = acl.principals[0].case_sensitive if acl.principals else None
    if case is not None:
        yield separator.flag(_CASES[case])
    yield from _principals(acl.principals, separator)


def _check(acl: Acl) -> None:
    if acl.alone:
        raise _bad_acl("an ACL of a document that was sent before", "one of this document")
    if acl.inherit_fragment is not None and acl.inherit_from is None:
        found = f"the fragment {acl.inherit_fragment!r} of nothing"
        raise _bad_acl(found, "what it inherits from")
    if len({principal.case_sensitive for principal in acl.principals}) > 1:
        raise _bad_acl("principals of which only some are case sensitive", "one rule for all")
    for principal in acl.principals:
        if principal.unqualified:
            raise _bad_acl(f"principal {principal.name!r} of the type unqualified", "another type")
        if not principal.name.strip(TRIMMED):
            raise _bad_acl(f"principal {principal.name!r}", "a name")


def _bad_acl(found: str, expected: str) -> RecordError:
    return RecordError("bad-acl", f"{found}; expected {expected}")


def _principals(principals: tuple[Principal, ...], separator: Separator) -> Iterator[bytes]:
    """Yield the principals, and each namespace before the first of a run that is in it."""
    stated = None
    for principal in principals:
        namespace = principal.namespace
        if namespace is None and stated is not None:
            namespace = "Default"
        if namespace is not None and namespace != stated:
            yield separator.token("namespace", namespace)
            stated = namespace
        yield separator.token(_PRINCIPALS[principal.access, principal.scope], principal.name)
