"""What runs of a simulation leave out to be fast, and the mutants of the program.

The functions are called in a process from which runs are forked. Such a run converts its few
records without Beam, writes no pages, and waits neither for the target nor for the disk: a process
that is killed loses nothing that it has written.
"""

import os
from collections.abc import Sequence
from functools import partial

import msgspec

from feedferry.pipelines.convert import engine as conversions
from feedferry.pipelines.convert.engine import Conversion
from feedferry.pipelines.convert.publication.publish import check_files
from feedferry.pipelines.convert.publication.span_accounts import collect
from feedferry.pipelines.convert.workers.progress import ConvertProgress
from feedferry.pipelines.job.run import engine as jobs
from feedferry.schemas.account import Account, merge
from feedferry.schemas.span import Span
from feedferry.transforms.conversion import convert, file_spans, withholding
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.wire.opensearch import bulk_request
from feedferry.transforms.steps import acl_store

_PAUSE_SECONDS = 0.001


def prepare(mutant: str = "") -> None:
    """Make runs of this process fast, and change the program as the mutant says."""
    vars(conversions).update(_run_pipeline=_convert_here, write_report=_ignore)
    vars(jobs).update(write_report=_ignore, write_index=_ignore)
    os.fsync = _ignore
    RetryPolicy.pause_seconds = lambda *_arguments: _PAUSE_SECONDS  # type: ignore[method-assign]
    if mutant:
        MUTANTS[mutant]()


def _ignore(*_arguments: object) -> None: ...


def _convert_here(
    spans: Sequence[Span],
    settings: Settings,
    conversion: Conversion,
    progress: ConvertProgress,
    *,
    is_parallel: bool,
) -> Account:
    """Convert all spans in turn, as the pipeline of a run does in one worker."""
    assert not is_parallel
    if not spans:
        return Account()
    begin = partial(
        file_spans.begin, span_bytes=conversion.span_bytes, options=settings.reading
    )
    accounts = [
        account
        for whole in spans
        for span in begin(whole)
        for account in convert.convert_on(span, settings)
    ]
    stored = (
        msgspec.structs.replace(account, chunks=[], files=[]) if account.stored else account
        for account in accounts
    )
    account = merge(stored)
    if account.stopped is None:
        progress.finish(account)
    with conversions._kept_if_stopped(account, settings.local):
        conversions.check_account(account)
        check = partial(check_files, work=settings.local, verify=settings.verify)
        return collect(account, settings, check)


def _without_withholding() -> None:
    withholding.Withholding.of_reject = lambda *_arguments: iter(())  # type: ignore[method-assign]


def _without_descendants() -> None:
    vars(acl_store)["write_changed"] = lambda *_arguments, **_named: None


def _without_versions() -> None:
    numbered = bulk_request.numbered

    def with_same_version(blocks: Sequence[bytes], first: int) -> object:
        """Give all records of a run one version."""
        same = first - first % 1_000
        place = bulk_request._PLACE
        return (block.replace(place, b'"version":%d' % same) for block in blocks)

    assert numbered is not with_same_version
    vars(bulk_request)["numbered"] = with_same_version


MUTANTS = {
    "withholding": _without_withholding,
    "descendants": _without_descendants,
    "versions": _without_versions,
}
