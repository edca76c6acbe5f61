"""A real three-broker Apache Pulsar on loopback: ZooKeeper, one bookie, the brokers.

The jars come from ``pulsar_jars``. In tests it is a context manager; as a script it starts the
cluster with uneven traffic, writes a ``trimtab.toml`` for it and stays until Ctrl-C::

    python tests/live/real_pulsar.py up --modular --config-out trimtab.toml
"""

from __future__ import annotations

import argparse
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self

import requests

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))  # run as a script

from java_process import JavaProcess, wait_until
from pulsar_files import CLUSTER, LOOPBACK, Mode, Places, choose_places, java_flags, write_files
from pulsar_jars import SkipReason, pulsar_jars

from connectors.sandbox.java import find_java
from core.errors import ConfigError

_READY_WITHIN_S: Final = 120.0
_ZOOKEEPER_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_BOOKIE_CLASS: Final = "org.apache.bookkeeper.server.Main"
_BROKER_CLASS: Final = "org.apache.pulsar.PulsarBrokerStarter"
_SETUP_CLASS: Final = "org.apache.pulsar.PulsarClusterMetadataSetup"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealPulsarOptions:
    """What cluster to start.

    Attributes:
        mode: Which load manager the brokers run.
        brokers: How many.
        distinct_hosts: Broker ``i`` on ``127.0.0.(i+1)`` (Linux), else all on one host.
        broker_settings: Lines for every ``broker.conf`` that win over the harness's own.
        debug_loggers: Java packages or classes that log at debug level.
        headers: Of every raw request, for brokers that require a credential.
    """

    mode: Mode = "modular"
    brokers: int = 3
    distinct_hosts: bool = True
    broker_settings: Mapping[str, object] = field(default_factory=dict)
    debug_loggers: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


def why_not() -> str | None:
    """Return in one line why no real Pulsar can be started here, ``None`` when one can."""
    jars = pulsar_jars()
    if isinstance(jars, SkipReason):
        return str(jars)
    try:
        find_java()
    except ConfigError as error:
        return str(error)
    return None


