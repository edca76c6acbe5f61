"""Build a plan that splits bundles: what the brokers would do without saying so is found first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from core.errors import InputError
from core.plan.model import Diagnostic, DiagnosticSeverity, Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.checks import Basis, check_bundle, check_cluster
from core.pulsar.plan.plan_factory import bare_plan, basis_of
from core.pulsar.split import BY_FLOW, BY_HAND, SplitCost, SplitWhatIf, cost_of, explain_split
from core.pulsar.steps.split import SplitBundle
from core.snapshot import PulsarSnapshot

SPECIFIED: Final = BY_HAND
FLOW: Final = BY_FLOW
_FINAL, _OVER = "split_is_final", "namespace_bundle_limit"
_COSTS: Final = (_FINAL, _OVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSpec:
    """Split request for bundles.

    Attributes:
        algorithm: One of :data:`core.pulsar.split.ALGORITHMS`; ``None`` for the cluster's default.
        positions: Inner boundaries for ``specified_positions_divide``.
        is_unloaded: Whether the parts are unloaded too, and so placed again.
    """

    algorithm: str | None = None
    positions: tuple[int, ...] = ()
    is_unloaded: bool = False


def build_split_plan(
    snapshot: PulsarSnapshot, bundles: Iterable[str], spec: SplitSpec, terms: PlanOptions
) -> Plan:
    """Build the plan that splits ``bundles`` in the given order.

    ``flow_or_qps_equally_divide`` is answered with an error by the brokers' REST: its positions are
    computed here and requested by ``specified_positions_divide``.

    Args:
        snapshot: The cluster; its ``topics`` table makes the answer sure.
        bundles: Names; a name given twice counts once.
        terms: When, why and how long.
    Raises:
        InputError: No bundle was named, or positions are missing, or given for several bundles.
        UnknownNameError: No such algorithm.
    """
    names = tuple(dict.fromkeys(bundles))
    if not names:
        raise InputError("No bundle is specified.", hint="Specify at least one bundle to split.")
    if spec.positions and len(names) > 1:
        raise InputError(
            f"Positions are specified for {len(names)} bundles.",
            hint="Positions apply to one bundle: create a plan for each.",
        )
    return _plan(basis_of(snapshot, terms), dict.fromkeys(names, spec), terms)


def build_cuts_plan(
    snapshot: PulsarSnapshot,
    cuts: Mapping[str, Sequence[int]],
    terms: PlanOptions,
    *,
    is_unloaded: bool = False,
) -> Plan:
    """Build the plan that cuts several bundles, each at positions of its own.

    Args:
        snapshot: The cluster.
        cuts: Bundle to the positions within it, by ``specified_positions_divide``.
        terms: When, why and how long.
        is_unloaded: Whether the parts are unloaded too, and so placed again.
    Raises:
        InputError: No bundle was named, or one without a position.
    """
    if not cuts:
        raise InputError("No bundle is specified.", hint="Specify at least one bundle to split.")
    specs = {
        bundle: SplitSpec(algorithm=SPECIFIED, positions=tuple(positions), is_unloaded=is_unloaded)
        for bundle, positions in cuts.items()
    }
    return _plan(basis_of(snapshot, terms), specs, terms)


def _plan(basis: Basis, specs: Mapping[str, SplitSpec], terms: PlanOptions) -> Plan:
    found: list[Diagnostic] = []
    steps: list[SplitBundle] = []
    for bundle, spec in specs.items():
        about, step = _one(basis, bundle, spec, terms)
        found += about
        if step is not None:
            steps.append(step)
    if len(specs) > 1:
        found = _merged(basis, steps, found)
    whole = [*check_cluster(basis), *found]
    return bare_plan(basis, terms, steps, whole, is_complete=len(steps) == len(specs))


def _merged(
    basis: Basis, steps: Sequence[SplitBundle], found: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """Name the bundle in every sentence, and add up what the splits of one namespace cost."""
    spaces: dict[str, list[SplitBundle]] = {}
    for step in steps:
        spaces.setdefault(step.bundle.rpartition("/")[0], []).append(step)
    added = {name: some for name, some in spaces.items() if _adds_up(some)}
    covered = {step.bundle for some in added.values() for step in some}
    others = [
        item
        if not item.subject or item.subject in item.sentence
        else replace(item, sentence=f"{item.subject}: {item.sentence}")
        for item in found
        if not (item.code in _COSTS and item.subject in covered)
    ]
    return others + [_of_cost(name, _cost_together(basis, some)) for name, some in added.items()]


def _adds_up(steps: Sequence[SplitBundle]) -> bool:
    """Whether there are several splits with known boundaries."""
    return len(steps) > 1 and all(step.boundaries for step in steps)


def _cost_together(basis: Basis, steps: Sequence[SplitBundle]) -> SplitCost:
    costs = [_explained(basis, step.bundle, step.algorithm, step.positions).cost for step in steps]
    before = costs[0].bundles_before
    return cost_of(
        steps[0].bundle.rpartition("/")[0],
        (before, before + sum(len(step.boundaries) for step in steps)),
        maximum=costs[0].maximum_bundles,
        znodes=sum(one.znodes_added or 0 for one in costs),
    )


def check_split(
    basis: Basis, bundle: str, algorithm: str, positions: Sequence[int]
) -> Iterator[Diagnostic]:
    """Check a split that was planned before: would brokers still cut there, and is it of use?"""
    try:
        where = _explained(basis, bundle, algorithm, positions)
    except InputError as exc:  # a plan that was not made by build_split_plan
        yield _finding("error", "split_refused", bundle, exc.message, exc.hint)
    else:
        yield from _about(where)


def _one(
    basis: Basis, bundle: str, spec: SplitSpec, terms: PlanOptions
) -> tuple[list[Diagnostic], SplitBundle | None]:
    found = list(check_bundle(basis, bundle))
    if _stops(found):
        return found, None
    where = _where(basis, bundle, spec)
    is_ignored = spec.is_unloaded and basis.snapshot.manifest.load_manager == "extensible"
    found += _about(where)
    if is_ignored:
        sentence = "The extensible load manager ignores the option to unload the parts of a split."
        found.append(_finding("info", "unload_ignored", bundle, sentence))
    if _stops(found):
        return found, None
    owner = basis.view.brokers[basis.view.owner[basis.view.bundle_row(bundle)]]
    return found, SplitBundle(
        bundle=bundle,
        owner=owner,
        algorithm=where.algorithm,
        positions=where.positions if where.algorithm == SPECIFIED else (),
        boundaries=where.positions,
        is_unloaded=spec.is_unloaded and not is_ignored,
        reason=terms.reason,
    )


def _where(basis: Basis, bundle: str, spec: SplitSpec) -> SplitWhatIf:
    """Return the boundary of a bundle by an algorithm that REST offers."""
    default = basis.settings.text("defaultNamespaceBundleSplitAlgorithm")
    name = spec.algorithm or default
    where = _explained(basis, bundle, name, spec.positions)
    if where.algorithm == FLOW and where.positions:
        return _explained(basis, bundle, SPECIFIED, where.positions)
    return where


def _explained(basis: Basis, bundle: str, algorithm: str, positions: Sequence[int]) -> SplitWhatIf:
    return explain_split(
        basis.snapshot, basis.settings, bundle, algorithm=algorithm, positions=positions
    )


def _about(where: SplitWhatIf) -> Iterator[Diagnostic]:
    """Return the verdict and the cost of one split, each as one finding."""
    bundle, verdict = where.subject.bundle, where.verdict
    severity, code = _weight(where)
    yield _finding(severity, code, bundle, verdict.sentence, verdict.hint)
    if severity != "error":
        yield _about_cost(where)
    if where.algorithm == FLOW:
        sentence = f"The boundary of {FLOW} in {bundle} is unknown, and REST does not offer it."
        hint = "Capture the bundle with its topics, so that the positions can be computed."
        yield _finding("error", "split_positions_unknown", bundle, sentence, hint)


def _about_cost(where: SplitWhatIf) -> Diagnostic:
    bundle, cost = where.subject.bundle, where.cost
    if not where.positions:
        sentence = f"{where.subject.namespace} gets more bundles, and they cannot be merged again."
        return _finding("info", _FINAL, bundle, sentence)
    return _of_cost(bundle, cost)


def _of_cost(subject: str, cost: SplitCost) -> Diagnostic:
    after = cost.bundles_after
    is_over = after is not None and after > cost.maximum_bundles
    return _finding(
        "warning" if is_over else "info",
        _OVER if is_over else _FINAL,
        subject,
        cost.sentence,
        "A manual split is executed anyway." if is_over else "",
    )


def _weight(where: SplitWhatIf) -> tuple[DiagnosticSeverity, str]:
    count = where.subject.topic_count
    match where.verdict.code:
        case "refused":
            return "error", "split_refused"
        case "no_change":
            return "error", "split_without_effect"
        case "cannot_help":
            # one topic: nothing is gained, and nothing can ever be undone
            hopeless = count is not None and count < 2
            return "error" if hopeless else "warning", "split_cannot_help"
        case "assumed":
            return "warning", "split_assumed"
        case "unknown":
            return "warning", "split_positions_unknown"
        case _:  # it helps; a hint names a cut that helps clearly more
            return "warning" if where.verdict.hint else "info", "split_verdict"


def _stops(found: Iterable[Diagnostic]) -> bool:
    return any(item.severity == "error" or item.code == "not_owned" for item in found)


def _finding(
    severity: DiagnosticSeverity, code: str, subject: str, sentence: str, hint: str = ""
) -> Diagnostic:
    return Diagnostic(severity=severity, code=code, sentence=sentence, subject=subject, hint=hint)
