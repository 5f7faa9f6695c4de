"""Makes a class folder of pictures to try things with: one shape per class, in any colour, size and
place, before a noisy background.

    python examples/make_images.py OUT_DIR --images 1200
"""

import argparse
import pathlib

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("circle", "square", "triangle")


def draw(shape: str, rng: np.random.Generator, side: int) -> Image.Image:
    ground = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    image = Image.fromarray(ground).resize((side, side), Image.Resampling.BICUBIC)
    radius = int(rng.uniform(0.18, 0.36) * side)
    x, y = (int(v) for v in rng.uniform(radius, side - radius, 2))
    box = (x - radius, y - radius, x + radius, y + radius)
    pen, colour = ImageDraw.Draw(image), tuple(int(c) for c in rng.integers(0, 256, 3))
    if shape == "circle":
        pen.ellipse(box, fill=colour, outline="white", width=6)
    elif shape == "square":
        pen.rectangle(box, fill=colour, outline="white", width=6)
    else:
        corners = [(x, box[1]), (box[0], box[3]), (box[2], box[3])]
        pen.polygon(corners, fill=colour, outline="white", width=6)
    return image


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=1200)
    parser.add_argument("--side", type=int, default=256)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    for shape in CLASSES:
        (options.out / shape).mkdir(parents=True, exist_ok=True)
    for i in range(options.images):
        shape = CLASSES[i % len(CLASSES)]
        path = options.out / shape / f"{i:06}.jpg"
        draw(shape, rng, options.side).save(path, quality=90)
    print(f"{options.images} pictures of {len(CLASSES)} classes in {options.out}")


if __name__ == "__main__":
    main()
