"""Deletes children that are no longer wanted. What a model leaves is the garbage collector's."""

from collections.abc import Iterable

from mm_operator.cluster.apply import CONFLICT, OutdatedError
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.client import Client
from mm_operator.cluster.keys import Key
from mm_operator.cluster.refusals import stage_error
from mm_operator.cluster.resources import BY_KIND
from mm_operator.errors import ClusterError
from mm_operator.model import Ref, StageError


async def prune(
    client: Client, cache: Cache, key: Key, unwanted: Iterable[Ref]
) -> tuple[list[Ref], list[StageError]]:
    """Delete objects of a model; return what was deleted and what was refused.

    Each delete names the uid that was seen, so that an object that was created again under the same
    name stays; what models share is only deleted as it was seen, so that one that joins wins.

    Raises:
        OutdatedError: an object changed or was created again since the decision.
    """
    deleted: list[Ref] = []
    errors: list[StageError] = []
    for ref in sorted(unwanted):
        held = cache.find(ref.kind, key.namespace, ref.name)
        if held is None or held.deleting:
            continue
        version = "" if held.model else str(held.version)
        try:
            await client.delete(
                BY_KIND[ref.kind], key.namespace, ref.name, uid=held.uid, version=version
            )
        except ClusterError as error:
            if error.status == CONFLICT:
                raise OutdatedError from error
            errors.append(stage_error("prune", error))
        else:
            deleted.append(ref)
    return deleted, errors
