"""A matrix product plus a bias of one element, which is broadcast.

The TFLite converter turns both into FULLY_CONNECTED, whose bias needs one element per output: the interpreter refuses
the file ("NumElements(bias) != SizeOfDimension(filter, 0)"). Published with WhiteFox; fixed in TensorFlow 2.20.
Compiler: TFLite, TensorFlow 2.13. Reported: https://github.com/tensorflow/tensorflow/issues/60929
"""

import numpy as np
import tensorflow as tf

WEIGHTS = np.array([[0.5, -1.0], [2.0, 4.0]], dtype=np.float32)
OFFSET = np.array([1.5], dtype=np.float32)


def affine(x):
    return tf.linalg.matmul(x, WEIGHTS) + OFFSET


def program():
    return affine, (np.array([[3.0, 0.25]], dtype=np.float32),)
