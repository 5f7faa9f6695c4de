"""webdataset: alone, and under torch's DataLoader with two workers."""

import candidate
import pillow
import webdataset as wds

WORKERS = 2


class Alone(candidate.Candidate):
    """Sample by sample: without batches, which would only cost it time."""

    def __init__(self, work):
        super().__init__(work)
        self.dataset = wds.WebDataset(candidate.shards(work), shardshuffle=False, empty_check=False)

    def epoch(self):
        return self.dataset

    def count(self, batch):
        return 1

    def values(self, batch):
        return [batch[self.work["field"]]]


class Workers(candidate.Candidate):
    """Batches are made in the workers, as its documentation advises: fewer messages."""

    def __init__(self, work):
        super().__init__(work)
        dataset = self.dataset(candidate.shards(work))
        self.loader = wds.WebLoader(
            dataset,
            batch_size=None,
            num_workers=WORKERS,
            persistent_workers=True,
            prefetch_factor=4,
        )

    def dataset(self, paths):
        samples = wds.WebDataset(paths, shardshuffle=False, empty_check=False)
        plain = samples.to_tuple(self.work["field"])
        return plain.batched(self.work["batch_size"], collation_fn=list, partial=True)

    def epoch(self):
        return self.loader

    def values(self, batch):
        return [sample[0] for sample in batch]


class Images(Workers):
    def dataset(self, paths):
        samples = wds.WebDataset(paths, shardshuffle=100, empty_check=False).shuffle(1000)
        transform = pillow.transform()

        def load(sample):
            return transform(pillow.open_rgb(sample["jpg"])), int(sample["cls"])

        return samples.map(load).batched(self.work["batch_size"], partial=True)

    def count(self, batch):
        return len(batch[1])

    def values(self, batch):
        return batch[0].numpy(), batch[1]
