"""What is printed of the result of a push."""

from pathlib import Path

import pytest

from pipelines.cli.main import main
from pipelines.cli.terminal_results import ResultObserver
from pipelines.options.display_options import DisplayOptions
from pipelines.push.engine import notify_stop
from pipelines.push.record import PushResult
from support.archives import documents, gsa_feed, put
from support.runs import keep_levels
from transforms.sinks.push.outcome import PushAccount


def test_the_reason_of_a_stopped_push_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    account = PushAccount(target="http://a", outcomes=())
    paths = {"root": Path("out"), "receipts": Path("out/push/a")}
    result = PushResult(**paths, account=account, reason="said \x1b[2J")
    notify_stop(result, ResultObserver(DisplayOptions(verbosity=-1)))
    assert capsys.readouterr().err == "feedferry: said \\x1b[2J\n"


def test_feed_files_cannot_be_replayed_in_a_dry_run_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = put(tmp_path / "a.xml", gsa_feed(*documents(1, 1)))
    with keep_levels():
        code = main(["push", str(feed), "--to", "http://127.0.0.1:1", "--replay", "--dry-run"])
    message = f"feedferry: --replay: {str(feed)!r}; expected the folder of a run\n"
    assert (code, capsys.readouterr()) == (2, ("", message))
