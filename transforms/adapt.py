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
    secure               authmethod httpbasic, unless one is stated; false:   loss
                         authmethod none
    authmethod or secure as they are                                          loss acl, too
    without an ACL
    google:acl* metadata as it is: an ACL on an appliance; web feed: loss acl loss acl, too
    that is no ACL yet
    ACL without          a denial of a user that is none                      loss acl
    principals, parent
    no-index, no-follow, loss                                                 loss
    no-archive, anchors
    inherit fragment     the query of the url; loss acl where it has one      with the ACL
    extras               those of gsafeeds; else loss                         those of Items; else
                                                                              loss

A stated default is no loss: a flag that is false, the authmethod NONE, overwrite-acls that is
true, an empty text or display url.

The 5.0 dialect of gsa-feed besides: an ACL becomes google:acl* metadata, and what these cannot
say is a loss of acl; an ACL alone is rejected (acl-alone), so is an UPDATE in a content feed
(partial-update); crawl-immediately, crawl-once, feedrank, scoring, overwrite-acls and the
authmethod NEGOTIATE are losses, the authmethod of acl too, as is metadata that XML cannot hold;
content in zlib becomes plain base64.

Command streams::

    record              lister-stream             retriever-stream          authorizer-stream
    ------------------  ------------------------  ------------------------  ------------------------
    ADD with content    loss content              as it is                  as any: only what says
    ADD with only body  loss content              text/plain content        who is asked for or what
    ADD to be crawled   as it is                  reject no-content         is answered (extras at
    UPDATE              reject partial-update     reject partial-update     stream/username, stream/
    DELETE              as it is                  its url alone             authz-status); else
                                                                            reject no-authz-status
    DELETE_PATTERN      reject delete-pattern     the same                  the same
    UPDATE_INDEX        filtered update-index     the same                  the same
    ACL of a document   loss acl                  one rule of case; no      loss acl
                                                  type unqualified, no
                                                  empty name: else loss
                                                  acl of just that
    ACL alone           loss acl; filtered        the same                  as any
                        acl-alone

    field               lister-stream             retriever-stream          authorizer-stream
    ------------------  ------------------------  ------------------------  ------------------------
    texts, categories,  loss                      metadata, in this order;  loss
    metadata, fields                              a pair again, or no
                                                  text: loss
    body beside         with the content          loss                      with the content
    content
    mimetype            loss                      as it is                  loss
    charset             loss                      in the mimetype; loss if  loss
                                                  that is missing, or has
                                                  another
    modified            in whole seconds          in whole seconds          loss
    lock, crawl-once    as it is, but never       as they are               loss
                        false
    crawl-immediately   as it is, but never       loss                      loss
                        false
    display url         as it is; loss where no   as it is; loss where no   loss
                        url for Java              url for Java
    authmethod          loss                      secure, and loss          loss
    secure, no-index,   loss; secure or           as they are; an anchor    loss
    no-follow, anchors, authmethod without an     that is no url for Java:
    no-archive          ACL: loss acl, too        loss
    other hints, size,  loss                      loss                      loss
    visited, history,
    next check,
    overwrite-acls
    extras              unknown commands; else    unknown commands and      one user, its groups,
                        loss                      params; else loss         one answer; else loss

Groups feeds take groups with their members, and no documents: reject no-membership. Groups are
rejected (membership) by what has no groups.

Avro and native hold everything.
"""

from schemas.errors import ConfigError, LossRefusedError
from schemas.loss import Loss
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Reject, reject_record
from transforms.formats import all_formats, by_name
from transforms.formats.adapt_held import holding
from transforms.formats.adapt_rules import counted
from transforms.formats.content_encoding import encoder
from transforms.formats.target import Adapted, Adapter, Outcome, Target

__all__ = [
    "Adapted",
    "Adapter",
    "Outcome",
    "Target",
    "adapt",
    "adapt_membership",
    "adapter",
    "check_loss",
]

_hold_content = holding("content", "mimetype", "charset")


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to a target; it raises nothing of ours.

    A format that states neither an adapter nor `keeps_everything` is taken for one that holds
    contents and nothing else. Raise ConfigError if there is no such format, or if it is only read.
    """
    format_ = by_name(target.format)
    if format_.encoder is None:
        raise ConfigError(f"--to {format_.name}: only read; expected a format that is written")
    adapt = _keep if format_.keeps_everything else (format_.adapter or _hold_content)(target)
    return encoder(adapt, target) if format_.has_content_encodings else adapt


def adapt(record: Record, target: Target) -> Adapted:
    """Return what becomes of one record; for many, `adapter` is quicker."""
    return adapter(target)(record)


def adapt_membership(membership: Membership, target: Target) -> Membership | Reject:
    """Return the group as it is, or its reject if the target does not hold groups."""
    if by_name(target.format).holds_memberships:
        return membership
    members = counted(len(membership.members), "member")
    holding_groups = [one.name for one in all_formats() if one.holds_memberships and one.encoder]
    reason = (
        f"a group with {members}; expected a document, as {target.format} has no groups;"
        f" {', '.join(holding_groups)} take them"
    )
    return reject_record(membership, code="membership", reason=reason, stage="adapt")


def check_loss(loss: Loss, refused: frozenset[str], *, source: str) -> None:
    """Raise LossRefusedError if the field of the loss is one of `refused`."""
    if loss.field in refused:
        raise LossRefusedError(
            f"{source}: {loss.url}: {loss.field}: {loss.detail}; "
            f"--accept-loss {loss.field} goes on without it"
        )


def _keep(record: Record) -> Adapted:
    return (record,), ()
