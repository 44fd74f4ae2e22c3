"""Names of the children: deterministic, at most 63 characters, distinct for distinct inputs.

Guarantees, for model names that are DNS labels (the API refuses others):
- A name is a DNS label of at most 63 characters, so it also fits into a label's value.
- Equal inputs give equal names. Distinct inputs give distinct names, because a name that had to be
  cut carries 8 hex digits of the digest of the uncut one.
- The Deployment and the Service of a model's encoders end with `-encoders`, the Service of Triton's
  own ports with `-triton`, which the API allows no model's name, so that they are never those of
  another model.
- A child of a model never has the name of a child that models share: shared names begin with
  `engine-` and end with hex digits or a number only.
"""

from hashlib import sha256

from mm_api.labels import REVISION_DIGITS

MAX_LENGTH = 63
"""A DNS label, and the longest value of a label: Jobs copy their name into one."""

STORE_CLAIM = "multimodal-store"
"""The operator-made claim; one per namespace."""

_DIGEST_DIGITS = 8
_HASH_DIGITS = 10
_KEY_DIGITS = 16
_SHARED_DIGITS = 32
_GROUP_LENGTH = 30


def deployment(model: str) -> str:
    """Return the name of the model's Deployment, Service and budget; pods begin with it."""
    return model


def group(model: str) -> str:
    """Return the name of the LeaderWorkerSet of replicas of several nodes, and of its own Service.

    It is short: names of its pods and of their revisions begin with it. With a digest it is no
    other model's by accident.
    """
    digest = sha256(model.encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{model[:_GROUP_LENGTH].rstrip('-')}-{digest}-nodes"


def encoders(model: str) -> str:
    """Return the name of the encoders' Deployment, Service and budget; no model may end so."""
    return _joined(model, "encoders")


def triton(model: str) -> str:
    """Return the name of the Service of Triton's own ports, and of its policy; none may end so."""
    return _joined(model, "triton")


def canary(model: str, revision: str) -> str:
    """Return the name of the Deployment and Service of a revision beside the stable one."""
    return _joined(model, f"canary-{revision_label(revision)}")


def revision_label(revision: str) -> str:
    return revision[:REVISION_DIGITS]


def autoscaler(model: str) -> str:
    return model


def facts_config(model: str) -> str:
    """Return the name of the ConfigMap that keeps what the inspection found."""
    return _joined(model, "facts")


def inspect_job(model: str, inputs_hash: str, attempt: int) -> str:
    digest = sha256(f"{inputs_hash}/{attempt}".encode()).hexdigest()
    return _joined(model, f"inspect-{digest[:_HASH_DIGITS]}")


def serving_config(model: str, serving_hash: str) -> str:
    return _joined(model, f"serving-{serving_hash[:_HASH_DIGITS]}")


def claim_template(model: str, content: str) -> str:
    """Return the name of a ResourceClaimTemplate of a model's pods; `content` is its digest."""
    return _joined(model, f"gpu-{content[:_HASH_DIGITS]}")


def build_claim_template(engine: str, content: str) -> str:
    """Return the name of a ResourceClaimTemplate of builds; `engine` names its ConfigMap."""
    return f"{engine}-{content[:_HASH_DIGITS]}"


def engine_config(fingerprint: str, claim: str, path: str) -> str:
    """Return the name of the ConfigMap that models share about one engine in one store."""
    return f"engine-{_engine_key(fingerprint, claim, path)}"


def sweep_job(model: str, attempt: int) -> str:
    return _joined(model, f"sweep-{attempt}")


def build_job(engine: str, attempt: int) -> str:
    """Return the name of one attempt at building an engine; `engine` names its ConfigMap."""
    return f"{engine}-{attempt}"


def _engine_key(fingerprint: str, claim: str, path: str) -> str:
    if (claim, path) == (STORE_CLAIM, ""):
        return fingerprint[:_KEY_DIGITS]
    return sha256(f"{fingerprint}/{claim}/{path}".encode()).hexdigest()[:_KEY_DIGITS]


def _joined(model: str, suffix: str) -> str:
    name = f"{model}-{suffix}"
    if len(name) <= MAX_LENGTH:
        return name
    digest = sha256(model.encode()).hexdigest()[:_DIGEST_DIGITS]
    room = MAX_LENGTH - len(suffix) - len(digest) - 2
    return f"{model[:room].rstrip('-')}-{digest}-{suffix}"
