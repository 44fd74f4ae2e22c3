"""What the API server refuses reads as what to do, then of which object, by whom."""

from typing import Any

from mm_api.conditions import Reason
from mm_operator.cluster.refusals import growth_refused, stage_error
from mm_operator.errors import ClusterError
from mm_operator.model import StageError
from support.cases import cases
from support.golden import Golden

POLICY = "ValidatingAdmissionPolicy 'multimodal-operator' with binding 'multimodal-operator' denied"
LABEL = "kubectl label namespace newcomer serving.multimodal.dev/enabled=true"


ERRORS = {
    "namespace-without-the-label": ClusterError(
        422,
        "Lease",
        "multimodal-operator-namespace",
        'leases.coordination.k8s.io "multimodal-operator-namespace" is forbidden: '
        f"{POLICY} request: namespace newcomer has not opted in to models: {LABEL}",
    ),
    "own-policy": ClusterError(
        422,
        "Job",
        "llava-inspect",
        f'jobs.batch "llava-inspect" is forbidden: {POLICY} request: containers of models '
        "are not privileged",
    ),
    "webhook": ClusterError(
        400,
        "Deployment",
        "llava",
        'admission webhook "validate.kyverno.svc" denied the request: label team is required.',
    ),
    "quota": ClusterError(
        403,
        "Job",
        "llava-build",
        'jobs.batch "llava-build" is forbidden: exceeded quota: few, requested: '
        "count/jobs.batch=1, used: count/jobs.batch=3, limited: count/jobs.batch=3",
    ),
    "right": ClusterError(
        403,
        "Deployment",
        "llava",
        'deployments.apps "llava" is forbidden: User "system:serviceaccount:mm:operator" '
        'cannot patch resource "deployments" in API group "apps" in the namespace "demo"',
    ),
    "server": ClusterError(500, "Service", "llava", "etcdserver: request timed out"),
    "no-answer": ClusterError(0, "Service", "llava", "the API server did not answer in time"),
}


def test_the_useful_part_comes_first(golden: Golden) -> None:
    found = {
        name: [*map(str, (one.reason, one.message))]
        for name, one in ((name, stage_error("apply", error)) for name, error in ERRORS.items())
    }
    golden.check_yaml("refusals.yaml", found)


def test_an_error_without_a_name_shows_no_gap() -> None:
    assert str(ClusterError(403, "Lease", "", "no")) == "Lease: HTTP 403: no"


def claim(size: str) -> dict[str, Any]:
    return {"spec": {"resources": {"requests": {"storage": size}}}}


REFUSED = ClusterError(
    403,
    "PersistentVolumeClaim",
    "multimodal-store",
    'persistentvolumeclaims "multimodal-store" is forbidden: only dynamically provisioned pvc can '
    "be resized and the storageclass that provisions the pvc must support resize",
)


def test_a_claim_that_cannot_grow_names_the_field() -> None:
    found = growth_refused(REFUSED, claim("2Gi"), claim("1Gi"))
    expected = (
        "spec.build.store.size requests 2Gi (2,147,483,648 bytes), and claim multimodal-store of "
        "this namespace has 1Gi (1,073,741,824 bytes) and cannot grow: set size to 1Gi or remove "
        "it, or use a store of your own (spec.build.store.persistentVolumeClaim, or s3). "
        "Kubernetes says: only dynamically provisioned pvc can be resized and the storageclass "
        "that provisions the pvc must support resize"
    )
    assert found == StageError("apply", Reason.STORE_CANNOT_GROW, expected)


@cases("there sent", {"new-claim": (None, "2Gi"), "other-change": ("1Gi", "1Gi")})
def test_other_refusals_of_a_claim_are_others(there: str | None, sent: str) -> None:
    assert growth_refused(REFUSED, claim(sent), claim(there) if there else None) is None
