"""ACLs as a retriever can say them: one rule of case for all, and no end to a namespace."""

from msgspec.structs import replace

from schemas.acl import Access, Acl, Principal
from transforms.formats.adapt_rules import Draft
from transforms.formats.command_stream.tokenizer import TRIMMED
from transforms.formats.target import Target

_DEFAULT_NAMESPACE = "Default"


def fit_acl(draft: Draft, _target: Target) -> None:
    acl = draft.record.acl
    if acl is None:
        return
    fitted = _drop_fragment(draft, acl)
    principals = tuple(filter(None, (_fitted(draft, one) for one in acl.principals)))
    principals = _rule_case(draft, _state_namespaces(principals))
    fitted = replace(fitted, principals=tuple(dict.fromkeys(principals)))
    if fitted != acl:
        draft.change(acl=fitted)


def _drop_fragment(draft: Draft, acl: Acl) -> Acl:
    if acl.inherit_fragment is None or acl.inherit_from is not None:
        return acl
    draft.lose("acl", f"fragment {acl.inherit_fragment!r} of nothing to inherit from")
    return replace(acl, inherit_fragment=None)


def _fitted(draft: Draft, principal: Principal) -> Principal | None:
    name = principal.name.strip(TRIMMED)
    if not name:
        draft.lose("acl", f"principal {principal.name!r} without a name")
        return None
    if principal.unqualified:
        draft.lose("acl", f"principal-type unqualified of {name!r}")
    if name == principal.name and not principal.unqualified:
        return principal
    return replace(principal, name=name, unqualified=False)


def _state_namespaces(principals: tuple[Principal, ...]) -> tuple[Principal, ...]:
    """Once a namespace is stated there is always one."""
    stated = [principal.namespace is not None for principal in principals]
    begin = stated.index(True) if any(stated) else len(principals)
    return tuple(
        replace(one, namespace=_DEFAULT_NAMESPACE) if at > begin and not stated[at] else one
        for at, one in enumerate(principals)
    )


def _rule_case(draft: Draft, principals: tuple[Principal, ...]) -> tuple[Principal, ...]:
    """One rule holds for all. Where they differ, it is one that denies no less than before.

    What ignores case both permits and denies more; only with denials that do so it is chosen.
    """
    cases = {principal.case_sensitive for principal in principals}
    if len(cases) < 2:
        return principals
    loose = [one for one in principals if one.case_sensitive is False]
    is_sensitive = all(one.access is Access.PERMIT for one in loose)
    if loose:
        ruled = "sensitive" if is_sensitive else "insensitive"
        draft.lose("acl", f"case sensitivity of some principals; all are {ruled} now")
    return tuple(replace(one, case_sensitive=is_sensitive) for one in principals)
