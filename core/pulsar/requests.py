"""The requests of decisions of Pulsar's balancer: shed, place, simulate."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

import msgspec

from core.errors import InputError
from core.request import Request, param

ALL: Final = "all"
"""In place of a strategy's name: every one."""

_SETTINGS: Final = param(
    "Temporary broker.conf settings, as JSON: "
    '{"loadBalancerSheddingEnabled": true}; default: each cluster\'s own'
)


_STRATEGY: Final = param(
    "Shedding strategy; default: the active one (in jobs: all)", metavar="CLASS"
)
_ROUNDS: Final = param("Number of rounds, all on the same load", ge=1, le=10_000)
_STRATEGY_ONLY: Final = param("Skip the load manager's checks")
_RECENTLY_UNLOADED: Final = param(
    "JSON list of bundles in their grace period", metavar="FILE", is_file=True
)


class ShedRoundsRequest(Request, frozen=True, kw_only=True):
    """Preview shedding rounds: bundles, destinations, reasons."""

    strategy: Annotated[str | None, _STRATEGY] = None
    rounds: Annotated[int, _ROUNDS] = 1
    strategy_only: Annotated[bool, _STRATEGY_ONLY] = False
    recently_unloaded: Annotated[tuple[str, ...], _RECENTLY_UNLOADED] = ()

    def checked(self) -> Self:
        """Return it with the strategy's name as Pulsar spells it.

        Raises:
            UnknownNameError: A strategy that Pulsar does not have.
            InputError: All strategies.
        """
        if self.strategy == ALL:
            raise InputError(
                "A shedding round has one strategy.",
                hint="Specify one of them; `trimtab explain` compares all.",
            )
        return msgspec.structs.replace(self, strategy=_shedding(self.strategy))


class ShedRequest(Request, frozen=True, kw_only=True):
    """Preview shedding rounds: bundles, source and destination, and why."""

    strategy: Annotated[str | None, _STRATEGY] = ALL
    rounds: Annotated[int, _ROUNDS] = 1
    strategy_only: Annotated[bool, _STRATEGY_ONLY] = False
    settings: Annotated[dict[str, Any], _SETTINGS] = msgspec.field(default_factory=dict)

    def checked(self) -> Self:
        """Return it with every name as Pulsar spells it.

        Raises:
            UnknownNameError: A strategy or a setting that Pulsar does not have.
        """
        return msgspec.structs.replace(
            self, strategy=_shedding(self.strategy), settings=_settings(self.settings)
        )


class PlaceRequest(Request, frozen=True, kw_only=True):
    """Show the placement candidates of every bundle, were it the only one that moves."""

    strategy: Annotated[
        str | None, param("Placement strategy; default: the active one", metavar="CLASS")
    ] = None
    settings: Annotated[dict[str, Any], _SETTINGS] = msgspec.field(default_factory=dict)

    def checked(self) -> Self:
        """Return it with every name as Pulsar spells it.

        Raises:
            UnknownNameError: A strategy or a setting that Pulsar does not have.
        """
        return msgspec.structs.replace(
            self, strategy=_placement(self.strategy), settings=_settings(self.settings)
        )


class PlaceBundleRequest(Request, frozen=True, kw_only=True):
    """Show the placement candidates of one bundle."""

    bundle: Annotated[
        str, param("Bundle, tenant/namespace/0xLOW_0xHIGH", metavar="BUNDLE", min_length=1)
    ]
    strategy: Annotated[
        str | None, param("Placement strategy; default: the active one", metavar="CLASS")
    ] = None
    candidates: Annotated[str | None, param("Restrict to these brokers", metavar="A,B")] = None
    filters: Annotated[bool, param("Apply the broker filters first")] = True
    non_persistent: Annotated[
        bool | None,
        param(
            "Kind of the bundle's topics; default: as in the snapshot",
            option="--non-persistent/--persistent",
        ),
    ] = None

    def checked(self) -> Self:
        """Return it with the strategy's name as Pulsar spells it.

        Raises:
            UnknownNameError: A strategy that Pulsar does not have.
            InputError: Candidates without a name.
        """
        if self.candidates is not None and not self.candidates.strip(", "):
            raise InputError("--candidates is empty.", hint="Use --candidates A,B.")
        return msgspec.structs.replace(self, strategy=_placement(self.strategy))


class _Simulation(Request, frozen=True, kw_only=True):
    shedding: Annotated[
        str | None,
        param("Shedding strategy; default: the active one", option="--shed", metavar="CLASS"),
    ] = None
    placement: Annotated[
        str | None,
        param("Placement strategy; default: the active one", option="--place", metavar="CLASS"),
    ] = None
    rounds: Annotated[int, param("Max rounds; stops at convergence", ge=1, le=10_000)] = 60
    added: Annotated[
        tuple[str, ...], param("Add this broker first", option="--add-broker", metavar="ID")
    ] = ()
    failed: Annotated[
        tuple[str, ...], param("Fail this broker first", option="--fail-broker", metavar="ID")
    ] = ()
    removed: Annotated[
        tuple[str, ...],
        param("Shut this broker down first", option="--remove-broker", metavar="ID"),
    ] = ()
    failed_domains: Annotated[
        tuple[str, ...],
        param("Fail this failure domain first", option="--fail-domain", metavar="NAME"),
    ] = ()

    def checked(self) -> Self:
        """Return it with every name as Pulsar spells it.

        Raises:
            UnknownNameError: A strategy that Pulsar does not have.
        """
        return msgspec.structs.replace(
            self, shedding=_shedding(self.shedding), placement=_placement(self.placement)
        )


class SimulateRequest(_Simulation, frozen=True, kw_only=True):
    """Simulate the balancer's rounds to convergence."""

    seed: Annotated[int, param("Seed of the random numbers", ge=0)] = 1
    recently_unloaded: Annotated[tuple[str, ...], _RECENTLY_UNLOADED] = ()


class SimulateSeedsRequest(_Simulation, frozen=True, kw_only=True):
    """Simulate the balancer's rounds to convergence, once a seed."""

    seeds: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=0)], ...],
        param("Seeds of all random draws, one simulation each", min_length=1),
    ] = (1,)
    settings: Annotated[dict[str, Any], _SETTINGS] = msgspec.field(default_factory=dict)

    def checked(self) -> Self:
        """Return it with every name as Pulsar spells it.

        Raises:
            UnknownNameError: A strategy or a setting that Pulsar does not have.
        """
        return msgspec.structs.replace(super().checked(), settings=_settings(self.settings))


def _shedding(name: str | None) -> str | None:
    from core.pulsar.shedding import find_shedding_strategy  # noqa: PLC0415  # heavy: not at start

    return name if name in (None, ALL) else find_shedding_strategy(str(name)).name


def _placement(name: str | None) -> str | None:
    from core.pulsar.placement import find_strategy  # noqa: PLC0415  # heavy: not at start

    return None if name is None else find_strategy(name).name


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    from core.pulsar.settings import known_setting  # noqa: PLC0415  # heavy: not at start

    return {known_setting(key).key: value for key, value in given.items()}
