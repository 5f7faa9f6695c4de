"""NVIDIA DALI's CPU pipelines, without a GPU (device_id=None), two threads."""

import candidate
import numpy as np
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import tfrecord as tfrec

THREADS = 2


class Dali(candidate.Candidate):
    whole_epochs = True

    def __init__(self, work):
        super().__init__(work)
        make = pipeline_def(self.graph)
        self.pipe = make(
            batch_size=work["batch_size"],
            num_threads=THREADS,
            device_id=None,
            prefetch_queue_depth=3,
        )
        self.pipe.build()
        self.samples = self.pipe.epoch_size("reader")

    def epoch(self):
        """The last batch is filled up from the next epoch, which the count leaves out."""
        for begin in range(0, self.samples, self.work["batch_size"]):
            self.valid = min(self.work["batch_size"], self.samples - begin)
            yield self.pipe.run()

    def count(self, batch):
        return self.valid

    def index(self, paths):
        return [
            path.replace(f"{self.work['folder']}/", f"{self.work['folder']}-dali/")
            for path in paths
        ]


class Images(Dali):
    """Its own order of decoding, cropping and resizing: only the crop is decoded."""

    def graph(self):
        paths = candidate.shards(self.work)
        jpegs, labels = fn.readers.webdataset(
            paths=paths,
            index_paths=[path.rsplit(".", 1)[0] + ".idx" for path in self.index(paths)],
            ext=["jpg", "cls"],
            random_shuffle=True,
            initial_fill=1000,
            pad_last_batch=True,
            name="reader",
        )
        images = fn.decoders.image_random_crop(jpegs, device="cpu", output_type=types.RGB)
        images = fn.resize(images, size=[candidate.SIZE, candidate.SIZE], antialias=True)
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT,
            output_layout="CHW",
            mean=[255 * value for value in candidate.MEAN],
            std=[255 * value for value in candidate.STD],
        )
        return images, labels

    def values(self, batch):
        images = batch[0].as_array()[: self.valid]
        labels = [int(bytes(np.asarray(batch[1].at(i)))) for i in range(self.valid)]
        return images, labels


class Records(Dali):
    """Examples parsed; it checks no CRC."""

    def graph(self):
        paths = candidate.shards(self.work, "*.tfrecord")
        features = fn.readers.tfrecord(
            path=paths,
            index_path=[path.rsplit(".", 1)[0] + ".idx" for path in self.index(paths)],
            features={
                "image": tfrec.FixedLenFeature((), tfrec.string, ""),
                "label": tfrec.FixedLenFeature([1], tfrec.int64, -1),
            },
            pad_last_batch=True,
            name="reader",
        )
        return features["image"], features["label"]

    def values(self, batch):
        return [np.asarray(batch[0].at(i)) for i in range(self.valid)]
