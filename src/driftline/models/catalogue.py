"""Every model of the corpus, one row each."""

from __future__ import annotations

from dataclasses import replace

from driftline.models.entry import Entry

_OWN = ("torch",)
_TOOLS = ("torch", "transformers", "onnx", "onnxruntime")


def _text() -> list[Entry]:
    return [
        Entry("bert", "text", "text:bert", "encoder with token types and a pooled answer"),
        Entry("bert-base", "text", "text:bert_base", "BERT-base, 110 million weights", size="full"),
        Entry("roberta", "text", "text:roberta", "encoder whose positions are counted from the padding"),
        Entry("distilbert", "text", "text:distilbert", "encoder without token types"),
        Entry("albert", "text", "text:albert", "encoder whose layers share their weights"),
        Entry("electra", "text", "text:electra", "encoder with a narrow table of words"),
        Entry("modernbert", "text", "text:modernbert", "rotary positions, local and global attention in turn"),
        Entry("deberta", "text", "text:deberta", "attention to relative positions gathered from a table"),
        Entry("t5", "text", "text:t5", "encoder and decoder with buckets of relative positions"),
        Entry("bart", "text", "text:bart", "encoder and decoder with learned positions"),
    ]


def _decoders() -> list[Entry]:
    cached = {
        "gpt2": "GPT-2",
        "gpt-neox": "GPT-NeoX: attention and feed-forward side by side",
        "llama": "LLaMA: rotary positions, grouped queries, RMS norms",
        "mistral": "Mistral: a sliding window shorter than the cache",
        "qwen2": "Qwen 2: biases in the projections",
        "qwen3": "Qwen 3: queries and keys normalised per head",
        "gemma2": "Gemma 2: squashed logits, four norms in a layer",
        "phi": "Phi: partial rotary positions, one norm for both halves",
        "phi3": "Phi 3: projections in one matrix",
        "mixtral": "Mixtral: a mixture of four experts, two for each token",
    }
    rows = [
        Entry(name, "decoder", f"decoders:{name.replace('-', '_')}", f"{text}; a step with a cache")
        for name, text in cached.items()
    ]
    whole = {"cache": False}
    return [
        *rows,
        Entry("gpt2-prompt", "decoder", "decoders:gpt2", "GPT-2; a whole prompt without a cache", settings=whole),
        Entry("llama-prompt", "decoder", "decoders:llama", "LLaMA; a whole prompt without a cache", settings=whole),
        Entry("gpt2-124m", "decoder", "decoders:gpt2_full", "GPT-2 at its real size", size="full"),
    ]


def _recurrent() -> list[Entry]:
    return [
        Entry("mamba", "recurrent", "recurrent:mamba", "selective state spaces"),
        Entry("state-space", "recurrent", "state_space:state_space", "Mamba blocks with a parallel scan", needs=_OWN),
        Entry("mamba-130m", "recurrent", "state_space:mamba_130m", "129 million weights", size="full", needs=_OWN),
        Entry("rwkv", "recurrent", "recurrent:rwkv", "attention as a recurrence with decay"),
        Entry("lstm-tagger", "recurrent", "recurrent:lstm_tagger", "two bidirectional LSTM layers"),
        Entry("gru-tagger", "recurrent", "recurrent:gru_tagger", "two bidirectional GRU layers"),
    ]


def _vision() -> list[Entry]:
    return [
        Entry("vit", "vision", "vision:vit", "vision transformer"),
        Entry("vit-base", "vision", "vision:vit_base", "ViT-base, 86 million weights", size="full"),
        Entry("deit", "vision", "vision:deit", "vision transformer with a token for the teacher"),
        Entry("dinov2", "vision", "vision:dinov2", "vision transformer with layer scale and a gated block"),
        Entry("swin", "vision", "vision:swin", "attention in shifted windows"),
        Entry("convnext", "vision", "vision:convnext", "depthwise 7x7 convolutions with layer norms"),
        Entry("resnet", "vision", "vision:resnet", "residual bottlenecks"),
        Entry("resnet-50", "vision", "vision:resnet_50", "ResNet-50, 25 million weights", size="full"),
        Entry("resnet-18", "vision", "convnets:resnet_18", "ResNet-18, 11.7 million weights", size="full", needs=_OWN),
        Entry("resnet-18-narrow", "vision", "convnets:resnet_18_narrow", "ResNet-18 of few channels", needs=_OWN),
        Entry("regnet", "vision", "vision:regnet", "grouped convolutions with squeeze and excitation"),
        Entry("efficientnet", "vision", "vision:efficientnet", "inverted bottlenecks with SiLU"),
        Entry("mobilenet-v2", "vision", "vision:mobilenet_v2", "inverted bottlenecks with ReLU6"),
        Entry("mobilenet-v3", "vision", "convnets:mobilenet_v3", "hard swish and hard sigmoid", needs=_OWN),
        Entry("densenet", "vision", "convnets:densenet", "every layer sees all before it", needs=_OWN),
        Entry("clip", "vision", "vision:clip", "a picture and a text compared"),
    ]


