"""The nights of a job whose inputs are records in memory, and the records of a night."""

from pathlib import Path

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import JSONL, ReadOptions, ReadResult
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.sources import SpanRequest, read_span
from feedferry.transforms.steps import read_steps
from feedferry.transforms.steps.kept_acls import CHANGED_ACLS, KEPT_ACLS, remember_acls
from support.stated_inputs import StatedInputs

HOST = "http://h.example/"
DECISION = "- acl: decision"


class Nights:
    """The runs of a job; each remembers its ACLs unless it is said to fail."""

    def __init__(self, folder: Path, steps: str = DECISION) -> None:
        self.folder = folder
        self.store = folder / "state.acls"
        self._count = 0
        (folder / "steps.yaml").write_text(f"transform:\n{steps}\n", "utf-8")

    def run(
        self,
        *items: ReadResult,
        is_remembered: bool = True,
        accepted: str = "",
        work: Path | None = None,
        settles_doubts: bool = False,
    ) -> list[str]:
        """Return the readers of each document, `public`, or the code of its reject.

        Without a folder for its files, the run has one of its own.
        """
        self._count += 1
        if work is None:
            work = self.folder / f"run-{self._count}"
            work.mkdir()
        steps = read_steps(self.folder / "steps.yaml")
        inputs = StatedInputs(items, accepted=accepted, kept_acls=self.store, run=work.name)
        inputs.settles_doubts = settles_doubts
        steps.prepare(inputs, work)
        applied = steps.make(work)
        results = [
            made for item in items if isinstance(item, Record) for made in applied.apply(item)
        ]
        if is_remembered:
            remember_acls(work / KEPT_ACLS, self.store)
            remember_acls(work / KEPT_ACLS, self.store)  # as after a kill
        return [*filter(None, map(outcome, results))]

    def unlisted(self, record: Record) -> list[str]:
        """Return the readers of a record of the last run that was not read before it."""
        work = self.folder / f"run-{self._count}"
        applied = read_steps(self.folder / "steps.yaml").make(work)
        return [outcome(made) for made in applied.apply(record)]

    def changed(self) -> dict[tuple[str, str], str]:
        """Return the readers that the last run sends again, by datasource and path."""
        work = self.folder / f"run-{self._count}"
        path = work / CHANGED_ACLS
        if not path.exists():
            return {}
        applied = read_steps(self.folder / "steps.yaml").of_changed_acls().make(work)
        span = Span(source=path.name, path=str(path), format=JSONL.name)
        found = {}
        for record in singly(read_span(SpanRequest(span=span, options=ReadOptions()))):
            if isinstance(record, Record):
                key = record.provenance.datasource or "", record.url.removeprefix(HOST)
                [found[key]] = map(readers_of, applied.apply(record))
        return found


def outcome(result: object) -> str:
    is_update = isinstance(result, Record) and result.action is not Action.ADD
    return "" if is_update or isinstance(result, Filtered) else readers_of(result)


def readers_of(result: object) -> str:
    if isinstance(result, Reject):
        return result.code
    assert isinstance(result, Record)
    if result.acl is None:
        return "public"
    if result.acl.is_waiting:
        return "acl-chain-waiting"
    layers = result.acl.decision or ()
    names = [
        item.name for layer in layers for item in layer.principals if item.access is Access.PERMIT
    ]
    return " ".join(names or [item.name for item in result.acl.principals])


def feed(datasource: str, feedtype: str = "incremental") -> Provenance:
    return Provenance(
        source=f"{datasource}-{feedtype}.xml", datasource=datasource, feedtype=feedtype
    )


DOCS = feed("docs")


def own_acl(name: str, *, alone: bool = False, parent: str | None = None, **more: object) -> Acl:
    principals = (Principal(name=name, scope=Scope.USER, access=Access.PERMIT),)
    inherit_from = None if parent is None else HOST + parent
    return Acl(principals=principals, alone=alone, inherit_from=inherit_from, **more)  # type: ignore[arg-type]


def alone(path: str, name: str, at: Provenance = DOCS, parent: str | None = None) -> Record:
    stated = own_acl(name, alone=True, parent=parent)
    return Record(url=HOST + path, action=Action.UPDATE, acl=stated, provenance=at)


def folder(path: str, name: str, at: Provenance = DOCS, parent: str | None = None) -> Record:
    stated = own_acl(name, alone=True, parent=parent, inheritance=Inheritance.PARENT_OVERRIDES)
    return Record(url=HOST + path, action=Action.UPDATE, acl=stated, provenance=at)


def document(path: str, at: Provenance = DOCS, stated: Acl | None = None) -> Record:
    return Record(url=HOST + path, action=Action.ADD, acl=stated, provenance=at)


def child(path: str, parent: str, at: Provenance = DOCS) -> Record:
    return document(path, at, Acl(inherit_from=HOST + parent))


def deleted(path: str, at: Provenance = DOCS) -> Record:
    return Record(url=HOST + path, action=Action.DELETE, provenance=at)


def rejected(
    path: str | None, data: bytes = b"", at: Provenance = DOCS, code: str = "malformed"
) -> Reject:
    url = None if path is None else HOST + path
    source = at.source
    return Reject(code=code, reason="", stage="read", source=source, url=url, data=data)
