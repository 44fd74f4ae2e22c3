"""What the API server refuses, in the words that a person acts by: what to do first, then of what.

Pure. Kubernetes puts the object, its own words and the name of the policy before the sentence that
helps; conditions are cut where they get long.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mm_api.conditions import Reason
from mm_api.quoted_text import steady
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.cluster.resources import CLAIM
from mm_operator.errors import ClusterError
from mm_operator.model import StageError
from mm_operator.plan.refusals import is_quota

_WRAPPED: Final = re.compile(
    r"^(?:\S+ \"[^\"]*\" is (?:forbidden|invalid): )?"
    r"(?:(?P<by>ValidatingAdmissionPolicy|admission webhook) ['\"](?P<name>[^'\"]+)['\"].*?"
    r"denied (?:the )?request: )?(?P<why>.+)$",
    re.DOTALL,
)
"""Answers of admission (pkg/admission/errors.go), its policies and webhooks."""

_NO_RIGHT: Final = re.compile(
    r'^User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<what>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)
"""Answers of the authorizer (apiserver/pkg/endpoints/handlers/responsewriters/errors.go)."""

_NOT_ENABLED: Final = re.compile(
    r"^namespace (?P<namespace>\S+) has not opted in to models: "
    r"(?P<command>kubectl label namespace \S+) (?P<label>\S+)$"
)
"""Answers of our own policy
(charts/multimodal-operator/templates/operator/admissionpolicy.yaml)."""

_SYSTEM: Final = re.compile(r"^the operator serves no models in \S+, a system namespace")


def stage_error(stage: str, error: ClusterError) -> StageError:
    """Return an error of the API server as an observation for the status."""
    said = steady(error.message)
    found = _WRAPPED.match(said)
    why = found["why"] if found else said
    by = f", {found['by']} {found['name']}" if found and found["by"] else ""
    answer = f"HTTP {error.status}" if error.status else "no answer"
    of = f"({error.kind} {error.name}: {answer}{by})".replace(" :", ":")
    if label := _NOT_ENABLED.match(why):
        return StageError(
            stage,
            Reason.NAMESPACE_NOT_ENABLED,
            f"{label['command']} {label['label']}: namespace {label['namespace']} has no label "
            f"{label['label']}, and the operator makes nothing in one that has not opted in. The "
            "model continues once the label is set",
        )
    if _SYSTEM.match(why):
        return StageError(stage, Reason.NAMESPACE_NOT_ENABLED, why)
    if right := _NO_RIGHT.match(why):
        what = ".".join(filter(None, (right["what"], right["group"])))
        where = f" in namespace {right['namespace']}" if right["namespace"] else ""
        why = (
            f"give {right['user']} the right to {right['verb']} {what}{where}, as the chart's role "
            "does: the operator may not"
        )
    reason = Reason.QUOTA_EXCEEDED if is_quota(why) else Reason.CLUSTER_ERROR
    return StageError(stage, reason, f"{why.rstrip('.')} {of}")


def growth_refused(
    error: ClusterError, sent: Mapping[str, Any], there: Mapping[str, Any] | None
) -> StageError | None:
    """Return that the store's claim cannot grow, and which field wants it; None: it can."""
    if error.kind != CLAIM.kind or there is None or error.status not in {403, 422}:
        return None
    wanted, has = _size(sent), _size(there)
    if not wanted or not has or bytes_of(wanted) <= bytes_of(has):
        return None
    found = _WRAPPED.match(error.message)
    return StageError(
        "apply",
        Reason.STORE_CANNOT_GROW,
        f"spec.build.store.size requests {wanted} ({bytes_of(wanted):,} bytes), and claim "
        f"{error.name} of this namespace has {has} ({bytes_of(has):,} bytes) and cannot grow: set "
        f"size to {has} or remove it, or use a store of your own "
        f"(spec.build.store.persistentVolumeClaim, or s3). Kubernetes says: "
        f"{found['why'] if found else error.message}",
    )


def _size(claim: Mapping[str, Any]) -> str:
    return str(claim["spec"].get("resources", {}).get("requests", {}).get("storage", ""))
