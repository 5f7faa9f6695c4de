"""Pillow and torchvision's transforms, as training scripts write them."""

import io

import candidate
import torch
from PIL import Image


def torchvision_transforms():
    """PyPI's torchvision is built for CUDA: with a torch for CPUs its operators do not load, and
    for the want of two of them it cannot be imported. Its transforms need none: declare the two.
    """
    try:
        from torchvision import transforms
    except (ImportError, RuntimeError):
        operators = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torchvision_transforms.operators = operators  # They live as long as it does.
        from torchvision import transforms
    return transforms


def transform():
    transforms = torchvision_transforms()
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(candidate.SIZE),
            transforms.ToTensor(),
            transforms.Normalize(candidate.MEAN, candidate.STD),
        ]
    )


def open_rgb(source):
    """A path, or bytes."""
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source).convert("RGB")
