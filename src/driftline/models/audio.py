"""Sound: recognisers of speech, and a front end that starts from the wave."""

from __future__ import annotations

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from driftline.models.seeded import floats, initialise, integers, shortened
from driftline.models.wrappers import Model, Named


def whisper() -> Model:
    config = transformers.WhisperConfig(
        vocab_size=211, num_mel_bins=16, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_source_positions=20,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return _whisper(config)


def whisper_tiny() -> Model:
    """The real thing: thirty seconds of sound, 39 million weights."""
    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536,
    )  # fmt: skip
    return _whisper(config)


def _whisper(config: transformers.WhisperConfig) -> Model:
    model = initialise(transformers.WhisperForConditionalGeneration(config))
    frames = 2 * config.max_source_positions
    inputs = {
        "input_features": floats("input_features", 1, config.num_mel_bins, frames, std=0.5),
        "decoder_input_ids": integers("decoder_input_ids", 1, 5, low=4, high=config.vocab_size),
    }
    return Model(Named(model, ("logits",), use_cache=False), inputs)


def wav2vec2() -> Model:
    """Convolutions over the raw wave, a grouped convolution for positions, and a head for CTC."""
    config = transformers.Wav2Vec2Config(
        vocab_size=29, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        conv_dim=[16, 16, 16], conv_kernel=[10, 3, 3], conv_stride=[5, 2, 2], num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    draws = {"weight.original0": lambda name, shape: np.full(shape, 1.5)}
    model = initialise(transformers.Wav2Vec2ForCTC(config), draws)
    return Model(Named(model, ("logits",)), {"input_values": floats("input_values", 2, 800, std=0.3)})


class Spectrogram(nn.Module):
    """Short-time Fourier transform, mel bands, logarithm, normalisation, and a small classifier on top."""

    def __init__(self, window: int = 128, hop: int = 64, bands: int = 20, classes: int = 8) -> None:
        super().__init__()
        self.window, self.hop = window, hop
        hann = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(window) / window)
        self.register_buffer("hann", torch.from_numpy(shortened(hann)))
        self.register_buffer("bands", torch.from_numpy(_mel_bands(window // 2 + 1, bands)))
        self.layers = nn.Sequential(
            nn.Conv1d(bands, 24, 5, padding=2), nn.BatchNorm1d(24), nn.ReLU(), nn.Conv1d(24, 24, 3, stride=2), nn.ReLU()
        )
        self.head = nn.Linear(48, classes)

    def forward(self, wave: Tensor) -> Tensor:
        parts = torch.stft(wave, self.window, self.hop, window=self.hann, center=True, return_complex=True)
        power = torch.view_as_real(parts).square().sum(-1)
        logs = torch.log(torch.matmul(self.bands, power) + 1e-3)
        logs = (logs - logs.mean(dim=-1, keepdim=True)) / (logs.std(dim=-1, keepdim=True) + 1e-2)
        found = self.layers(logs)
        return self.head(torch.cat([found.mean(-1), found.amax(-1)], dim=-1))


def _mel_bands(bins: int, bands: int) -> np.ndarray:  # type: ignore[type-arg]
    """Triangles that grow wider with frequency, evenly spaced on a root scale."""
    centres = bins * (np.arange(bands + 2) / (bands + 1)) ** 1.5
    places = np.arange(bins)[None, :]
    rising = (places - centres[:-2, None]) / np.maximum(centres[1:-1] - centres[:-2], 1e-3)[:, None]
    falling = (centres[2:, None] - places) / np.maximum(centres[2:] - centres[1:-1], 1e-3)[:, None]
    return shortened(np.maximum(0.0, np.minimum(rising, falling)) + 0.01)


def spectrogram() -> Model:
    return Model(initialise(Spectrogram()), {"wave": floats("wave", 2, 1024, std=0.3)})
