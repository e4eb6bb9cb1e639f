"""A push that is killed at any instant continues."""

import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from feedferry.schemas.account import Chunk
from support.fake_appliance import chunk_of, finished, read_receipts
from support.forks import run
from support.served import BOUND_SECONDS, Served, serving, start, wait_until

pytestmark = pytest.mark.slow

CHUNKS = 200
KILLS = 30
SEED = 20261121


def make_run(folder: Path) -> list[Chunk]:
    """A run of many small chunks of one datasource, the first of them full."""
    chunks = [
        chunk_of(
            folder,
            number,
            [f"{number:03d}-{record}" for record in range(5)],
            feedtype="full" if number == 1 else "incremental",
            action="ADD",
        )
        for number in range(1, CHUNKS + 1)
    ]
    finished(folder, chunks)
    return chunks


def kill_somewhere(folder: Path, appliance: Served, chance: random.Random) -> None:
    """Push until there are a few more receipts, then kill it."""
    receipts = folder / "push" / f"127.0.0.1_{appliance.url.rsplit(':')[-1]}" / "receipts-001.jsonl"
    before = receipts.stat().st_size if receipts.exists() else 0
    process = start("push", str(folder), "--to", appliance.url, "--progress", "none")
    wait_until(
        lambda: (
            process.poll() is not None
            or (receipts.exists() and receipts.stat().st_size > before + chance.randint(0, 3000))
        )
    )
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=BOUND_SECONDS)


def test_a_push_killed_thirty_times_loses_no_chunk_and_repeats_only_unseen_ones(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    chunks = make_run(folder)
    chance = random.Random(SEED)
    with serving(tmp_path / "spool") as appliance:
        for _ in range(KILLS):
            kill_somewhere(folder, appliance, chance)
        finished = run("push", str(folder), "--to", appliance.url, "--progress", "none")
        held = appliance.urls()
        came = appliance.arrivals()
        [receipts_folder] = (folder / "push").iterdir()

    attempts = Counter(
        receipt.chunk for receipt in read_receipts(receipts_folder) if not receipt.status
    )
    repeated = {chunk.ordinal: came[chunk.sha256] for chunk in chunks if came[chunk.sha256] != 1}
    assert (finished.returncode, finished.stderr) == (0, "")
    assert held == [
        f"http://www.example.com/{number:03d}-{record}"
        for number in range(1, CHUNKS + 1)
        for record in range(5)
    ]
    assert all(1 < count <= attempts[ordinal] for ordinal, count in repeated.items())
    assert len(repeated) <= KILLS
    assert appliance.feedtypes().count("full") == came[chunks[0].sha256]
