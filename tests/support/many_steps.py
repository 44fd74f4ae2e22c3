"""Sites of TensorRT builds that between them have every step that other sites' builds lack."""

from pathlib import Path

from mm_runtime.adapters.facts import with_adapters
from mm_runtime.adapters.files import sourced
from mm_runtime.inspect.weights import read
from mm_runtime.sources.identity import source_digest
from support.lora_adapters import LLAMA, pair, write_adapter
from support.model_configs import facts_of, planned
from support.sentence_pieces import train, write_config
from support.trtllm_sites import TrtllmSite, trtllm_site, write_model
from support.trtllm_tools.install import Tools, install

VERSION = "0.20.0"
HIDDEN = 4096
"""Of LLaVA 1.5 7B's language model."""

TEXTS = [
    text for at, text in enumerate(("a red square", "zwei Kreise", "三"), 3) for _ in range(at)
]


def quantized_llava(folder: Path) -> TrtllmSite:
    """Return a LLaVA from pickles, with a SentencePiece model and an adapter, in FP8."""
    import torch  # noqa: PLC0415 (seconds)

    folder.mkdir(parents=True)
    source = write_model(folder / "source", "llava")
    (source / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(8, 11, dtype=torch.float16)}, source / "pytorch_model.bin")
    (source / "tokenizer.json").unlink()
    model = train("llama", TEXTS, source / "tokenizer.model")
    ends = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    write_config(source, tokenizer_class="LlamaTokenizer", **ends)
    tensors = pair(LLAMA, rank=2, source=HIDDEN, target=HIDDEN, module="self_attn.q_proj")
    adapter = str(write_adapter(folder / "adapter", tensors, rank=2))
    found = read(source, allow_pickle=True, config_dtype="float16")
    facts = facts_of("llava").model_copy(
        update={
            "source_digest": source_digest(source),
            "weight_format": found.format,
            "sentence_piece_model": model.name,
        }
    )
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
    return trtllm_site(folder / "whisper", _tools(folder), "whisper")


def _tools(folder: Path) -> Tools:
    return install(folder / "tools", VERSION)
