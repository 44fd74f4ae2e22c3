"""Sites of TensorRT builds that between them have every step that other sites' builds lack."""

from dataclasses import replace
from pathlib import Path

from mm_runtime.adapters.facts import with_adapters
from mm_runtime.adapters.files import sourced
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.broken_checkpoints import SINGLE, copied
from support.lora_adapters import LLAMA, pair, write_adapter
from support.model_configs import facts_of, planned
from support.sentence_pieces import train, write_config
from support.trtllm_sites import TrtllmSite, trtllm_site
from support.trtllm_tools.install import Tools, install

VERSION = "1.2.1"
HIDDEN = 128
"""Of the small LLaVA's language model."""

TEXTS = [
    text for at, text in enumerate(("a red square", "zwei Kreise", "三"), 3) for _ in range(at)
]


def quantized_llava(folder: Path) -> TrtllmSite:
    """Return a LLaVA from pickles, with a SentencePiece model and an adapter, in FP8."""
    import torch  # noqa: PLC0415 (seconds)
    from safetensors.torch import load_file  # noqa: PLC0415

    source = copied("tiny-llava", folder / "source")
    torch.save(load_file(source / SINGLE), source / "pytorch_model.bin")
    (source / SINGLE).unlink()
    (source / "tokenizer.json").unlink()
    train("llama", TEXTS, source / "tokenizer.model")
    ends = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    write_config(source, tokenizer_class="LlamaTokenizer", **ends)
    tensors = pair(LLAMA, rank=2, source=HIDDEN, target=HIDDEN, module="self_attn.q_proj")
    adapter = str(write_adapter(folder / "adapter", tensors, rank=2))
    facts = inspect(source, InspectOptions(allow_pickle=True))
    claim = {"persistentVolumeClaim": {"claimName": "adapters"}}
    engine = {"quantization": "FP8", "lora": [{"name": "one", "source": claim}]}
    complete = planned(
        "llava", engine, version=VERSION, facts=with_adapters(facts, [("one", adapter)])
    )
    assert not complete.errors, complete.errors
    assert complete.build_plan
    store = folder / "store"
    store.mkdir()
    plan = sourced(complete.build_plan, {"one": adapter})
    return TrtllmSite(str(source), store, plan, complete, _tools(folder))


def whisper(folder: Path) -> TrtllmSite:
    """Return a Whisper as Hugging Face has it, which OpenAI's converter does not read."""
    folder.mkdir(parents=True)
    site = trtllm_site(folder / "whisper", _tools(folder), "whisper")
    # Its weights are hollow: a plan whose parts no class has is not compared with one.
    facts = site.plan.facts.model_copy(update={"vision": facts_of("llava").vision})
    return replace(site, plan=site.plan.model_copy(update={"facts": facts}))


def _tools(folder: Path) -> Tools:
    return install(folder / "tools", VERSION)
