"""A negative number to a fractional power is NaN, and so is its logarithm.

XLA simplifies log(pow(x, y)) to y * log|x| or the like and returns a number.
Compiler: XLA, through TensorFlow with jit_compile. Reported: https://github.com/tensorflow/tensorflow/issues/57744
"""

import numpy as np
import tensorflow as tf


def log_of_power(x):
    return tf.math.log(tf.math.pow(x, x))


def program():
    return log_of_power, (np.array([-1.5, 2.0, -0.5], dtype=np.float32),)
