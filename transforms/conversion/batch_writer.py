"""Write records that are alike, and records whose elements are alike, by plans.

A batch or a block that has no plan, or some of its records, go on as single records. The chunk, the
counts and the losses are the same as if all of them did.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import NamedTuple

from feedferry.schemas.account import Account, add_loss, add_notice, has_samples
from feedferry.schemas.feed import FeedHeader, TargetFeed
from feedferry.schemas.membership import Membership
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.record import Provenance, Record
from feedferry.schemas.reject import Filtered, Reject, record_error
from feedferry.schemas.span import SpanEnd
from feedferry.transforms.conversion.chunk import ChunkWriter
from feedferry.transforms.formats import Encoder
from feedferry.transforms.formats.base import Adapter
from feedferry.transforms.formats.fast_path.columns.holes import InspectedError
from feedferry.transforms.formats.fast_path.columns.record_batch import PARTS, RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns
from feedferry.transforms.formats.fast_path.elements.element_block import (
    REFUTED,
    ElementBlock,
    ElementShape,
)
from feedferry.transforms.formats.fast_path.learning.comparisons import ComparisonSchedule
from feedferry.transforms.formats.fast_path.learning.learning_budget import LearningBudget
from feedferry.transforms.formats.fast_path.plans.batch_plan import (
    BatchPlan,
    Counted,
    EncodedBatch,
    encode_batch,
    learn,
)
from feedferry.transforms.formats.fast_path.plans.element_plan import (
    ElementEncoder,
    ElementPlan,
    learn_element,
    pieces_of,
)
from feedferry.transforms.formats.fast_path.plans.encoded_block import EncodedBlock, Layout, Part
from feedferry.transforms.formats.fast_path.plans.whole_acls import (
    WholeAclEncoder,
    WholeAcls,
    with_acl,
)
from feedferry.transforms.formats.holding.values import notices as value_notices
from feedferry.transforms.rules.normalize import normalize
from feedferry.transforms.steps.step import AppliedSteps

_MAX_LAYOUTS = 1 << 13
_FREE_LAYOUTS = 256
"""How many layouts are learned before any has saved time."""

_RECORDS_A_LAYOUT = 4
"""A layout is learned in the time of a few single records."""

_OTHER_BYTES = "bytes that differ from their plan, a defect of feedferry"


SingleResult = Membership | Record | Reject | Filtered | Notice | FeedHeader | SpanEnd


class CurrentFeed(NamedTuple):
    """The feed of the records that are converted: as it was read, as it is written, its rules."""

    provenance: Provenance
    target: TargetFeed | None
    adapter: Adapter


class BatchWriter:
    """Writes the batches and blocks of one span to its chunks.

    `planned` is how many records were written by plans, in how many `batches`, by how many `plans`.
    """

    def __init__(  # noqa: PLR0913 # what it shares with the conversion of single records
        self,
        chunks: ChunkWriter,
        account: Account,
        read: Counter[str],
        steps: AppliedSteps,
        *,
        size: int,
        current: Callable[[], CurrentFeed],
    ) -> None:
        self._chunks, self._account, self._read, self._steps = chunks, account, read, steps
        self._size, self._current = size, current
        self._layouts: dict[tuple[object, ...], Layout | None] = {}
        self._letters: dict[Hashable, str] = {}
        self._layout_budget = LearningBudget(_FREE_LAYOUTS, cost=_RECORDS_A_LAYOUT)
        self._comparisons = ComparisonSchedule()
        self._acls = WholeAcls(self._outcome)
        self.plans = self.batches = self.planned = 0

    def write(self, records: RecordBatch | ElementBlock) -> Iterator[SingleResult]:
        """Write the records that have plans; yield the others, and what else was read."""
        if isinstance(records, ElementBlock):
            yield from self._write_block(records)
        else:
            yield from self._write_batch(records)

    def _write_block(self, block: ElementBlock) -> Iterator[SingleResult]:
        """Write the records of a block whose elements have plans; yield the others."""
        number, count = 0, len(block.ends)
        if feed_key(block.source.provenance) != feed_key(self._current().provenance):
            number = 1
            yield block.parsed(0)  # it may begin a feed
        if feed_key(block.source.provenance) == feed_key(self._current().provenance):
            encoder = self._chunks.encoder(self._current().target)
            encoded = self._encode_block(block, encoder)
            if encoded is None:
                yield from block.records(number, count)
                return
            layout_of = partial(self._layout, block, encoded)
            for part in encoded.parts(number, self._size, layout_of, self._are_sampled):
                if part.is_alone or not self._write_part(block, encoded, part, encoder):
                    yield from block.records(part.first, part.last)
                number = part.last
        yield from block.records(number, count)

    def _encode_block(self, block: ElementBlock, encoder: Encoder) -> EncodedBlock | None:
        """Return a block in the form of a chunk; None if its records go one by one."""
        if not (self._steps.is_of_elements and isinstance(encoder, ElementEncoder)):
            return None
        if max(len(self._layouts), len(self._letters)) >= _MAX_LAYOUTS:
            self._layouts.clear()
            self._letters.clear()
        plan_of = partial(self._element_plan, encoder=encoder)
        try:
            acls = None
            if isinstance(encoder, WholeAclEncoder):
                context = self._current().adapter, feed_key(block.source.provenance)
                acls = self._acls.pieces(block, encoder, context)
            once = encoder.elements_once
            return EncodedBlock(block, plan_of, self._letters, elements_once=once, acls=acls)
        except Exception as exc:
            self._refute(block.source.provenance, record_error(exc).reason)
            return None

    def _layout(self, block: ElementBlock, encoded: EncodedBlock, number: int) -> Layout | None:
        """Return the layout of a record and others like it; None unless it predicts this one."""
        encoder = self._chunks.encoder(self._current().target)
        of_feed = self._current().adapter, encoder, block.source.context
        letters = encoded.keys[number]
        if (*of_feed, letters) not in self._layouts:
            key = *of_feed, "".join(sorted(letters))
            if key not in self._layouts:
                if not self._layout_budget.pay():
                    return None
                self._layouts[key] = self._learn_layout(block, encoded, number, encoder)
            layout = self._layouts[key]
            self._layouts[*of_feed, letters] = layout and encoded.in_its_order(layout, number)
        return self._layouts[*of_feed, letters]

    def _learn_layout(
        self, block: ElementBlock, encoded: EncodedBlock, number: int, encoder: Encoder
    ) -> Layout | None:
        converted = self._converted(block, number)
        if converted is None or not isinstance(encoder, ElementEncoder):
            return None
        record, counted = converted
        layout = encoded.learn_layout(number, pieces_of(record, encoder), counted)
        if layout is None:
            return None
        planned = encoded.data_by(number, encoded.in_its_order(layout, number))
        return layout if [encoder.encode(record)] == planned else None

    def _converted(self, block: ElementBlock, number: int) -> tuple[Record, Counted] | None:
        """Return a record of a block that is parsed and converted singly; None without one."""
        try:
            record = block.parsed(number)
            return self._outcome(record) if isinstance(record, Record) else None
        except Exception as exc:
            record_error(exc)  # raises what concerns more than a record
            return None

    def _is_as_planned(
        self, block: ElementBlock, encoded: EncodedBlock, number: int, encoder: Encoder
    ) -> bool:
        """Whether a record that is converted singly has the bytes and reports of its plans."""
        converted = self._converted(block, number)
        [(counted, _)] = encoded.counts(number, number + 1)
        if converted is None or not counted.is_like(converted[1]):
            return False
        return [encoder.encode(converted[0])] == encoded.data(number, number + 1)

    def _write_part(
        self, block: ElementBlock, encoded: EncodedBlock, part: Part, encoder: Encoder
    ) -> bool:
        """Write records of a block if they fit in the chunk that they were encoded for."""
        first, last, _ = part
        if self._chunks.encoder(self._current().target) is not encoder:
            return False
        is_due = self._comparisons.is_due(last - first)
        if is_due and not self._is_as_planned(block, encoded, first, encoder):
            self._refute(block.source.provenance, _OTHER_BYTES)
            return False
        urls = encoded.url(first), encoded.url(last - 1)
        counts = [*encoded.counts(first, last)]
        is_written = self._write_encoded(EncodedBatch(encoded.data(first, last), counts, *urls))
        self._layout_budget.add(is_written * (last - first))
        return is_written

    def _write_encoded(self, encoded: EncodedBatch) -> bool:
        """Write and count records if all of them certainly fit in the chunk."""
        if not self._chunks.write_batch(encoded, self._current().target):
            return False
        self.batches += 1
        for counted, count in encoded.counts:
            self.planned += count
            self._read[counted.read] += count
            for loss in counted.losses:
                add_loss(self._account.losses, loss, count=count)
            for notice in counted.notices:
                add_notice(self._account.notices, notice, count=count)
            for step, times in counted.changed:
                self._steps.changed[step] += times * count
        return True

    def _element_plan(
        self, element: ElementShape, *, has_acl: bool, encoder: ElementEncoder
    ) -> ElementPlan | None:
        plans, key = element.shape.plans, (self._current().adapter, encoder, has_acl)
        if key not in plans:
            plans[key] = learn_element(
                element,
                lambda record: self._convert_singly(with_acl(record) if has_acl else record),
                encoder,
            )
            self.plans += plans[key] is not None
        plan = plans[key]
        return plan if isinstance(plan, ElementPlan) else None

    def _write_batch(self, batch: RecordBatch) -> Iterator[SingleResult]:
        """Write the records of shapes with plans; yield the others.

        The first records of a feed go one by one, those with notices, and those with losses without
        enough samples.
        """
        now = batch.groups[0].shape.model.provenance
        if not self._steps.is_of_model or feed_key(now) != feed_key(self._current().provenance):
            yield from batch
            return
        plans = self._plans(batch)
        known = [plan for plan in plans if plan is not None]
        if not known or not all(self._are_sampled(of.counted) for of in known):
            yield from batch
        elif len(known) == len(plans):
            yield from self._write_planned(batch, known)
        else:
            alone = [place for place, number in enumerate(batch.order) if plans[number] is None]
            for part in batch.parts(len(batch.order), alone):
                yield from self._write_batch(part)

    def _write_planned(self, batch: RecordBatch, plans: list[BatchPlan]) -> Iterator[SingleResult]:
        """Write records of shapes with plans; yield those with values that a plan refuses."""
        try:
            encoded = encode_batch(batch, plans)
        except InspectedError:
            count = len(batch.order)
            for part in batch.parts(-(-count // PARTS)) if count > 1 else ():
                yield from self._write_batch(part)
            if count == 1:
                yield from batch
            return
        except Exception as exc:  # the records find out alone which of them is concerned
            self._refute(batch.groups[0].shape.model.provenance, record_error(exc).reason)
            yield from batch
            return
        if not self._write_encoded(encoded):
            yield from batch
        elif self._steps.has_any:
            for group in batch.groups:
                self._count_steps(group)

    def _plans(self, batch: RecordBatch) -> list[BatchPlan | None]:
        """Return the plans of the shapes of a batch."""
        try:
            encoder = self._chunks.encoder(self._current().target)
            return [self._plan(group, encoder) for group in batch.groups]
        except InspectedError:  # values of the record that is compared
            return [None] * len(batch.groups)
        except Exception as exc:
            self._refute(batch.groups[0].shape.model.provenance, record_error(exc).reason)
            return [None] * len(batch.groups)

    def _count_steps(self, group: Columns) -> None:
        """Count the records of a shape as its model would be counted."""
        changed = self._steps.apply_to_model(group.shape.model)
        for name, count in changed[1].items() if changed else ():
            self._steps.changed[name] += count * group.count

    def _plan(self, group: Columns, encoder: Encoder) -> BatchPlan | None:
        """Return the plan of a shape; None without one, or if a record differs from it."""
        plans, key = group.shape.plans, (self._current().adapter, encoder)
        if key not in plans:
            plans[key] = learn(group.shape, self._convert_singly, encoder)
            self.plans += plans[key] is not None
        plan = plans[key]
        if not isinstance(plan, BatchPlan):
            return None
        if not plan.is_due(group.count):
            return plan
        first = group.first()
        [record] = first
        converted = self._convert_singly(record)
        if converted is not None and [encoder.encode(converted[0])] == plan.encode_each(first):
            return plan
        plans[key] = None
        self._refute(group.shape.model.provenance, _OTHER_BYTES)
        return None

    def _are_sampled(self, counted: Counted) -> bool:
        """Whether losses and notices are only counted, as there are samples of them."""
        return all(
            has_samples(self._account.losses, loss.field) for loss in counted.losses
        ) and all(notice.code in self._account.notices for notice in counted.notices)

    def _refute(self, at: Provenance, found: str) -> None:
        """Report that the records of a batch are converted one by one because of a defect."""
        detail = f"{REFUTED}: {found}; converted one by one"
        add_notice(
            self._account.notices, Notice(code="plan-refuted", detail=detail, source=at.source)
        )

    def _convert_singly(self, record: Record) -> tuple[Record, tuple[Loss, ...]] | None:
        """Normalize and adapt a record; None if it becomes anything but one record and losses."""
        outcome = self._outcome(record)
        return None if outcome is None or outcome[1].notices else (outcome[0], outcome[1].losses)

    def _outcome(self, stated: Record) -> tuple[Record, Counted] | None:
        """Normalize and adapt a record; None if it becomes anything but one record and reports."""
        record, changed = stated, Counter[str]()
        if self._steps.has_any:
            applied = self._steps.apply_to_model(record)
            if applied is None:
                return None
            record, changed = applied
        record = normalize(record)
        outcomes, losses = self._current().adapter(record)
        [outcome] = outcomes if len(outcomes) == 1 else (None,)
        if not isinstance(outcome, Record):
            return None
        read, written = stated.action._value_, outcome.action._value_
        notices = (*value_notices(record, outcomes),)
        return outcome, Counted(read, written, losses, notices, (*changed.items(),))


def feed_key(provenance: Provenance) -> tuple[str | None, ...]:
    """Return what distinguishes the feeds of records."""
    return provenance.source, provenance.datasource, provenance.feedtype
