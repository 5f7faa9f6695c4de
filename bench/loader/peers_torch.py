"""torch's DataLoader with two workers, over files and over a numpy memmap."""

import pathlib

import candidate
import numpy as np
import pillow
import torch.utils.data

OPTIONS = {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4, "shuffle": True}


class ClassFolder(torch.utils.data.Dataset):
    """torchvision's ImageFolder: files of sorted classes, opened by Pillow."""

    def __init__(self, folder):
        classes = sorted(path for path in pathlib.Path(folder).iterdir() if path.is_dir())
        self.files = [
            (str(path), label)
            for label, one in enumerate(classes)
            for path in sorted(one.iterdir())
        ]
        self.transform = pillow.transform()

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        return self.transform(pillow.open_rgb(path)), label


class Folder(candidate.TensorBatches):
    def __init__(self, work):
        super().__init__(work)
        self.loader = torch.utils.data.DataLoader(
            ClassFolder(work["folder"]), batch_size=work["batch_size"], **OPTIONS
        )


class Memmap(torch.utils.data.Dataset):
    """A slice, widened: what nanoGPT and many others do."""

    def __init__(self, path, seq):
        self.data = np.memmap(path, dtype=np.uint16, mode="r")
        self.seq = seq

    def __len__(self):
        return (len(self.data) - 1) // self.seq

    def __getitem__(self, index):
        begin = index * self.seq
        return torch.from_numpy(self.data[begin : begin + self.seq + 1].astype(np.int64))


class Tokens(candidate.Candidate):
    def __init__(self, work):
        super().__init__(work)
        dataset = Memmap(pathlib.Path(work["folder"]) / "corpus.bin", work["seq"])
        self.loader = torch.utils.data.DataLoader(dataset, batch_size=work["batch_size"], **OPTIONS)

    def epoch(self):
        return self.loader

    def values(self, batch):
        return [row[:-1].numpy() for row in batch]
