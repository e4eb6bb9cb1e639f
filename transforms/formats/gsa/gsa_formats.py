"""The feeds of a Google Search Appliance: documents, groups of users, and groups as CSV."""

import re
from functools import partial

import msgspec
from msgspec.structs import replace

from feedferry.schemas.choices import DIALECT_5_0, DIALECTS, EMPTY_METADATA
from feedferry.schemas.choices import GROUPS as GROUPS_CHOICES
from feedferry.schemas.feed import FULL, is_web
from feedferry.schemas.record import Action
from feedferry.transforms.formats.base import (
    FIELDS,
    ContentOptions,
    Format,
    Holds,
    Kind,
    KindRefusal,
    Target,
    deferred,
)
from feedferry.transforms.formats.element_names import ElementNames


class FeedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`dialect` is the release of the feeds protocol, 7.x if none is stated.

    Empty metadata may become `placeholder`. `groups` is what to do with groups next to documents.
    """

    dialect: str | None = None
    empty_metadata: str = EMPTY_METADATA[0]
    placeholder: str = "_noname_"
    groups: str = GROUPS_CHOICES[0]


FEED_NAMES = ElementNames(root="gsafeed", records=("record", "acl"), group="group", header="header")
GROUPS_NAMES = ElementNames(root="xmlgroups", records=("membership",))

_UNHELD_FIELDS = (
    *("charset", "size", "title", "description", "keywords", "body", "categories", "fields"),
    *("visited", "next_check", "history", "provenance"),
)
_UNHELD_HINTS = ("secure", "no_index", "no_follow", "no_archive", "anchors")
_AS_A_WHOLE = "content, metadata or an ACL, as a feed replaces each of them as a whole"
_CRAWLS = "⟦feedtype metadata-and-url⟧ makes a feed"
_NO_CONTENT = KindRefusal(
    "no-content",
    "a document without content; expected content, as the appliance does not crawl for a content"
    f" feed; {_CRAWLS} that it crawls",
)
NO_MIMETYPE = KindRefusal(
    "mimetype-missing",
    "content without a mimetype, and a url whose extension tells none; expected one, as the"
    " appliance requires it; ⟦default_mimetype⟧ gives one to all such documents",
)
_UPDATE_OF_FIELDS = KindRefusal(
    "partial-update", f"an update of single fields; expected {_AS_A_WHOLE}"
)
_UPDATE_OF_NOTHING = KindRefusal(
    "partial-update",
    f"a URL alone; expected {_AS_A_WHOLE}; {_CRAWLS} of URLs that the appliance crawls",
)
_UPDATE_OF_NO_METADATA = KindRefusal(
    "partial-update",
    "an update of single fields; expected metadata of a metadata-and-url feed, or an ACL",
)
_UPDATE_IN_FULL = KindRefusal(
    "update-in-full-feed",
    "a partial update; expected whole documents, as a full feed replaces all that its datasource"
    " had; ⟦feedtype incremental⟧ makes a feed that holds it",
)
_UPDATE_IN_5_0 = KindRefusal(
    "partial-update",
    "a partial update; expected a whole document, as an appliance of release 5.0 replaces all of a"
    " document; ⟦dialect 7.x⟧ holds it",
)
_ALONE_IN_5_0 = KindRefusal(
    "acl-alone",
    "an ACL without a document; expected a document, as metadata holds the ACLs of the 5.0 dialect;"
    " ⟦dialect 7.x⟧ holds it",
)
_PARTLY_5_0 = {
    "charset": "neither UTF-8 nor stated by the content",
    "metadata": "empty values, and values that XML cannot hold",
    "acl": "namespaces, names in any case, unqualified names, the authmethod NEGOTIATE",
    "authmethod": "NEGOTIATE",
}


_UNHELD_5_0 = {"crawl_immediately", "crawl_once", "feedrank", "scoring", "overwrite_acls"}
FEED = Holds(
    fields=FIELDS.difference(_UNHELD_FIELDS, _UNHELD_HINTS),
    extras=("record/", "group/", "acl/"),
    encodings=True,
    actions=frozenset({Action.ADD, Action.UPDATE, Action.DELETE}),
    acls_alone=True,
    groups_feed="gsa-groups",
    partly={"charset": "neither UTF-8 nor stated by the content", "metadata": "empty values"},
    refuses={Kind.UNTYPED: NO_MIMETYPE, Kind.UPDATE_OF_FIELDS: _UPDATE_OF_FIELDS},
    absolute_urls=True,
    empty_metadata=False,
)


def held_by(target: Target) -> Holds:
    """Return what a feed of the target's feedtype and dialect holds."""
    is_url_feed = is_web(target.datasource, target.feedtype)
    own = target.of(FeedOptions)
    is_old, is_web_source = own.dialect == DIALECT_5_0, target.datasource == "web"
    unheld = {"content"} if is_url_feed else {"arrival"}
    if is_web_source:
        unheld |= {"metadata", "acl"} if is_old else {"metadata"}
    refuses = {Kind.UPDATE_OF_FIELDS: _UPDATE_OF_NO_METADATA}
    if not is_url_feed:
        refuses = _refused_by_content_feed(target)
    if is_old:
        unheld |= _UNHELD_5_0
        refuses |= {Kind.ALONE: _ALONE_IN_5_0}
    return replace(
        FEED,
        fields=FEED.fields - unheld | {"charset"},
        extras=("record/", "group/") if is_old else FEED.extras,
        groups_feed="" if is_old or own.groups != GROUPS_CHOICES[0] else FEED.groups_feed,
        partly=_PARTLY_5_0 if is_old else FEED.partly,
        refuses=refuses,
    )


