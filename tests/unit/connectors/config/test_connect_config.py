from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.zookeeper.client import new_client
from core.errors import ConfigError, UnknownNameError

WHOLE = """
state_dir = "/var/lib/trimtab"
collect_every_s = 30

[[clusters]]
name = "orders"
zookeeper = "zk1:2181,zk2:2181/pulsar"
admin_urls = ["https://b1:8443/"]
environment = "staging"
[clusters.auth]
token_file = "/run/secrets/token"
[clusters.timeouts]
read_s = 3
"""


def load(folder: Path, text: str) -> TrimtabConfig:
    path = folder / "trimtab.toml"
    path.write_text(text)
    return TrimtabConfig.load(path, ())


def test_whole_file_is_read(tmp_path: Path) -> None:
    config = load(tmp_path, WHOLE)
    (cluster,) = config.clusters
    assert config.collect_every_s == 30
    assert cluster.zookeeper == "zk1:2181,zk2:2181/pulsar"
    assert cluster.admin_urls == ["https://b1:8443"]
    assert cluster.read_only
    assert cluster.timeouts.read_s == 3
    assert config.cluster("orders") is cluster


def test_real_clusters_are_read_only_production_unless_told_otherwise() -> None:
    cluster = ClusterConfig(name="a", zookeeper="z:1")
    assert cluster.read_only
    assert cluster.environment == "production"


def test_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_COLLECT_EVERY_S", "45")
    assert load(tmp_path, WHOLE).collect_every_s == 45


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense =", "not TOML"),
        ("clusterz = []", "clusterz"),
        ('[pages]\nallowed_hosts = ["*"]', "host:port, without wildcards"),
        ('[pages]\nallowed_hosts = ["https://a.example"]', "host:port, without wildcards"),
        ("collect_every_s = 0", "collect_every_s"),
        ('[[clusters]]\nname = "a"', "zookeeper, admin_urls"),
        ('[[clusters]]\nname = "a b"\nzookeeper = "z:1"', "name"),
        ('[[clusters]]\nname = "a"\nzookeeper = "z z"', "zookeeper"),
        ('[[clusters]]\nname = "a"\nadmin_urls = ["ftp://x"]', "admin_urls"),
        ('[[clusters]]\nname = "a"\nadmin_urls = ["http://u:hush@x"]', "auth"),
        ('[[clusters]]\nname = "a"\nzookeeper = "z:1"\n' * 2, "two clusters"),
        (
            "".join(
                f'[[clusters]]\nname = "{name}"\nzookeeper = "z:1"\n' for name in ("b", "a", "A")
            ),
            "clusters a and A differ only in case",
        ),
        (f"a = {'[' * 10_000}{']' * 10_000}", "nested too deeply"),
        (f"a = {'{b = ' * 10_000}1{'}' * 10_000}", "nested too deeply"),
        (f"a{'.a' * 10_000} = 1", "nested too deeply"),
        (f"[a{'.a' * 10_000}]", "nested too deeply"),
        (f"[[a{'.a' * 2_000}]]\nb = 1", "nested too deeply"),
        (f"a = {'[' * 17}{']' * 17}", "nested too deeply"),
        (
            '[[clusters]]\nname="a"\nzookeeper="z:1"\nauth={token="hush",username="u",password="p"}',
            "token",
        ),
    ],
)
def test_fault_names_its_place_and_never_repeats_a_secret(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert words in caught.value.message
    assert "trimtab.toml" in caught.value.message
    assert "hush" not in str(caught.value)


def test_missing_file_and_unknown_cluster_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        TrimtabConfig.load(tmp_path / "absent.toml", ())
    with pytest.raises(UnknownNameError):
        load(tmp_path, WHOLE).cluster("order")


def test_secret_is_in_no_text_of_the_configuration(tmp_path: Path) -> None:
    text = WHOLE.replace('token_file = "/run/secrets/token"', 'token = "hush"')
    config = load(tmp_path, text)
    assert "hush" not in repr(config)
    assert "hush" not in str(config.model_dump())
    assert config.clusters[0].auth.read_token() == "hush"


def test_secret_file_is_read_anew_and_an_empty_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "token"
    cluster = ClusterConfig(name="a", zookeeper="z:1", auth={"token_file": path})
    path.write_text("one\n")
    assert cluster.auth.read_token() == "one"
    path.write_text("two\n")
    assert cluster.auth.read_token() == "two"
    path.write_text("")
    with pytest.raises(ConfigError, match="empty"):
        cluster.auth.read_token()


PLAIN, TLS = "http://b:8080", "https://b:8443"


@pytest.mark.parametrize(
    ("admin_urls", "addresses", "asked"),
    [
        (["http://a:1"], (PLAIN, TLS), PLAIN),
        (["http://a:1"], (None, TLS), TLS),
        (["https://a:1"], (PLAIN, TLS), TLS),
        (["https://a:1"], (PLAIN, None), None),
        (["https://a:1", "http://c:1"], (PLAIN, None), PLAIN),
        (["http://a:1"], ("pulsar://b:6650", None), None),
        (["http://a:1"], (None, None), None),
    ],
)
def test_credentials_that_belong_to_https_never_travel_over_http(
    admin_urls, addresses, asked
) -> None:
    config = ClusterConfig(name="c", admin_urls=admin_urls)
    assert config.web_address(*addresses) == asked


def test_setting_of_the_environment_that_is_no_json_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRIMTAB_CLUSTERS", "hush, no JSON")
    with pytest.raises(ConfigError, match="TRIMTAB_CLUSTERS") as caught:
        TrimtabConfig.load(None, ())
    assert "hush" not in str(caught.value)


def test_paths_of_a_file_start_at_its_folder_and_a_tilde_at_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / "trimtab.toml"
    for text, place in (
        ("state", tmp_path / "state"),
        ("~/state", tmp_path / "home" / "state"),
        ("/state", Path("/state")),
        ("~nobody-of-that-name/x", tmp_path / "~nobody-of-that-name" / "x"),
    ):
        path.write_text(f'state_dir = "{text}"')
        assert TrimtabConfig.load(path, ()).state_dir == place


def test_several_mistakes_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, '[[clusters]]\nname = "a b"\nenviroment = "test"\nadmin_urls = ["x"]\n')
    for place in ("clusters.0.name", "clusters.0.enviroment", "clusters.0.admin_urls"):
        assert place in caught.value.message


