"""What a span counts, sets aside and loses, from which its account is made."""

from collections import Counter

import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import (
    COUNTERS,
    Account,
    Chunk,
    SpanFile,
    add_loss,
    add_notice,
    add_reject_sample,
)
from feedferry.schemas.avro import carried_bytes
from feedferry.schemas.errors import RecordError, TooManyRejectsError
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.record import Action, Arrival, Record
from feedferry.schemas.reject import (
    Filtered,
    Reject,
    defect_type,
    record_error,
    reject_record,
    storable,
)
from feedferry.schemas.sent_document import UNCHANGED
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import UP_TO_DATE, Settings
from feedferry.transforms.conversion.full_feeds import FullFeedLog
from feedferry.transforms.rules.adapt import LEFT_OUT, check_loss
from feedferry.transforms.rules.known_rejects import entry_of
from feedferry.transforms.rules.withheld_list import WITHHELD, withheld_line
from feedferry.transforms.sources import source_of
from feedferry.transforms.sources.state_changes import SEEN, StateChangeFile
from feedferry.transforms.steps.kept_acls import has_changed_acls
from feedferry.transforms.storage.atomic import AtomicFile, RejectFile
from feedferry.transforms.storage.run_folders.attempts import SPAN_REJECTS
from feedferry.transforms.storage.storage import Storage

WAITS = "acl-chain-waiting"
"""The code of a document that waits for the ACL from which it inherits."""

UNREADABLE_ACTION = "unreadable"
"""The action of a reject whose action could not be read."""

_UNLISTED_CODES = frozenset({UNCHANGED, UP_TO_DATE})  # there may be millions of these


