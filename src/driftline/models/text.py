"""Encoders, and encoder-decoders, of text."""

from __future__ import annotations

from typing import Any

import transformers

from driftline.models.seeded import initialise, integers, mask
from driftline.models.wrappers import Model, Named

VOCABULARY = 211
_SMALL = {"vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
WIDE = {**_SMALL, "intermediate_size": 96, "max_position_embeddings": 64}


def bert() -> Model:
    return _encoder(transformers.BertModel(transformers.BertConfig(**WIDE)), pooled=True)


def bert_base(*, batch: int = 2, length: int = 24) -> Model:
    """The real thing: 12 layers, 768 wide, 110 million weights."""
    model = transformers.BertModel(transformers.BertConfig())
    return _encoder(model, pooled=True, vocabulary=30522, batch=batch, length=length)


def roberta() -> Model:
    return _encoder(transformers.RobertaModel(transformers.RobertaConfig(**WIDE)), pooled=True)


def electra() -> Model:
    config = transformers.ElectraConfig(**WIDE, embedding_size=24)
    return _encoder(transformers.ElectraModel(config))


def albert() -> Model:
    """One layer's weights used three times."""
    config = transformers.AlbertConfig(**{**WIDE, "num_hidden_layers": 3}, embedding_size=24)
    return _encoder(transformers.AlbertModel(config), pooled=True)


def distilbert() -> Model:
    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY, dim=48, n_layers=2, n_heads=4, hidden_dim=96, max_position_embeddings=64
    )
    return _encoder(transformers.DistilBertModel(config), segments=False)


def modernbert() -> Model:
    """Rotary positions, local and global attention in turn, gated linear units."""
    config = transformers.ModernBertConfig(
        **WIDE, global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        cls_token_id=1, sep_token_id=2,
    )  # fmt: skip
    return _encoder(transformers.ModernBertModel(config), segments=False)


def deberta() -> Model:
    """Attention to content and to relative positions, gathered from a table."""
    config = transformers.DebertaV2Config(
        **WIDE, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm"
    )
    return _encoder(transformers.DebertaV2Model(config))


def t5() -> Model:
    """Relative position buckets, RMS norms, no biases; a decoder beside the encoder."""
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return _pair(transformers.T5ForConditionalGeneration(config))


def bart() -> Model:
    config = transformers.BartConfig(
        vocab_size=VOCABULARY, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_position_embeddings=64,
    )  # fmt: skip
    return _pair(transformers.BartForConditionalGeneration(config))


def _encoder(
    model: Any, *, pooled: bool = False, segments: bool = True, vocabulary: int = VOCABULARY, batch: int = 2,
    length: int = 12,
) -> Model:  # fmt: skip
    outputs = ("last_hidden_state", "pooler_output") if pooled else ("last_hidden_state",)
    inputs = {
        "input_ids": integers("input_ids", batch, length, low=4, high=vocabulary),
        "attention_mask": mask(batch, length, padding=4),
    }
    if segments:
        kinds = model.config.type_vocab_size
        inputs["token_type_ids"] = integers("token_type_ids", batch, length, high=max(kinds, 1))
    return Model(Named(initialise(model), outputs), inputs)


def _pair(model: Any) -> Model:
    inputs = {
        "input_ids": integers("input_ids", 2, 10, low=4, high=VOCABULARY),
        "attention_mask": mask(2, 10, padding=3),
        "decoder_input_ids": integers("decoder_input_ids", 2, 7, low=4, high=VOCABULARY),
    }
    return Model(Named(initialise(model), ("logits", "encoder_last_hidden_state"), use_cache=False), inputs)
