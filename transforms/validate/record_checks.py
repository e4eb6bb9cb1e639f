"""The checks of single records, memberships and headers."""

import re
from collections.abc import Callable, Iterator, Mapping

from feedferry.schemas.acl import Access
from feedferry.schemas.feed import FEEDTYPES, FULL, is_web
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import DELETIONS, Action, Record
from feedferry.transforms.formats.holding.values import doubtful_url, is_absolute

MAX_URL_CHARS = 2_000
MAX_MEMBERS = 3_000_000

_DATASOURCE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,249}", re.ASCII)
_MIMETYPE = re.compile(r"[!#$%&'*+.^_`|~\w-]+/[!#$%&'*+.^_`|~\w-]+(?:\s*;.*)?", re.ASCII | re.S)
_LEGACY_ACL = "google:acl"


def _is_of_web(record: Record) -> bool:
    return is_web(record.provenance.datasource, record.provenance.feedtype)


def _is_document(record: Record) -> bool:
    return record.action not in DELETIONS and not (record.acl is not None and record.acl.alone)


def datasource_name(datasource: str | None, _feedtype: str | None) -> Iterator[str]:
    if datasource is not None and not _DATASOURCE.fullmatch(datasource):
        yield (
            f"datasource {datasource[:99]!r}; expected a letter or _, then letters, digits, _ and -"
        )


def feedtype_name(_datasource: str | None, feedtype: str | None) -> Iterator[str]:
    if feedtype is not None and feedtype not in FEEDTYPES:
        yield f"feedtype {feedtype[:99]!r}; expected {', '.join(FEEDTYPES)}"


def header_missing(datasource: str | None, feedtype: str | None) -> Iterator[str]:
    names = [
        name
        for name, value in (("datasource", datasource), ("feedtype", feedtype))
        if value is None
    ]
    if names:
        yield f"a header without {' and '.join(names)}; expected both"


def url_relative(record: Record) -> Iterator[str]:
    if record.action is not Action.DELETE_PATTERN and not is_absolute(record.url.strip()):
        yield f"url={record.url[:200]!r}; expected an absolute URL"


def url_doubtful(record: Record) -> Iterator[str]:
    if is_absolute(record.url.strip()) and (doubt := doubtful_url(record)) is not None:
        yield doubt


def url_length(record: Record) -> Iterator[str]:
    if len(record.url) > MAX_URL_CHARS:
        yield f"a URL of {len(record.url)} characters; expected at most {MAX_URL_CHARS}"


def content_in_web_feed(record: Record) -> Iterator[str]:
    if _is_of_web(record) and record.content is not None:
        yield "a content in a feed of URLs; expected none: the appliance crawls the document"


def metadata_in_web_feed(record: Record) -> Iterator[str]:
    if record.provenance.datasource == "web" and record.metadata:
        yield "metadata in the datasource web; expected none, or feedtype metadata-and-url"


def metadata_alone(record: Record) -> Iterator[str]:
    is_full = record.provenance.feedtype == FULL and not _is_of_web(record)
    if is_full and _is_document(record) and record.content is None and record.metadata:
        yield "metadata without content in a full feed; expected content, or incremental"


def mimetype_missing(record: Record) -> Iterator[str]:
    if record.mimetype is None and record.content is not None and not _is_of_web(record):
        yield "a content without mimetype; expected its MIME type"


def mimetype_form(record: Record) -> Iterator[str]:
    if record.mimetype is not None and not _MIMETYPE.fullmatch(record.mimetype.strip()):
        yield f"mimetype={record.mimetype[:99]!r}; expected type/subtype"


def crawl_immediately(record: Record) -> Iterator[str]:
    if record.crawl is not None and record.crawl.crawl_immediately and not _is_of_web(record):
        yield "crawl-immediately in a content feed; expected a feed of URLs"


def crawl_once(record: Record) -> Iterator[str]:
    if record.crawl is not None and record.crawl.crawl_once and not _is_of_web(record):
        yield "crawl-once in a content feed; expected the datasource web"


def empty_metadata(record: Record) -> Iterator[str]:
    for meta in record.metadata:
        if not meta.value and not meta.data:
            yield f"metadata {meta.name!r} without a value; expected a value, or no meta"


def acl_in_metadata(record: Record) -> Iterator[str]:
    names = [meta.name for meta in record.metadata if meta.name.startswith(_LEGACY_ACL)]
    if record.acl is not None and names:
        yield f"an acl, and {names[0]} in the metadata; expected one of both"


def principal_empty(record: Record) -> Iterator[str]:
    for principal in record.acl.principals if record.acl else ():
        if not principal.name.strip():
            yield f"an empty principal in the acl of {record.url!r}; expected a name"


def principal_padded(record: Record) -> Iterator[str]:
    for principal in record.acl.principals if record.acl else ():
        if principal.name.strip() and principal.name != principal.name.strip():
            yield f"principal {principal.name!r}; expected a name without blanks around it"


def acl_contradiction(record: Record) -> Iterator[str]:
    """A principal that is permitted and denied: DENY wins."""
    principals = record.acl.principals if record.acl else ()
    permitted = {(p.scope, p.namespace, p.name) for p in principals if p.access is Access.PERMIT}
    for denied in principals:
        key = (denied.scope, denied.namespace, denied.name)
        if denied.access is Access.DENY and key in permitted:
            yield f"principal {denied.name!r} is permitted and denied; expected one of both"


def group_in_itself(membership: Membership) -> Iterator[str]:
    group = membership.group
    for member in membership.members:
        if (member.scope, member.namespace, member.name) == (
            group.scope,
            group.namespace,
            group.name,
        ):
            yield f"group {group.name!r} is a member of itself; expected other members"


def wide_deletion(record: Record) -> Iterator[str]:
    if record.is_wide_deletion:
        yield f"a deletion of {record.url!r}; expected a pattern that names a part of a path"


OF_HEADERS: Mapping[str, Callable[[str | None, str | None], Iterator[str]]] = {
    "datasource-name": datasource_name,
    "feedtype-name": feedtype_name,
    "header-incomplete": header_missing,
}
OF_RECORDS: Mapping[str, Callable[[Record], Iterator[str]]] = {
    "url-relative": url_relative,
    "url-host": url_doubtful,
    "url-length": url_length,
    "content-in-web-feed": content_in_web_feed,
    "metadata-in-web": metadata_in_web_feed,
    "metadata-without-content": metadata_alone,
    "mimetype-absent": mimetype_missing,
    "mimetype-form": mimetype_form,
    "crawl-immediately-ignored": crawl_immediately,
    "crawl-once-ignored": crawl_once,
    "metadata-empty": empty_metadata,
    "acl-in-metadata": acl_in_metadata,
    "principal-empty": principal_empty,
    "principal-padded": principal_padded,
    "principal-in-both": acl_contradiction,
    "wide-deletion": wide_deletion,
}
OF_GROUPS: Mapping[str, Callable[[Membership], Iterator[str]]] = {
    "group-in-itself": group_in_itself
}
"""The checks by the codes of their rules; each yields *finding; expected …* for each place."""
