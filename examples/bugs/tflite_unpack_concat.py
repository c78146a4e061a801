"""Take a tensor apart along its first axis and join the pieces along the last.

The TFLite converter mistakes the pair for a reshape, as if both used the same axis: [[1, 3], [2, 4]] becomes
[[1, 2], [3, 4]]. Published with WhiteFox.
Compiler: TFLite (a rewrite in the converter). Reported: https://github.com/tensorflow/tensorflow/issues/60925
"""

import numpy as np
import tensorflow as tf


def side_by_side(x):
    upper, lower = tf.unstack(x, axis=0)
    return tf.concat([upper, lower], axis=-1)


def program():
    return side_by_side, (np.array([[[1.0], [2.0]], [[3.0], [4.0]]], dtype=np.float32),)