def _detection() -> list[Entry]:
    return [
        Entry("detr", "detection", "detection:detr", "convolutions, a transformer and queries for boxes"),
        Entry("yolos", "detection", "detection:yolos", "vision transformer with tokens for boxes"),
        Entry("yolo", "detection", "detection:yolo", "two scales, anchors on a grid, top-k boxes", needs=_OWN),
        Entry("unet-2015", "detection", "convnets:unet_2015", "U-Net, 31 million weights", size="full", needs=_OWN),
        Entry("unet-2015-narrow", "detection", "convnets:unet_2015_narrow", "U-Net of few channels", needs=_OWN),
        Entry("segformer", "detection", "detection:segformer", "segmentation from maps of four sizes"),
    ]


def _generative() -> list[Entry]:
    return [
        Entry("unet", "generative", "generative:unet", "diffusion U-Net with attention to a text", needs=_OWN),
        Entry("vae-decoder", "generative", "generative:vae_decoder", "from latents to a picture", needs=_OWN),
    ]


def _audio() -> list[Entry]:
    return [
        Entry("whisper", "audio", "audio:whisper", "speech recogniser, encoder and decoder"),
        Entry("whisper-tiny", "audio", "audio:whisper_tiny", "Whisper-tiny, 30 s of sound", size="full"),
        Entry("wav2vec2", "audio", "audio:wav2vec2", "convolutions over the raw wave, then a transformer"),
        Entry("spectrogram", "audio", "audio:spectrogram", "STFT, mel bands, logarithm, classifier", needs=_OWN),
    ]


def _structures() -> list[Entry]:
    return [
        Entry("pointnet", "structure", "structures:pointnet", "a point cloud, turned and pooled", needs=_OWN),
        Entry("graph-net", "structure", "structures:graph_net", "messages along edges, summed by scatter", needs=_OWN),
        Entry("recommender", "structure", "structures:recommender", "embedding bags and products", needs=_OWN),
    ]


def _quantized() -> list[Entry]:
    made = {
        "mobilenet-v2-qdq": ("int8", "static quantisation by ONNX Runtime: QDQ around every layer"),
        "bert-dynamic-int8": ("int8", "dynamic quantisation by ONNX Runtime: ranges found at each call"),
        "llama-int4-onnx": ("int4", "four-bit weights in MatMulNBits, by ONNX Runtime"),
    }
    by_tools = [
        Entry(name, "quantized", f"quantized:{name.replace('-', '_')}", text, dtype, form="onnx", needs=_TOOLS)
        for name, (dtype, text) in made.items()
    ]
    return [
        *by_tools,
        Entry("llama-int4", "quantized", "quantized:llama_int4", "four-bit weights unpacked by torch", "int4"),
        Entry("resnet-fake-int8", "quantized", "quantized:resnet_fake_int8", "rounded to int8 and back", "int8"),
    ]


def _training() -> list[Entry]:
    losses = {
        "bert": "BERT guessing hidden words",
        "gpt2": "GPT-2 guessing the next word",
        "llama": "LLaMA guessing the next word",
        "resnet": "a residual network",
        "lstm": "an LSTM tagger",
    }
    return [
        Entry(f"{name}-train", "training", f"training:{name}", f"the loss of {text}; check it with --grad", grad=True)
        for name, text in losses.items()
    ]


# The same networks in the types that they are deployed in.
_HALVES = {
    "float16": ("bert", "gpt2", "llama", "vit", "resnet", "unet", "whisper"),
    "bfloat16": ("bert", "llama", "mixtral", "convnext", "mamba"),
}


def _catalogue() -> dict[str, Entry]:
    groups = (
        _text(), _decoders(), _recurrent(), _vision(), _detection(), _generative(), _audio(), _structures(),
        _quantized(), _training(),
    )  # fmt: skip
    rows = {entry.name: entry for group in groups for entry in group}
    for dtype, names in _HALVES.items():
        for name in names:
            made = replace(rows[name], name=f"{name}-{dtype}", dtype=dtype)
            rows[made.name] = made
    return rows


CATALOGUE = _catalogue()
FAMILIES = tuple(dict.fromkeys(entry.family for entry in CATALOGUE.values()))
