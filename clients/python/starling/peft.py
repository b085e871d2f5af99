"""Adapters of PEFT, such as LoRA: only they are exchanged.

    with starling.gossip(model, optimizer, local=starling.peft.base(model), listen="127.0.0.1:7100"):
        train(model, optimizer)

Every peer loads the same base model itself: it is in no exchange and no joiner's copy, and nothing changes it.
"""
import torch

import starling

try:
    import peft
    from peft.tuners.tuners_utils import BaseTuner
    from peft.utils import ModulesToSaveWrapper
except ModuleNotFoundError as missing:
    if missing.name != "peft":
        raise
    raise ImportError("starling.peft needs the package peft; install it with: pip install peft") from None


def base(model):
    """For gossip(local=): keeps what is not trained in the PEFT models of `model`, a module that is or has one, out of the
    exchanges: parameters without requires_grad, and buffers except for those of modules_to_save. Raises starling.Error if
    nothing is left."""
    if not any(parameter.requires_grad for module in _wrapped(model) for parameter in module.parameters()):
        raise starling.Error(f"{type(model).__name__} has no adapters of PEFT that are trained; make them with "
                             "peft.get_peft_model()")

    def is_local(_name, tensor):  # looks when it is asked: a model that moves has other buffers
        if isinstance(tensor, torch.nn.Parameter):
            return not tensor.requires_grad and any(tensor is one for part in _wrapped(model) for one in part.parameters())
        return any(tensor is one for part in _wrapped(model) for one in part.buffers()) and not any(
            tensor is one for part in model.modules() if isinstance(part, ModulesToSaveWrapper) for one in part.buffers())
    return is_local


def _wrapped(model):
    return [module for module in model.modules() if isinstance(module, (peft.PeftModel, BaseTuner))]
