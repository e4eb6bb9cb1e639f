"""The feeds of a Google Search Appliance: documents, groups of users, and groups as CSV."""

import re
from functools import partial

from schemas.delivery import Door
from schemas.record import Action
from transforms.formats.base import FIELDS, Format, Holds, deferred
from transforms.formats.element_names import ElementNames

FEED_NAMES = ElementNames(root="gsafeed", records=("record", "acl"), group="group", header="header")
GROUPS_NAMES = ElementNames(root="xmlgroups", records=("membership",))

_UNHELD_FIELDS = (
    *("charset", "size", "title", "description", "keywords", "body", "categories", "fields"),
    *("visited", "next_check", "history", "provenance"),
)
_UNHELD_HINTS = ("secure", "no_index", "no_follow", "no_archive", "anchors")
FEED = Holds(
    fields=FIELDS.difference(_UNHELD_FIELDS, _UNHELD_HINTS),
    extras=("record/", "group/", "acl/"),
    encodings=True,
    actions=frozenset({Action.ADD, Action.UPDATE, Action.DELETE}),
    acls_alone=True,
    absolute_urls=True,
    empty_metadata=False,
)
GROUPS = Holds(actions=frozenset(), memberships=True)

GSA_FEED = Format(
    name="gsa-feed",
    title="Google Search Appliance feeds, protocol 7.x and 5.0 (XML)",
    element_names=FEED_NAMES,
    read=deferred("gsa.feed:read"),
    split=partial(deferred("xml.elements:cut_spans"), FEED_NAMES),
    encoder=deferred("gsa.feed:GsaFeedEncoder"),
    holds=FEED,
    variant=deferred("gsa.adapt_feed:held_by"),
    adapter=deferred("gsa.adapt_feed:adapter"),
    door=Door.FEED,
    has_content_encodings=True,
    has_record_ends=True,
    has_feedtypes=True,
    names_its_feed=True,
    has_web_feeds=True,
)

_make_groups_encoder = deferred("gsa.groups:GsaGroupsEncoder")

GSA_GROUPS = Format(
    name="gsa-groups",
    title="Google Search Appliance groups feeds (XML)",
    element_names=GROUPS_NAMES,
    read=deferred("gsa.groups:read"),
    split=partial(deferred("xml.elements:cut_spans"), GROUPS_NAMES),
    encoder=lambda _options: _make_groups_encoder(),
    door=Door.GROUPS,
    holds=GROUPS,
    has_record_ends=True,
    has_feedtypes=True,
)

_CSV_HEADER = re.compile(rb'(?:\xef\xbb\xbf)?"?group"?,"?member"?,"?scope"?[,\r\n]', re.IGNORECASE)


def _is_groups_csv(head: bytes) -> bool:
    return _CSV_HEADER.match(head) is not None


GROUPS_CSV = Format(
    name="groups-csv",
    title="groups as CSV: group,member,scope[,namespace]",
    matches=_is_groups_csv,
    is_common_text=True,
    read=deferred("gsa.groups_csv:read"),
    holds=GROUPS,
)
