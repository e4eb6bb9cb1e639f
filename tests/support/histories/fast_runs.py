"""What runs of a simulation leave out to be fast, and the mutants of the program.

The functions are called in a process from which runs are forked. Such a run converts its few
records without Beam, writes no pages, and waits neither for the target nor for the disk: a process
that is killed loses nothing that it has written.
"""

import gc
import io
import os
import ssl
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir, closing, redirect_stdout
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.convert import engine as conversions
from feedferry.pipelines.convert.engine import Conversion
from feedferry.pipelines.convert.publication.account_checks import check_account
from feedferry.pipelines.convert.publication.publish import check_files
from feedferry.pipelines.convert.publication.span_accounts import collect
from feedferry.pipelines.convert.workers.progress import ConvertProgress
from feedferry.pipelines.job.run import engine as jobs
from feedferry.pipelines.job.run import push_phase
from feedferry.pipelines.report import run_report
from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from feedferry.schemas.account import Account, merge
from feedferry.schemas.acl import Acl
from feedferry.schemas.span import Span
from feedferry.testing import scripted_server
from feedferry.transforms.conversion import convert, file_spans, withholding
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.wire import client
from feedferry.transforms.sinks.push.wire.opensearch import bulk_request
from feedferry.transforms.steps import acl_store, kept_acls
from feedferry.transforms.steps.acl_step import AclStep
from feedferry.transforms.steps.stated.acl_mapping import AclMapping
from support.histories.changes import DATASOURCES
from support.histories.observed_index import ObservedIndex, stand_in
from support.histories.random_nights import RandomNights, first_state
from support.histories.simulation import JOB, write_feeds, write_job

TIGHTENING = "feedferry.transforms.sinks.push.wire.opensearch.tightening"
"""The module that takes permissions away first, if the program has it."""

VERSIONS_OF_A_RUN = 1000
_PAUSE_SECONDS = 0.001


def prepare(mutant: str = "") -> None:
    """Make runs of this process fast, and change the program as the mutant says."""
    vars(conversions)["_run_pipeline"] = _convert_here
    vars(jobs)["write_index"] = _ignore
    for module in (conversions, jobs, push_phase, run_report):
        vars(module)["write_report"] = _ignore
    vars(client)["trusted_certificates"] = partial(ssl.SSLContext, ssl.PROTOCOL_TLS_CLIENT)
    os.fsync = _ignore
    RetryPolicy.pause_seconds = lambda *_arguments: _PAUSE_SECONDS  # type: ignore[method-assign]
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(io.StringIO()):
        _run_once(Path(folder))
    assert threading.active_count() == 1, threading.enumerate()  # or a fork could hang
    _replace_groups()
    if mutant:
        MUTANTS[mutant]()
    gc.collect()
    gc.freeze()


def _replace_groups() -> None:
    """Replace the groups of all chains of a datasource, as of those that have too many parts."""
    decide = AclStep._with_decision

    def with_users(self: AclStep, acl: Acl, datasource: str | None) -> Acl:
        chains = self._chains
        if datasource == DATASOURCES[-1]:
            self._chains = self._expanded
        try:
            return decide(self, acl, datasource)
        finally:
            self._chains = chains

    AclStep._with_decision = with_users  # type: ignore[method-assign]


def _run_once(folder: Path) -> None:
    """Load all modules, certificates and tables that a run needs."""
    with closing(RehearsalCluster(folder)) as cluster:
        index = ObservedIndex(stand_in(cluster), is_strict=False)
        with scripted_server(index) as url:
            write_job(folder, url)
            night = RandomNights(1).first(first_state())
            write_feeds(folder, first_state(), night, is_corrected=True)
            assert main(["run", JOB, "--progress", "none", "-q"]) in (0, 1)


def _ignore(*_arguments: object, **_named: object) -> None: ...


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
    begin = partial(file_spans.begin, span_bytes=conversion.span_bytes, options=settings.reading)
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
        check_account(account)
        check = partial(check_files, work=settings.local, verify=settings.verify)
        return collect(account, settings, check)


def _without_withholding() -> None:
    withholding.Withholding.of_reject = lambda *_arguments: iter(())  # type: ignore[method-assign]


def _without_descendants() -> None:
    vars(acl_store)["write_changed"] = lambda *_arguments, **_named: None


def _without_new_parents() -> None:
    begin = "WHERE number > :after AND acl IS NOT x'C0'"
    assert begin in kept_acls._CHANGED
    vars(kept_acls)["_CHANGED"] = kept_acls._CHANGED.replace(begin, f"{begin} AND FALSE")


def _without_groups() -> None:
    AclMapping._replaces_groups = lambda *_arguments: False  # type: ignore[method-assign]


def _without_versions() -> None:
    def with_one_version(blocks: Iterable[bytes], first: int, *_more: object) -> Iterator[bytes]:
        """Give all records of a run one version."""
        version = b'"version":%d' % (first - first % VERSIONS_OF_A_RUN)
        return (block.replace(bulk_request._PLACE, version) for block in blocks)

    vars(bulk_request)["numbered"] = with_one_version


def _without_tightening() -> None:
    if find_spec(TIGHTENING):
        vars(import_module(TIGHTENING))["_narrow"] = lambda *_arguments: "no documents"


MUTANTS = {
    "withholding": _without_withholding,
    "descendants": _without_descendants,
    "new-parents": _without_new_parents,
    "groups": _without_groups,
    "versions": _without_versions,
    "tightening": _without_tightening,
}
