"""The mean of int32 numbers whose sum does not fit into int32.

TensorFlow adds them up in 64 bits. XLA adds in 32 bits and divides what is left after wrapping around.
Compiler: XLA, through TensorFlow with jit_compile. Reported: https://github.com/tensorflow/tensorflow/issues/102043
"""

import numpy as np
import tensorflow as tf


def average(values):
    return tf.math.reduce_mean(values)


def program():
    return average, (np.array([2_000_000_000, 1_900_000_000, 1_800_000_000, 1_700_000_000], dtype=np.int32),)
