"""What a failure was judged by, in lines that people read. `--json` has every field."""

from __future__ import annotations

from driftline.core.evidence import Evidence, Fault
from driftline.report.words import plural

PLACES = 5


def evidence_lines(evidence: Evidence) -> list[str]:
    """The counts, the worst elements, how far off they are, and what the failure depends on."""
    lines = [_counts(evidence)] if evidence.wrong else []
    for element in evidence.worst[:PLACES]:
        plain = "" if element.unoptimised is None else f", unoptimised {element.unoptimised}"
        noise = f", rounding explains {element.noise:.2g}" if element.noise else ""
        where = f"at {list(element.place)}: " if element.place else ""
        lines.append(f"{where}expected {element.expected}, got {element.got}{plain}{noise}")
    if evidence.wanted or evidence.came:
        lines.append(
            f"expected {', '.join(evidence.wanted) or 'nothing'}; came {', '.join(evidence.came) or 'nothing'}"
        )
    lines += _distance(evidence)
    faults = [str(fault) for fault in evidence.faults if fault is not Fault.OTHER]
    if faults:
        lines.append(f"faults: {', '.join(faults)}")
    if evidence.needs:
        lines.append(f"it goes away without these in the inputs: {', '.join(evidence.needs)}")
    if evidence.invalid_choice:
        lines.append(evidence.invalid_choice)
    if evidence.accept:
        lines.append(f"accepted with --accept {evidence.accept}")
    return lines


def _counts(evidence: Evidence) -> str:
    name = f"{evidence.output or 'output'} ({' '.join(filter(None, (evidence.part, evidence.dtype)))})"
    told = f"{evidence.wrong:,} of {plural(evidence.elements, 'element')} of {name.removesuffix(' ()')} wrong"
    if evidence.wrong_nonfinite:
        told += f", {evidence.wrong_nonfinite:,} in being NaN or infinite"
    if evidence.regions:
        told += f"; they lie: {', '.join(evidence.regions)}"
    return told


def _distance(evidence: Evidence) -> list[str]:
    if evidence.ratio is not None:
        return [f"{evidence.ratio:.3g} times as far off as is allowed"]
    size = evidence.z if evidence.z is not None else evidence.pooled_z
    if size is None:
        return []
    certain = ", more than any legal rounding could do" if evidence.certain else ""
    return [f"{size:.3g} sigma off, where sigma is the noise of legal rounding{certain}"]
