"""Deliveries that are set aside, and `feedferry serve --retry`.

A delivery is set aside when its digestion, or its conversion in a gateway, exceeds its time limit,
ends its process repeatedly, or meets a defect of feedferry; a gateway also sets aside what its
appliance refuses. Later deliveries are processed. A retry is recorded while no receiver has the
spool, and done by the next one.
"""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click
from msgspec.structs import replace

from feedferry.pipelines.serve.forward_journal import (
    DeliveryOutcome,
    ForwardJournal,
    ForwardState,
)
from feedferry.pipelines.serve.rehearsal.delivery_table import (
    DeliveryStatus,
    SetAsideBy,
    SetAsideDelivery,
)
from feedferry.pipelines.serve.rehearsal.index import INDEX_FILE, Index
from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sources.spool import is_whole, name_of, queue_of, read_deliveries
from feedferry.transforms.storage.files.lock import Lock

_MAX_LISTED = 20
_APPLIED = (DeliveryStatus.COMPLETED, DeliveryStatus.WITH_ERRORS)


def retry(spool: Path, wanted: str) -> int:
    """Record a retry of deliveries that are set aside: all, a delivery, or a datasource.

    Raises BusyError while a receiver has the spool.
    """
    if not (spool / JOURNAL).exists():
        raise ConfigError(f"--spool {spool}: no {JOURNAL} in it; expected the folder of a receiver")
    with (
        Lock(spool / "lock", where=str(spool), by="receiver"),
        Index(spool / INDEX_FILE) as index,
        closing(ForwardJournal(spool)) as journal,
    ):
        deliveries = {delivery.ordinal: delivery for delivery in read_deliveries(spool)}
        by_gateway = [describe(each, deliveries.get(at)) for at, each in journal.set_aside.items()]
        aside = sorted(
            (*index.deliveries.all_set_aside(), *by_gateway), key=lambda each: each.ordinal
        )
        chosen = [each for each in aside if wanted in ("all", str(each.ordinal), each.name)]
        if not chosen and wanted != "all":
            known = sorted({f"{each.ordinal} ({each.name})" for each in aside[:_MAX_LISTED]})
            raise ConfigError(
                f"--retry {wanted}: not set aside in {spool}; expected all, or the number or"
                f" datasource of one of: {', '.join(known) or 'none is set aside'}"
            )
        for each in chosen:
            first = deliveries.get(each.ordinal)
            if first is None:
                raise ConfigError(
                    f"{spool / JOURNAL}: no delivery {each.ordinal}; expected its line in it"
                )
            queue = [one for one in deliveries.values() if queue_of(one) == queue_of(first)]
            later = [one for one in queue if one.ordinal > first.ordinal]
            if each.by is SetAsideBy.INDEX:
                _digest_again(first, later, index)
            elif first.ordinal < journal.last_decided:
                raise ConfigError(
                    f"--retry {wanted}: delivery {first.ordinal} is older than delivery"
                    f" {journal.last_decided}, which a search server has: older versions and ACLs"
                    " would be shown for a while; expected the feed to be posted again, corrected:"
                    f" {spool / str(first.path)}"
                )
            else:
                _forward_again(first, later, journal)
    for each in chosen:
        click.echo(
            f"delivery {each.ordinal} of {each.name!r}, by the {each.by.value}: {each.reason}"
        )
    count = len({each.ordinal for each in chosen})
    click.echo(
        f"{count} to be retried at the next start of the receiver of {spool}"
        if chosen
        else f"nothing is set aside in {spool}"
    )
    return 0


def describe(outcome: DeliveryOutcome, delivery: Delivery | None) -> SetAsideDelivery:
    """Return a delivery that a gateway has set aside, as far as the journal of the spool has it."""
    aside = SetAsideDelivery(
        ordinal=outcome.ordinal,
        by=SetAsideBy.GATEWAY,
        reason=outcome.reason,
        set_aside_at=outcome.at,
    )
    if delivery is None:
        return aside
    return replace(
        aside,
        endpoint=delivery.endpoint,
        name=name_of(delivery),
        feedtype=delivery.feedtype,
        bytes=delivery.bytes,
        at=delivery.at,
    )


def _digest_again(first: Delivery, later: Sequence[Delivery], index: Index) -> None:
    """Have a delivery and all later ones of its queue digested again, or drop it.

    They are repeated together, so that old records do not overwrite newer ones. A delivery is
    dropped if a later one has replaced everything of the queue.
    """
    last = index.deliveries.applied
    done = [one for one in later if one.ordinal <= last]
    replaced = [
        one for one in done if is_whole(one) and index.deliveries.status(one.ordinal) in _APPLIED
    ]
    if replaced:
        reason = f"superseded by delivery {replaced[-1].ordinal}, and not digested"
        index.deliveries.end([first.ordinal], DeliveryStatus.FAILED, reason)
    else:
        index.deliveries.end([one.ordinal for one in (first, *done)], DeliveryStatus.WAITING)


def _forward_again(first: Delivery, later: Sequence[Delivery], journal: ForwardJournal) -> None:
    """Have a delivery and all later ones of its queue forwarded again, or drop it."""
    done = [one for one in later if journal.is_settled(one.ordinal)]
    replaced = [one for one in done if is_whole(one) and one.ordinal not in journal.set_aside]
    if replaced:
        reason = f"superseded by delivery {replaced[-1].ordinal}"
        journal.append(DeliveryOutcome(first.ordinal, ForwardState.LEFT_OUT, reason=reason))
        return
    for one in reversed((first, *done)):  # if this is interrupted, the first is still set aside
        journal.append(DeliveryOutcome(one.ordinal, ForwardState.RETRIED))
        shutil.rmtree(journal.path.parent / f"{one.ordinal:012d}", ignore_errors=True)
