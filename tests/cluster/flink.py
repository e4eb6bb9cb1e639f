"""A Flink cluster on loopback: a JobManager, two TaskManagers, Beam's job service, Python workers.

Flink 1.19.3 is put together from PyPI, and the job service from Maven: Beam's own archives of job
services are not published there, and 2.62.0 is the newest release whose dependencies are. Both are
downloaded once, into the cache folder of the user.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # its stubs are a package of their own
import yaml  # type: ignore[import-untyped]  # it has no types

from support.ports import kept_port
from support.runs import ROOT

FLINK = "1.19.3"
BEAM = "2.62.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "feedferry" / "flink"
HOME = CACHE / "flink"
JOB_SERVICE = CACHE / "job-service.jar"
START_SECONDS = 120
_TASK_MANAGERS = 2
_JOB_SERVICE_CLASS = "org.apache.beam.runners.flink.FlinkJobServerDriver"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>feedferry</groupId><artifactId>flink-job-service</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.beam</groupId><artifactId>beam-runners-flink-1.19</artifactId>
    <version>{BEAM}</version>
  </dependency></dependencies>
</project>
"""


def environment(**more: Path) -> dict[str, str]:
    """Return the environment of processes: a pool starts the first `python` of PATH."""
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "localhost,127.0.0.1",
        **{name: str(path) for name, path in more.items()},
    }


def install() -> None:
    """Download Flink and the job service, unless they are in the cache."""
    done = CACHE / "done"
    if not done.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        _install_flink()
        _install_job_service()
        done.touch()


