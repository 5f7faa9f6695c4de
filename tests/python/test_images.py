"""Images against Pillow."""

import io
import random

import numpy as np
import penstock
import pytest
from conftest import jpeg, write_tar
from PIL import Image


def one_batch(path, count, **options):
    loader = penstock.Loader(
        str(path), {"image": penstock.Image("jpg;png", **options)}, batch_size=count
    )
    return next(iter(loader))["image"]


@pytest.fixture
def pictures(tmp_path):
    rng = random.Random(7)
    made = [jpeg(rng, rng.randrange(40, 400), rng.randrange(40, 400)) for _ in range(20)]
    path = write_tar(
        tmp_path / "pictures.tar", [(f"{i:03d}.jpg", data) for i, data in enumerate(made)]
    )
    return path, [Image.open(io.BytesIO(data)).convert("RGB") for data in made]


def test_resize_is_pillows(pictures):
    path, images = pictures
    got = one_batch(path, 20, size=(64, 96), fast_scale=False, layout="HWC")
    for ours, image in zip(got, images):
        want = np.asarray(image.resize((96, 64), Image.BILINEAR)).astype(int)
        assert np.abs(ours.astype(int) - want).max() <= 1


def test_fast_scale_is_close(pictures):
    path, images = pictures
    got = one_batch(path, 20, size=64, layout="HWC")
    for ours, image in zip(got, images):
        want = np.asarray(image.resize((64, 64), Image.BILINEAR)).astype(int)
        assert np.abs(ours.astype(int) - want).mean() < 4


def test_center_crop_is_torchvisions(pictures):
    path, images = pictures
    got = one_batch(path, 20, size=48, crop="center", resize=56, fast_scale=False, layout="HWC")
    for ours, image in zip(got, images):
        w, h = image.size
        short, long = min(w, h), max(w, h)
        new = (56, int(56 * long / short)) if w <= h else (int(56 * long / short), 56)
        resized = image.resize(new, Image.BILINEAR)
        left, top = int(round((new[0] - 48) / 2.0)), int(round((new[1] - 48) / 2.0))
        want = np.asarray(resized.crop((left, top, left + 48, top + 48))).astype(int)
        assert np.abs(ours.astype(int) - want).max() <= 1


def test_dtypes_layouts_and_normalisation_agree(pictures):
    path, _ = pictures
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    plain = one_batch(path, 20, size=32, layout="HWC").astype(np.float64)
    want = (plain / 255 - mean) / std
    for dtype, tolerance in (("float32", 1e-5), ("float16", 2e-3)):
        got = one_batch(path, 20, size=32, layout="CHW", dtype=dtype, mean=mean, std=std)
        assert got.dtype == np.dtype(dtype) and got.shape == (20, 3, 32, 32)
        np.testing.assert_allclose(
            got.transpose(0, 2, 3, 1).astype(np.float64), want, atol=tolerance
        )
    bits = one_batch(path, 20, size=32, layout="HWC", dtype="bfloat16", mean=mean, std=std)
    as_float = (bits.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(as_float, want, atol=2e-2)


def test_what_is_random_depends_on_seed_epoch_and_sample_alone(pictures):
    path, _ = pictures

    def epochs(threads, batch, seed=3):
        field = penstock.Image(
            "jpg", size=32, crop="random", flip=True, brightness=0.4, contrast=0.4, saturation=0.4
        )
        loader = penstock.Loader(
            str(path), {"image": field}, batch_size=batch, threads=threads, seed=seed
        )
        return [np.concatenate([b["image"].copy() for b in loader]) for _ in range(2)]

    one, two = epochs(1, 20), epochs(2, 5)
    assert (one[0] == two[0]).all() and (one[1] == two[1]).all()
    assert (one[0] != one[1]).any() and (one[0] != epochs(1, 20, seed=4)[0]).any()


def test_a_corrupt_image_is_named_or_skipped(tmp_path):
    good = jpeg(random.Random(1), 80, 60)
    path = write_tar(
        tmp_path / "some.tar",
        [("a.jpg", good), ("b.jpg", good[: len(good) // 2]), ("c.jpg", b"not an image")],
    )
    fields = {"image": penstock.Image("jpg", size=32)}
    with pytest.raises(penstock.CorruptError, match=r"some.tar: sample 'b'"):
        next(iter(penstock.Loader(str(path), fields, batch_size=3)))
    loader = penstock.Loader(str(path), fields, batch_size=3, on_error="skip")
    batch = next(iter(loader))
    assert batch["__mask__"].tolist() == [True, False, False]
    assert batch["image"][0].any() and not batch["image"][1:].any()
    assert {key for _, key, _ in loader.report()["skipped_list"]} == {"b", "c"}


def test_class_folders(tmp_path):
    rng = random.Random(3)
    names = ["zebra", "ant", "owl"]
    for name in names:
        (tmp_path / "train" / name).mkdir(parents=True)
        for i in range(4):
            (tmp_path / "train" / name / f"{i}.jpg").write_bytes(jpeg(rng, 50, 40))
    (tmp_path / "train" / "ant" / "notes.txt").write_text("no image")
    fields = {"image": penstock.Image(size=32), "label": penstock.Int("cls")}
    loader = penstock.Loader(str(tmp_path / "train"), fields, batch_size=12)
    batch = next(iter(loader))
    assert loader.classes == ["ant", "owl", "zebra"]
    assert batch["label"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert batch["image"].shape == (12, 3, 32, 32) and batch["image"].any(axis=(1, 2, 3)).all()
    dataset = penstock.Dataset(str(tmp_path / "train"))
    assert dataset[5]["cls"] == 1 and dataset[5]["jpg"][:2] == b"\xff\xd8"
