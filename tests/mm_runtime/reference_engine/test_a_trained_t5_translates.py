"""The tiny trained T5, built and preprocessed as any other, gives meaningful answers."""

from pathlib import Path

from support.families.pipeline import Pipeline, build
from support.tiny_t5 import CHECKPOINT, sentences


def test_sentences(tmp_path: Path) -> None:
    """Every committed sentence is translated word for word; two hold pairs never trained on."""
    pipeline = Pipeline.load(build(CHECKPOINT, tmp_path / "store"))
    try:
        known = sentences()
        found = [
            pipeline.preprocessor.codec.decode(pipeline.query(sentence.prompt))
            for sentence in known
        ]
    finally:
        pipeline.loaded.engine.stop()
    assert [sentence.german for sentence in known] == found
