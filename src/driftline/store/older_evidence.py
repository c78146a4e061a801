"""The evidence in stores of older releases: plain dictionaries, of one shape for each oracle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftline.core.evidence import Element, Evidence, Fault, number
from driftline.core.faults import fault_of, narrower_than
from driftline.core.text import normalise_message

_SAME_NAME = (
    "output", "part", "dtype", "unjudged", "z", "element_z", "aggregate_z", "pooled_z", "direction", "error", "sigma",
    "native_z", "native_worst_z", "worst_case", "runs", "ratio", "allowed", "native_error", "accept", "otherwise",
    "blank", "disputed", "sample", "log", "accepted",
)  # fmt: skip
_FORMS = ("wrong-dtype", "wrong-shape", "wrong-structure", "missing-error")


def evidence_of_older(kind: str, told: Mapping[str, Any], stage: str = "") -> Evidence:
    """The record of what an older release wrote down. Less was measured then: one element, and no regions."""
    known: dict[str, Any] = {name: told[name] for name in _SAME_NAME if told.get(name) not in (None, "")}
    known |= {"elements": int(told.get("size") or told.get("elements") or 0), "wrong": int(told.get("mismatched") or 0)}
    known["certain"] = told.get("severity") == "certain"
    known["policies"] = list(told.get("agrees_with") or ())
    known["unspecified"] = [clause["id"] for clause in told.get("unspecified") or () if "id" in clause]
    failure = told.get("failure") or {}
    if failure:
        crashed = kind == "crash"
        known |= {"stage": stage, "signal" if crashed else "exception": failure.get("type", "")}
        said = failure.get("message", "")
        known |= {"said": said, "message": normalise_message(said), "traceback": failure.get("traceback", "")}
    if kind in _FORMS:
        known |= {"wanted": _texts(told.get("expected")), "came": _texts(told.get("got"))}
        return Evidence.from_json(known)
    found = Evidence.from_json(known)
    if "expected" not in told or "got" not in told or not isinstance(told.get("place"), list):
        return found
    place = tuple(int(i) for i in told["place"])
    noise = float(told.get("sigma") or told.get("allowed") or 0.0)
    worst = Element(place, number(told["expected"]), number(told["got"]), None, noise)
    first = Fault.TIES if told.get("choice") else fault_of(worst, found.dtype)
    nonfinite = found.wrong if kind == "wrong-nan-inf" else 0
    record = {
        **found.to_json(),
        "worst": [worst.to_json()],
        "faults": [first],
        "narrower": narrower_than(worst, found.dtype),
        "wrong_nonfinite": nonfinite,
    }
    return Evidence.from_json(record)


def _texts(told: Any) -> list[str]:
    if told is None:
        return []
    return [str(item) for item in told] if isinstance(told, list) else [str(told)]
