"""Adapters of PEFT, such as LoRA: only they are exchanged.

    with starling.gossip(starling.peft.only_adapters(model), optimizer, listen="127.0.0.1:7100"):
        train(model, optimizer)

Every peer loads the same base model itself: it is in no exchange and no joiner's copy, and nothing changes it.
"""
import starling

try:
    import peft
    from peft.tuners.tuners_utils import BaseTuner
    from peft.utils import ModulesToSaveWrapper
except ModuleNotFoundError as missing:
    if missing.name != "peft":
        raise
    raise ImportError("starling.peft needs the package peft; install it with: pip install peft") from None


def only_adapters(model):
    """Before gossip(): keeps what is not trained in the PEFT models of `model`, a module that is or has one, out of the
    exchanges: parameters without requires_grad, and buffers except for those of modules_to_save. Returns `model`. Raises
    starling.Error if nothing is left."""
    wrapped = [module for module in model.modules() if isinstance(module, (peft.PeftModel, BaseTuner))]
    for module in wrapped:
        whole = {id(buffer) for part in module.modules() if isinstance(part, ModulesToSaveWrapper)
                 for buffer in part.buffers()}
        for parameter in module.parameters():
            parameter.starling_local = not parameter.requires_grad
        for buffer in module.buffers():
            buffer.starling_local = id(buffer) not in whole
    if not any(parameter.requires_grad for module in wrapped for parameter in module.parameters()):
        raise starling.Error(f"{type(model).__name__} has no adapters of PEFT that are trained; make them with "
                             "peft.get_peft_model()")
    return model
