"""Policies of less precise arithmetic that the user accepts: `--accept POLICY` or `--accept TARGET=POLICY`.

TARGET is a backend (all its targets) or a whole target with its options. A policy is a name in `oracle/arithmetic.py`,
or `reduced-precision` for any of them; several are joined with '+'.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from driftline.backends import BACKENDS
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution
from driftline.core.target import Target
from driftline.core.text import did_you_mean
from driftline.core.verdict import Judgement, Verdict
from driftline.oracle.arithmetic import POLICIES
from driftline.oracle.judge import Reference, TargetTraits
from driftline.oracle.policies import agrees_with, does, program_uses

NONE = "none"  # accepts no policy, whatever a project file says
ANY = "reduced-precision"  # accepts any policy that explains a result
KNOWN = (*POLICIES, ANY)


def parse_accept(given: Iterable[str], said_by: str = "--accept") -> tuple[str, ...]:
    """Return the accepted policies, one per entry. Raises DriftlineError for unknown names. `said_by`: the option to
    name in the error."""
    found: list[str] = []
    for text in given:
        if text == NONE:
            continue
        target, _, policies = text.rpartition("=")
        if target:
            _require_target(target, text, said_by)
        for policy in policies.split("+"):
            if policy not in KNOWN:
                hint = did_you_mean(policy, KNOWN)
                raise DriftlineError(
                    f"{said_by} {text}: there is no arithmetic {policy!r}.{hint} Known: {', '.join(KNOWN)}."
                )
            found.append(f"{target}={policy}" if target else policy)
    return tuple(dict.fromkeys(found))


def _require_target(text: str, whole: str, said_by: str) -> None:
    try:
        name = Target.parse(text).backend
    except DriftlineError as error:
        raise DriftlineError(f"{said_by} {whole}: {error}") from error
    if name not in BACKENDS:
        hint = did_you_mean(name, BACKENDS) or f" Known: {', '.join(sorted(BACKENDS))}."
        raise DriftlineError(f"{said_by} {whole}: there is no backend {name!r}.{hint}")


def accepted_for(accept: Sequence[str], target: Target) -> tuple[str, ...]:
    """Return the policies accepted for this target by name."""
    return tuple(policy for policy in _named_for(accept, target) if policy != ANY)


def accepts_any(accept: Sequence[str], target: Target) -> bool:
    """True if any reduced precision is accepted for this target."""
    return ANY in _named_for(accept, target)


def _named_for(accept: Sequence[str], target: Target) -> tuple[str, ...]:
    found = []
    for text in accept:
        named, _, policy = text.rpartition("=")
        if not named or named == target.backend or Target.parse(named) == target:
            found.append(policy)
    return tuple(dict.fromkeys(found))


def unused_accept(accept: Sequence[str], targets: Sequence[Target]) -> tuple[str, ...]:
    """Return a sentence for each entry that names a target which is not checked."""
    checked = ", ".join(map(str, targets))
    return tuple(
        f"--accept {text} changed nothing: {text.rpartition('=')[0]} is not among the targets ({checked})."
        for text in accept
        if not any(_named_for([text], target) for target in targets)
    )


def as_accepted(
    verdict: Verdict, execution: Execution, reference: Reference, trait: TargetTraits, accepted: tuple[str, ...]
) -> Verdict:
    """Return a passing verdict that names the policies if the accepted arithmetic explains a failure, else the
    verdict."""
    again = agrees_with(accepted, verdict, execution, reference, trait)
    if verdict.judgement is not Judgement.FAIL or again.judgement is not Judgement.PASS:
        return verdict
    told = does(accepted, program_uses(reference, trait.arithmetic))
    return replace(again, reason=f"agrees; {told}, as accepted", evidence=replace(again.evidence, accepted=accepted))
