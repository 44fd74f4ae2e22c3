"""`model` picks: `namespace/name` always, a name alone where one model has it."""

import pytest

from mm_edge.errors import UnknownModelError
from mm_router.catalog import Catalog, Model
from support.cases import cases

CATALOG = Catalog(
    [
        Model("blue", "llava", ("de", "llava")),
        Model("green", "llava", ("de",)),
        Model("green", "qwen", ("de", "fr")),
        Model("grey", "nl", ("pl",)),
        Model("grey", "pl"),
    ]
)


@cases(
    "requested model served",
    {
        "name": ("qwen", ("green", "qwen"), "qwen"),
        "name-of-a-namespace": ("green/qwen", ("green", "qwen"), "qwen"),
        "name-of-several": ("blue/llava", ("blue", "llava"), "llava"),
        "adapter": ("fr", ("green", "qwen"), "fr"),
        "adapter-of-its-base": ("qwen:fr", ("green", "qwen"), "qwen:fr"),
        "adapter-of-several": ("green/qwen:de", ("green", "qwen"), "qwen:de"),
        "model-before-adapter": ("pl", ("grey", "pl"), "pl"),
        "adapter-like-its-base": ("llava:llava", ("blue", "llava"), "llava:llava"),
    },
)
def test_a_name_means_a_model(requested: str, model: tuple[str, str], served: str) -> None:
    target = CATALOG.resolve(requested)

    assert (target.model.key, target.served) == (model, served)


@cases(
    "requested message",
    {
        "several": (
            "llava",
            "The model 'llava' exists more than once. Request one of 'blue/llava', 'green/llava'.",
        ),
        "several-in-a-namespace": (
            "green/de",
            (
                "The model 'green/de' exists more than once. Request one of 'green/llava:de', "
                "'qwen:de'."
            ),
        ),
        "none": (
            "red/llava",
            (
                "The model 'red/llava' does not exist; this address serves 'blue/llava', 'blue/de',"
                " 'llava:llava', 'green/llava', 'green/llava:de', 'qwen', 'qwen:de', 'fr', 'nl', "
                "'nl:pl', 'pl'."
            ),
        ),
    },
)
def test_what_means_no_model_is_refused_with_names(requested: str, message: str) -> None:
    with pytest.raises(UnknownModelError) as refused:
        CATALOG.resolve(requested)

    assert (refused.value.message, refused.value.code) == (message, "model_not_found")


def test_every_listed_name_is_understood() -> None:
    """What `/v1/models` lists means the model that it was listed for; each name stands once."""
    listed = list(CATALOG.listed())

    assert len({one.id for one in listed}) == len(listed) == 5 + 6
    assert {CATALOG.resolve(one.id).model.key for one in listed} == {
        ("blue", "llava"),
        ("green", "llava"),
        ("green", "qwen"),
        ("grey", "nl"),
        ("grey", "pl"),
    }


def test_the_one_model_is_model_too() -> None:
    """DashInfer-VLM's programs call it so; with two models the name means none."""
    one = Model("blue", "llava", ("de",))
    target = Catalog([one]).resolve("model")
    assert (target.model, target.served, Catalog([one]).entry("model").id) == (
        one,
        "llava",
        "llava",
    )
    assert Catalog([one, Model("grey", "nl", ("model",))]).resolve("model").served == "model"
    with pytest.raises(UnknownModelError):
        CATALOG.resolve("model")
