"""Where an encoder-decoder's answers start: the checkpoint says it in one of two files."""

from pathlib import Path

from mm_runtime.images.processor_config import read_json


def decoder_start(llm: Path) -> tuple[int, ...]:
    """Return the decoder's first ids: the start token, and the one that is forced after it.

    Raises:
        ValueError: neither file names a start token.
    """
    config, chosen = read_json(llm / "config.json"), read_json(llm / "generation_config.json")

    def value(key: str) -> int | None:
        found = chosen.get(key)
        found = config.get(key) if found is None else found
        return found if isinstance(found, int) else None

    start = value("decoder_start_token_id")
    if start is None:
        raise ValueError(f"{llm}: neither configuration names decoder_start_token_id")
    forced = value("forced_bos_token_id")
    return (start,) if forced is None else (start, forced)
