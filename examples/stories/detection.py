"""Trains torchvision's RetinaNet on images of changing sizes, as trainers of detectors do.

    frugal-alloc simulate --gpu "RTX 3070" -- python examples/stories/detection.py --allocator native

Data and weights are random: what is looked at is the memory.
"""

import random
import sys
import time

import counts
import story
import torch
from torchvision.models.detection import retinanet_resnet50_fpn

# Height and width of photographs as they are common in COCO.
LANDSCAPES = ((480, 640), (427, 640), (375, 500), (333, 500), (612, 612), (640, 640), (360, 640))
PORTRAITS = tuple((width, height) for height, width in LANDSCAPES)
# The shorter side that the images of a step are scaled to is one of these: multi-scale training.
SCALES = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)


def batch(size: int, grouped: bool) -> tuple[list[torch.Tensor], list[dict[str, torch.Tensor]]]:
    images, targets = [], []
    sizes = random.choice((LANDSCAPES, PORTRAITS)) if grouped else LANDSCAPES + PORTRAITS
    for _ in range(size):
        height, width = random.choice(sizes)
        corners = torch.rand(random.randint(1, 20), 2) * torch.tensor([width - 60.0, height - 60.0])
        extents = 20 + 40 * torch.rand(len(corners), 2)
        images.append(torch.rand(3, height, width).cuda())
        boxes = torch.cat([corners, corners + extents], dim=1)
        targets.append({"boxes": boxes.cuda(), "labels": torch.randint(1, 91, (len(boxes),)).cuda()})
    return images, targets


def main() -> int:
    parser = story.parser(__doc__)
    parser.add_argument("--batch", type=story.count, default=3, help="images in a step (default 3)")
    parser.add_argument("--grouped", action="store_true", help="landscapes and portraits in batches of their own")
    parser.add_argument("--largest", type=int, choices=SCALES, default=608, help="largest scale (default 608)")
    parser.add_argument("--steps", type=story.count, default=14, help="steps (default 14)")
    parser.add_argument("--seed", type=int, default=0, help="of images and scales (default 0)")
    options = parser.parse_args()
    start = time.monotonic()
    story.use(options.allocator)
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    scales = [one for one in SCALES if one <= options.largest]
    model = retinanet_resnet50_fpn(weights=None, weights_backbone=None, min_size=scales).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)

    def train_step() -> None:
        losses = model(*batch(options.batch, options.grouped))
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()

    course = story.Course()
    course.run(options.steps, train_step)
    return course.end(options.json, **counts.driver_effort(), seconds=time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
