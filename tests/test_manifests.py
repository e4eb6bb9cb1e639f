"""The image and the manifests of docs/cluster: nothing runs them here, so they are checked."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it has no types

from feedferry.pipelines.job.file.job_file import load_job
from support.pages import read_page
from support.programs_needed import path_of
from support.reference import all_commands
from support.runs import ROOT
from support.served import serving

FOLDER = ROOT / "docs" / "cluster"
MANIFESTS = ("cronjob", "dask", "flink")
FEEDFERRY = f"feedferry:{version('feedferry')}"
BEAM_END = re.search(r'"apache-beam>=.*,<2\.(\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
assert BEAM_END
BEAM = f"2.{int(BEAM_END[1]) - 1}.0"
"""The newest release of the range."""
WORKER = f"feedferry-worker:{version('feedferry')}"
IMAGES = {
    FEEDFERRY,
    WORKER,
    "flink:1.19-java17",
    f"apache/beam_flink1.19_job_server:{BEAM}",
}
API_VERSIONS = {
    "ConfigMap": "v1",
    "CronJob": "batch/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "PersistentVolumeClaim": "v1",
    "Service": "v1",
}
USERS = {
    "feedferry": 10001,
    "feedferry-worker": 10001,
    "apache/beam_flink1.19_job_server": 10001,
    "flink": 9999,
}
FINAL = [1, 2, 3, 5]
"""Exit codes after which another attempt ends in the same way, or has nothing to do."""
FLAGS = {
    name: {option for parameter in context.command.get_params(context) for option in parameter.opts}
    for name, context in all_commands()
}


def objects(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text("utf-8")))


def pods(name: str) -> Iterator[Any]:
    """Yield the specifications of the pods of a manifest."""
    for item in objects(name):
        spec = item.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield spec["template"]["spec"]


def containers(name: str) -> Iterator[tuple[Any, Any]]:
    """Yield the containers of a manifest, each with its pod."""
    for pod in pods(name):
        for container in pod["containers"]:
            yield container, pod


@pytest.mark.parametrize("name", MANIFESTS)
def test_each_object_has_the_fields_of_its_kind(name: str) -> None:
    for item in objects(name):
        assert item["apiVersion"] == API_VERSIONS[item["kind"]]
        assert re.fullmatch("[a-z0-9-]{1,63}", item["metadata"]["name"])
        if item["kind"] == "Deployment":
            labels = item["spec"]["template"]["metadata"]["labels"]
            assert item["spec"]["selector"]["matchLabels"] == labels
        if item["kind"] == "Service":
            assert item["spec"]["selector"] in [
                other["spec"]["selector"]["matchLabels"]
                for other in objects(name)
                if other["kind"] == "Deployment"
            ]


@pytest.mark.parametrize("name", MANIFESTS)
def test_each_container_has_an_image_limits_and_a_user_that_is_not_root(name: str) -> None:
    for container, pod in containers(name):
        security = {**pod.get("securityContext", {}), **container["securityContext"]}
        assert container["image"] in IMAGES
        assert security["runAsNonRoot"]
        assert security["runAsUser"] == USERS[container["image"].partition(":")[0]]
        assert security["allowPrivilegeEscalation"] is False
        assert {"requests", "limits"} == {*container["resources"]}


@pytest.mark.parametrize("name", MANIFESTS)
def test_each_mounted_volume_and_each_configuration_is_there(name: str) -> None:
    maps = {item["metadata"]["name"] for item in objects(name) if item["kind"] == "ConfigMap"}
    for container, pod in containers(name):
        volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
        assert {mount["name"] for mount in container.get("volumeMounts", ())} <= {*volumes}
        sources = [volume["configMap"] for volume in volumes.values() if "configMap" in volume]
        variables = container.get("envFrom", ())
        sources += [entry["configMapRef"] for entry in variables if "configMapRef" in entry]
        assert {source["name"] for source in sources} <= maps


@pytest.mark.parametrize("name", MANIFESTS)
def test_each_address_is_a_service_with_that_port(name: str) -> None:
    services = {
        f"{item['metadata']['name']}:{port['port']}"
        for item in objects(name)
        if item["kind"] == "Service"
        for port in item["spec"]["ports"]
    }
    words = [word for container, _ in containers(name) for word in container["args"]]
    found = {address for word in words for address in re.findall(r"[a-z-]+-[a-z]+:\d+", word)}
    assert found <= services


@pytest.mark.parametrize("name", MANIFESTS)
def test_each_command_has_flags_that_exist(name: str) -> None:
    lines = [
        container["args"]
        for container, _ in containers(name)
        if container["image"] in (FEEDFERRY, WORKER) and container["args"][0] in FLAGS
    ]
    assert len(lines) == 1
    for verb, *words in lines:
        own = words[: words.index("--")] if "--" in words else words
        assert {word for word in own if word.startswith("-")} <= FLAGS[verb]


@pytest.mark.parametrize("name", MANIFESTS)
def test_jobs_are_started_again_only_if_they_can_be_resumed(name: str) -> None:
    for item in objects(name):
        if item["kind"] in ("Job", "CronJob"):
            spec = item["spec"].get("jobTemplate", item)["spec"]
            [rule] = spec["podFailurePolicy"]["rules"]
            assert rule["action"] == "FailJob"
            assert rule["onExitCodes"]["values"] == FINAL
            assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_the_page_of_schedulers_states_the_codes_of_the_manifest() -> None:
    page = read_page("docs/scheduling.md")
    assert "`podFailurePolicy` that fails the job on 1, 2, 3 and 5" in page


def test_the_job_file_of_the_schedule_is_one(tmp_path: Path) -> None:
    [config] = [item for item in objects("cronjob") if item["kind"] == "ConfigMap"]
    for name, text in config["data"].items():
        (tmp_path / name).write_text(text)
        load_job(tmp_path / name, {}, {})


def instructions() -> list[tuple[str, str]]:
    text = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def test_the_image_is_built_in_stages_and_does_not_run_as_root() -> None:
    stages = [value for name, value in instructions() if name == "FROM"]
    assert [stage.rpartition(" ")[2] for stage in stages] == [
        *("beam", "build", "build-worker", "command", "worker")
    ]
    assert ("ARG", f"BEAM_IMAGE=apache/beam_python3.11_sdk:{BEAM}") in instructions()
    assert [value for name, value in instructions() if name == "USER"] == ["10001", "10001"]


def test_what_the_image_copies_is_in_the_repository() -> None:
    copies = [value.split() for name, value in instructions() if name == "COPY"]
    names = [word for words in copies if not words[0].startswith("--") for word in words[:-1]]
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["command", "worker"])
def test_a_builder_makes_the_image(target: str, tmp_path: Path) -> None:
    buildah = [str(path_of("buildah")), "--root", str(tmp_path / "root"), "--storage-driver", "vfs"]
    base = dict(value.partition("=")[::2] for name, value in instructions() if name == "ARG")
    for image in base.values():
        pull = subprocess.run(
            [*buildah, "pull", image], check=False, capture_output=True, text=True
        )
        if pull.returncode:
            pytest.skip(f"{image} cannot be had here: {pull.stderr.splitlines()[-1]}")
    command = ["build", "--isolation", "chroot", "--target", target, "-f"]
    words = [*buildah, *command, str(FOLDER / "Dockerfile"), str(ROOT)]
    built = subprocess.run(words, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr


def health(folder: Path, words: str, url: str = "http://127.0.0.1:1") -> int:
    (folder / "cmdline").write_bytes(words.encode().replace(b" ", b"\0"))
    command = [sys.executable, str(FOLDER / "health.py"), str(folder / "cmdline")]
    done = subprocess.run(command, env={"HEALTH_URL": url}, check=False, capture_output=True)
    return done.returncode


@pytest.mark.slow
def test_a_container_is_healthy_if_its_receiver_answers(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as served:
        assert health(tmp_path, "feedferry serve --spool /feedferry", served.url) == 0
    assert health(tmp_path, "feedferry serve --spool /feedferry") == 1
    assert health(tmp_path, "feedferry run nightly.yaml") == 0


@pytest.mark.parametrize("name", MANIFESTS)
def test_containers_of_our_images_have_a_read_only_root(name: str) -> None:
    for container, pod in containers(name):
        if container["image"] in (FEEDFERRY, WORKER):
            security = {**pod.get("securityContext", {}), **container["securityContext"]}
            assert security["readOnlyRootFilesystem"]
            paths = {mount["mountPath"] for mount in container.get("volumeMounts", ())}
            assert "/tmp" in paths


@pytest.mark.slow
def test_a_linter_has_nothing_against_the_image() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    command = [str(linter), str(FOLDER / "Dockerfile")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "started"),
    [
        (["--id=1-1", "--logging_endpoint=a:1"], "boot --id=1-1 --logging_endpoint=a:1"),
        (["--worker_pool"], "boot --worker_pool"),
        (["dask", "worker", "tcp://a:1"], "dask worker tcp://a:1"),
        (["convert", "a.xml", "-o", "out"], "feedferry convert a.xml -o out"),
        (["--help"], "feedferry --help"),
        ([], "feedferry"),
    ],
)
def test_the_image_starts_a_worker_or_the_command(
    words: list[str], started: str, tmp_path: Path
) -> None:
    for name in ("boot", "dask", "feedferry"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        program.chmod(0o755)
    environment = {"PATH": str(tmp_path), "BEAM_BOOT": str(tmp_path / "boot")}
    command = ["/bin/sh", str(FOLDER / "entrypoint.sh"), *words]
    assert subprocess.check_output(command, env=environment, text=True).strip() == started
