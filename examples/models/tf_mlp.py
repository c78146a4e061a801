"""A Keras classifier, for the TensorFlow, XLA and TFLite targets."""

import keras
import numpy as np


def program(dtype):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((16,), dtype=dtype),
            layers.Dense(32, activation="relu", dtype=dtype),
            layers.Dense(32, activation="tanh", dtype=dtype),
            layers.Dense(5, activation="softmax", dtype=dtype),
        ]
    )
    return model, (np.random.default_rng(3).standard_normal((4, 16)).astype(dtype),)


def float32():
    return program("float32")


def float64():
    return program("float64")


def float16():
    return program("float16")
