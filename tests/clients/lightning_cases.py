"""starling.lightning with the real Lightning."""
import os

import lightning
import starling
import starling.lightning
import torch
from lightning.pytorch import callbacks
from stage import python
from suite import require
from torch import nn

ROWS, BATCH = 45, 8  # six batches, the last with five samples


def loader():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(ROWS, 8, generator=generator)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long()), BATCH)


class Module(lightning.LightningModule):
    """As usual, training_step() calls parts of it, and never the module itself."""

    def __init__(self, optimizer=lambda p: torch.optim.Adam(p, 0.01)):
        super().__init__()
        torch.manual_seed(1)
        self.backbone, self.head = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, 2)
        self.optimizer = optimizer

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.head(self.backbone(batch[0])), batch[1])

    def validation_step(self, batch, index):
        right = self.head(self.backbone(batch[0])).argmax(1) == batch[1]
        self.log("right", right.float().mean(), batch_size=len(right))

    def configure_optimizers(self):
        return self.optimizer(filter(lambda p: p.requires_grad, self.parameters()))


class Adversaries(lightning.LightningModule):
    """A generator and a critic with optimizers of their own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.generator, self.critic = nn.Linear(4, 8), nn.Linear(8, 1)
        self.automatic_optimization = False

    def training_step(self, batch, index):
        of_generator, of_critic = self.optimizers()
        noise = torch.ones(len(batch[0]), 4)
        of_critic.zero_grad()
        self.manual_backward(self.critic(self.generator(noise)).mean() - self.critic(batch[0]).mean())
        of_critic.step()
        if index % 2:
            of_generator.zero_grad()
            self.manual_backward(-self.critic(self.generator(noise)).mean())
            of_generator.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.generator.parameters(), 0.01), torch.optim.RMSprop(self.critic.parameters(), 0.01)


def trainer(place, *more, epochs=2, **settings):
    settings = {"logger": False, "enable_checkpointing": False, **settings}
    return lightning.Trainer(accelerator="cpu", devices=settings.pop("devices", 1), max_epochs=epochs, callbacks=list(more),
                             enable_progress_bar=False, enable_model_summary=False, default_root_dir=place.folder, **settings)


def values(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def near(a, b, bound=1e-5):
    for name, x in a.items():
        require(torch.allclose(x.double(), b[name].double(), bound, bound), f"{name} differs: {x} {b[name]}")


def as_without_a_peer(place, make, *more, gossip=None, **settings):
    """Trains two modules, one of them as a peer, and requires that they have the same values. Returns the latter."""
    plain, peer = make(), make()
    trainer(place, *(one() for one in more), **settings).fit(plain, loader())
    adapter = starling.lightning.Gossip(**place.arguments(**(gossip or {})))
    trainer(place, *(one() for one in more), adapter, **settings).fit(peer, loader())
    require(adapter.peer is None, "the peer has left")
    near(values(plain), values(peer))
    return peer


def lightning_counts_batches_and_not_forward_passes(place):
    as_without_a_peer(place, Module)
    place.counted(90, 12)


def lightning_adds_accumulated_batches(place):
    as_without_a_peer(place, Module, accumulate_grad_batches=4)
    place.counted(90, 4)


def lightning_counts_a_batch_once_for_lbfgs(place):
    as_without_a_peer(place, lambda: Module(lambda p: torch.optim.LBFGS(p, 0.1, max_iter=3)))
    place.counted(90, 12)


def lightning_trains_in_mixed_precision_and_with_clipping(place):
    as_without_a_peer(place, Module, precision="bf16-mixed", gradient_clip_val=0.5)
    place.counted(90, 12)


def lightning_counts_what_batch_says(place):
    as_without_a_peer(place, Module, gossip={"batch": 3})
    place.counted(36, 12)


def lightning_leaves_out_skipped_batches(place):
    class Skipping(Module):
        def on_train_batch_start(self, batch, index):
            return -1 if index == 3 else None
    as_without_a_peer(place, Skipping)
    place.counted(48, 6)


def lightning_trains_two_optimizers_by_hand(place):
    as_without_a_peer(place, Adversaries, gossip={"optimizer": 1})
    place.counted(90, 12)
    as_without_a_peer(place, Adversaries)  # the generator's, which steps with every second batch
    place.counted(90, 6)


def lightning_keeps_what_a_callback_unfreezes(place):
    class Unfreezing(callbacks.BaseFinetuning):
        def freeze_before_training(self, module):
            self.freeze(module.backbone, train_bn=False)

        def finetune_function(self, module, epoch, optimizer):
            if epoch == 1:
                self.unfreeze_and_add_param_group(module.backbone, optimizer, lr=0.01)
    before = values(Module())
    after = values(as_without_a_peer(place, Module, Unfreezing))
    require(not torch.equal(before["backbone.0.weight"], after["backbone.0.weight"]), "the backbone is trained")
    as_without_a_peer(place, Module, lambda: callbacks.BackboneFinetuning(1, verbose=False), epochs=3)


def lightning_keeps_what_other_callbacks_average(place):
    as_without_a_peer(place, Module, lambda: callbacks.StochasticWeightAveraging(0.01, swa_epoch_start=1), epochs=3)


def lightning_saves_and_resumes(place):
    saver = callbacks.ModelCheckpoint(place.path("saved"), save_last=True)
    adapter = starling.lightning.Gossip(**place.arguments())
    first = Module()
    trainer(place, saver, adapter, enable_checkpointing=True).fit(first, loader())
    place.counted(90, 12)
    path = os.path.join(place.folder, "saved", "last.ckpt")
    saved = torch.load(path, weights_only=False)
    near(values(first), saved["state_dict"])
    require("starling" not in str(sorted(saved["callbacks"])), "the callback has no state")
    resumed, plain = Module(), Module()
    trainer(place, adapter, epochs=3, enable_checkpointing=True).fit(resumed, loader(), ckpt_path=path)
    place.counted(45, 6)
    trainer(place, epochs=3).fit(plain, loader())
    near(values(plain), values(resumed))


def lightning_reports_the_accuracy_of_validation(place):
    adapter = starling.lightning.Gossip(accuracy="right", **place.arguments())
    module = Module()
    trained = trainer(place, adapter)
    trained.fit(module, loader(), loader())
    require(abs(place.accuracy - float(trained.callback_metrics["right"])) < 1e-9, f"{place.accuracy}")


def the_peer_leaves_when_lightning_fails(place):
    class Failing(Module):
        def on_train_batch_end(self, *_):
            raise ZeroDivisionError
    adapter = starling.lightning.Gossip(**place.arguments())
    try:
        trainer(place, adapter).fit(Failing(), loader())
    except ZeroDivisionError:
        pass
    require(adapter.peer is None and "leaving the swarm" in place.log(), place.log())


def lightning_raises_why_no_peer_begins(place):
    for words, settings in (("unknown", {"rule": "unknown"}), ("choose another one with optimizer=", {"optimizer": 1})):
        try:
            trainer(place, starling.lightning.Gossip(**place.arguments(**settings))).fit(Module(), loader())
        except starling.Error as error:
            require(words in str(error), str(error))
        else:
            raise AssertionError("it trained")


def strategies_that_divide_a_model_are_refused(place):
    class Divided(lightning.pytorch.strategies.SingleDeviceStrategy):
        pass
    Divided.__name__ = "DeepSpeedStrategy"
    try:
        trainer(place, starling.lightning.Gossip(**place.arguments()), strategy=Divided("cpu")).fit(Module(), loader())
    except starling.Error as error:
        require("DeepSpeedStrategy divides the model" in str(error), str(error))
    else:
        raise AssertionError("it trained")


def the_other_name_of_lightning_has_the_same_callback(_place):
    done = python("import pytorch_lightning, starling.lightning", "print(issubclass(starling.lightning.Gossip, "
                  "pytorch_lightning.Callback))")
    require(done.stdout == "True\n", done.stdout + done.stderr)


def rank(place):
    module = Module()
    with_peer = [] if "PLAIN" in os.environ else [starling.lightning.Gossip(**place.arguments(every="1 steps"))]
    trained = trainer(place, *with_peer, devices=2, strategy="ddp")
    trained.fit(module, loader())
    torch.save({"values": values(module), "counted": (place.samples, getattr(place, "steps", None))},
               place.path(f"{'plain' if not with_peer else 'peer'}-{trained.global_rank}.pt"))


def two_devices_of_lightning_are_one_peer(place):
    place.run("lightning_cases", "rank", PLAIN="1")
    place.run("lightning_cases", "rank")
    plain, first, second = (torch.load(place.path(name)) for name in ("plain-0.pt", "peer-0.pt", "peer-1.pt"))
    require(first["counted"] == (92, 6), f"{first['counted']}")  # the sampler repeats one sample
    near(plain["values"], first["values"])
    running = {name for name in first["values"] if "running" in name}  # each rank has statistics of its own
    near({name: x for name, x in first["values"].items() if name not in running}, second["values"])


CASES = [lightning_counts_batches_and_not_forward_passes, lightning_adds_accumulated_batches,
         lightning_counts_a_batch_once_for_lbfgs, lightning_trains_in_mixed_precision_and_with_clipping,
         lightning_counts_what_batch_says, lightning_leaves_out_skipped_batches, lightning_trains_two_optimizers_by_hand,
         lightning_keeps_what_a_callback_unfreezes, lightning_keeps_what_other_callbacks_average, lightning_saves_and_resumes,
         lightning_reports_the_accuracy_of_validation, the_peer_leaves_when_lightning_fails,
         lightning_raises_why_no_peer_begins, strategies_that_divide_a_model_are_refused,
         the_other_name_of_lightning_has_the_same_callback, two_devices_of_lightning_are_one_peer]
