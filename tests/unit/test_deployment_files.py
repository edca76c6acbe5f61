"""The files for deployment name commands, options and settings that there are."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import typer
import yaml
from places import ROOT

from dashboard import services
from dashboard.cli.main import app
from dashboard.services import access

DEPLOY = ROOT / "docs" / "deploy"
CHART = DEPLOY / "helm" / "trimtab"
COMMAND = typer.main.get_command(app)


def check(words: list[str]) -> None:
    """Check that a command line is one of ours, without running it."""
    name, *rest = words
    context = typer.Context(COMMAND)
    found = COMMAND.get_command(context, name)
    assert found is not None, words
    found.make_context(name, list(rest))


def test_every_unit_starts_a_command() -> None:
    units = sorted(DEPLOY.glob("systemd/*.service"))
    assert len(units) == 4
    for unit in units:
        line = re.search(r"^ExecStart=\S*/trimtab (.+)$", unit.read_text(), re.MULTILINE)
        assert line
        check(shlex.split(line[1]))


def test_every_service_of_the_compose_file_starts_a_command() -> None:
    found = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    ours = {name: one for name, one in found["services"].items() if one.get("image") == "trimtab"}
    assert set(ours) == {"pages", "collector", "worker", "jobs"}
    for one in ours.values():
        check(one["command"])
        assert one["read_only"]
        assert one["cap_drop"] == ["ALL"]


def test_the_compose_file_and_its_configuration_name_the_same_proxy() -> None:
    """Without its address wrong passwords of one visitor would keep everybody out."""
    folder = DEPLOY / "container"
    config = services.load_config(folder / "trimtab.toml", {})
    found = yaml.safe_load((folder / "compose.yaml").read_text())
    address = found["services"]["proxy"]["networks"]["default"]["ipv4_address"]
    (network,) = found["networks"]["default"]["ipam"]["config"]
    assert config.access.sign_in == "users"
    assert config.access.proxy.addresses == [address]
    assert ip_address(address) in ip_network(network["subnet"])
    assert access.unnamed_proxy(config) == []
    (name,) = re.findall(r"server_name (\S+);", (DEPLOY / "proxy" / "nginx.conf").read_text())
    assert config.pages.allowed_hosts == [name]
    assert config.pages.address == "0.0.0.0"
    (mounted,) = {one for one in found["services"]["pages"]["volumes"] if "trimtab.toml" in one}
    assert mounted.startswith("./trimtab.toml:")


DIGEST = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")


def test_every_image_is_named_by_its_digest() -> None:
    text = (DEPLOY / "container" / "Dockerfile").read_text()
    stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.MULTILINE)
    assert stages
    names = {name for _, name in stages}
    outside = [image for image, _ in stages if image not in names]
    found = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    outside += [one["image"] for one in found["services"].values() if one["image"] != "trimtab"]
    assert len(outside) == 2
    assert all(DIGEST.fullmatch(image) for image in outside), outside


def test_the_build_backend_is_the_one_of_the_lock_and_never_downloaded_for_a_build() -> None:
    root = DEPLOY.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    (wanted,) = project["build-system"]["requires"]
    assert re.fullmatch(r"setuptools==[\d.]+", wanted)
    assert project["dependency-groups"]["build"] == [wanted]
    lock = (root / ".ci" / "build.lock").read_text()
    assert lock.startswith(f"{wanted} \\\n    --hash=sha256:")
    for path in (DEPLOY / "container" / "Dockerfile", root / ".ci" / "setup"):
        text = path.read_text()
        assert "build.lock" in text
        builds = re.findall(r"^.*install .*--no-deps.*$", text, re.MULTILINE)
        assert builds
        assert all("--no-build-isolation" in line for line in builds), builds


CONFINED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "PrivateIPC": "yes",
    "DevicePolicy": "closed",
    "ProtectProc": "invisible",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "RemoveIPC": "yes",
    "KeyringMode": "private",
    "SystemCallArchitectures": "native",
    "SystemCallErrorNumber": "EPERM",
    "StateDirectoryMode": "0700",
    "UMask": "0077",
    "User": "trimtab",
}


@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("systemd/*.service")), ids=lambda one: one.stem)
def test_every_unit_is_confined(unit: Path) -> None:
    section = unit.read_text().partition("[Service]")[2].partition("\n[")[0]
    pairs = [line.split("=", 1) for line in section.splitlines() if line and line[0] != "#"]
    found = dict(pairs)
    assert {name: found.get(name) for name in CONFINED} == CONFINED
    calls = [value for name, value in pairs if name == "SystemCallFilter"]
    assert calls == ["@system-service", "~@privileged @resources"]
    assert re.fullmatch(r"\d+G", found["MemoryMax"])
    assert int(found["TasksMax"]) >= 128


def test_the_chart_confines_its_pod_and_its_network() -> None:
    """Without helm: what every container gets is in one place."""
    pod = (CHART / "templates" / "statefulset.yaml").read_text()
    for line in (
        "automountServiceAccountToken: false",
        "enableServiceLinks: false",
        "runAsNonRoot: true",
        "seccompProfile: { type: RuntimeDefault }",
    ):
        assert line in pod
    container = (CHART / "templates" / "_helpers.tpl").read_text()
    for line in (
        "privileged: false",
        "allowPrivilegeEscalation: false",
        "readOnlyRootFilesystem: true",
        "capabilities: { drop: [ALL] }",
        'required "Set image.digest',
    ):
        assert line in container
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert (values["image"]["digest"], values["image"]["tag"]) == ("", "")
    assert values["networkPolicy"]["enabled"]
    assert all("memory" in one["limits"] for one in values["resources"].values())


@pytest.mark.parametrize("word", ["requirements.lock", "core", "connectors", "dashboard"])
def test_the_image_is_built_of_what_there_is(word) -> None:
    text = (DEPLOY / "container" / "Dockerfile").read_text()
    assert re.search(rf"^COPY .*\b{re.escape(word)}\b", text, re.MULTILINE)
    assert (DEPLOY.parents[1] / word).exists()
    assert "--require-hashes" in text
    assert re.search(r"^USER trimtab$", text, re.MULTILINE)


def test_every_container_of_the_chart_starts_a_command_with_limits() -> None:
    text = (CHART / "templates" / "statefulset.yaml").read_text()
    found = dict(re.findall(r"- name: (\w+)\n +args: (\[.+\])", text))
    assert set(found) == {"pages", "collector", "worker", "jobs"}
    for words in found.values():
        check(yaml.safe_load(words))
    assert set(yaml.safe_load((CHART / "values.yaml").read_text())["resources"]) == set(found)


def test_the_configuration_of_the_chart_is_one_that_pages_in_a_pod_can_start_with(tmp_path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    file = tmp_path / "trimtab.toml"
    file.write_text(values["config"])
    config = services.load_config(file, {})
    assert config.pages.address == "0.0.0.0"
    assert config.access.sign_in == "users"
    assert access.unnamed_proxy(config) == []
    assert config.clusters  # no process starts without one
    assert values["ingress"]["host"] in config.pages.allowed_hosts
    mounts = (CHART / "templates" / "_helpers.tpl").read_text()
    assert str(config.state_dir).startswith("/var/lib/trimtab/")  # the mount itself is root's
    assert "{ name: state, mountPath: /var/lib/trimtab }" in mounts


@pytest.mark.slow
def test_the_chart_renders_with_and_without_its_options(tmp_path) -> None:
    helm = shutil.which("helm", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert helm, "helm is not installed; .ci/servers installs it"
    options = tmp_path / "options.yaml"
    options.write_text(
        "ingress: { enabled: true, tlsSecretName: tls }\n"
        "serviceMonitor: { enabled: true, tokenSecret: { name: metrics, key: token } }\n"
        "secrets: [{ name: prod, secretName: trimtab-prod }]\n"
        "persistence: { existingClaim: claim }\n"
    )
    refused = subprocess.run(
        [helm, "template", "one", str(CHART)], check=False, capture_output=True, text=True
    )
    assert "Set image.digest" in refused.stderr
    image = ["--set", f"image.digest=sha256:{'a' * 64}"]
    subprocess.run([helm, "lint", "--strict", CHART, "-f", options, *image], check=True)
    kinds: list[set[str]] = []
    for more in (image, [*image, "-f", str(options)]):
        shown = subprocess.run(
            [helm, "template", "one", str(CHART), *more], check=True, capture_output=True, text=True
        ).stdout
        objects = [one for one in yaml.safe_load_all(shown) if one]
        kinds.append({one["kind"] for one in objects})
        (pod,) = (
            one["spec"]["template"]["spec"] for one in objects if one["kind"] == "StatefulSet"
        )
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert {mount["name"] for mount in container["volumeMounts"]} >= {"config", "state"}
    assert kinds[0] == {"StatefulSet", "Service", "ConfigMap", "ServiceAccount", "NetworkPolicy"}
    assert kinds[1] == kinds[0] | {"Ingress", "ServiceMonitor"}
