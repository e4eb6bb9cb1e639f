"""Which tests one worker runs, and in which order the workers begin them."""

from collections import Counter
from collections.abc import Sequence

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

_SERVERS = "tests/search/"
"""The folder whose modules share servers that take long to start."""

LONG = (
    _SERVERS,
    "tests/test_extend.py",
    "tests/test_packaging.py",
    "tests/test_readme.py",
    "tests/pipelines/test_worker_processes.py",
    "tests/pipelines/convert/test_convert_killed.py",
    "tests/pipelines/convert/test_progress_of_clusters.py",
    "tests/pipelines/job/test_run_storm.py",
)
"""Units of few tests that take long: they begin first, so that no worker is left with one."""


def unit_of(node_id: str) -> str:
    """Return the module of a test, or the folder of modules that share servers."""
    return _SERVERS if node_id.startswith(_SERVERS) else node_id.partition("::")[0]


def order(node_ids: Sequence[str]) -> list[int]:
    """Return the indexes of tests: the units that take long first, then those of most tests."""
    units = [unit_of(node_id) for node_id in node_ids]
    sizes = Counter(units)
    return sorted(range(len(units)), key=lambda at: (units[at] not in LONG, -sizes[units[at]]))


class UnitScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives whole units to workers, in the order in which the tests are collected."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
