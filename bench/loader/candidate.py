"""What drive.py runs: somebody's loader over one dataset.

Each takes `work`, the settings of the row: `folder`, `batch_size`, and what the row needs besides.
"""

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SIZE = 224


class Candidate:
    # Epochs of these are never left early: what is left of one would come in the next.
    whole_epochs = False

    def __init__(self, work):
        self.work = work

    def epoch(self):
        """Batches, or samples, of one epoch."""
        raise NotImplementedError

    def count(self, batch):
        """The samples in it."""
        return len(batch)

    def values(self, batch):
        """For the check: bytes of each sample, or (float32 NCHW, labels) of images."""
        return batch


class TensorBatches(Candidate):
    """Whose `loader` gives (images, labels) as tensors."""

    loader = None

    def epoch(self):
        return self.loader

    def count(self, batch):
        return len(batch[1])

    def values(self, batch):
        return batch[0].numpy(), batch[1]


def shards(work, pattern="*.tar"):
    import pathlib

    return [str(path) for path in sorted(pathlib.Path(work["folder"]).glob(pattern))]
