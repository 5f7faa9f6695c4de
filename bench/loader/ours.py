"""penstock, as its documentation shows it."""

import os

import candidate
import penstock


class Ours(candidate.Candidate):
    whole_epochs = True

    def __init__(self, work):
        super().__init__(work)
        options = {
            "batch_size": work["batch_size"],
            "shuffle": work.get("shuffle", "none"),
            "last": "pad",
            **work.get("options", {}),
        }
        self.loader = self.open(options)

    def open(self, options):
        return penstock.Loader(self.work["source"], self.fields(), **options)

    def epoch(self):
        return self.loader

    def count(self, batch):
        return int(batch["__mask__"].sum())

    def report(self):
        return str(self.loader.report())


class Samples(Ours):
    """The bytes of one field."""

    def fields(self):
        return {"data": penstock.Bytes(self.work["field"])}

    def values(self, batch):
        return [value for value, ok in zip(batch["data"], batch["__mask__"]) if ok]


class Images(Ours):
    def fields(self):
        image = penstock.Image(
            "jpg",
            size=candidate.SIZE,
            crop="random",
            mean=candidate.MEAN,
            std=candidate.STD,
            dtype="float32",
        )
        return {"image": image, "label": penstock.Int("cls")}

    def values(self, batch):
        mask = batch["__mask__"]
        return batch["image"][mask], batch["label"][mask]


class Records(Ours):
    """Features of tf.train.Example; both checksums of every record are checked."""

    def fields(self):
        return {"image": penstock.Bytes("image"), "label": penstock.Int("label")}

    def values(self, batch):
        return [value for value, ok in zip(batch["image"], batch["__mask__"]) if ok]


class Tokens(Ours):
    def open(self, options):
        return penstock.Tokens(
            os.path.join(self.work["folder"], "corpus.idx"), seq_length=self.work["seq"], **options
        )

    def values(self, batch):
        return [row for row, ok in zip(batch["tokens"], batch["__mask__"]) if ok]
