"""FFTs, interpolation, sampling grids, convolutions and pooling."""

import torch
import torch.nn.functional as F
from torch import nn


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fft_round_trip_and_parseval():
    def f(x):
        X = torch.fft.fft(x)
        return X, torch.fft.ifft(X).real, X.abs().pow(2).sum() / x.numel() - x.pow(2).sum()

    return f, (_x(1, 15).double(),)


def real_fft_low_pass_filter():
    def lowpass(x):
        X = torch.fft.rfft(x, dim=-1, norm="ortho")
        keep = torch.fft.rfftfreq(x.shape[-1]) < 0.2
        return torch.fft.irfft(X * keep, n=x.shape[-1], dim=-1, norm="ortho")

    return lowpass, (_x(2, 3, 21),)


def fft2_shift_and_circular_convolution():
    def f(img, ker):
        out = torch.fft.ifft2(torch.fft.fft2(img) * torch.fft.fft2(ker, s=img.shape[-2:])).real
        return out, torch.fft.fftshift(torch.fft.fft2(img).abs())

    return f, (_x(3, 8, 10), torch.ones(3, 3) / 9)


def short_time_fourier_transform_magnitudes():
    def f(x):
        S = torch.stft(x, n_fft=16, hop_length=4, window=torch.hann_window(16), return_complex=True)
        return S.abs(), torch.istft(S, n_fft=16, hop_length=4, window=torch.hann_window(16), length=x.shape[-1])

    return f, (_x(4, 2, 64),)


def bilinear_interpolation_with_and_without_corners():
    def f(x):
        return (
            F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
            F.interpolate(x, size=(7, 5), mode="bilinear", align_corners=True),
        )

    return f, (_x(5, 1, 2, 4, 6),)


def nearest_bicubic_and_area_interpolation():
    def f(x):
        return (
            F.interpolate(x, size=(5, 9), mode="nearest"),
            F.interpolate(x, size=(5, 9), mode="nearest-exact"),
            F.interpolate(x, size=(9, 11), mode="bicubic", align_corners=False),
            F.interpolate(x, size=(3, 3), mode="area"),
        )

    return f, (_x(6, 2, 1, 6, 7),)


def affine_grid_and_grid_sample_with_padding():
    def f(img, theta):
        grid = F.affine_grid(theta, img.shape, align_corners=False)
        return tuple(
            F.grid_sample(img, grid, mode="bilinear", padding_mode=p, align_corners=False)
            for p in ("zeros", "border", "reflection")
        )

    theta = torch.tensor([[[0.8, -0.5, 0.1], [0.5, 0.8, -0.2]]])
    return f, (_x(7, 1, 2, 6, 6), theta)


def transposed_convolution_with_output_padding():
    torch.manual_seed(8)
    net = nn.Sequential(
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(6, 4, 4, stride=3, groups=2, dilation=2),
    )
    return net.eval(), (_x(8, 1, 4, 4, 5),)


def dilated_causal_convolutions_as_in_wavenet():
    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2**i) for i in range(3))

        def forward(self, x):
            skip = 0
            for i, conv in enumerate(self.layers):
                h = conv(F.pad(x, (2**i, 0)))
                a, b = h.chunk(2, 1)
                x = x + torch.tanh(a) * torch.sigmoid(b)
                skip = skip + x
            return skip

    torch.manual_seed(9)
    return Causal().eval(), (_x(9, 2, 4, 20),)


def depthwise_separable_convolution_with_reflect_padding():
    torch.manual_seed(10)
    net = nn.Sequential(
        nn.Conv2d(6, 6, (3, 5), padding=(1, 2), groups=6, padding_mode="reflect"),
        nn.Hardswish(),
        nn.Conv2d(6, 4, 1),
        nn.Conv2d(4, 4, 3, padding=2, dilation=2, padding_mode="circular"),
    )
    return net.eval(), (_x(10, 1, 6, 8, 9),)


def three_dimensional_convolution_over_a_volume():
    torch.manual_seed(11)
    net = nn.Sequential(
        nn.Conv3d(2, 4, (1, 3, 3), stride=(1, 2, 1), padding=(0, 1, 1)), nn.ReLU(), nn.AvgPool3d((2, 1, 2))
    )
    return net.eval(), (_x(11, 1, 2, 4, 6, 6),)


def same_padding_with_even_kernels():
    def f(x, w, v):
        return F.conv2d(x, w, padding="same"), F.conv1d(x.flatten(2), v, padding="same", dilation=3)

    return f, (_x(12, 1, 2, 6, 5), _x(13, 3, 2, 4, 2), _x(14, 3, 2, 4))


def max_pool_with_ceil_mode_indices_and_unpool():
    def f(x):
        y, idx = F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, return_indices=True)
        p, pidx = F.max_pool2d(x, 2, return_indices=True)
        return y, idx, F.max_unpool2d(p, pidx, 2, output_size=x.shape[-2:])

    return f, (_x(15, 1, 2, 7, 6),)


def average_pooling_with_padding_counted_or_not():
    def f(x):
        return (
            F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=True),
            F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False),
            F.avg_pool2d(x, 2, 3, ceil_mode=True),
            F.avg_pool2d(x, 2, divisor_override=3),
            F.lp_pool2d(x.abs(), 2, 2),
            F.adaptive_avg_pool2d(x, (3, 2)),
            F.adaptive_max_pool2d(x, (2, None)),
        )

    return f, (_x(16, 1, 2, 7, 5),)


def unfold_matmul_fold_is_a_convolution():
    def f(x, w):
        cols = F.unfold(x, kernel_size=3, padding=1, stride=2)
        y = (w.flatten(1) @ cols).view(x.shape[0], w.shape[0], 4, 4)
        back = F.fold(cols, output_size=x.shape[-2:], kernel_size=3, padding=1, stride=2)
        return y, back, F.pixel_shuffle(x.repeat(1, 2, 1, 1), 2), F.pixel_unshuffle(x[..., :6, :6], 2)

    return f, (_x(17, 1, 2, 7, 7), _x(18, 5, 2, 3, 3))
