"""The request of a diagnosis."""

from __future__ import annotations

from typing import Annotated, Final, Self

from core.errors import InputError
from core.request import Request, param

DEFAULT_SECONDS: Final = 30.0
"""Time for the simulations of one diagnosis, on the command line, on the page and in jobs: a search
of 12 brokers with 600 bundles ends within half of it, pairs of changes included."""


class DiagnoseRequest(Request, frozen=True, kw_only=True):
    """Name what hurts clients, and the causes of uneven load, each proven by simulation."""

    broker: Annotated[
        str | None, param("Explain the shedding decision of this broker", metavar="B")
    ] = None
    bundle: Annotated[
        str | None, param("Explain the shedding decision of this bundle", metavar="B")
    ] = None
    node: Annotated[
        str | None,
        param("Explain this Pegasus node or partition (app.index)", metavar="N"),
    ] = None
    seconds: Annotated[
        float,
        param("Time limit of simulations (s); 0: 30", ge=0.0, le=3_600.0),
    ] = 0.0

    @property
    def budget_s(self) -> float:
        """Seconds for the simulations."""
        return self.seconds or DEFAULT_SECONDS

    @property
    def is_about_one(self) -> bool:
        """Whether the question is about one broker, bundle or node."""
        return any(name is not None for name in (self.broker, self.bundle, self.node))

    def checked(self) -> Self:
        """Return it.

        Raises:
            InputError: It is about several things.
        """
        if sum(name is not None for name in (self.broker, self.bundle, self.node)) > 1:
            raise InputError(
                "A diagnosis has one object, but several are specified: "
                + ", ".join(
                    f"--{option} {name}"
                    for option, name in (
                        ("broker", self.broker),
                        ("bundle", self.bundle),
                        ("node", self.node),
                    )
                    if name is not None
                )
                + ".",
                hint="Specify one of --broker, --bundle and --node.",
            )
        return self