def test_shadow_names_strategies_and_policies_that_there_are(tmp_path: Path) -> None:
    known = ["OverloadShedder", "cluster"]
    assert TrimtabConfig(state_dir=tmp_path, history={"shadow": known}).history.shadow == known
    file = tmp_path / "trimtab.toml"
    file.write_text('[history]\nshadow = ["OverlodShedder"]\n')
    with pytest.raises(ConfigError, match=r"no strategy named 'OverlodShedder'.*ThresholdShedder"):
        TrimtabConfig.load(file, ())


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("zk1:2181,zk2:2181/pulsar", "zk1:2181,zk2:2181/pulsar"),
        ("zk:zk1:2181,zk2:2181/pulsar", "zk1:2181,zk2:2181/pulsar"),
        ("metadata-store:zk:zk1:2181", "zk1:2181"),
        ("zk+null://zk1:2181;zk2:2181/ledgers", "zk1:2181,zk2:2181/ledgers"),
        ("zk:zk1/pulsar", "zk1:2181/pulsar"),
        ("zk:2181", "zk:2181"),
        ("[::1]:2181/p/", "[::1]:2181/p"),
    ],
)
def test_zookeeper_takes_what_brokers_have_as_their_metadata_store(text: str, hosts: str) -> None:
    assert ClusterConfig(name="a", zookeeper=text).zookeeper == hosts
    new_client(ClusterConfig(name="a", zookeeper=text))  # it can be used


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rocksdb:///var/lib/pulsar", "rocksdb"),
        ("metadata-store:oxia://o1:6648/pulsar", "oxia"),
        ("etcd:http://e1:2379", "etcd"),
    ],
)
def test_other_metadata_stores_are_named_with_what_to_do(text: str, words: str) -> None:
    with pytest.raises(ValidationError, match=f"{words}.*omit zookeeper"):
        ClusterConfig(name="a", zookeeper=text)