def _install_flink() -> None:
    downloads = CACHE / "downloads"
    shutil.rmtree(HOME, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(downloads)]
    _call(*pip, f"apache-flink-libraries=={FLINK}")
    _call(*pip, "--only-binary=:all:", f"apache-flink=={FLINK}")
    [wheel] = downloads.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(("pyflink/bin/", "pyflink/conf/")) and not name.endswith("/"):
                path = HOME / name.removeprefix("pyflink/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
                path.chmod(0o755)  # a wheel does not keep the modes of files
    [source] = downloads.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(CACHE, filter=_library)
    shutil.rmtree(downloads)


def _library(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    """Return the place of a file of Flink below `flink`, None for those that no job here needs."""
    _, _, name = member.name.partition("/deps/")
    if not name.startswith(("lib/", "bin/")) or "table" in name or "scala" in name:
        return None
    return tarfile.data_filter(member.replace(name=f"flink/{name}"), path)


def _install_job_service() -> None:
    """Write all jars into one, because the job service sends Flink the jars of its class path."""
    if not shutil.which("mvn"):
        raise FileNotFoundError("mvn is not on PATH; install Maven and a JDK 17")
    (CACHE / "pom.xml").write_text(_POM)
    jars = CACHE / "jars"
    goal = ("-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime")
    _call("mvn", *goal, f"-DoutputDirectory={jars}")
    _join_jars(sorted(jars.glob("*.jar")), JOB_SERVICE)
    shutil.rmtree(jars)


def _join_jars(jars: Sequence[Path], path: Path) -> None:
    """Keep the first file of each name, all lines of services, and no signature."""
    services: dict[str, bytes] = {}
    names = {"META-INF/MANIFEST.MF"}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as whole:
        whole.writestr("META-INF/MANIFEST.MF", f"Main-Class: {_JOB_SERVICE_CLASS}\n")
        for jar in jars:
            with zipfile.ZipFile(jar) as archive:
                for name in archive.namelist():
                    if name.startswith("META-INF/services/") and not name.endswith("/"):
                        services[name] = services.get(name, b"") + archive.read(name) + b"\n"
                    elif not (name in names or name.endswith(("/", ".SF", ".RSA", ".DSA"))):
                        names.add(name)
                        whole.writestr(name, archive.read(name))
        for name, lines in services.items():
            whole.writestr(name, lines)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, cwd=CACHE, timeout=900, stdin=subprocess.DEVNULL)


class FlinkCluster:
    """The processes of a cluster. Each is the leader of its group, and ends with the block."""

    def __init__(self, folder: Path, stack: ExitStack, *, slots: int, retries: int) -> None:
        self.folder = folder
        install()
        self._slots = _TASK_MANAGERS * slots
        self._processes: list[subprocess.Popen[bytes]] = []
        ports = [stack.enter_context(kept_port()) for _ in range(5)]
        self.rest, rpc, self._jobs, artifacts, self._pool = ports
        stack.callback(shutil.rmtree, folder / "tmp", ignore_errors=True)
        stack.callback(self.end)
        conf = folder / "conf"
        shutil.copytree(HOME / "conf", conf)
        _configure(conf / "config.yaml", rpc=rpc, rest=self.rest, slots=slots, retries=retries)
        self.job_manager = self._start_flink("jobmanager")
        self.task_managers = [self.start_task_manager() for _ in range(_TASK_MANAGERS)]
        self.job_service = self._start(
            *("java", "-Xmx512m", "-jar", str(JOB_SERVICE)),
            *("--job-host=localhost", f"--job-port={self._jobs}"),
            *(f"--artifact-port={artifacts}", "--expansion-port=0"),
            *(f"--flink-master=localhost:{self.rest}", f"--artifacts-dir={folder / 'staged'}"),
        )
        self.pool = self.start_pool()
        _wait_for_port(self._jobs)
        wait_until(lambda: self.overview()["taskmanagers"] == _TASK_MANAGERS, "TaskManagers")

    @property
    def flags(self) -> list[str]:
        """The flags of feedferry for this cluster; flags of Beam follow."""
        parallelism = ["--parallelism", str(self._slots), "--workers-per-node", "2"]
        return ["--runner", "PortableRunner", "--cluster", f"localhost:{self._jobs}", *parallelism]

    @property
    def beam_flags(self) -> list[str]:
        return [
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{self._pool}",
            "--experiments=disable_logging_submission_environment",
        ]

    def start_task_manager(self) -> subprocess.Popen[bytes]:
        return self._start_flink("taskmanager")

    def start_pool(self) -> subprocess.Popen[bytes]:
        module = "apache_beam.runners.worker.worker_pool_main"
        process = self._start(sys.executable, "-m", module, f"--service_port={self._pool}")
        _wait_for_port(self._pool)
        return process

    def mend(self) -> None:
        """Start the TaskManagers and the pool that are missing."""
        if self.pool.poll() is not None:
            self.pool = self.start_pool()
        while len(self.task_managers) < _TASK_MANAGERS:
            self.task_managers.append(self.start_task_manager())
        wait_until(lambda: self.overview()["taskmanagers"] == _TASK_MANAGERS, "TaskManagers")

    def python_workers(self) -> list[int]:
        """Return the processes that the threads of the pool have started."""
        threads = Path(f"/proc/{self.pool.pid}/task").glob("*/children")
        return [int(word) for path in threads for word in path.read_text().split()]

    def overview(self) -> Any:  # JSON
        return self._get("overview")

    def jobs(self) -> list[str]:
        """Return the states of all jobs, the newest first."""
        jobs = self._get("jobs/overview")["jobs"]
        return [job["state"] for job in sorted(jobs, key=lambda job: -job["start-time"])]

    def last_job(self) -> Any:  # JSON
        """Return the vertices of the newest job, with their metrics."""
        jobs = self._get("jobs/overview")["jobs"]
        return self._get(f"jobs/{max(jobs, key=lambda job: job['start-time'])['jid']}")

    def end(self) -> None:
        for process in reversed(self._processes):
            kill(process)

    def _get(self, path: str) -> Any:  # JSON
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.rest}/{path}", timeout=30) as answer:
            return json.load(answer)

    def _start_flink(self, kind: str) -> subprocess.Popen[bytes]:
        script = HOME / "bin" / f"{kind}.sh"
        return self._start("bash", str(script), "start-foreground")

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        folders = {"FLINK_CONF_DIR": self.folder / "conf", "FLINK_LOG_DIR": self.folder}
        number = len(self._processes)
        with (self.folder / f"{number}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment(**folders), stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process


def _configure(path: Path, *, rpc: int, rest: int, slots: int, retries: int) -> None:
    """Keep the options of Java, and set the ports, the slots, less memory and the retries.

    The job service ignores --number_of_execution_retries for batches.
    """
    host, memory = "127.0.0.1", {"process": {"size": "1g"}}
    config = yaml.safe_load(path.read_text())
    temporary = path.parent.parent / "tmp"  # a process that is killed leaves gigabytes there
    temporary.mkdir()
    config["env"]["java"]["opts"]["all"] += f" -Djava.io.tmpdir={temporary}"
    config |= {
        "io": {"tmp": {"dirs": str(temporary)}},
        "jobmanager": {"bind-host": host, "rpc": {"address": host, "port": rpc}, "memory": memory},
        "taskmanager": {
            "bind-host": host, "host": host, "numberOfTaskSlots": slots, "memory": memory,
        },
        "rest": {"address": host, "bind-address": host, "port": rest},
        "heartbeat": {"interval": 1000, "timeout": 10000},
        "restart-strategy": {
            "type": "fixed-delay" if retries else "none",
            "fixed-delay": {"attempts": retries or 1, "delay": "1 s"},
        },
    }  # fmt: skip
    path.write_text(yaml.safe_dump(config, width=10_000))


@contextmanager
def flink_cluster(folder: Path, *, slots: int = 2, retries: int = 0) -> Iterator[FlinkCluster]:
    with ExitStack() as stack:
        yield FlinkCluster(folder, stack, slots=slots, retries=retries)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(START_SECONDS)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except OSError:
            pass  # it does not listen yet
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} after {seconds:.0f} s")
        time.sleep(0.2)


def _wait_for_port(port: int) -> None:
    with grpc.insecure_channel(f"localhost:{port}") as channel:
        grpc.channel_ready_future(channel).result(timeout=START_SECONDS)
