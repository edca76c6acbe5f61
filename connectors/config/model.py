"""Configuration: ``trimtab.toml`` and ``TRIMTAB_*``, validated, with secrets hidden."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from datetime import time
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import platformdirs
import re2
from pydantic import (
    AfterValidator,
    AwareDatetime,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from connectors.config.access import AccessConfig, is_loopback
from connectors.config.alerts import Alerts
from connectors.config.credentials import Auth, Strict, Tls, ZooKeeperAuth
from connectors.config.kinds import KINDS, fault_of
from connectors.config.metrics import Prometheus
from connectors.config.storage import Audit, History, Pages, Pipeline, SnapshotRetention, Spark
from connectors.transport.addresses import HostPattern, address_fault
from core.access import Role
from core.actions.approval import ApprovalRules
from core.actions.windows import Window
from core.bounds import MAX_CONFIG_BYTES, TooLargeError, read_file
from core.errors import ConfigError, UnknownNameError
from core.labels import label_fault

Environment = Literal["production", "staging", "test", "demo"]
DEFAULT_FILE: Final = Path("trimtab.toml")
_SQLITE: Final = "sqlite:///"
_MAX_DEPTH: Final = 16
"""Arrays and tables in each other; settings have four."""

_MIB: Final = 2**20
DECODED: Final = 8
"""An answer may take so many times the bytes of the longest one when it is decoded."""
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_HOST: Final = r"(?:[\w.\-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}"
_HOSTS: Final = re.compile(rf"{_HOST}(,{_HOST})*(/[\w./-]*)?\Z")
_PORT: Final = re.compile(r":\d{1,5}\Z")
_STORE: Final = re.compile(
    r"(?:metadata-store:)?(?:([a-z][a-z+]*):(?!\d{1,5}(?:[,/]|\Z))(?://)?)?(.*)\Z", re.DOTALL
)
"""Scheme of a metadata store and its servers; ``host:port`` has no scheme."""


def _zookeeper_hosts(text: str) -> str:
    """Return ``host:port,host:port/chroot`` of that form, or of the brokers' own settings.

    Source:
        Pulsar ``metadataStoreUrl`` (``zk:host:port/chroot``; ``MetadataStoreFactoryImpl``) and
        BookKeeper's ``metadataServiceUri`` (``metadata-store:zk:...``, ``zk+null://...``).
    """
    scheme, hosts = _STORE.match(text.strip()).groups()  # type: ignore[union-attr]  # it matches all
    scheme = (scheme or "zk").partition("+")[0]
    if scheme != "zk":
        raise ValueError(
            f"Trimtab reads only ZooKeeper, not {scheme}: omit zookeeper and set admin_urls"
        )
    servers, slash, chroot = hosts.partition("/")
    named = [
        one if _PORT.search(one) else f"{one}:2181" for one in servers.replace(";", ",").split(",")
    ]
    found = ",".join(named) + (slash + chroot).rstrip("/")
    if not _HOSTS.match(found):
        raise ValueError(
            "zookeeper must have the form host:port,host:port/chroot, or the brokers' "
            "metadataStoreUrl (zk:host:port/chroot)"
        )
    return found


def _admin_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("an admin URL must have the form http://host:port or https://host:port")
    if parts.username or parts.password:
        raise ValueError("set user and password under [clusters.auth], not in the URL")
    if parts.path.strip("/") or parts.query:
        raise ValueError("use only the broker's address, without a path")
    return f"{parts.scheme}://{parts.netloc}"


AdminUrl = Annotated[str, AfterValidator(_admin_url)]


class Timeouts(Strict):
    """Timeouts, in seconds.

    Attributes:
        connect_s: For a connection to a broker's admin port.
        read_s: For each answer of a broker.
        answer_s: For one whole answer of a broker, however its bytes trickle in.
        zookeeper_s: For a connection to ZooKeeper, and for each bulk read there.
        session_s: Session timeout requested of ZooKeeper.
        capture_s: For one whole capture, and half as long again for the brokers when ZooKeeper
            failed; what is not read by then is named as a problem.
    """

    connect_s: float = Field(default=2.0, gt=0, le=60)
    read_s: float = Field(default=5.0, gt=0, le=300)
    answer_s: float = Field(default=10.0, gt=0, le=300)
    zookeeper_s: float = Field(default=10.0, gt=0, le=300)
    session_s: float = Field(default=15.0, ge=2, le=300)
    capture_s: float = Field(default=50.0, gt=0, le=3600)


class ReadLimits(Strict):
    """Max sizes of server answers, in MiB; larger ones are refused and reported.

    Decoded, an answer may take up to :data:`DECODED` times as much; one that would take more is
    refused as well.

    Attributes:
        answer_mib: One answer of a broker, of a Prometheus server, or of a Pegasus server.
        bulk_mib: One answer that may name every topic of a broker: its own metrics, its topics.
        zookeeper_mib: One answer of ZooKeeper. Its servers have the same limit, ``jute.maxbuffer``:
            1 MiB by default, 10 MiB in Pulsar's own start scripts.
        capture_mib: All the answers of ZooKeeper in one capture, as they are decoded.
    """

    answer_mib: int = Field(default=32, ge=1, le=1024)
    bulk_mib: int = Field(default=256, ge=1, le=1024)
    zookeeper_mib: int = Field(default=16, ge=1, le=1024)
    capture_mib: int = Field(default=2048, ge=16, le=65_536)

    @property
    def answer_bytes(self) -> int:
        """Bytes of one answer of a server that is no ZooKeeper."""
        return self.answer_mib * _MIB

    @property
    def bulk_bytes(self) -> int:
        """Bytes of one answer that may name every topic of a broker."""
        return self.bulk_mib * _MIB

    @property
    def zookeeper_bytes(self) -> int:
        """Bytes of one answer of ZooKeeper."""
        return self.zookeeper_mib * _MIB

    @property
    def capture_bytes(self) -> int:
        """Bytes of all answers of ZooKeeper in one capture."""
        return self.capture_mib * _MIB


class ApplyLimits(Strict):
    """Limits of runs on a cluster; a run may request lower values, never higher.

    Attributes:
        pace_per_min: Most steps begun a minute.
        max_failures: Steps that may fail, or stay unknown, before a run stops by itself.
        max_unassigned: Bundles with topics that a run unloaded and no broker serves within
            ``verify_within_s``, at which it pauses.
        verify_within_s: How long the visible effect of a step is awaited.
        moves_per_day: Most steps begun in 24 hours, over all runs.
        max_steps: Most steps of one run.
        gradual_pace: Whether runs begin at a quarter of the pace, and slow down at trouble.
        canary_s: Seconds for which the cluster is observed after a run's first step, before the
            rest begins; 0: it is not. A run may ask for more, never for less.
    """

    pace_per_min: float = Field(default=10.0, gt=0, le=600)
    max_failures: int = Field(default=1, ge=1)
    max_unassigned: int = Field(default=1, ge=1)
    verify_within_s: float = Field(default=30.0, ge=1, le=600)
    moves_per_day: int = Field(default=500, ge=0)
    max_steps: int = Field(default=200, ge=1)
    gradual_pace: bool = True
    canary_s: float = Field(default=0.0, ge=0, le=300)


class Approval(Strict):
    """When runs on a cluster need the approval of another person, and what a reason must name.

    Attributes:
        needed: ``never``, ``large`` (see :class:`core.actions.approval.ApprovalRules`), ``always``.
        max_steps: Steps of a plan that is not large.
        max_clients: Clients that may reconnect by a plan that is not large.
        within_min: Minutes in which it must be given, and then again in which the run must begin.
        role: Of those who may approve.
        ticket: Regular expression (RE2) that every reason must contain, for example ``OPS-[0-9]+``.
    """

    needed: Literal["never", "large", "always"] = "never"
    max_steps: int = Field(default=20, ge=0)
    max_clients: int = Field(default=1_000, ge=0)
    within_min: float = Field(default=60.0, gt=0, le=1_440)
    role: Role = "operator"
    ticket: str = ""

    @field_validator("ticket")
    @classmethod
    def _expression(cls, text: str) -> str:
        try:
            re2.compile(text)
        except re2.error as exc:
            raise ValueError(f"ticket is not a regular expression of RE2: {exc}") from exc
        return text

    def rules(self) -> ApprovalRules:
        """Return it in the form that the executor takes."""
        return ApprovalRules(
            needed=self.needed,
            max_steps=self.max_steps,
            max_clients=self.max_clients,
            within_min=self.within_min,
            role=self.role,
        )

    def names_ticket(self, reason: str) -> bool:
        """Return whether a reason has the required ticket."""
        return not self.ticket or re2.search(self.ticket, reason) is not None


class WindowConfig(Strict):
    """A time in which nothing is changed, or outside of which nothing is; all times are UTC.

    Attributes:
        kind: ``freeze`` or ``maintenance``.
        reason: For people.
        starts: Of one that is once.
        ends: Of one that is once.
        days: Of a weekly one: ``mon`` to ``sun``; without: every day.
        from_time: Of a weekly one: ``HH:MM``, written ``from``.
        until_time: Its end, written ``until``; not after ``from``: on the next day.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    kind: Literal["freeze", "maintenance"]
    reason: str = ""
    starts: AwareDatetime | None = None
    ends: AwareDatetime | None = None
    days: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] = Field(
        default_factory=list
    )
    from_time: time | None = Field(default=None, alias="from")
    until_time: time | None = Field(default=None, alias="until")

    @field_validator("from_time", "until_time")
    @classmethod
    def _minute_of_utc(cls, value: time | None) -> time | None:
        if value is not None and (value.tzinfo or value.second or value.microsecond):
            raise ValueError(
                "from and until of a window must be HH:MM in UTC, without offset and seconds"
            )
        return value

    @model_validator(mode="after")
    def _whole(self) -> WindowConfig:
        if (self.from_time is None) != (self.until_time is None):
            raise ValueError("a weekly window needs both from and until (HH:MM, UTC)")
        if self.days and self.from_time is None:
            raise ValueError("days needs from and until")
        if self.starts is None and self.ends is None and self.from_time is None:
            raise ValueError("a window needs starts, ends, or from and until")
        if self.starts and self.ends and self.ends <= self.starts:
            raise ValueError("a window must end after it starts")
        return self

    def times(self) -> Window:
        """Return it in the form that the executor takes."""
        return Window(
            kind=self.kind,
            reason=self.reason,
            starts=self.starts,
            ends=self.ends,
            days=frozenset(_DAYS.index(day) for day in self.days),
            from_min=None if self.from_time is None else _minute(self.from_time),
            until_min=0 if self.until_time is None else _minute(self.until_time),
        )


