"""The feeds of a Google Search Appliance: documents, groups of users, and groups as CSV."""

import re
from functools import partial

from schemas.delivery import Door
from transforms.formats.base import Format
from transforms.formats.gsa import adapt_feed, feed, groups, groups_csv
from transforms.formats.xml.element_names import AMBIGUOUS_CODES
from transforms.formats.xml.elements import cut_spans

GSA_FEED = Format(
    name="gsa-feed",
    title="Google Search Appliance feeds, protocol 7.x and 5.0 (XML)",
    element_names=feed.ELEMENT_NAMES,
    read=feed.read,
    split=partial(cut_spans, feed.ELEMENT_NAMES),
    encoder=feed.GsaFeedEncoder,
    adapter=adapt_feed.adapter,
    door=Door.FEED,
    has_content_encodings=True,
    has_record_ends=True,
    hole_codes=AMBIGUOUS_CODES,
    has_feedtypes=True,
    names_its_feed=True,
    has_web_feeds=True,
)

GSA_GROUPS = Format(
    name="gsa-groups",
    title="Google Search Appliance groups feeds (XML)",
    element_names=groups.ELEMENT_NAMES,
    read=groups.read,
    split=partial(cut_spans, groups.ELEMENT_NAMES),
    encoder=lambda _options: groups.GsaGroupsEncoder(),
    adapter=adapt_feed.refuse_documents,
    door=Door.GROUPS,
    holds_documents=False,
    holds_memberships=True,
    has_record_ends=True,
    hole_codes=AMBIGUOUS_CODES,
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
    read=groups_csv.read,
    holds_documents=False,
    holds_memberships=True,
    hole_codes=frozenset({"line-too-long"}),
)