class RealPulsar:
    """One running cluster; everything of it lives in ``folder`` and ends with this process.

    The data are deleted on :meth:`stop`, the logs and configuration files stay.
    """

    cluster = CLUSTER

    def __init__(self, folder: Path, options: RealPulsarOptions | None = None) -> None:
        self.options = options or RealPulsarOptions()
        self.folder = folder.resolve()
        self.places = Places(0, 0)
        self.start_seconds = 0.0
        self._servers: dict[str, JavaProcess] = {}

    # -- where things are ---------------------------------------------------------------------

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's ``host:port``."""
        return self.places.zookeeper

    @property
    def admin_urls(self) -> tuple[str, ...]:
        """Every broker's admin address, in broker order."""
        return tuple(place.web_url for place in self.places.brokers)

    @property
    def brokers(self) -> tuple[str, ...]:
        """Every broker's id ``host:webPort``, in broker order."""
        return tuple(place.broker for place in self.places.brokers)

    @property
    def service_url(self) -> str:
        """What a Pulsar client connects to: every broker."""
        hosts = ",".join(place.service_url.split("//")[1] for place in self.places.brokers)
        return f"pulsar://{hosts}"

    def index_of(self, broker: str) -> int:
        """Return the number of the broker with this id."""
        return self.brokers.index(broker)

    def process(self, index: int) -> JavaProcess:
        """Return the process of broker ``index``."""
        return self._servers[f"broker-{index}"]

    @property
    def running(self) -> tuple[int, ...]:
        """Numbers of the brokers whose process is there."""
        return tuple(i for i in range(len(self.brokers)) if self.process(i).is_running)

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything and wait until every broker says that it is ready.

        Raises:
            ServerDiedError: One of the servers did not come up; the message ends with its log.
        """
        began = monotonic()
        for kind in ("zookeeper", "journal", "ledgers"):
            (self.folder / "data" / kind).mkdir(parents=True, exist_ok=True)
        self.places = choose_places(
            self.options.brokers, distinct_hosts=self.options.distinct_hosts
        )
        options = self.options
        write_files(
            self.folder, self.places, options.mode, options.broker_settings, options.debug_loggers
        )
        try:
            self._start_servers()
        except BaseException:
            self.stop()
            raise
        self.start_seconds = monotonic() - began

    def _start_servers(self) -> None:
        files = self.folder
        zookeeper = self._server("zookeeper", 128, 64, _ZOOKEEPER_CLASS, files / "zookeeper.conf")
        zookeeper.start()
        port = self.places.zookeeper_port
        zookeeper.wait_ready(lambda: _accepts(LOOPBACK, port), within_s=_READY_WITHIN_S)
        self._set_up_metadata()
        bookie = self._server("bookie", 256, 192, _BOOKIE_CLASS, "--conf", files / "bookie.conf")
        bookie.start()
        port = self.places.bookie_port
        bookie.wait_ready(lambda: _accepts(LOOPBACK, port), within_s=_READY_WITHIN_S)
        for index in range(len(self.brokers)):
            conf = files / f"broker-{index}.conf"
            self._server(f"broker-{index}", 256, 256, _BROKER_CLASS, "--broker-conf", conf).start()
        for index in range(len(self.brokers)):
            self._wait_ready(index)

    def _set_up_metadata(self) -> None:
        store = f"zk:{self.zookeeper}"
        first = self.places.brokers[0]
        setup = self._server(
            *("metadata-setup", 128, 64, _SETUP_CLASS, "--cluster", self.cluster),
            *("--metadata-store", store, "--configuration-metadata-store", store),
            *("--web-service-url", first.web_url, "--broker-service-url", first.service_url),
        )
        setup.start()
        code = setup.wait_end(within_s=_READY_WITHIN_S)
        if code != 0:
            raise ConfigError(
                f"The cluster's metadata could not be set up (code {code}).", hint=setup.log_tail()
            )

    def _server(self, name: str, heap_mb: int, direct_mb: int, *main: object) -> JavaProcess:
        jars = pulsar_jars()
        if isinstance(jars, SkipReason):
            raise ConfigError(str(jars), hint="Set TRIMTAB_PULSAR_JARS to a folder of them.")
        command = [
            str(find_java().path),
            *java_flags(self.folder, heap_mb=heap_mb, direct_mb=direct_mb),
            *("-cp", f"{jars}/*"),
            *map(str, main),
        ]
        self._servers[name] = JavaProcess(name, command, self.folder)
        return self._servers[name]

    def stop(self) -> None:
        """End everything at once and delete the data; the logs stay."""
        for server in reversed(self._servers.values()):
            server.kill()
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- one broker ---------------------------------------------------------------------------

    def stop_broker(self, index: int) -> None:
        """Stop one broker in order: it hands its bundles back before it goes."""
        self.process(index).stop()

    def kill_broker(self, index: int) -> None:
        """Kill one broker: ZooKeeper keeps its ephemerals until the session times out."""
        self.process(index).kill()

    def hang_broker(self, index: int) -> None:
        """Freeze one broker: its ports accept and never answer."""
        self.process(index).pause()

    def resume_broker(self, index: int) -> None:
        """Let a frozen broker go on."""
        self.process(index).resume()

    def start_broker(self, index: int) -> None:
        """Start one broker that was stopped or killed, and wait until it is ready."""
        self.process(index).start()
        self._wait_ready(index)

    def _wait_ready(self, index: int) -> None:
        url = f"{self.admin_urls[index]}/admin/v2/brokers/ready"
        self.process(index).wait_ready(
            lambda: _says_ok(url, self.options.headers), within_s=_READY_WITHIN_S
        )

    def heal(self) -> None:
        """Resume and start whatever a test left frozen or dead, and wait for every broker."""
        for index in range(len(self.brokers)):
            self.resume_broker(index)
            self.start_broker(index)
        wait_until(
            "every broker is registered again",
            lambda: set(self.get_json("/admin/v2/brokers")) == set(self.brokers),
            within_s=_READY_WITHIN_S,
        )

    # -- raw requests, not through any code of ours -------------------------------------------

    def request(self, method: str, path: str, *, broker: int = 0, **more: Any) -> requests.Response:
        """Send one raw request to a broker; redirects are followed."""
        more.setdefault("timeout", 30.0)
        more["headers"] = {**self.options.headers, **more.get("headers", {})}
        return requests.request(method, f"{self.admin_urls[broker]}{path}", **more)

    def get_json(self, path: str, *, broker: int = 0) -> Any:
        """Return the JSON that a broker answers, or raise for an error status."""
        answer = self.request("GET", path, broker=broker)
        answer.raise_for_status()
        return answer.json()

    def config_text(self, name: str = "real") -> str:
        """Return a ``trimtab.toml`` for this cluster."""
        urls = ", ".join(f'"{url}"' for url in self.admin_urls)
        lines = (
            "collect_every_s = 15",
            "",
            "[history]",
            "every_s = 0",
            "",
            "[[clusters]]",
            f'name = "{name}"',
            'kind = "pulsar"',
            'environment = "staging"',
            f'zookeeper = "{self.zookeeper}"',
            f"admin_urls = [{urls}]",
            "read_only = true",
            "",
        )
        return "\n".join(lines)


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _says_ok(url: str, headers: Mapping[str, str]) -> bool:
    try:
        return requests.get(url, headers=headers, timeout=3.0).status_code == 200
    except requests.RequestException:
        return False


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _up(arguments: argparse.Namespace) -> int:
    from traffic import Traffic, make_namespaces  # noqa: PLC0415 - the client loads slowly

    reason = why_not()
    if reason is not None:
        _say(reason)
        return 1
    options = RealPulsarOptions(
        mode="extensible" if arguments.extensible else "modular", brokers=arguments.brokers
    )
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-real-pulsar-") as folder,
        RealPulsar(Path(folder), options) as cluster,
    ):
        _say(f"{options.mode} cluster of {options.brokers} up in {cluster.start_seconds:.0f} s")
        make_namespaces(cluster)
        Path(arguments.config_out).write_text(cluster.config_text(), "utf-8")
        _say(f"brokers {', '.join(cluster.admin_urls)}; ZooKeeper {cluster.zookeeper}")
        with Traffic(cluster, scale=arguments.scale):
            _say(f"wrote {arguments.config_out}; logs in {folder}; Ctrl-C ends it")
            threading.Event().wait()
    return 0


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description="A real Apache Pulsar on loopback.")
    commands = parser.add_subparsers(required=True)
    up = commands.add_parser("up", help="start it with traffic, stay until Ctrl-C")
    kind = up.add_mutually_exclusive_group()
    kind.add_argument("--modular", action="store_true", help="ModularLoadManagerImpl (default)")
    kind.add_argument("--extensible", action="store_true", help="ExtensibleLoadManagerImpl")
    up.add_argument("--brokers", type=int, default=3)
    up.add_argument("--scale", type=float, default=1.0, help="times the usual traffic")
    up.add_argument("--config-out", default="trimtab.toml", metavar="FILE")
    up.set_defaults(run=_up)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # "kill" ends it as Ctrl-C does
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