def _minute(moment: time) -> int:
    return moment.hour * 60 + moment.minute


class ClusterConfig(Strict):
    """One cluster.

    Attributes:
        name: Trimtab's name for it; part of file names and URLs.
        kind: ``pulsar``, or ``pegasus``: that one has ``meta_servers`` and nothing of the others.
        zookeeper: ``host:port,host:port/chroot``, or the brokers' ``metadataStoreUrl`` as it is;
            without it only the admin interface is read.
        admin_urls: Admin addresses of some or all brokers; others are learned from the cluster.
        credential_hosts: Brokers that get the credentials besides ``admin_urls``: ``host``,
            ``host:port``, ``*.domain`` or ``10.0.0.0/24``; other brokers are not queried.
        environment: Colours the header, and how careful the console is.
        read_only: Whether every action is refused.
        exclusions: What plans never touch: namespaces (``tenant/namespace`` or ``tenant/*``), or
            tables of a Pegasus cluster (``name`` or a pattern).
        pulsar_cluster: The cluster's own name; needed only where ``/admin/clusters`` holds several
            and no admin URL is given.
        read_budget: Most znodes read in one capture.
        read_limits: How much is read of an answer.
        rest_fan_out: Most admin requests in flight at once.
        apply: How careful runs are; moving a primary is cheap in Pegasus, so its pace is 120 a
            minute there unless it says otherwise.
        approval: When runs need another person, and what a reason must name.
        windows: Freezes and maintenance windows.
        meta_servers: ``host:port`` of some or all meta servers of a Pegasus cluster.
        rate_sample_s: Seconds between the two samples of a Pegasus server that give its rates.
        prometheus: Where the metrics of a Pulsar cluster's brokers are read, if anywhere.
        group: Clusters that belong together, for example a region.
        tags: Further words by which clusters are chosen.
        labels: Address or host of a broker or node, or a pattern of it, to the label that is shown
            for it; see :func:`core.labels.labels_of`.
        target_percent: Deviation from the mean that is balanced enough, for pages, alerts, jobs
            and commands; by default that of the system.
    """

    name: str
    kind: str = "pulsar"
    zookeeper: str | None = None
    admin_urls: list[AdminUrl] = Field(default_factory=list)
    credential_hosts: list[str] = Field(default_factory=list)
    auth: Auth = Auth()
    tls: Tls = Tls()
    zookeeper_auth: ZooKeeperAuth | None = None
    environment: Environment = "production"
    read_only: bool = True
    exclusions: list[str] = Field(default_factory=list)
    timeouts: Timeouts = Timeouts()
    pulsar_cluster: str | None = None
    read_budget: int = Field(default=500_000, ge=100)
    read_limits: ReadLimits = ReadLimits()
    rest_fan_out: int = Field(default=16, ge=1, le=32)
    apply: ApplyLimits = ApplyLimits()
    approval: Approval = Approval()
    windows: list[WindowConfig] = Field(default_factory=list)
    meta_servers: list[str] = Field(default_factory=list)
    rate_sample_s: float = Field(default=1.0, gt=0, le=60)
    prometheus: Prometheus | None = None
    group: str = ""
    tags: list[str] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    target_percent: float | None = Field(default=None, ge=1, le=100)

    @model_validator(mode="before")
    @classmethod
    def _paced(cls, values: Any) -> Any:
        """Give runs the pace of the kind where nothing is said."""
        if not isinstance(values, dict) or not isinstance(values.get("apply", {}), dict):
            return values
        rules = KINDS.get(values.get("kind", ""))
        if rules is None or rules.pace_per_min is None:
            return values
        pace = {"pace_per_min": rules.pace_per_min}
        return {**values, "apply": pace | values.get("apply", {})}

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not _NAME.match(name):
            raise ValueError("a cluster name has letters, digits, dots, dashes and underscores")
        return name

    @field_validator("group")
    @classmethod
    def _plain_group(cls, group: str) -> str:
        if group and not _NAME.match(group):
            raise ValueError("a group is letters, digits, dot, dash and underscore")
        return group

    @field_validator("tags")
    @classmethod
    def _plain_tags(cls, tags: list[str]) -> list[str]:
        if not all(_NAME.match(one) for one in tags):
            raise ValueError("a tag is letters, digits, dot, dash and underscore")
        return tags

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for address, label in labels.items():
            if fault := label_fault(label):
                raise ValueError(f"the label of {address}: {fault}")
        return labels

    @field_validator("zookeeper")
    @classmethod
    def _hosts(cls, text: str | None) -> str | None:
        return None if text is None else _zookeeper_hosts(text)

    @field_validator("credential_hosts")
    @classmethod
    def _credential_hosts(cls, entries: list[str]) -> list[str]:
        for entry in entries:
            try:
                HostPattern.parse(entry)
            except ValueError as exc:
                text = (
                    "each entry of credential_hosts must have the form host, host:port, "
                    "*.domain or 10.0.0.0/24"
                )
                raise ValueError(text) from exc
        return entries

    @field_validator("meta_servers")
    @classmethod
    def _meta_servers(cls, servers: list[str]) -> list[str]:
        for server in servers:
            if "," in server or not _HOSTS.match(server) or "/" in server:
                raise ValueError("each entry of meta_servers must have the form host:port")
        return servers

    @model_validator(mode="after")
    def _reachable(self) -> ClusterConfig:
        if fault := fault_of(self):
            raise ValueError(fault)
        return self

    @property
    def target_ratio(self) -> float | None:
        """The target as a ratio; ``None`` for the system's default."""
        return None if self.target_percent is None else self.target_percent / 100

    @property
    def has_credentials(self) -> bool:
        """Whether connections to brokers carry credentials: token, password or certificate."""
        return self.auth.is_set or self.tls.cert_file is not None

    def web_address(self, plain: str | None, tls: str | None) -> str | None:
        """Return the broker web address to query, or ``None`` if neither is allowed.

        Where every configured address is https, credentials never travel over plain http. An
        address with a path, a user name or a link-local host is none that a broker has.

        Args:
            plain: Its ``webServiceUrl``.
            tls: Its ``webServiceUrlTls``.
        """
        schemes = {urlsplit(url).scheme for url in self.admin_urls}
        if "https" not in schemes:
            url = plain or tls
        else:
            url = tls or (plain if "http" in schemes else None)
        return url.rstrip("/") if url and not address_fault(url) else None


