"""The files for deployment name commands, options and settings that there are."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import typer
import yaml

from dashboard import services
from dashboard.cli.main import app
from dashboard.services import access

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
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
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed")
    options = tmp_path / "options.yaml"
    options.write_text(
        "ingress: { enabled: true, tlsSecretName: tls }\n"
        "serviceMonitor: { enabled: true, tokenSecret: { name: metrics, key: token } }\n"
        "secrets: [{ name: prod, secretName: trimtab-prod }]\n"
        "persistence: { existingClaim: claim }\n"
    )
    subprocess.run([helm, "lint", "--strict", CHART, "-f", options], check=True)
    kinds: list[set[str]] = []
    for more in ([], ["-f", str(options)]):
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
    assert kinds[0] == {"StatefulSet", "Service", "ConfigMap", "ServiceAccount"}
    assert kinds[1] == kinds[0] | {"Ingress", "ServiceMonitor"}
