"""Records as a target can hold them, and a loss for each thing that it cannot.

What becomes of a record, by target::

    record              gsa-feed: content feed      gsa-feed: web, m-and-url  thunderstone
    ------------------  --------------------------  ------------------------  -------------------
    ADD with content    as it is                    loss content              UTF-8 text/plain:
                                                                              body; else RawData
    ADD with only body  text/plain content          loss content              as it is
    ADD to be crawled   reject no-content           as it is                  reject crawled
    UPDATE              incremental: as it is, but  ADD of metadata and ACL;  as it is
                        reject partial-update       without reject
                        without content, metadata   partial-update
                        and ACL; full: reject
                        update-in-full-feed
    DELETE              as it is, loses nothing     the same                  the same
    DELETE_PATTERN      a DELETE of each known url  the same                  as it is; reject
                        it covers; none listed:                               wide-delete: blank,
                        reject delete-pattern;                                `*`, all of a host
                        none covered: filtered
                        no-known-url
    UPDATE_INDEX        filtered update-index       the same                  the same
    ACL of a document   as it is                    as it is                  loss acl
    ACL alone           as it is                    as it is                  loss acl; filtered
                                                                              acl-alone

    field                gsa-feed                                             thunderstone
    -------------------  ---------------------------------------------------  -------------------
    title, description,  metadata of that name, before the others             as they are
    keywords, category
    fields               metadata, one for each value; loss of a namespace    as they are
    metadata             without value: loss, or a placeholder; without       by name to title,
                         name: loss; in a web feed: loss                      description, keywords,
                                                                              category and named
                                                                              fields; else Meta;
                                                                              no text: loss
    body beside content  loss                                                 as it is
    charset              loss, unless it is that of UTF-8 content             as it is
    mimetype             missing: by extension, or the default, or reject     as it is
                         mimetype-missing; text/plain where it is ignored
    modified             as it is                                             as it is
    size, visited,       loss                                                 as they are
    next check, history
    lock, crawl hints,   as they are                                          loss
    ranks, scoring,
    authmethod, display
    url, overwrite-acls
    secure, no-index,    loss                                                 loss
    no-follow, anchors,
    no-archive
    inherit fragment     loss acl                                             with the ACL
    extras               those of gsafeeds; else loss                         those of Items; else
                                                                              loss

The 5.0 dialect of gsa-feed besides: an ACL becomes google:acl* metadata, and what these cannot
say is a loss of acl; an ACL alone is rejected (acl-alone); crawl-immediately, crawl-once, feedrank,
scoring, overwrite-acls and the authmethod NEGOTIATE are losses, as is metadata that XML cannot
hold; content in zlib becomes plain base64.

Avro and native hold everything.
"""

from schemas.errors import ConfigError
from schemas.record import Record
from transforms.adapt import gsa_feed, thunderstone
from transforms.adapt.target import Adapted, Adapter, Outcome, Target

__all__ = ["Adapted", "Adapter", "Outcome", "Target", "adapt", "adapter"]

_EVERYTHING = ("avro", "native")


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to a target; it raises nothing of ours.

    Raises ConfigError where no such format is known.
    """
    if target.format in _EVERYTHING:
        return _hold
    if target.format == "gsa-feed":
        return gsa_feed.adapter(target)
    if target.format == "thunderstone":
        return thunderstone.adapter(target)
    raise ConfigError(
        f"--to: {target.format!r}; expected 'avro', 'gsa-feed', 'native' or 'thunderstone'"
    )


def adapt(record: Record, target: Target) -> Adapted:
    """Return what becomes of one record; for many, `adapter` is quicker."""
    return adapter(target)(record)


def _hold(record: Record) -> Adapted:
    return (record,), ()
