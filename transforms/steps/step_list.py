"""The list of steps in a job file or a file of its own, decoded and made ready."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial, reduce
from hashlib import file_digest, sha256
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, raise_together
from feedferry.transforms.config.yaml_structs import Value, decode_key, text_where
from feedferry.transforms.steps.acl_step import AclRules, AclStep
from feedferry.transforms.steps.acl_store import AclSources, AclStore, store_acls
from feedferry.transforms.steps.content_step import ContentRules, ContentStep
from feedferry.transforms.steps.fetch_rules import FetchRules
from feedferry.transforms.steps.filter_step import Conditions, FilterStep
from feedferry.transforms.steps.kept_acls import has_kept
from feedferry.transforms.steps.merge_step import MergeRules, MergeStep, store_documents
from feedferry.transforms.steps.metadata_step import MetadataRules, MetadataStep
from feedferry.transforms.steps.principals_step import PrincipalRules, PrincipalsStep
from feedferry.transforms.steps.python_step import PythonRule, PythonStep
from feedferry.transforms.steps.stated.acl_mapping import AclMapping, MappingRules
from feedferry.transforms.steps.stated.stated_store import is_mapping_changed
from feedferry.transforms.steps.step import AppliedSteps, StepInputs, TransformStep
from feedferry.transforms.steps.text_step import TextRules, TextStep
from feedferry.transforms.steps.urls_step import UrlRules, UrlsStep

PREPARED = ".prepared"
"""Suffix of the file that a step needs before the records are converted, in the folder of a run."""


_DECISION = "acl"
"""The name of the step that a target needs and the user does not state."""

_DECISION_TEXT = "it decides who may see each document, by its ACL and all ACLs above it"

_NAME = re.compile("-*[a-z0-9][-a-z0-9]*")
_Name = Annotated[str, Value(text_where(_NAME.fullmatch), "a name of letters, digits and -")]


class StepConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of the list: one key says what it does, and `name` how reports call it."""

    name: _Name | None = None
    keep: Conditions | None = None
    drop: Conditions | None = None
    urls: UrlRules | None = None
    metadata: MetadataRules | None = None
    principals: PrincipalRules | None = None
    acl: AclRules | None = None
    content: ContentRules | None = None
    fetch: FetchRules | None = None
    merge: MergeRules | None = None
    text: TextRules | None = None
    python: PythonRule | None = None

    @property
    def kinds(self) -> list[str]:
        """The keys that are stated, besides the name."""
        names = self.__struct_fields__
        return [name for name in names if name != "name" and getattr(self, name) is not None]

    @property
    def tables(self) -> tuple[str, ...]:
        """The paths of the CSV files and of the groups feed that it reads."""
        of_metadata = self.metadata.values.values() if self.metadata else ()
        table = self.principals.table if self.principals else None
        groups = self.acl.groups if self.acl else None
        return (*of_metadata, *filter(None, (table, groups)))

    @property
    def patterns(self) -> list[str]:
        """The patterns of the step; one that matches nothing is reported."""
        rules = (self.keep, self.drop, self.urls, self.metadata, self.principals, self.content)
        return [pattern for stated in rules if stated is not None for pattern in stated.patterns]

    @property
    def is_prepared(self) -> bool:
        """Whether it needs to know all records before the first is converted."""
        return self.acl is not None or self.merge is not None

    def check(self) -> None:
        if len(self.kinds) != 1:
            found = ", ".join(self.kinds) or "no step"
            raise ValueError(f"{found}; expected one step in each entry of the list")

    def make(self, base: Path, prepared: Path | None = None) -> TransformStep:
        """Return the step; paths in it are relative to `base`. Raise ConfigError if it fails.

        `prepared` is the file that was made before the records are converted, if it needs one.
        """
        if self.acl is not None:
            return AclStep(self.acl, stored=prepared)
        if self.merge is not None:
            return MergeStep(self.merge, stored=prepared)
        (kind,) = self.kinds
        return _MAKE[kind](getattr(self, kind), base)


def _make_fetch(rules: FetchRules) -> TransformStep:
    from feedferry.transforms.steps.fetch_step import FetchStep  # loads the HTTP client

    return FetchStep(rules)


