"""softplus(x) = log(1 + exp(x)) is close to x for large x.

The TFLite converter writes it out as that very formula, whose exponential overflows from about 89 on: the result is
Inf. Published with WhiteFox.
Compiler: TFLite. Reported: https://github.com/tensorflow/tensorflow/issues/60892
"""

import numpy as np
import tensorflow as tf


def smooth_relu(x):
    return tf.math.softplus(x)


def program():
    return smooth_relu, (np.array([100.0, 100.0], dtype=np.float32),)
