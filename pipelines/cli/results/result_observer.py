"""The results of conversions and pushes on the terminal, as they come."""

import json
import shlex
from collections.abc import Callable, Mapping

import click
import msgspec
from msgspec.structs import replace

from feedferry.pipelines.job.run.settlement import Settlement
from feedferry.pipelines.observer.logs import OutputFormat
from feedferry.pipelines.observer.observer import LoggedObserver, Observer, Step
from feedferry.pipelines.options.display_options import DisplayOptions
from feedferry.pipelines.options.flags import decode
from feedferry.pipelines.push.record import PushResult
from feedferry.pipelines.report import push_report
from feedferry.pipelines.report.conversion_report import (
    ConversionResult,
    as_json_text,
    next_commands,
    summary_of,
)
from feedferry.pipelines.report.differences import Verification
from feedferry.pipelines.terminal.display import TerminalObserver, print_defects, print_summary
from feedferry.pipelines.terminal.summary import Summary
from feedferry.schemas.errors import FINDINGS_EXIT
from feedferry.schemas.printable import printable
from feedferry.schemas.setting import in_flags
from feedferry.schemas.units import format_clock
from feedferry.transforms.storage.run_folders.mirrors import shown


def observer_of(
    words: Mapping[str, object], *, wording: Callable[[str], str] = in_flags
) -> Observer:
    """Return the observer of a verb: the log and the terminal."""
    return LoggedObserver(ResultObserver(decode(DisplayOptions, words)), wording)


class ResultObserver(TerminalObserver):
    """Prints the results of a run as one summary at its end, and others as they come, on stdout.

    A run in which nothing has changed is one line, without `-q`. JSON comes after each step.
    """

    def __init__(self, options: DisplayOptions) -> None:
        super().__init__(options)
        self._is_run = False
        self._results: list[object] = []

    def begun(self, step: Step) -> None:
        super().begun(step)
        self._is_run = self._is_run or step is Step.RUN

    def finished(self, step: Step, result: object = None) -> None:
        super().finished(step)
        self._results.append(result)
        if self._options.report_format is OutputFormat.JSON:
            _print_json(result)
        elif step is Step.RUN or not self._is_run:
            self._print_text()
        if isinstance(result, ConversionResult):
            print_defects(result.defects, folder=result.report.folder)
        if isinstance(result, Settlement):
            for path in map(shown, map(result.root.joinpath, result.changed)):
                click.echo(f"feedferry: {path}: changed since it was pushed", err=True)

    def _print_text(self) -> None:
        """Print the results since the last summary."""
        results, self._results, self._is_run = self._results, [], False
        has_findings = any(getattr(result, "exit_code", 0) for result in results)
        lines: list[tuple[str, str]] = []
        summary, commands, time = Summary(columns=(), rows=()), list[str](), ""
        for result in results:
            match result:
                case ConversionResult() if not has_findings and result.unchanged_text:
                    if not self._options.is_quiet:
                        click.echo(result.unchanged_text)
                    return
                case ConversionResult():
                    summary, rate = summary_of(result.report), result.progress.rate_text
                    lines += summary.lines
                    time = format_clock(result.progress.seconds) + (rate and f", {rate}")
                    commands += next_commands(result.report, is_pushed=result.is_pushed)
                case PushResult(account=account, root=root):
                    pushed = push_report.summary_of(account, root=root, folder=result.receipts)
                    counts = [f"{count:,} {name}" for name, (_, count) in pushed.rows[:-1]]
                    lines += [("pushed", ", ".join(counts))] if summary.columns else []
                    lines += pushed.lines
                    summary = summary if summary.columns else pushed
                    if account.exit_code == FINDINGS_EXIT:
                        commands.append(f"feedferry rejects list {shlex.quote(shown(root))}")
                case Settlement(accepted=accepted, refused=refused, changed=changed):
                    text = f"{accepted:,} records accepted, {refused:,} refused; chunk files: "
                    text += f"{result.chunks - len(changed):,} as written, {len(changed):,} changed"
                    lines.append(("settled", text))
                case Verification():
                    against = printable(result.against)
                    lines.append(("verified", f"{result.text}; against {against}"))
        lines.sort(key=lambda line: line[0] == "report")  # to the end
        if lines:
            print_summary(
                replace(summary, lines=tuple(dict.fromkeys(lines))),
                time=time,
                next_commands=[*dict.fromkeys(commands)],
                is_quiet=self._options.is_quiet,
            )


def _print_json(result: object) -> None:
    match result:
        case ConversionResult():
            click.echo(as_json_text(result.report))
        case PushResult():
            folders = {"folder": shown(result.root), "receipts": shown(result.receipts)}
            report = {**push_report.as_json(result.account), **folders}
            click.echo(json.dumps(report, indent=2, sort_keys=True, ensure_ascii=False))
        case Settlement():
            counts = {"accepted": result.accepted, "refused": result.refused}
            values = {"chunks": result.chunks, **counts, "changed": result.changed}
            click.echo(json.dumps({"version": 1, "settled": values}))
        case Verification():
            values = {"against": result.against, **msgspec.to_builtins(result.counts)}
            click.echo(json.dumps({"version": 1, "verified": values}, sort_keys=True))
