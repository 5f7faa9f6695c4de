"""Penstock behind a real Lightning Trainer."""

import penstock
import pytest

torch = pytest.importorskip("torch")
pl = pytest.importorskip("pytorch_lightning")

from penstock.lightning import CheckpointIO  # noqa: E402


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters({"size": 4})
        self.layer = torch.nn.Linear(4, 1)
        self.seen = []

    def training_step(self, batch, index):
        loss = self.layer(batch).pow(2).mean()
        self.seen.append(float(loss.detach()))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


def train(directory, *, epochs, resume=None, plugin=None, keep=1):
    torch.manual_seed(0)
    model = Model()
    data = torch.utils.data.DataLoader(
        torch.arange(64.0).reshape(16, 4) / 64, batch_size=4, shuffle=False
    )
    saver = pl.callbacks.ModelCheckpoint(
        directory, filename="{epoch}", save_top_k=keep, monitor=None, save_last=False
    )
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        plugins=[plugin or CheckpointIO()],
        callbacks=[saver],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, data, ckpt_path=resume)
    return model


def test_a_trainer_saves_replaces_and_resumes(tmp_path):
    whole = train(tmp_path / "whole", epochs=4)
    first = train(tmp_path / "run", epochs=2)
    saved = list((tmp_path / "run").glob("*.ckpt"))
    assert [path.name for path in saved] == ["epoch=1.ckpt"]
    assert (saved[0] / "manifest.json").exists()
    second = train(tmp_path / "run", epochs=4, resume=saved[0])
    assert first.seen + second.seen == whole.seen
    for a, b in zip(second.parameters(), whole.parameters()):
        assert torch.equal(a, b)
    state = penstock.load(tmp_path / "run" / "epoch=3.ckpt")
    assert torch.equal(state["state_dict"]["layer.weight"], whole.layer.weight)
    assert state["global_step"] == 16


def test_what_is_there_is_replaced_when_the_new_one_is_durable(tmp_path):
    plugin = CheckpointIO()
    path = tmp_path / "last.ckpt"
    path.write_text("a file of another program")
    for step in range(3):
        plugin.save_checkpoint({"global_step": step, "x": torch.full((5,), float(step))}, path)
        assert plugin.load_checkpoint(path)["global_step"] == step
    plugin.remove_checkpoint(path)
    plugin.remove_checkpoint(path)
    assert not path.exists()
    plugin.teardown()
    assert [item.name for item in tmp_path.iterdir()] == [".penstock-checkpoints.lock"]


def test_wrong_things_are_refused(tmp_path):
    plugin = CheckpointIO()
    with pytest.raises(penstock.InvalidError, match="optimizer_states"):
        plugin.save_checkpoint({"optimizer_states": object()}, tmp_path / "a.ckpt")
    with pytest.raises(penstock.InvalidError, match="storage_options"):
        plugin.save_checkpoint({}, tmp_path / "a.ckpt", storage_options={})
    (tmp_path / "b.ckpt").write_bytes(b"PK")
    with pytest.raises(penstock.PenstockError):
        plugin.load_checkpoint(tmp_path / "b.ckpt")
    with pytest.raises(penstock.NotFoundError):
        plugin.load_checkpoint(tmp_path / "none.ckpt")
    plugin.teardown()
