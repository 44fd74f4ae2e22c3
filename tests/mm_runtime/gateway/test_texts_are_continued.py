"""Text completions of a model of conversations: the real path."""

from itertools import accumulate

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError

from support.cases import cases
from support.real_gateway import RealGateway

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

TEXT = "What color is"


async def test_scores_of_texts(real: RealGateway, real_client: AsyncOpenAI) -> None:
    """OpenAI's four lists."""
    given = {"model": real.model, "prompt": TEXT, "max_tokens": 4, "temperature": 2.0, "seed": 1}
    several = await real_client.completions.create(**given, n=4, logprobs=1)
    for choice in several.choices:
        found = choice.logprobs
        # This tokenizer's texts begin without the blank of their first token.
        assert "".join(found.tokens).strip() == choice.text
        blank = len("".join(found.tokens)) - len(choice.text)
        ends = accumulate(map(len, found.tokens))
        assert found.text_offset == [0, *(end - blank for end in ends)][:-1]
        assert {len(one) for one in found.top_logprobs} == {1}


async def test_images_need_a_conversation(real: RealGateway, real_client: AsyncOpenAI) -> None:
    """What stands for an image is refused by name."""
    with pytest.raises(BadRequestError, match="stands for an image") as refusal:
        await real_client.completions.create(model=real.model, prompt="<image> what ?")
    assert refusal.value.param == "prompt"


@cases(
    "path says",
    {
        "embeddings": ("/v1/embeddings", "makes no embeddings"),
        "tokenize": ("/tokenize", "the checkpoint's tokenizer"),
        "detokenize": ("/detokenize/", "the checkpoint's tokenizer"),
    },
)
async def test_refusals(real_http: httpx.AsyncClient, path: str, says: str) -> None:
    """What other servers have besides is refused by name."""
    answer = await real_http.post(path, json={"input": "x"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "unsupported_endpoint")
    assert says in error["message"]
