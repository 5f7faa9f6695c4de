"""The loader for PyTorch, with real torch."""

import penstock
import penstock.torch
import torch


def test_drop_in_for_images_and_labels(image_shards):
    fields = {
        "image": penstock.Image("jpg", size=32, dtype="float32"),
        "label": penstock.Int("cls"),
    }
    loader = penstock.torch.Loader(
        [str(p) for p in image_shards], fields, batch_size=8, shuffle="global"
    )
    seen = []
    for images, labels in loader:
        assert images.shape == (8, 3, 32, 32) and images.dtype == torch.float32
        assert labels.dtype == torch.int64
        seen += labels.tolist()
    assert sorted(seen) == list(range(24))


def test_bfloat16_and_names(image_shards):
    fields = {
        "image": penstock.Image("jpg", size=32, dtype="bfloat16"),
        "raw": penstock.Bytes("jpg"),
    }
    batch = next(iter(penstock.torch.Loader([str(p) for p in image_shards], fields, batch_size=4)))
    assert (
        batch["image"].dtype == torch.bfloat16
        and 0 <= batch[0].float().min() <= batch[0].float().max() <= 1
    )
    assert batch.mask.all() and len(batch["raw"]) == 4
    moved = batch.to("cpu")
    assert torch.equal(moved["image"], batch["image"])


def test_a_model_learns_from_it(tmp_path):
    """Blue and red pictures: a linear model tells them apart after a few steps."""
    import io

    import numpy as np
    from conftest import write_tar
    from PIL import Image

    members = []
    for i in range(64):
        pixels = np.zeros((40, 40, 3), np.uint8)
        pixels[..., 2 * (i % 2)] = 200
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "JPEG")
        members += [(f"{i:03d}.jpg", out.getvalue()), (f"{i:03d}.cls", str(i % 2).encode())]
    path = write_tar(tmp_path / "colours.tar", members)
    fields = {"image": penstock.Image("jpg", size=8, dtype="float32"), "label": penstock.Int("cls")}
    loader = penstock.torch.Loader(str(path), fields, batch_size=16, shuffle="global", seed=1)
    torch.manual_seed(0)
    model = torch.nn.Linear(3 * 8 * 8, 2)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        for images, labels in loader:
            with loader.step():
                loss = torch.nn.functional.cross_entropy(model(images.flatten(1)), labels)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    assert loss.item() < 0.1 and loader.report()["steps_timed"] == 40


def test_a_dataset_in_torchs_dataloader(shards):
    dataset = penstock.Dataset([str(p) for p in shards])
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=10, shuffle=True, collate_fn=lambda batch: [s["cls"] for s in batch]
    )
    assert sorted(int(x) for batch in loader for x in batch) == list(range(100))
