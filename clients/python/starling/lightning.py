"""Peers that Lightning trains: a callback.

    trainer = lightning.Trainer(callbacks=[starling.lightning.Gossip(listen="127.0.0.1:7100")], max_epochs=3)
    trainer.fit(module, loader)

Several devices with DDP are one peer. Other strategies that divide a model are a starling.Error.
"""
import contextlib
import importlib
import sys

import starling


def _framework():
    """The package that the program uses: lightning, or pytorch_lightning with the same classes."""
    names = sorted(("lightning", "pytorch_lightning"), key=lambda name: sys.modules.get(name) is None)
    for name in names:
        try:
            return importlib.import_module("lightning.pytorch" if name == "lightning" else name)
        except ModuleNotFoundError as error:
            if not str(error.name).startswith(name):
                raise
    raise ImportError("starling.lightning needs the package lightning; install it with: pip install lightning")


pl = _framework()
data = importlib.import_module(pl.__name__ + ".utilities.data")
exceptions = importlib.import_module(pl.__name__ + ".utilities.exceptions")


class Gossip(pl.Callback):
    """A peer from the first training step to the last one; `peer` while it lives.

    optimizer: the index of the one that reports steps, if configure_optimizers() returns several. accuracy: the name of a
    logged metric from 0 to 1, reported after each validation. arguments: those of starling.gossip()."""

    def __init__(self, optimizer=0, accuracy=None, **arguments):
        super().__init__()
        self.peer = None
        self._optimizer, self._accuracy, self._arguments = optimizer, accuracy, arguments
        self._begun = 0  # samples of the batch that has begun

    def setup(self, trainer, module, stage):
        """The first callback: the others act on parameters that the swarm has changed, such as averages and checkpoints."""
        if self in trainer.callbacks:
            trainer.callbacks = [self, *(one for one in trainer.callbacks if one is not self)]

    def on_train_start(self, trainer, module):
        strategy = trainer.strategy
        whole = isinstance(strategy, (pl.strategies.SingleDeviceStrategy, pl.strategies.DDPStrategy))
        if not whole or type(strategy).__name__.startswith("DeepSpeed"):
            raise starling.Error(f"{type(strategy).__name__} divides the model among devices; a peer needs whole parameters: "
                                 'use one device or strategy="ddp"')
        if self._optimizer >= len(trainer.optimizers):
            raise starling.Error(f"configure_optimizers() returned {len(trainer.optimizers)} optimizers, and number "
                                 f"{self._optimizer} reports the steps; choose another one with optimizer=")
        self.peer = starling.gossip(module, trainer.optimizers[self._optimizer], **self._arguments)
        self._begun = 0

    # training_step() may call parts of the module only, so batches are counted and not forward passes.

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        with contextlib.suppress(exceptions.MisconfigurationException):  # a batch without a tensor
            self._begun = data.extract_batch_size(batch)
            self.peer.count(self._begun)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self._begun = 0

    def on_train_epoch_end(self, trainer, module):
        if self._begun:  # the module's on_train_batch_start() skipped the batch and the rest of the epoch
            self.peer.count(-self._begun)
            self._begun = 0

    def on_validation_end(self, trainer, module):
        accuracy = trainer.callback_metrics.get(self._accuracy)
        if self.peer is not None and accuracy is not None:
            self.peer.report(accuracy=float(accuracy))

    def on_train_end(self, trainer, module):
        self._end(None)

    def on_exception(self, trainer, module, exception):
        self._end(exception)

    def _end(self, exception):
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.__exit__(type(exception) if exception else None, exception, None)
