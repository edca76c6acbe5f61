"""How a check says what it found about a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.plan.model import Diagnostic, DiagnosticSeverity
from core.pulsar.steps.policy import SetPolicy

SHOWN: Final = 3


def finding(
    severity: DiagnosticSeverity, code: str, step: SetPolicy, sentence: str, hint: str = ""
) -> Diagnostic:
    """Return a diagnostic about a policy."""
    return Diagnostic(
        severity=severity, code=code, sentence=sentence, subject=step.subject, hint=hint
    )


def near(name: str, known: list[str]) -> str:
    """Return a hint that offers known names like this one; blank: there is none."""
    import difflib  # noqa: PLC0415  # seldom needed

    close = difflib.get_close_matches(name, known, n=SHOWN, cutoff=0.5)
    return f"Did you mean {' or '.join(close)}?" if close else ""


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if names[SHOWN:] else ""
    return f"{', '.join(names[:SHOWN])}{more}"
