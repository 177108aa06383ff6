"""Records this folder's logs of a small network; see README.md. Run one scenario at a time: record.py SCENARIO."""

from __future__ import annotations

import sys

import tensorflow as tf

IMAGES, CHANNELS = 8, 16


def make_model() -> list[tf.Variable]:
    return [tf.Variable(tf.random.normal([3, 3, 3 if not n else CHANNELS, CHANNELS]) * 0.1) for n in range(3)]


def detect(weights: list[tf.Variable], images: tf.Tensor) -> tf.Tensor:
    for weight in weights:
        images = tf.nn.relu(tf.nn.conv2d(images, weight, strides=1, padding="SAME"))
    return images


def train_step(weights: list[tf.Variable], images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    with tf.GradientTape() as tape:
        features = detect(weights, images)
        loss = tf.reduce_mean(features * features)
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        weight.assign_sub(0.01 * gradient)
    return loss, features


def batch(images: int = IMAGES, side: int = 64) -> tf.Tensor:
    return tf.random.normal([images, side, side, 3])


def growing() -> None:
    """The features of every step are kept for a summary that is never written."""
    weights, for_summary = make_model(), []
    for step in range(1, 1001):
        loss, features = train_step(weights, batch())
        for_summary.append(features)
        print(f"INFO:tensorflow:global step {step}: loss = {float(loss):.4f} (0.034 sec/step)", flush=True)


def retried() -> None:
    """As above; now and then a large batch fails, is caught and left out."""
    weights, for_summary = make_model(), []
    for step in range(1, 1001):
        loss, features = train_step(weights, batch())
        for_summary.append(features)
        print(f"Step {step} loss={float(loss):.3f}", flush=True)
        if step % 10 == 0 and step <= 80:
            try:
                train_step(weights, batch(images=256))
            except tf.errors.ResourceExhaustedError:
                print(f"Step {step}: evaluation skipped", flush=True)
        if step == 80:
            return


def too_big() -> None:
    """The batch does not fit."""
    weights = make_model()
    for step in range(1, 4):
        loss, _ = train_step(weights, batch(images=8 if step == 1 else 1100))
        print(f"INFO:tensorflow:global step {step}: loss = {float(loss):.4f} (0.034 sec/step)", flush=True)


def fragmentation() -> None:
    """Every second of many tensors is freed, and one as large as ten of them is asked for."""
    side = 1 << 20
    held = [tf.zeros([side], tf.float32) for _ in range(60)]
    print("Step 1", flush=True)
    del held[::2]
    print(float(tf.reduce_sum(tf.zeros([20 * side], tf.float32))), len(held))


SCENARIOS = {one.__name__: one for one in (growing, retried, too_big, fragmentation)}

if __name__ == "__main__":
    tf.random.set_seed(1)
    SCENARIOS[sys.argv[1]]()
