"""Explain who sees a document, by the ACLs that a job keeps and by what its runs have sent."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.access.explanation import (
    AccessExplanation,
    AclLink,
    DecidedPart,
    DocumentDecision,
    LastAction,
)
from feedferry.pipelines.access.run_history import RunHistory
from feedferry.pipelines.access.sent_actions import SentHistory, SentSearch, find_sent
from feedferry.pipelines.folders.job_folders import shown_path
from feedferry.schemas.acl import Access, Acl
from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.transforms.access.decision import decision_of
from feedferry.transforms.access.index_fields import (
    AccessFields,
    fields_of,
    hidden_fields,
    permits,
    public_fields,
    token,
)
from feedferry.transforms.access.verdicts import layers_of_fields, verdicts
from feedferry.transforms.steps.acl_step import MAX_CHAIN, AclRules, AclStep
from feedferry.transforms.steps.acl_store import store_kept
from feedferry.transforms.steps.kept_acls import KeptAcl, parent_url

_ACTIONS = {Action.ADD: "document", Action.UPDATE: "acl", Action.DELETE: "delete"}
_UNKNOWN = "not known: its newest version was set aside, or may be one that could not be read"
_MISSING = "missing: no feed has stated it"
_DIFFERS = "the ACLs that the job keeps come to another decision than the one that was sent"
_WITHHELD = "no user finds the document until its next version is sent"


class UserSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A search of a user: the user and the groups in words, and their tokens."""

    user: str
    tokens: Collection[str]


class _ChainItem(msgspec.Struct, frozen=True, kw_only=True):
    """The ACLs of a URL of a chain; of several, which differ, none counts."""

    url: str
    acls: Sequence[KeptAcl]

    @property
    def acl(self) -> Acl | None:
        return self.acls[0].acl if self.acls and self.fault is None else None

    def is_of_another(self, datasource: str) -> bool:
        """Whether the ACLs are those of other datasources."""
        return any((kept.datasource or "") != datasource for kept in self.acls)

    @property
    def fault(self) -> str | None:
        if not self.acls:
            return _MISSING
        if any(kept.acl is None for kept in self.acls):
            return _UNKNOWN
        if any(kept.acl != self.acls[0].acl for kept in self.acls):
            names = ", ".join(kept.datasource or "none" for kept in self.acls)
            return f"not known: it differs between the datasources {names}"
        return None


def explain_document(
    url: str, datasource: str | None, history: RunHistory, search: UserSearch | None
) -> AccessExplanation:
    """Return the explanation of a document by the runs of a job.

    Raise ConfigError for a URL that several datasources have, unless one of them is stated.
    """
    known = find_sent(history.folders, url, datasource)
    stated = _datasource_of(url, datasource, history, known)
    sent, notes = known.sent.get(stated), [*history.notes]
    notes += _notes_about(stated, sent, known)
    decisions: list[tuple[str, AccessFields]] = []
    if sent is not None and _is_there(sent) is not False:
        decisions.append(("sent", _sent_fields(sent)))
    chain = _chain_of(url, stated, history)
    links = [*map(_link, chain)]
    if chain and (acl := chain[0].acl) is not None:
        fields, fault = _decide(acl, chain, stated)
        is_withheld = sent is not None and sent.withheld is not None
        is_sent = bool(decisions) and _is_same(fields, decisions[0][1])
        if fault is not None:
            notes += [] if is_withheld else [fault]
        elif decisions and not is_sent and chain[0].is_of_another(stated):
            links = []  # an ACL alone of another datasource, which the document does not take
        elif not is_sent:
            notes += [_WITHHELD if is_withheld else _DIFFERS] if decisions else []
            decisions.append(("acls", fields))
    if not links and decisions and sent is not None:
        links = [_sent_link(sent, stated)]
    return AccessExplanation(
        url=url,
        datasource=stated or None,
        run=history.folders[0].name if history.folders else None,
        sent=None if sent is None else _last_action(sent),
        withheld=None if sent is None else sent.withheld,
        acls=links,
        decisions=[decided(origin, fields, links, search) for origin, fields in decisions],
        user=None if search is None else search.user,
        notes=notes,
    )


def decided(
    origin: str, fields: AccessFields, links: Sequence[AclLink], search: UserSearch | None
) -> DocumentDecision:
    """Return a decision in layers, and how it decides about a user."""
    layers = layers_of_fields(fields)
    if search is None:
        return DocumentDecision(origin=origin, layers=layers)
    used = {layer.part for layer in layers}
    parts = [
        DecidedPart(
            **msgspec.structs.asdict(verdict),
            acls=[link.url for link in links if _states(link, verdict.access, verdict.tokens)],
        )
        for verdict in verdicts(fields, search.tokens)
        if verdict.part in used
    ]
    is_found = permits(fields, search.tokens)
    return DocumentDecision(origin=origin, layers=layers, is_found=is_found, parts=parts)


def fields_of_record(record: Record) -> AccessFields:
    """Return the fields of the decision of a record, as an index has them."""
    if record.acl is None:
        return public_fields()
    return fields_of(decision_of(record.acl)) or hidden_fields()


