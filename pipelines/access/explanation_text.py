"""The explanation of who sees a document, in lines of text."""

from collections.abc import Iterator, Sequence

from feedferry.pipelines.access.explanation import (
    AccessExplanation,
    AclLink,
    DecidedPart,
    DocumentDecision,
)
from feedferry.schemas.acl import Access
from feedferry.schemas.printable import printable
from feedferry.schemas.reject import where_of
from feedferry.transforms.access.verdicts import token_text

_ORIGINS = {
    "sent": "as the run has sent it",
    "acls": "by the ACLs that the job keeps",
    "target": "as the target has it now",
}
_VERBS = {Access.PERMIT: "permits", Access.DENY: "denies"}


def text_lines(explanation: AccessExplanation) -> Iterator[str]:
    """Yield the lines of an explanation."""
    return map(printable, _lines(explanation))


def _lines(explanation: AccessExplanation) -> Iterator[str]:
    yield explanation.url
    if explanation.datasource is not None:
        yield f"  datasource  {explanation.datasource}"
    if explanation.run is not None:
        yield f"  as of       {explanation.run}"
    if (sent := explanation.sent) is not None:
        place = where_of(sent.chunk, 0, sent.offset, None)
        yield f"  sent        {sent.run}: {sent.action}, {place}, of {sent.source}"
        if sent.document_run not in (None, sent.run):
            yield f"  document    {sent.document_run}"
    if (withheld := explanation.withheld) is not None:
        verb = "refused by the target" if withheld.is_refused else "rejected"
        yield f"  withheld    since {withheld.run}: {verb}: {withheld.code}"
        yield f"              {withheld.where}: {withheld.message}"
    for note in explanation.notes:
        yield f"  note        {note}"
    if explanation.acls:
        yield "ACLs, from the document up"
    for link in explanation.acls:
        yield from _acl_lines(link)
    for decision in explanation.decisions:
        yield from _decision_lines(decision, explanation.user)


def _acl_lines(link: AclLink) -> Iterator[str]:
    rule = f"  ({link.inheritance})" if link.inheritance else ""
    yield f"  {link.url}{rule}"
    if link.fault is not None:
        yield f"    {link.fault}"
    for verb, tokens in (("denies", link.denies), ("permits", link.permits)):
        if tokens:
            yield f"    {verb:<9} {_names(tokens)}"
    if link.inherits is not None:
        yield f"    {'inherits':<9} {link.inherits}"
    if link.run or link.source:
        yield f"    {'from':<9} {_origin_of(link)}"


def _origin_of(link: AclLink) -> str:
    if not link.source:
        return f"{link.run}, which was abandoned"
    place = f"{link.source}:{link.line}" if link.line else link.source
    place = f"{place} (byte {link.offset})" if link.offset else place
    place = f"{place}, as it was sent: the job does not keep it" if link.is_sent else place
    return f"{link.run}: {place}" if link.run else place


def _decision_lines(decision: DocumentDecision, user: str | None) -> Iterator[str]:
    at = f" in {decision.datasource}" if decision.datasource else ""
    yield f"Decision, {_ORIGINS[decision.origin]}{at}"
    if not decision.layers:
        yield "  everyone sees the document"
    for layer in decision.layers:
        label = f"  part {layer.part} layer {layer.layer}"
        if not layer.denies and not layer.permits:
            yield f"{label}  permits no user"
        for verb, tokens in (("denies", layer.denies), ("permits", layer.permits)):
            if tokens:
                yield f"{label}  {verb:<7} {_names(tokens)}"
    if user is not None:
        verb = "finds" if decision.is_found else "does not find"
        yield f"  {user} {verb} the document"
        for part in decision.parts:
            yield f"    {_verdict(part)}"


def _verdict(part: DecidedPart) -> str:
    if part.access is None:
        return f"part {part.part} denies: no layer names the user or a group of the user"
    acls = f", in the ACL of {', '.join(part.acls)}" if part.acls else ""
    verb = _VERBS[part.access]
    return f"part {part.part} {verb}: layer {part.layer} {verb} {_names(part.tokens)}{acls}"


def _names(tokens: Sequence[str]) -> str:
    return ", ".join(map(token_text, tokens))