# Any: each function takes the rules of its own kind.
_MAKE: dict[str, Callable[[Any, Path], TransformStep]] = {
    "keep": lambda rules, _: FilterStep(rules, is_kept=True),
    "drop": lambda rules, _: FilterStep(rules, is_kept=False),
    "urls": lambda rules, _: UrlsStep(rules),
    "metadata": lambda rules, base: MetadataStep(rules, base=base),
    "principals": lambda rules, base: PrincipalsStep(rules, base=base),
    "content": lambda rules, _: ContentStep(rules),
    "fetch": lambda rules, _: _make_fetch(rules),
    "text": lambda rules, _: TextStep(rules),
    "python": lambda rules, base: PythonStep(rules, base=base),
}


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """All steps of a run, in order; `base` is the folder of the file that lists them.

    `added` has the names of steps that the user does not state, and what they do.
    """

    steps: tuple[StepConfig, ...] = ()
    base: str = "."
    added: tuple[tuple[str, str], ...] = ()

    def with_decisions(self) -> "Steps":
        """Return these steps and, unless one of them resolves ACLs, one that does, as the last."""
        if any(config.acl is not None for config in self.steps):
            return self
        decision = StepConfig(name=_DECISION, acl=AclRules(mode="decision"))
        steps = replace(self, steps=(*self.steps, decision))
        name = f"{steps.names[-1]}: decision"
        return replace(steps, added=((name, _DECISION_TEXT),))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps in reports; steps of one name are numbered."""
        stated = [config.name or config.kinds[0] for config in self.steps]
        return tuple(
            f"{name}-{before + 1}" if (before := stated[:at].count(name)) else name
            for at, name in enumerate(stated)
        )

    @property
    def patterns(self) -> list[tuple[str, str]]:
        """The patterns of all steps, each with the name of its step."""
        return [
            (name, pattern)
            for name, config in zip(self.names, self.steps, strict=True)
            for pattern in config.patterns
        ]

    @property
    def rewrites_urls(self) -> bool:
        """Whether documents may become one URL."""
        return self.rewriter is not None

    @property
    def rewriter(self) -> Callable[[str], str] | None:
        """The function that makes the URL after all steps of one before them, None without any."""
        rules = [config.urls for config in self.steps if config.urls and config.urls.rewrite]
        steps = [UrlsStep(rule).rewritten for rule in rules]
        return (lambda url: reduce(lambda text, step: step(text), steps, url)) if steps else None

    @property
    def refuses_merged_urls(self) -> bool:
        """Whether a run in which documents become one URL stops."""
        return any(config.urls and config.urls.merged == "refuse" for config in self.steps)

    def reading_step(self, *, may_inherit: bool = True, has_acls: bool = False) -> str | None:
        """Return the name of the first step that reads all records before it is applied, if any.

        Decisions are of the ACLs of records alone if no ACL of the inputs inherits. A step that
        resolves ACLs does not read records if the inputs `has_acls` of their own.
        """
        for at, (name, config) in enumerate(zip(self.names, self.steps, strict=True)):
            is_read = not (has_acls and config.acl is not None)
            if config.is_prepared and is_read and (may_inherit or self._may_inherit(at)):
                return name
        return None

    def _may_inherit(self, at: int) -> bool:
        """Whether a step needs the ACLs of all records, even if no ACL of the inputs inherits."""
        acl, before = self.steps[at].acl, self.steps[:at]
        is_decided = acl is not None and acl.mode == "decision"
        return not is_decided or any(of.python or of.merge or of.fetch for of in before)

    def prepare(self, inputs: StepInputs, work: Path) -> None:
        """Store what steps need to know of all records in `work`; keep files that are there.

        Raise ConfigError for two steps that resolve ACLs, if a job keeps its ACLs.
        """
        steps = sum(config.acl is not None for config in self.steps)
        if steps > 1 and inputs.kept_acls is not None:
            found = f"⟦transform⟧: {steps} steps acl in a job, which keeps its ACLs"
            raise ConfigError(f"{found}; expected one: the last one resolves all")
        for at, (name, config) in enumerate(zip(self.names, self.steps, strict=True)):
            path = work / f"{name}{PREPARED}"
            if not config.is_prepared or path.exists():
                continue
            before = replace(self, steps=self.steps[:at]).make(work, has_requests=False)
            if config.acl is not None:
                store_acls(path, before, inputs, self._acl_sources(at, inputs, work))
            elif config.merge is not None:
                base = Path(self.base) / config.merge.base
                store_documents(path, inputs.updated(base, before, work / f"{name}.spill"))

    def _acl_sources(self, at: int, inputs: StepInputs, work: Path) -> AclSources:
        """Return what a step that resolves ACLs reads besides its inputs, and whether these."""
        acl, kept = self.steps[at].acl, inputs.kept_acls
        groups = acl and acl.groups
        memberships = inputs.file(Path(self.base) / groups) if groups else ()
        is_read = self._may_inherit(at) or inputs.may_inherit()
        mapping = None
        if kept is not None:
            is_read = has_kept(kept) or is_read  # the file is checked first
            # A full feed that is not read replaces its documents, which are not known here.
            is_sent = inputs.sends_decisions and (inputs.can_be_read or not inputs.is_full)
            if is_sent and is_mapping_changed(kept, changed := self.mapping(work)):
                is_read, mapping = is_read or inputs.can_be_read, changed
        return AclSources(memberships, is_read, mapping)

    def mapping(self, work: Path, *, has_groups: bool = False) -> AclMapping | None:
        """Return what the steps make of ACLs, None without the step `acl`.

        If it `has_groups`, the step `acl` was prepared in the folder of a run.
        """
        before = list(takewhile(lambda config: config.acl is None, self.steps))
        named = zip(self.names, self.steps, strict=True)
        name, last = next((of for of in named if of[1].acl), ("", StepConfig()))
        mapped = [config for config in before if config.principals]
        if last.acl is None:
            return None
        if last.acl.groups:
            mapped.append(last)
        repeated = tuple(config for config in before if config.principals or config.urls)
        others = (
            of
            for of, config in zip(self.names, before, strict=False)
            if config.python or config.merge or config.fetch
        )
        rules = MappingRules(
            digest=bytes.fromhex(replace(self, steps=tuple(mapped)).fingerprint()),
            obstacle=next(others, None),
            has_decisions=last.acl.mode == "decision",
        )
        mapping = AclMapping(replace(self, steps=repeated).make(work), rules)
        if has_groups and last.acl.groups:
            return mapping.with_groups(AclStore.open(work / f"{name}{PREPARED}").members)
        return mapping

    def of_changed_acls(self) -> "Steps":
        """Return the steps for ACLs of earlier runs: those before the step `acl` were applied."""
        first = next(at for at, config in enumerate(self.steps) if config.acl is not None)
        return replace(self, steps=self.steps[first:])

    def stored_acls(self, work: Path) -> list[Path]:
        """Return the files of ACLs that were prepared in the folder of a run."""
        named = zip(self.names, self.steps, strict=True)
        return [work / f"{name}{PREPARED}" for name, config in named if config.acl is not None]

    def make(self, work: Path | None = None, *, has_requests: bool = True) -> AppliedSteps:
        """Make the steps; call it once in each worker. Raise ConfigError with all that fail.

        `work` is the folder in which they were prepared; without it, they are only checked. Without
        requests, there are no steps that fetch documents.
        """
        made: list[tuple[str, TransformStep]] = []

        def add(name: str, config: StepConfig) -> None:
            made.append((name, config.make(Path(self.base), work and work / f"{name}{PREPARED}")))

        named = zip(self.names, self.steps, strict=True)
        raise_together(partial(add, *each) for each in named if has_requests or not each[1].fetch)
        return AppliedSteps(made)

    def fingerprint(self) -> str:
        """Return a hash of the steps and of the tables that they name."""
        tables = [(Path(self.base) / name) for config in self.steps for name in config.tables]
        if not self.steps:
            return ""
        digest = sha256(msgspec.json.encode(self.steps, order="sorted"))
        for config in self.steps:
            if config.merge is not None:
                digest.update(msgspec.json.encode(_signed(Path(self.base) / config.merge.base)))
        for path in tables:
            with suppress(OSError), path.open("rb") as stream:  # the step reports an error
                digest.update(file_digest(stream, "sha256").digest())
        return digest.hexdigest()


def _signed(base: Path) -> list[tuple[str, int, int]]:
    """Return the names, sizes and times of the files of a base, which may be large."""
    files = [base] if base.is_file() else sorted(base.rglob("*"))
    stats = [(path, path.stat()) for path in files if path.is_file()]
    return [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats]


class _StepFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of steps, as `transform` in a job file."""

    transform: tuple[StepConfig, ...]


def read_steps(path: Path) -> Steps:
    """Return the steps of a file, which may be a job file; raise ConfigError with all errors."""
    decoded = decode_key(path, "transform", _StepFile)
    return Steps(steps=decoded.transform, base=str(path.parent))
