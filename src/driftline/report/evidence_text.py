"""Describe the evidence of a failure in lines of text. `--json` has every field."""

from __future__ import annotations

from driftline.core.evidence import Evidence, Fault, InputClass, Region
from driftline.report.words import plural

PLACES = 5
_FAULTS = {
    Fault.NUMBER: "wrong numbers",
    Fault.SIGN: "the wrong sign",
    Fault.SUBNORMAL: "wrong subnormal numbers",
    Fault.BEYOND_RANGE: "numbers cut to the range of a narrower type",
    Fault.TIES: "a wrong choice among elements",
    Fault.UNINITIALISED: "memory that was never written is returned",
    Fault.NAN_LOST: "NaN is lost",
    Fault.NAN_MADE: "NaN where a number is right",
    Fault.INFINITY_LOST: "an infinity is lost",
    Fault.INFINITY_MADE: "an infinity where a number is right",
    Fault.INFINITY_TURNED: "the other infinity",
    Fault.ILL_CONDITIONED: "most other elements are too sensitive to rounding to be judged",
}
_REGIONS = {
    Region.ALL: "every element",
    Region.SLICES: "whole slices of one axis",
    Region.TAIL: "the last elements of an axis",
    Region.HEAD: "the first elements of an axis",
    Region.SCATTERED: "scattered",
}
_SORTS = {
    InputClass.NAN: "NaN",
    InputClass.INFINITY: "infinities",
    InputClass.SUBNORMAL: "subnormal numbers",
    InputClass.ZERO: "zeros",
    InputClass.NEGATIVE: "negative numbers",
    InputClass.LARGE: "large numbers",
    InputClass.TIES: "equal numbers",
}


def evidence_lines(evidence: Evidence) -> list[str]:
    """Return lines with the counts, the worst elements, the size of the error, and the inputs that the failure depends
    on.
    """
    lines = [_counts(evidence)] if evidence.wrong else []
    for element in evidence.worst[:PLACES]:
        plain = "" if element.unoptimised is None else f", {_native(evidence)} gave {element.unoptimised}"
        noise = f", rounding explains {element.noise:.2g}" if element.noise else ""
        where = f"at {list(element.place)}: " if element.place else ""
        lines.append(f"{where}expected {element.expected}, got {element.got}{plain}{noise}")
    if evidence.wanted or evidence.came:
        lines.append(
            f"expected {', '.join(evidence.wanted) or 'nothing'}; came {', '.join(evidence.came) or 'nothing'}"
        )
    lines += _distance(evidence)
    if faults := [_FAULTS[fault] for fault in evidence.faults if fault in _FAULTS]:
        lines.append(f"what is wrong: {', '.join(faults)}")
    if evidence.needs:
        lines.append(f"passes when the inputs have no {', or no '.join(_SORTS[sort] for sort in evidence.needs)}")
    if evidence.invalid_choice:
        lines.append(evidence.invalid_choice)
    if evidence.accept:
        lines.append(f"accepted with {evidence.accept}")
    return lines


def _native(evidence: Evidence) -> str:
    return f"the reference ({evidence.native_by})" if evidence.native_by else "the reference itself"


def _counts(evidence: Evidence) -> str:
    name = f"{evidence.output or 'output'} ({' '.join(filter(None, (evidence.part, evidence.dtype)))})"
    told = f"{evidence.wrong:,} of {plural(evidence.elements, 'element')} of {name.removesuffix(' ()')} wrong"
    if evidence.wrong_nonfinite:
        told += f", {evidence.wrong_nonfinite:,} in being NaN or infinite"
    if evidence.regions:
        told += f"; {', '.join(_REGIONS[region] for region in evidence.regions)}"
    return told


def _distance(evidence: Evidence) -> list[str]:
    if evidence.ratio is not None:
        return [f"{evidence.ratio:.3g} times as far off as is allowed"]
    size = evidence.z if evidence.z is not None else evidence.pooled_z
    if size is None:
        return []
    certain = "; no order of operations rounds so far" if evidence.certain else ""
    return [f"{size:.3g} times as far off as legal rounding explains{certain}"]
