"""The results of conversions and pushes on the terminal, as they come."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence

import click
import msgspec

from pipelines.job.settlement import Settlement
from pipelines.observer.logs import OutputFormat
from pipelines.observer.observer import LoggedObserver, Observer, Step
from pipelines.options.display_options import DisplayOptions
from pipelines.options.flags import decode
from pipelines.push.record import PushResult
from pipelines.report import push_report
from pipelines.report.conversion_report import (
    ConversionResult,
    as_json_text,
    next_commands,
    summary_of,
)
from pipelines.report.differences import Verification
from pipelines.terminal.display import TerminalObserver, print_defects, print_summary
from pipelines.terminal.summary import Summary
from schemas.errors import FINDINGS_EXIT
from schemas.printable import printable
from schemas.setting import in_flags
from schemas.units import format_clock
from transforms.storage.mirrors import shown


def observer_of(
    words: Mapping[str, object], *, wording: Callable[[str], str] = in_flags
) -> Observer:
    """Return the observer of a verb: the log and the terminal."""
    return LoggedObserver(ResultObserver(decode(DisplayOptions, words)), wording)


class ResultObserver(TerminalObserver):
    """Prints the result of each step on stdout when the step has ended."""

    def finished(self, step: Step, result: object = None) -> None:
        super().finished(step)
        match result:
            case ConversionResult():
                self._print_conversion(result)
            case PushResult():
                self._print_push(result)
            case Settlement():
                self._print_settlement(result)
            case Verification():
                self._print_verification(result)

    def _print_conversion(self, result: ConversionResult) -> None:
        report, progress = result.report, result.progress
        if self._is_text:
            time = ", ".join(filter(None, (format_clock(progress.seconds), progress.rate_text)))
            commands = next_commands(report, is_pushed=result.is_pushed)
            self._print_summary(summary_of(report), time=time, next_commands=commands)
        else:
            click.echo(as_json_text(report))
        print_defects(result.defects, folder=report.folder)

    def _print_push(self, result: PushResult) -> None:
        account, root, receipts = result.account, result.root, result.receipts
        if self._is_text:
            rejects = f"feedferry rejects list {shlex.quote(shown(root))}"
            commands = [rejects] if account.exit_code == FINDINGS_EXIT else []
            summary = push_report.summary_of(account, root=root, folder=receipts)
            self._print_summary(summary, next_commands=commands)
        else:
            folders = {"folder": shown(root), "receipts": shown(receipts)}
            report = {**push_report.as_json(account), **folders}
            click.echo(json.dumps(report, indent=2, sort_keys=True, ensure_ascii=False))

    def _print_settlement(self, result: Settlement) -> None:
        accepted, refused, changed = result.accepted, result.refused, result.changed
        if self._is_text:
            click.echo(
                f"settled   {accepted:,} records accepted, {refused:,} refused; chunk files:"
                f" {result.chunks - len(changed):,} as written, {len(changed):,} changed"
            )
        else:
            values = {"accepted": accepted, "refused": refused, "changed": changed}
            click.echo(json.dumps({"version": 1, "settled": {"chunks": result.chunks, **values}}))
        for path in changed:
            click.echo(
                f"feedferry: {shown(result.root / path)}: changed since it was pushed", err=True
            )

    def _print_verification(self, result: Verification) -> None:
        if self._is_text:
            click.echo(f"verified  {result.text}; against {printable(result.against)}")
        else:
            values = {"against": result.against, **msgspec.to_builtins(result.counts)}
            click.echo(json.dumps({"version": 1, "verified": values}, sort_keys=True))

    def _print_summary(
        self, summary: Summary, *, time: str = "", next_commands: Sequence[str] = ()
    ) -> None:
        is_quiet = self._options.is_quiet
        print_summary(summary, time=time, next_commands=next_commands, is_quiet=is_quiet)

    @property
    def _is_text(self) -> bool:
        return self._options.report_format is OutputFormat.TEXT