class SpanAccount:
    """The counters of one span, and its files of rejects, filtered records and changes.

    `account` has notices and losses at once, and all else after `finish`.
    """

    def __init__(self, span: Span, settings: Settings, storage: Storage) -> None:
        source = source_of(span)
        self._span = span
        self._settings = settings
        self._has_keys = source.has_state
        self._known_rejects = settings.known_rejects
        self._new_rejects = 0
        self._uncrawled = AtomicFile(storage, f"{span.name}.urls.txt")
        self._filtered = AtomicFile(storage, f"{span.name}.filtered.jsonl")
        self._withheld = AtomicFile(storage, f"{span.name}.{WITHHELD}")
        self.rejects = RejectFile(storage, f"{span.name}{SPAN_REJECTS}")
        self.changes = StateChangeFile(
            AtomicFile(storage, f"{span.name}{SEEN}"), keeps_rejected=source.keeps_rejected
        )
        self.full_feeds = FullFeedLog(span, settings.target)
        self.counts = {name: Counter[str]() for name in COUNTERS}
        self.account = Account(spans=1)

    def note(self, notice: Notice) -> None:
        """Count a notice."""
        add_notice(self.account.notices, notice)

    def lose(self, loss: Loss) -> None:
        """Count a loss; raise LossError if losses of its field are refused."""
        check_loss(loss, self._settings.refused, source=self._span.source)
        add_loss(self.account.losses, loss)

    def set_aside(self, outcome: Reject | Filtered, record: Record) -> None:
        """Take the reject of a record with its bytes, or a filtered record.

        The reject of an ACL of an earlier run has no bytes: it cannot be replayed.
        """
        if isinstance(outcome, Reject):
            if record.arrival is Arrival.CRAWLED and record.action is Action.ADD:
                self._uncrawled.write(record.url.encode() + b"\n")
            data = b"" if has_changed_acls(self._span) else carried_bytes(record)
            self.reject(replace(outcome, data=data))
        else:
            self.filter(outcome)

    def filter(self, outcome: Filtered, detail: str | None = None) -> None:
        """Count filtered records, and list them unless they are unchanged.

        A `detail` is the text of a notice; records that the target does not take have one anyway.
        """
        filtered = storable(outcome)
        self.counts["filtered"][filtered.action] += filtered.count
        self.counts["filter_codes"][filtered.code] += filtered.count
        detail = detail or LEFT_OUT.get(filtered.code)
        if detail is not None:
            self.note(Notice(code=filtered.code, detail=detail, source=self._span.source))
        if filtered.code not in _UNLISTED_CODES:
            self._filtered.write(msgspec.json.encode(filtered) + b"\n")

    def reject(self, outcome: Reject) -> None:
        """Store and count a reject; raise TooManyRejectsError if it is one too many."""
        reject = storable(outcome)
        if self._has_keys and reject.key is None:
            reject = replace(reject, key=reject.url)
        try:
            self.rejects.add(reject)
        except Exception as exc:
            error = record_error(exc)
            reject = replace(reject, code=error.code, reason=error.reason, data=b"", truncated=True)
            self.rejects.add(reject)
        self.counts["rejected"][reject.action or UNREADABLE_ACTION] += 1
        self.counts["reject_codes"][reject.code] += 1
        is_accepted = bool(self._known_rejects) and entry_of(reject) in self._known_rejects
        self.counts["accepted_rejects"][reject.code] += is_accepted
        self._new_rejects += not is_accepted
        add_reject_sample(self.account.reject_samples, reject, is_accepted=is_accepted)
        if (defect := defect_type(reject)) is not None:
            self.counts["defects"][defect] += 1
        self.full_feeds.reject(reject, is_accepted=is_accepted)
        self.changes.reject(reject)
        limit = self._settings.max_rejects
        if limit is not None and self._new_rejects > limit:
            raise TooManyRejectsError(
                f"{reject.message}; this is more than the {limit} rejects that ⟦max_rejects⟧ allows"
            )

    def withhold(self, record: Record, reject: Reject) -> None:
        """Count and list a record that hides a document, next to the reject of the document."""
        self.counts["expanded"][record.action.value] += 1
        self._list_withheld(record, reject)
        detail = f"{record.url!r} is rejected; no user finds it until its next version comes"
        self._note_at(reject, "withheld", detail)

    def wait(self, record: Record, parent: str) -> None:
        """Count and list a document that waits for the ACL of a parent."""
        detail = f"{record.url!r} inherits from {parent!r}, which has no ACL yet; no user finds it"
        error = RecordError(WAITS, f"{detail} until that arrives")
        reject = reject_record(record, error, stage="transform")
        self._list_withheld(record, reject)
        self._note_at(reject, WAITS, detail)

    def _list_withheld(self, record: Record, reject: Reject) -> None:
        datasource = self._settings.target.datasource or record.provenance.datasource
        self._withheld.write(withheld_line(record.url, datasource, reject))

    def leave_shown(self, url: str, reject: Reject) -> None:
        """Count a rejected document whose earlier version is not hidden."""
        detail = f"{url!r} is rejected; the target may show an earlier version as before"
        self._note_at(reject, "not-withheld", detail)

    def leave_unknown(self, reject: Reject) -> None:
        """Count a rejected part without a URL: no document can be hidden for it."""
        detail = (
            f"{reject.code} without a URL: it may be a newer version or ACL of any document, which"
            " the target may show as before"
        )
        self._note_at(reject, "not-withheld", detail)

    def _note_at(self, reject: Reject, code: str, detail: str) -> None:
        source, span, offset = reject.source, reject.span, reject.offset
        self.note(Notice(code=code, detail=detail, source=source, span=span, offset=offset))

    def close(self, *, whole: bool) -> None:
        """Finish the files, or remove them."""
        for file in (self.rejects, self._uncrawled, self._filtered, self._withheld):
            file.close(whole=whole)

    def finish(self, chunks: list[Chunk]) -> tuple[Account, list[SpanFile]]:
        """Return the account of a span with these chunks, and its files, which are closed."""
        self.changes.write()
        account = self.account
        for chunk in chunks:
            self.counts["written"].update(chunk.records)
        for name, counter in self.counts.items():
            setattr(account, name, dict(sorted((+counter).items())))
        account.full_feeds = list(self.full_feeds.feeds.values())
        account.holes = list(self.full_feeds.holes.values())
        files = (self.rejects, self._uncrawled, self._filtered, self._withheld, self.changes)
        return account, [file.written for file in files if file.written is not None]
