"""One built engine and one loaded language model for all tests of this folder."""

import pytest

from mm_runtime.engine.reference.language_model import LanguageModel
from support.engines import StartEngine, engine_starter, load_language_model
from support.tiny_llava import BuiltEngine, build_engine


@pytest.fixture(scope="session")
def language_model() -> LanguageModel:
    """The tiny model's language model with four slots."""
    return load_language_model()


@pytest.fixture
def start_engine(language_model: LanguageModel) -> StartEngine:
    """Start engines on the shared model, one at a time."""
    return engine_starter(language_model)


@pytest.fixture(scope="session")
def built_engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    """An engine built from the committed checkpoint by the real commands."""
    return build_engine(tmp_path_factory.mktemp("tiny-engine"))
