"""Remove what the demo made: the development cluster, or its parts of a user's cluster."""

import shutil

import helm_python

from mm_devcluster import cluster
from mm_devcluster.demo import settings
from mm_devcluster.demo.installation import MANAGED_BY
from mm_devcluster.demo.target import CURRENT, Target, current_target
from mm_devcluster.errors import DevClusterError
from mm_devcluster.paths import cache_dir, state_dir

DELETE_TIMEOUT = 180  # seconds; pods get their grace period


def remove_demo(name: str, *, purge: bool) -> str:
    """Remove every trace of the demo; caches stay unless requested.

    Args:
        name: The development cluster, or ``current``.
        purge: Delete the caches as well: programs, layers, images, uv.

    Returns:
        What was done, in a sentence.

    Raises:
        DevClusterError: Something could not be removed.
    """
    if name == CURRENT:
        return _clean_current()
    stopped = cluster.down(name, purge_images=purge)
    if purge:
        shutil.rmtree(cache_dir(), ignore_errors=True)
    words = f"cluster {name!r} is gone" if stopped else f"there was no cluster {name!r}"
    return f"{words}; the caches are deleted" if purge else words


def _clean_current() -> str:
    target = current_target(lambda _: None)
    try:
        ours = ("-l", f"{MANAGED_BY}={settings.MADE_BY_DEMO}")
        found = target.document("namespaces", *ours).get("items", [])
        names = [item["metadata"]["name"] for item in found]
        # The models go before the operator that looks after them.
        if settings.DEMO_NAMESPACE in names:
            _delete(target, "namespace", settings.DEMO_NAMESPACE)
        if settings.SYSTEM_NAMESPACE in names:
            uninstall(target)
            _delete(target, "namespace", settings.SYSTEM_NAMESPACE)
    finally:
        shutil.rmtree(state_dir() / CURRENT, ignore_errors=True)
    if not names:
        return "the current cluster holds nothing of the demo"
    return f"removed from the current cluster: {', '.join(names)}"


def uninstall(target: Target) -> None:
    """Remove the operator; the definition of models goes with the last of them.

    Raises:
        DevClusterError: Helm could not.
    """
    try:
        with helm_python.Config(
            kubeconfig_path=str(target.kubeconfig), namespace=settings.SYSTEM_NAMESPACE
        ) as config:
            config.uninstall(settings.RELEASE, ignore_not_found=True, timeout=DELETE_TIMEOUT)
    except helm_python.HelmError as error:
        raise DevClusterError(f"helm could not remove {settings.RELEASE}: {error}") from error
    # Helm leaves CRDs, because deleting one deletes every model; models of others keep it here.
    definition = "multimodalmodels.serving.multimodal.dev"
    if target.document("crd", definition) and not target.document(
        "multimodalmodels", "--all-namespaces"
    ).get("items"):
        _delete(target, "crd", definition)


def _delete(target: Target, kind: str, name: str) -> None:
    target.call(
        *("delete", kind, name, "--ignore-not-found", f"--timeout={DELETE_TIMEOUT}s"),
        timeout=DELETE_TIMEOUT + 30,
    )
