"""Language models that write one token after another: a step with a cache, or a whole prompt without one."""

from __future__ import annotations

from typing import Any

import transformers

from driftline.models.seeded import floats, initialise, integers, mask
from driftline.models.wrappers import Cached, Model, Named

VOCABULARY = 211
PAST, NEW = 6, 3
_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
_GROUPED = {**_SMALL, "num_key_value_heads": 2}


def gpt2(*, cache: bool = True) -> Model:
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=48, n_layer=2, n_head=4, n_positions=64)
    return _decoder(transformers.GPT2LMHeadModel(config), cache)


def gpt2_full(*, cache: bool = False, batch: int = 2, length: int = PAST + NEW) -> Model:
    """The real thing: 12 layers, 768 wide, 124 million weights."""
    return _decoder(transformers.GPT2LMHeadModel(transformers.GPT2Config()), cache, batch, length)


def gpt_neox(*, cache: bool = True) -> Model:
    """Attention and feed-forward side by side, rotary positions on a quarter of each head."""
    return _decoder(transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**_SMALL)), cache)


def llama(*, cache: bool = True) -> Model:
    return _decoder(transformers.LlamaForCausalLM(transformers.LlamaConfig(**_GROUPED)), cache)


def mistral(*, cache: bool = True) -> Model:
    """A sliding window of five tokens, shorter than the cache."""
    return _decoder(transformers.MistralForCausalLM(transformers.MistralConfig(**_GROUPED, sliding_window=5)), cache)


def qwen2(*, cache: bool = True) -> Model:
    """Biases in the projections of attention, as in Qwen 2."""
    return _decoder(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**_GROUPED)), cache)


def qwen3(*, cache: bool = True) -> Model:
    """Queries and keys normalised per head, as in Qwen 3."""
    return _decoder(transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**_GROUPED, head_dim=12)), cache)


def gemma2(*, cache: bool = True) -> Model:
    """Logits squashed by tanh, norms before and after each block, embeddings scaled by a root."""
    config = transformers.Gemma2Config(**_GROUPED, head_dim=12, sliding_window=5, query_pre_attn_scalar=12)
    return _decoder(transformers.Gemma2ForCausalLM(config), cache)


def phi(*, cache: bool = True) -> Model:
    return _decoder(transformers.PhiForCausalLM(transformers.PhiConfig(**_SMALL)), cache)


def phi3(*, cache: bool = True) -> Model:
    config = transformers.Phi3Config(**_GROUPED, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return _decoder(transformers.Phi3ForCausalLM(config), cache)


def mixtral(*, cache: bool = True) -> Model:
    """Four experts, two for each token: top-k, a scatter of tokens to experts and a sum of their answers."""
    config = transformers.MixtralConfig(
        **_GROUPED, num_local_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm"
    )
    return _decoder(transformers.MixtralForCausalLM(config), cache)


def _decoder(model: Any, cache: bool, batch: int = 2, length: int = PAST + NEW) -> Model:
    """A step with a cache, or a whole prompt of `batch` rows of `length` tokens."""
    config = model.config
    initialise(model)
    if not cache:
        inputs: dict[str, Any] = {
            "input_ids": integers("input_ids", batch, length, low=4, high=config.vocab_size),
            "attention_mask": mask(batch, length, padding=2),
        }
        return Model(Named(model, ("logits",), use_cache=False), inputs)
    attention = mask(2, PAST + NEW, padding=2, left=True)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    shape = (2, heads, PAST, width)
    past = tuple(
        {"key": floats(f"past.{n}.key", *shape), "value": floats(f"past.{n}.value", *shape)}
        for n in range(config.num_hidden_layers)
    )
    positions = (attention.cumsum(1) - 1).clamp(min=0)[:, PAST:]
    inputs = {
        "input_ids": integers("input_ids", 2, NEW, low=4, high=config.vocab_size),
        "attention_mask": attention,
        "position_ids": positions.contiguous(),
        "past_key_values": past,
    }
    return Model(Cached(model), inputs)