def _refused_by_content_feed(target: Target) -> dict[Kind, KindRefusal]:
    refuses = {
        Kind.CRAWLED: _NO_CONTENT,
        Kind.EMPTY: _NO_CONTENT,
        Kind.UPDATE_OF_FIELDS: _UPDATE_OF_FIELDS,
        Kind.UPDATE_OF_NOTHING: _UPDATE_OF_NOTHING,
    }
    if target.default_mimetype is None:
        refuses[Kind.UNTYPED] = NO_MIMETYPE
    if target.feedtype == FULL:
        refuses[Kind.UPDATE] = _UPDATE_IN_FULL
    elif target.of(FeedOptions).dialect == DIALECT_5_0:
        refuses[Kind.UPDATE] = _UPDATE_IN_5_0
    return refuses


GROUPS = Holds(actions=frozenset(), memberships=True)

_LEAF = rb"ance-type\s*=\s*[\"']leaf-node[\"']"
_OTHER = rb"\s+(?![\s/>]|inherit" + _LEAF + rb"\s*/?>)"
"""Begins attributes that are not only the type of a leaf, of which no ACL inherits."""

_RELATED_ACLS = (
    re.compile(rb"inherit(?!" + _LEAF + rb")"),
    re.compile(rb"<acl" + _OTHER),  # with any attribute: values before the URL may have `>`
    re.compile(rb":acl" + _OTHER),
    re.compile(
        rb"<\?xml\s[^>]{0,200}?encoding\s*=\s*[\"'](?!utf-8|us-ascii|iso-8859-|windows-125)"
    ),
)
"""The last is of encodings in which these names may have other bytes."""

GSA_FEED = Format(
    name="gsa-feed",
    title="Google Search Appliance feeds, protocol 7.x and 5.0 (XML)",
    related_acls=_RELATED_ACLS,
    element_names=FEED_NAMES,
    dtd="gsafeed-7.dtd",
    read=deferred("gsa.feed:read"),
    split=partial(deferred("xml.borders:cut"), FEED_NAMES),
    borders=partial(deferred("xml.borders:ElementBorders"), FEED_NAMES),
    places=deferred("gsa.record_reader:places"),
    encoder=deferred("gsa.feed:GsaFeedEncoder"),
    holds=FEED,
    values=deferred("gsa.rows:stated_values"),
    variant=held_by,
    adapter=deferred("gsa.adapt_feed:adapter"),
    has_feedtypes=True,
    options=(FeedOptions, ContentOptions),
    dialects=DIALECTS,
    has_record_ends=True,
)

_make_groups_encoder = deferred("gsa.groups:GsaGroupsEncoder")

GSA_GROUPS = Format(
    name="gsa-groups",
    title="Google Search Appliance groups feeds (XML)",
    element_names=GROUPS_NAMES,
    dtd="xmlgroups.dtd",
    read=deferred("gsa.groups:read"),
    split=partial(deferred("xml.borders:cut"), GROUPS_NAMES),
    borders=partial(deferred("xml.borders:ElementBorders"), GROUPS_NAMES),
    places=partial(deferred("xml.places:XmlPlaces"), GROUPS_NAMES),
    encoder=lambda _options: _make_groups_encoder(),
    has_feedtypes=True,
    holds=GROUPS,
    has_record_ends=True,
)

_CSV_HEADER = re.compile(rb'(?:\xef\xbb\xbf)?"?group"?,"?member"?,"?scope"?[,\r\n]', re.IGNORECASE)


GROUPS_CSV = Format(
    name="groups-csv",
    title="groups as CSV: group,member,scope[,namespace]",
    matches=lambda head: _CSV_HEADER.match(head) is not None,
    is_common_text=True,
    read=deferred("gsa.groups_csv:read"),
    holds=GROUPS,
)
