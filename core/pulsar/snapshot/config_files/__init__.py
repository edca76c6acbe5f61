"""Configuration files of brokers: ``broker.conf``, and the values of Helm charts."""

from core.pulsar.snapshot.config_files.build import snapshot_of_config
from core.pulsar.snapshot.config_files.helm import read_helm_values
from core.pulsar.snapshot.config_files.model import BrokerConfig
from core.pulsar.snapshot.config_files.properties import read_broker_conf

__all__ = ["BrokerConfig", "read_broker_conf", "read_helm_values", "snapshot_of_config"]
