"""litdata: its own format, made of the same pictures, and its DataLoader with two workers.

As a program, peers_litdata.py FOLDER makes FOLDER-litdata of the shards in FOLDER.
"""

import contextlib
import io
import pathlib
import sys
import tarfile

import candidate
import litdata
import pillow

WORKERS = 2


def pairs(path):
    """(JPEG bytes, label) of a shard."""
    with tarfile.open(path) as tar:
        members = iter(tar)
        for picture in members:
            label = next(members)
            yield {
                "jpg": tar.extractfile(picture).read(),
                "cls": int(tar.extractfile(label).read()),
            }


class Dataset(litdata.StreamingDataset):
    def prepare(self):
        self.pixels = pillow.transform()
        return self

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        return self.pixels(pillow.open_rgb(io.BytesIO(sample["jpg"]))), sample["cls"]


class Images(candidate.TensorBatches):
    def __init__(self, work):
        super().__init__(work)
        dataset = Dataset(f"{work['folder']}-litdata", shuffle=True).prepare()
        self.loader = litdata.StreamingDataLoader(
            dataset,
            batch_size=work["batch_size"],
            num_workers=WORKERS,
            persistent_workers=True,
            prefetch_factor=4,
        )


def main():
    folder = sys.argv[1]
    made = pathlib.Path(f"{folder}-litdata")
    if not made.exists():
        with contextlib.redirect_stdout(sys.stderr):
            paths = candidate.shards({"folder": folder})
            litdata.optimize(pairs, paths, str(made), chunk_bytes="64MB", num_workers=1)
    print("{}")


if __name__ == "__main__":
    main()
