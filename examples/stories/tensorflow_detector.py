"""Trains an SSD of TensorFlow's Object Detection API in a loop of one's own, and keeps the predictions of each step.

    python train.py                   # the predictions are kept on the device
    python train.py --healed          # the boxes are kept, on the host
    python train.py --device GPU:0    # the memory of a GPU is printed

Images and weights are random: what is looked at is the memory. docs/cases.md says what it needs.
"""

import argparse
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from object_detection.builders import model_builder
from object_detection.protos import model_pb2

# Images of a batch, pixels of their sides, and kinds of objects.
# They are so few that a CPU takes a second for a step.
BATCH, SIDE, CLASSES = 4, 320, 1
# As in the API's configuration of SSD MobileNet V2 for images of 320 x 320.
CONFIGURATION = """
ssd {
  num_classes: 1
  image_resizer { fixed_shape_resizer { height: 320 width: 320 } }
  feature_extractor {
    type: "ssd_mobilenet_v2_keras"
    depth_multiplier: 1.0
    min_depth: 16
    conv_hyperparams { activation: RELU_6
      regularizer { l2_regularizer { weight: 4e-5 } }
      initializer { truncated_normal_initializer { stddev: 0.03 } }
      batch_norm { decay: 0.97 scale: true epsilon: 0.001 } }
    override_base_feature_extractor_hyperparams: true }
  box_coder { faster_rcnn_box_coder { y_scale: 10 x_scale: 10 height_scale: 5 width_scale: 5 } }
  matcher { argmax_matcher { matched_threshold: 0.5 unmatched_threshold: 0.5 force_match_for_each_row: true
    use_matmul_gather: true } }
  similarity_calculator { iou_similarity { } }
  box_predictor { convolutional_box_predictor { kernel_size: 1 box_code_size: 4 class_prediction_bias_init: -4.6
    conv_hyperparams { activation: RELU_6
      regularizer { l2_regularizer { weight: 4e-5 } }
      initializer { random_normal_initializer { stddev: 0.01 } }
      batch_norm { decay: 0.97 scale: true epsilon: 0.001 } } } }
  anchor_generator { ssd_anchor_generator { num_layers: 6 min_scale: 0.2 max_scale: 0.95
    aspect_ratios: 1.0 aspect_ratios: 2.0 aspect_ratios: 0.5 aspect_ratios: 3.0 aspect_ratios: 0.3333 } }
  post_processing { score_converter: SIGMOID
    batch_non_max_suppression { iou_threshold: 0.6 max_detections_per_class: 100 max_total_detections: 100 } }
  normalize_loss_by_num_matches: true
  normalize_loc_loss_by_codesize: true
  encode_background_as_zeros: true
  inplace_batchnorm_update: true
  loss { localization_loss { weighted_smooth_l1 { } }
    classification_loss { weighted_sigmoid_focal { alpha: 0.75 gamma: 2.0 } } }
}
"""


def new_detector() -> Any:
    return model_builder.build(text_format.Parse(CONFIGURATION, model_pb2.DetectionModel()), is_training=True)


def new_train_step(detector: Any) -> Any:
    optimizer = tf.keras.optimizers.legacy.SGD(0.01, momentum=0.9)
    shapes = tf.constant(BATCH * [[SIDE, SIDE, 3]], tf.int32)

    @tf.function
    def train_step(images: tf.Tensor, boxes: list, classes: list) -> tuple[tf.Tensor, dict[str, Any]]:
        detector.provide_groundtruth(groundtruth_boxes_list=boxes, groundtruth_classes_list=classes)
        with tf.GradientTape() as tape:
            predictions = detector.predict(detector.preprocess(images)[0], shapes)
            loss = tf.add_n(list(detector.loss(predictions, shapes).values()))
        optimizer.minimize(loss, detector.trainable_variables, tape=tape)
        return loss, predictions

    return train_step


def batch() -> tuple[tf.Tensor, list, list]:
    corners = tf.random.uniform([BATCH, 1, 2], 0.0, 0.5)
    boxes = tf.concat([corners, corners + 0.4], axis=-1)
    images = tf.random.uniform([BATCH, SIDE, SIDE, 3], 0, 255)
    return images, tf.unstack(boxes), BATCH * [tf.one_hot([0], CLASSES)]


def train(steps: int, healed: bool, device: str) -> None:
    train_step, for_evaluation = new_train_step(new_detector()), []
    for step in range(1, steps + 1):
        loss, predictions = train_step(*batch())
        # The dict has the boxes, and the images and all feature maps, too.
        for_evaluation.append(predictions["box_encodings"].numpy() if healed else predictions)
        memory = tf.config.experimental.get_memory_info(device)
        print(f"INFO:tensorflow:global step {step}: loss = {float(loss):.4f} memory: {memory}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100, help="steps (default 100)")
    parser.add_argument("--healed", action="store_true", help="keep the boxes of each step only, on the host")
    parser.add_argument("--device", default="CPU:0", help='whose memory is printed, "GPU:0" on a GPU (default CPU:0)')
    options = parser.parse_args()
    tf.random.set_seed(1)
    train(options.steps, options.healed, options.device)


if __name__ == "__main__":
    main()