class TrimtabConfig(BaseSettings):
    """Everything configurable. ``TRIMTAB_STATE_DIR`` and the like override the file.

    Attributes:
        clusters: The clusters to show.
        state_dir: Where snapshots and collector states live.
        collect_every_s: Seconds between two captures of a cluster.
        keep: How many snapshots stay.
        spark: For what is computed with ``--engine spark``.
        history: What is recorded for good.
        pipeline: How it is rolled up to hours and days.
        pages: How browsers reach the pages.
        journal_url: Database of the journal, as SQLAlchemy writes URLs; it may hold a password.
        audit: How a rewritten journal is noticed.
        access: Who may use Trimtab.
        alerts: What people are told, and who is.
        log_format: Of the processes that serve: ``text``, or ``json`` for machines.
    """

    model_config = SettingsConfigDict(
        env_prefix="TRIMTAB_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    clusters: list[ClusterConfig] = []
    state_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_state_dir("trimtab", appauthor=False))
    )
    collect_every_s: float = Field(default=60.0, ge=1.0, le=3600.0)
    keep: SnapshotRetention = SnapshotRetention()
    spark: Spark = Spark()
    history: History = History()
    pipeline: Pipeline = Pipeline()
    pages: Pages = Pages()
    journal_url: SecretStr | None = None
    audit: Audit = Audit()
    access: AccessConfig = AccessConfig()
    alerts: Alerts = Alerts()
    log_format: Literal["text", "json"] = "text"
    _file: Path | None = PrivateAttr(default=None)
    _connectors: tuple[Any, ...] = PrivateAttr(default=())

    @property
    def file(self) -> Path | None:
        """The file that it was read from, absolute, or ``None``."""
        return self._file

    @property
    def connectors(self) -> tuple[Any, ...]:
        """The connectors that it was read with, for :func:`connectors.systems.connectors_of`."""
        return self._connectors

    @property
    def users_file(self) -> Path:
        """File of users and API tokens; by default next to the snapshots."""
        return self.access.users_file or self.state_dir / "users.json"

    @property
    def history_uri(self) -> str:
        """Location of the history; by default next to the snapshots."""
        return self.history.uri or str(self.state_dir / "history")

    @property
    def journal_address(self) -> SecretStr:
        """The journal's URL; by default a SQLite file in the state directory."""
        return self.journal_url or SecretStr(f"{_SQLITE}{self.state_dir / 'journal.db'}")

    @classmethod
    def settings_customise_sources(  # pydantic-settings calls it so
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file (which arrives as constructor arguments)."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings

    @model_validator(mode="after")
    def _distinct(self) -> TrimtabConfig:
        known: dict[str, str] = {}
        for cluster in self.clusters:
            other = known.get(cluster.name.casefold())
            if other == cluster.name:
                raise ValueError(f"two clusters are named {other}")
            if other is not None:  # each names files and addresses, where case may not count
                raise ValueError(
                    f"the names of clusters {other} and {cluster.name} differ only in case: "
                    "rename one"
                )
            known[cluster.name.casefold()] = cluster.name
        return self

    @model_validator(mode="after")
    def _approved_by_somebody(self) -> TrimtabConfig:
        for cluster in self.clusters:
            if cluster.approval.needed != "never" and self.access.sign_in == "none":
                raise ValueError(
                    f"approval on {cluster.name} needs sign-in: set sign_in under [access]"
                )
        return self

    @model_validator(mode="after")
    def _not_open_to_everybody(self) -> TrimtabConfig:
        if self.access.sign_in == "none" and not is_loopback(self.pages.address):
            raise ValueError(
                f"pages.address = {self.pages.address!r} exposes the pages without sign-in: set "
                "sign_in under [access], or serve on 127.0.0.1"
            )
        return self

    @classmethod
    def load(cls, path: Path | None, connectors: Sequence[Any]) -> TrimtabConfig:
        """Read ``path``, or ``trimtab.toml`` here when there is one, and ``TRIMTAB_*``.

        Args:
            path: The file.
            connectors: :class:`connectors.connector.Connector` of the systems whose clusters it may
                name; empty: all there are.

        Raises:
            ConfigError: The file is missing, is not TOML, or holds something that cannot be.
        """
        chosen = path or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
        values = _anchored(_read_toml(chosen), chosen.resolve().parent) if chosen else {}
        # TRIMTAB_CONFIG names the file itself; it is no setting
        try:
            config = cls(**values)
        except ValidationError as exc:
            raise _as_config_error(exc, chosen) from exc
        except SettingsError as exc:
            raise ConfigError(
                f"A setting of the environment ({', '.join(sorted(_own_environment()))}) is not "
                "valid JSON.",
                hint="Use JSON for lists and tables, or move them to the file.",
            ) from exc
        config._file = chosen.resolve() if chosen else None
        config._connectors = tuple(connectors)
        config._check_kinds(chosen)
        return config

    def _check_kinds(self, file: Path | None) -> None:
        """Check that every cluster is of a known system.

        Raises:
            ConfigError: One of them is not.
        """
        known = [one.system.name for one in self._connectors] or list(KINDS)
        for cluster in self.clusters:
            if cluster.kind not in known:
                raise ConfigError(
                    f"Cluster {cluster.name} in {file or 'the environment'} has kind "
                    f"{cluster.kind!r}.",
                    hint=f"Known kinds: {', '.join(known)}.",
                )

    def of_kind(self, kind: str) -> TrimtabConfig:
        """Return the same with the clusters of one kind only."""
        chosen = [cluster for cluster in self.clusters if cluster.kind == kind]
        return self.model_copy(update={"clusters": chosen})

    def cluster(self, name: str) -> ClusterConfig:
        """Return the cluster of that name.

        Raises:
            UnknownNameError: There is none.
        """
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        raise UnknownNameError.of(
            "cluster", name, [cluster.name for cluster in self.clusters], place="the configuration"
        )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(read_file(path, MAX_CONFIG_BYTES).decode())
    except FileNotFoundError as exc:
        raise ConfigError(
            f"The configuration file {path} does not exist.",
            hint="Create it (README: One command, read-only, on your cluster), or pass another "
            "with --config.",
        ) from exc
    except TooLargeError as exc:
        raise ConfigError(
            f"{path} is not a configuration file: {exc}.", hint="Pass another file with --config."
        ) from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read.", hint="Check its owner and mode.") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path} is not TOML: {exc}.", hint="Correct the line.") from exc
    except RecursionError:
        depth = _MAX_DEPTH + 1
    else:
        depth = _depth(values)
    if depth > _MAX_DEPTH:
        raise ConfigError(
            f"{path} is nested too deeply: more than {_MAX_DEPTH} levels of arrays or tables.",
            hint="docs/configuration.md lists every setting.",
        )
    return values


