"""Trains a small convolutional network on shards of `penstock pack images`, and shows where the
time went.

    penstock pack images IMAGES_DIR SHARDS_DIR --shuffle
    python examples/train_images.py SHARDS_DIR --classes 3 --epochs 3
"""

import argparse

import penstock.torch
import torch
from torch import nn


def make_loader(options):
    fields = {
        "image": penstock.Image(
            "jpg",
            size=options.size,
            crop="random",
            scale=(0.6, 1.0),
            flip=True,
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
            dtype="float32",
        ),
        "label": penstock.Int("cls"),
    }
    return penstock.torch.Loader(
        options.shards, fields, batch_size=options.batch, shuffle="global", seed=1, memory="512MiB"
    )


def make_model(classes: int) -> nn.Module:
    def block(channels_in, channels_out):
        conv = nn.Conv2d(channels_in, channels_out, 3, stride=2, padding=1, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(channels_out), nn.ReLU())

    return nn.Sequential(
        block(3, 16),
        block(16, 32),
        block(32, 64),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


def train_step(model, optimizer, images, labels):
    logits = model(images)
    loss = nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), (logits.argmax(1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("shards", help="a folder of shards, a pattern, or s3://…")
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = make_loader(options)
    model = make_model(options.classes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(options.epochs):
        sums = [0.0, 0.0]
        for batch in loader:
            images, labels = batch.to(device)
            with loader.step():  # Lets the report tell how long training waited for data.
                for i, value in enumerate(train_step(model, optimizer, images, labels)):
                    sums[i] += value
        loss, accuracy = (value / len(loader) for value in sums)
        print(f"epoch {epoch + 1}: loss {loss:.3f}, {accuracy:.0%} right", flush=True)
    print(loader.report())


if __name__ == "__main__":
    main()
