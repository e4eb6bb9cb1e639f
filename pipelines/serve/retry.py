"""Deliveries that are set aside, and `feedferry serve --retry`.

A delivery is set aside when its digestion, or its conversion in a gateway, exceeds its time limit,
ends its process repeatedly, or meets a defect of feedferry; a gateway also sets aside what its
appliance refuses. Later deliveries are processed. A retry is recorded while no receiver has the
spool, and done by the next one.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

import click
from msgspec.structs import replace

from pipelines.serve.forward_journal import (
    FILE_NAME,
    FOLDER,
    DeliveryOutcome,
    ForwardJournal,
    ForwardState,
    run_folder,
)
from pipelines.serve.rehearsal import index as rehearsal_index
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.index_reader import (
    DeliveryStatus,
    SetAsideBy,
    SetAsideDelivery,
)
from schemas.delivery import JOURNAL, Delivery, Door
from schemas.errors import ConfigError
from transforms.sources.spool import is_whole, name_of, read_deliveries
from transforms.storage.lock import Lock

_MAX_LISTED = 20
_APPLIED = (DeliveryStatus.COMPLETED, DeliveryStatus.WITH_ERRORS)


def retry(spool: Path, wanted: str) -> int:
    """Record a retry of deliveries that are set aside: all, a delivery, or a datasource.

    Raises BusyError while a receiver has the spool.
    """
    if not (spool / JOURNAL).exists():
        raise ConfigError(f"--spool {spool}: no {JOURNAL} in it; expected the folder of a receiver")
    lock = Lock(spool / "lock", where=str(spool), by="receiver")
    with lock, Index(spool / rehearsal_index.FILE_NAME) as index:
        journal = ForwardJournal(spool / FOLDER / FILE_NAME)
        try:
            chosen = _choose(spool, wanted, index, journal)
            for each in chosen:
                if each.by is SetAsideBy.INDEX:
                    _retry_digestion(spool, each.ordinal, index)
                else:
                    _retry_forwarding(spool, each.ordinal, journal)
        finally:
            journal.close()
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


def describe(spool: Path, outcome: DeliveryOutcome) -> SetAsideDelivery:
    """Return a delivery that a gateway has set aside, as far as the journal of the spool has it."""
    aside = SetAsideDelivery(
        ordinal=outcome.ordinal,
        by=SetAsideBy.GATEWAY,
        reason=outcome.reason,
        set_aside_at=outcome.at,
    )
    delivery = next(read_deliveries(spool, after=outcome.ordinal - 1), None)
    if delivery is None or delivery.ordinal != outcome.ordinal:
        return aside
    return replace(
        aside,
        door=delivery.door,
        name=name_of(delivery),
        feedtype=delivery.feedtype,
        bytes=delivery.bytes,
        at=delivery.at,
    )


def _choose(
    spool: Path, wanted: str, index: Index, journal: ForwardJournal
) -> list[SetAsideDelivery]:
    by_gateway = (describe(spool, outcome) for outcome in journal.set_aside.values())
    aside = sorted((*index.all_set_aside(), *by_gateway), key=lambda each: each.ordinal)
    chosen = [each for each in aside if wanted in ("all", str(each.ordinal), each.name)]
    if not chosen and wanted != "all":
        known = ", ".join(sorted({f"{each.ordinal} ({each.name})" for each in aside[:_MAX_LISTED]}))
        raise ConfigError(
            f"--retry {wanted}: not set aside in {spool}; expected all, or the number or datasource"
            f" of one of: {known or 'none is set aside'}"
        )
    return chosen


def _retry_digestion(spool: Path, ordinal: int, index: Index) -> None:
    """Have a delivery digested again, and all later ones of its queue, or drop it."""
    first, *later = _deliveries_to_repeat(spool, ordinal)
    begun = [delivery for delivery in later if delivery.ordinal <= index.applied]
    superseding = _last_whole(one for one in begun if index.status(one.ordinal) in _APPLIED)
    if superseding is None:
        index.requeue(delivery.ordinal for delivery in (first, *begun))
    else:
        reason = f"superseded by delivery {superseding.ordinal}, and not digested"
        index.end(first, DeliveryStatus.FAILED, reason)


def _retry_forwarding(spool: Path, ordinal: int, journal: ForwardJournal) -> None:
    """Have a delivery forwarded again, and all later ones of its queue, or leave it out."""
    first, *later = _deliveries_to_repeat(spool, ordinal)
    settled = [delivery for delivery in later if journal.is_settled(delivery.ordinal)]
    superseding = _last_whole(one for one in settled if one.ordinal not in journal.set_aside)
    if superseding is not None:
        reason = f"superseded by delivery {superseding.ordinal}"
        journal.append(DeliveryOutcome(ordinal, ForwardState.LEFT_OUT, reason=reason))
        return
    for delivery in (first, *settled):
        journal.append(DeliveryOutcome(delivery.ordinal, ForwardState.RETRIED))
        shutil.rmtree(run_folder(spool, delivery.ordinal), ignore_errors=True)


def queue_of(delivery: Delivery) -> tuple[Door, str]:
    """Return what orders deliveries: those with the same value are processed in order."""
    return delivery.door, name_of(delivery)


def _last_whole(deliveries: Iterable[Delivery]) -> Delivery | None:
    """Return the last delivery that replaces everything of its queue."""
    return max(filter(is_whole, deliveries), key=lambda one: one.ordinal, default=None)


def _deliveries_to_repeat(spool: Path, ordinal: int) -> list[Delivery]:
    """Return a delivery and all later ones of the same queue, in order.

    They are repeated together, so that old records do not overwrite newer ones.
    """
    following = read_deliveries(spool, after=ordinal - 1)
    first = next(following, None)
    if first is None or first.ordinal != ordinal:
        raise ConfigError(f"{spool / JOURNAL}: no delivery {ordinal}; expected its line in it")
    return [first, *(one for one in following if queue_of(one) == queue_of(first))]