def _datasource_of(url: str, datasource: str | None, history: RunHistory, known: SentSearch) -> str:
    """Return the datasource of a document; an empty text if none is stated."""
    if datasource is not None:
        return datasource
    named = sorted({*known.sent} or {acl.datasource or "" for acl in history.acls_of(url)})
    if len(named) > 1:
        raise ConfigError(f"{url}: in the datasources {', '.join(named)}; expected --datasource")
    return named[0] if named else ""


def _notes_about(datasource: str, sent: SentHistory | None, known: SentSearch) -> Iterator[str]:
    is_there = None if sent is None else _is_there(sent)
    if sent is not None and sent.document is not None and is_there is False:
        yield f"the document is not in the index: {sent.document.run} has deleted it"
    elif is_there is None and (run := known.full_feeds.get(datasource)) is not None:
        yield f"the document is not in the index: the full feed of {run} lacks it"
    elif sent is not None and is_there is None:
        yield "the runs that are kept have only its ACL: an older run, or none, has the document"


def _is_there(sent: SentHistory) -> bool | None:
    """Whether the index has a document after what was sent; None if that is not known."""
    return None if sent.document is None else sent.document.record.action is Action.ADD


def _sent_fields(sent: SentHistory) -> AccessFields:
    if sent.withheld is not None and sent.withheld.is_refused:
        return hidden_fields()
    return fields_of_record(sent.newest.record)


def _last_action(sent: SentHistory) -> LastAction:
    action = sent.newest
    return LastAction(
        run=action.run,
        action=_ACTIONS[action.record.action],
        chunk=str(shown_path(action.chunk)),
        offset=action.record.provenance.offset,
        source=action.source,
        document_run=sent.document.run if sent.document and _is_there(sent) else None,
    )


def _chain_of(url: str, datasource: str, history: RunHistory) -> list[_ChainItem]:
    """Return the ACLs from a document to the top; none if the job does not keep that of it."""
    chain: list[_ChainItem] = []
    following: str | None = url
    while following is not None and len(chain) <= MAX_CHAIN:
        kept = history.acls_of(following)
        own = [acl for acl in kept if (acl.datasource or "") == datasource]
        others = kept if chain else [acl for acl in kept if acl.alone]
        item = _ChainItem(url=following, acls=own or others)
        if not chain and not item.acls:
            break
        is_cycle = any(other.url == following for other in chain)
        chain.append(item)
        following = None if is_cycle or item.acl is None else parent_url(item.acl)
    return chain


def _decide(
    acl: Acl, chain: Sequence[_ChainItem], datasource: str
) -> tuple[AccessFields, str | None]:
    """Return the decision of an ACL and its chain as a run makes it, and why there is none."""
    record = Record(
        url=chain[0].url,
        action=Action.ADD,
        acl=replace(acl, alone=False),
        provenance=Provenance(datasource=datasource or None),
    )
    kept = {(acl.url, acl.datasource): acl for item in chain for acl in item.acls}
    with TemporaryDirectory(prefix="feedferry-access-") as folder:
        path = Path(folder) / "acls"
        store_kept(path, kept.values())
        try:
            result = AclStep(AclRules(mode="decision"), stored=path).apply(record)
        except RecordError as exc:
            return hidden_fields(), f"{exc.code}: {exc.reason}"
    return fields_of_record(result), None


def _is_same(fields: AccessFields, others: AccessFields) -> bool:
    """Whether two decisions are the same, as they are shown."""
    shown, of_others = (
        {(each.part, each.layer): ({*each.denies}, {*each.permits}) for each in layers}
        for layers in map(layers_of_fields, (fields, others))
    )
    return shown == of_others


def _link(item: _ChainItem) -> AclLink:
    """Return an ACL as it is shown; of one that is not known, where that begins."""
    kept, acl = item.acls[0] if item.acls else KeptAcl(url=item.url), item.acl
    link = AclLink(
        url=item.url,
        datasource=kept.datasource,
        fault=item.fault,
        run=kept.run,
        source=kept.source,
        line=kept.line,
        offset=kept.offset,
    )
    if acl is None:
        return link
    rule = acl.inheritance
    return replace(
        link,
        permits=_tokens(acl, Access.PERMIT),
        denies=_tokens(acl, Access.DENY),
        inheritance=None if rule is None else rule.value.lower().replace("_", "-"),
        inherits=parent_url(acl) if acl.inherits else None,
    )


def _sent_link(sent: SentHistory, datasource: str) -> AclLink:
    """Return the ACL that a chunk has, of a document whose ACL the job does not keep."""
    action = sent.newest
    layers = layers_of_fields(fields_of_record(action.record))
    return AclLink(
        url=action.record.url,
        datasource=datasource or None,
        permits=[token for layer in layers for token in layer.permits],
        denies=[token for layer in layers for token in layer.denies],
        is_sent=True,
        run=action.run,
        source=action.source,
    )


def _tokens(acl: Acl, access: Access) -> list[str]:
    return [token(each) for each in acl.principals if each.access is access]


def _states(link: AclLink, access: Access | None, tokens: Sequence[str]) -> bool:
    stated = {Access.PERMIT: link.permits, Access.DENY: link.denies}
    return access is not None and not {*stated[access]}.isdisjoint(tokens)
