"""SeaweedFS, an S3 server of its own process, on loopback; its wheel is in the extra `dev`."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support import remotes

_START_SECONDS = 300
_PORTS = ("master.port", "volume.port", "filer.port", "s3.port")


@contextmanager
def seaweed(folder: Path, *, metrics_port: int = 0) -> Iterator[str]:
    """Run a server with the bucket of `remotes`; yield its address.

    With `metrics_port`, it counts its requests there.
    """
    config = folder / "s3.json"
    keys = [{"accessKey": remotes.USER, "secretKey": remotes.PASSWORD}]
    user = {"name": "feeder", "credentials": keys, "actions": ["Admin", "Read", "Write", "List"]}
    config.write_text(json.dumps({"identities": [user]}))
    process, port = _start(folder, config, metrics_port)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        with remotes.s3_at(endpoint) as client:
            _wait_for_bucket(client, folder / "log")
        yield endpoint
    finally:
        process.kill()
        process.wait()


def _start(folder: Path, config: Path, metrics_port: int) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server, and again if another program takes one of its ports first."""
    while True:
        ports = dict(zip(_PORTS, _free_ports(), strict=True))
        command = [
            *(str(Path(sys.executable).parent / "weed"), "server", f"-dir={folder}"),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.config={config}"),
            *(f"-{name}={port}" for name, port in ports.items()),
            *(f"-{name}.grpc={port + 1}" for name, port in ports.items()),
            *("-master.volumeSizeLimitMB=64", "-volume.max=0", f"-metricsPort={metrics_port}"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0"),
        ]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        if _listens(process, ports["s3.port"]):
            return process, ports["s3.port"]
        assert b"already in use" in (folder / "log").read_bytes()


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until a server listens; return False if it has ended."""
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        time.sleep(0.1)
    return False


def _wait_for_bucket(client: object, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            client.create_bucket(Bucket=remotes.BUCKET)  # type: ignore[attr-defined]  # of boto3
            client.put_object(Bucket=remotes.BUCKET, Key="begun", Body=b"")  # type: ignore[attr-defined]
            client.delete_object(Bucket=remotes.BUCKET, Key="begun")  # type: ignore[attr-defined]
        except Exception as exc:
            if "BucketAlready" in str(exc) or time.monotonic() < end:
                time.sleep(0.5)
                continue
            raise AssertionError(log.read_text()[-2000:]) from exc
        return


def _free_ports() -> list[int]:
    """Return free ports with a free one after each."""
    found: list[int] = []
    while len(found) < len(_PORTS):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            if not {port, port + 1} & {number + step for number in found for step in (0, 1)}:
                found.append(port)
    return found