def _depth(values: dict[str, Any]) -> int:
    """Return the nesting depth of arrays and tables, up to one more than allowed."""
    level: list[dict[str, Any] | list[Any]] = [values]
    depth = 0
    while level and depth <= _MAX_DEPTH:
        inner = [item.values() if isinstance(item, dict) else item for item in level]
        level = [one for items in inner for one in items if isinstance(one, dict | list)]
        depth += 1
    return depth


def _anchored(values: Any, folder: Path) -> Any:
    """Take relative paths in a file from the file's own folder, and ``~`` from the home.

    The pages, the collector and a person at a prompt run in different directories.
    """
    if isinstance(values, list):
        return [_anchored(value, folder) for value in values]
    if not isinstance(values, dict):
        return values
    return {key: _anchored_value(key, value, folder) for key, value in values.items()}


def _anchored_value(key: str, value: Any, folder: Path) -> Any:
    if not isinstance(value, str):
        return _anchored(value, folder)
    if key == "journal_url" and value.startswith(_SQLITE) and value != _SQLITE:
        return _SQLITE + _absolute(value.removeprefix(_SQLITE), folder)
    is_path = key == "state_dir" or key.endswith("_file") or (key == "uri" and "://" not in value)
    return _absolute(value, folder) if is_path else value


def _absolute(path: str, folder: Path) -> str:
    try:
        return str(folder / Path(path).expanduser())
    except RuntimeError:  # ~ of a user who is not there: a folder of that name
        return str(folder / path)


def _as_config_error(exc: ValidationError, path: Path | None) -> ConfigError:
    """Say the first things that are wrong; inputs are never repeated, they may be secrets."""
    found = [
        (
            ".".join(str(part) for part in error["loc"]) or "the configuration",
            "there is no such setting"
            if error["type"] == "extra_forbidden"
            else error["msg"].removeprefix("Value error, "),
        )
        for error in exc.errors(include_url=False, include_input=False)
    ]
    (place, said), *others = found
    also = "".join(f"; {at}: {what}" for at, what in others[:4])
    more = f" ({len(others) - 4} more)" if others[4:] else ""
    where = path or f"the environment ({', '.join(sorted(_own_environment()))})"
    return ConfigError(
        f"{place} in {where}: {said}{also}{more}.",
        hint="docs/configuration.md lists every setting.",
    )


def _own_environment() -> list[str]:
    return [name for name in os.environ if name.startswith("TRIMTAB_")] or ["TRIMTAB_*"]
