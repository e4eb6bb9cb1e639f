"""The processor time of short commands: `cd tests && python -m benchmarks.start_up`."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

REPEATS = 5
FEED = b"""\
<gsafeed><header><datasource>x</datasource><feedtype>incremental</feedtype></header><group>
<record url="http://h.example.com/1" mimetype="text/plain"><content>a</content></record>
</group></gsafeed>
"""
JOB = b"""\
version: 1
job: docs
source: {type: gsa-feed, path: feed.xml}
target: {type: gsa-feed, url: "http://gsa.example.com:19900"}
"""
COMMANDS = (
    "--help",
    "formats",
    "inspect feed.xml",
    "plan feed.xml --to jsonl",
    "plan job.yaml",
    "push out --to http://gsa.example.com:19900 --dry-run",
)


def cpu_seconds(words: str) -> float:
    """Return the user and system time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).with_name("feedferry")), *words.split()]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("feed.xml").write_bytes(FEED)
        Path("job.yaml").write_bytes(JOB)
        cpu_seconds("convert feed.xml -o out --to gsa-feed -q")
        for words in COMMANDS:
            best = min(cpu_seconds(words) for _ in range(REPEATS))
            print(f"{best * 1000:5.0f} ms  feedferry {words}")


if __name__ == "__main__":
    main()
