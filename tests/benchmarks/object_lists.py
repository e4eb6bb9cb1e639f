"""Lists of objects in object storage.

In the root of the repository: `PYTHONPATH=.:tests python tests/benchmarks/object_lists.py`.

A server in this process delays its answers; each command is a process of its own.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from support.archives import document, gsa_feed
from support.bucket import Bucket, bucket_server

FEEDS, SECONDS = 2_000, 0.03
DOCUMENTS = 200_000
_ROOT = Path(__file__).resolve().parents[2]
EXAMINE = """
import time
begun = time.perf_counter()
from pathlib import Path
from feedferry.pipelines.convert.inputs.input_files import list_spans
from feedferry.pipelines.options.convert_options import ConvertOptions
inputs = ("s3://documents/feeds/*.xml",)
options = ConvertOptions(inputs=inputs, output="out", to_format="jsonl")
list_spans(options, stdin_copy=Path("stdin"))
"""
LIST = """
import time
begun = time.perf_counter()
from pathlib import Path
from feedferry.transforms.sources.listing import write_listing
from feedferry.transforms.sources.tree.rules.tree import Tree
from feedferry.transforms.sources.tree.folders.walk import list_tree
tree = Tree(root="s3://documents/tree", base_url="https://docs.example.com/")
write_listing(list_tree(tree), Path("tree.listing"))
"""


FIGURES = """
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
seconds = f"{time.perf_counter() - begun:.1f} s, {time.process_time():.1f} s of CPU"
print(f"{seconds}, {int(peak) >> 10} MB")
"""


def main() -> None:
    """Examine feeds, and list a tree."""
    feed = gsa_feed(document(1))
    feeds = {f"feeds/{number:06}.xml": feed for number in range(FEEDS)}
    _measure(f"examine {FEEDS:,} feeds, {SECONDS} s a request", feeds, SECONDS, EXAMINE)
    keys = (f"tree/{number // 1000:04}/document-{number:08}.pdf" for number in range(DOCUMENTS))
    _measure(f"list {DOCUMENTS:,} documents", dict.fromkeys(keys, b"%PDF"), 0.0, LIST)


def _measure(label: str, objects: Mapping[str, bytes], seconds: float, code: str) -> None:
    bucket = Bucket(objects, lambda key: seconds)
    command = [sys.executable, "-c", code + FIGURES]
    with bucket_server(bucket), tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(_ROOT)}
        run = subprocess.run(
            command, cwd=folder, env=environment, check=True, capture_output=True, text=True
        )
    figures = run.stdout.splitlines()[-1]
    print(f"{label}: {figures}, {len(bucket.asked):,} requests, at most {bucket.most} at once")


if __name__ == "__main__":
    main()
