"""Peers that the Trainer of Hugging Face's transformers trains: a callback.

    trainer = transformers.Trainer(model, args, train_dataset=data,
                                   callbacks=[starling.transformers.Gossip(listen="127.0.0.1:7100")])
    trainer.train()

Several processes with DDP are one peer. FSDP and DeepSpeed are a starling.Error.
"""
import starling

try:
    import transformers
except ModuleNotFoundError as missing:
    if missing.name != "transformers":
        raise
    raise ImportError("starling.transformers needs the package transformers; install it with: "
                      "pip install 'transformers[torch]'") from None


class Gossip(transformers.TrainerCallback):
    """A peer from the first training step to the last one; `peer` while it lives.

    accuracy: the name of a metric from 0 to 1 that is reported after each evaluation. arguments: those of
    starling.gossip()."""

    def __init__(self, accuracy="eval_accuracy", **arguments):
        self.peer = None
        self._accuracy, self._arguments = accuracy, arguments

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **_):
        self._end()  # of a training that failed
        if args.deepspeed or args.fsdp:
            raise starling.Error(f"{'DeepSpeed' if args.deepspeed else 'FSDP'} divides the model among devices; a peer needs "
                                 "whole parameters: use one device, or DDP")
        self.peer = starling.gossip(model, optimizer, **self._arguments)

    def on_evaluate(self, args, state, control, metrics=None, **_):
        accuracy = (metrics or {}).get(self._accuracy)
        if self.peer is not None and accuracy is not None:
            self.peer.report(accuracy=accuracy)

    # The end precedes the last evaluation and checkpoint, and the Trainer's loading of the best model.

    def on_step_end(self, args, state, control, **_):
        if control.should_training_stop:
            self._end()

    def on_log(self, args, state, control, logs=None, **_):
        if "train_runtime" in (logs or {}):
            self._end()

    def on_train_end(self, args, state, control, **_):
        self._end()

    def _end(self):
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.__exit__(None, None, None)
