"""Histories of GSA feeds about a few pages, as clients post them."""

import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from feedferry.schemas.feed import Feed
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadResult, by_name
from support.rehearsal import acl, gone, gsa_feed, metadata, page

_NAMES = ("a", "b", "c/d")


class PostedFeed(NamedTuple):
    """A feed as a client posts it."""

    datasource: str
    feedtype: str
    records: tuple[str, ...]


_names = st.sampled_from(_NAMES)
_inner = st.sampled_from(
    ("", metadata(x="1"), metadata(y="2", x="3"), acl("joe"), acl("ann") + metadata(x="1"))
)
_records = st.one_of(
    st.builds(page, _names, st.sampled_from(("one", "two")), inner=_inner),
    st.builds(lambda name, inner: page(name, None, inner=inner), _names, _inner),
    st.builds(gone, _names),
    st.builds(lambda name, user: acl(user, url=name), _names, st.sampled_from(("joe", "eve"))),
)


def feeds() -> st.SearchStrategy[PostedFeed]:
    return st.builds(
        PostedFeed,
        st.sampled_from(("first", "second")),
        st.sampled_from(("full", "incremental", "metadata-and-url")),
        st.lists(_records, min_size=1, max_size=4).map(tuple),
    )


def results(history: Sequence[PostedFeed]) -> Iterator[ReadResult]:
    read = by_name("gsa-feed").read
    for number, feed in enumerate(history):
        posted = Feed(datasource=feed.datasource, feedtype=feed.feedtype)
        markup = gsa_feed(*feed.records).encode()
        yield from read(io.BytesIO(markup), span=Span(source=f"{number}.xml", feed=posted))
