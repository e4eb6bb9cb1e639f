"""`urls`: rewrite URLs, in every field that has one."""

from functools import lru_cache
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from feedferry.schemas.acl import Acl, Principal
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Anchor, Crawl, Record
from feedferry.transforms.steps.patterns import Rewriter, Rules
from feedferry.transforms.steps.step import TransformStep, changed_group

_CACHED = 8192
_Named = TypeVar("_Named", Principal, Member)


class UrlRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prefixes of URLs with their new form, or expressions; the first that matches counts.

    `merged` says what happens where several documents become one URL, or have one: a notice, or the
    run stops.
    """

    rewrite: Rules = ()
    merged: Literal["notice", "refuse"] = "notice"

    def check(self) -> None:
        if not self.rewrite and self.merged == "notice":
            raise ValueError("no rewrite; expected rewrite, or merged: refuse")

    @property
    def patterns(self) -> list[str]:
        return [old for old, _ in self.rewrite]


class UrlsStep(TransformStep):
    """Rewrites the URL of a record, its display URL, its anchors, and the parent of its ACL.

    A principal or group whose name is a URL is rewritten too, so that ACLs and groups agree.
    """

    def __init__(self, rules: UrlRules) -> None:
        self._rewriter = Rewriter(rules.rewrite, is_prefix=True)
        self.used = self._rewriter.used
        self._parent = lru_cache(maxsize=_CACHED)(self.rewritten)

    def apply(self, record: Record) -> Record:
        url = self.rewritten(record.url)
        acl = None if record.acl is None else self._acl(record.acl)
        crawl = None if record.crawl is None else self._crawl(record.crawl)
        if url == record.url and acl is record.acl and crawl is record.crawl:
            return record
        return replace(record, url=url, acl=acl, crawl=crawl)

    def apply_to_group(self, membership: Membership) -> Membership | None:
        return changed_group(membership, self._named)

    def rewritten(self, url: str) -> str:
        """Return the new form of a URL, itself without a rule for it."""
        rewritten = self._rewriter(url)
        return url if rewritten is None else rewritten

    def _acl(self, acl: Acl) -> Acl:
        parent = acl.inherit_from and self._parent(acl.inherit_from)
        principals = acl.principals
        if "://" in "\n".join([principal.name for principal in principals]):
            principals = tuple(map(self._named, principals))
        if parent == acl.inherit_from and principals == acl.principals:
            return acl
        return replace(acl, inherit_from=parent, principals=principals)

    def _crawl(self, crawl: Crawl) -> Crawl:
        display = crawl.display_url and self.rewritten(crawl.display_url)
        anchors = tuple(Anchor(self.rewritten(anchor.uri), anchor.text) for anchor in crawl.anchors)
        if display == crawl.display_url and anchors == crawl.anchors:
            return crawl
        return replace(crawl, display_url=display, anchors=anchors)

    def _named(self, principal: _Named) -> _Named:
        if "://" not in principal.name:
            return principal
        name = self.rewritten(principal.name)
        return principal if name == principal.name else replace(principal, name=name)
