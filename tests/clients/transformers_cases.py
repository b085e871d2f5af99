"""starling.transformers, accelerate and starling.peft with the real packages."""
import os

import accelerate
import peft
import starling
import starling.peft
import starling.transformers
import torch
import transformers
from suite import require
from torch import nn

ROWS, BATCH = 45, 8  # six batches, the last with five samples


def texts(rows=ROWS, seed=2):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(32, (rows, 16), generator=generator)
    return [{"input_ids": row, "labels": row.clone()} for row in rows]


def language_model():
    torch.manual_seed(1)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


def adapted():
    return peft.get_peft_model(language_model(), peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True,
                                                                 task_type="CAUSAL_LM"))


def values(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def near(a, b, bound=1e-5):
    for name, x in a.items():
        require(torch.allclose(x.double(), b[name].double(), bound, bound),
                f"{name} differs by {(x.double() - b[name].double()).abs().max():.2g}")


def trainer(place, model, *callbacks, **settings):
    settings = {"num_train_epochs": 2, "save_strategy": "no", "learning_rate": 0.01, **settings}
    evaluated = settings.pop("evaluated", None)
    metrics = settings.pop("compute_metrics", None)
    arguments = transformers.TrainingArguments(place.path("out"), per_device_train_batch_size=BATCH, use_cpu=True, report_to=[],
                                               disable_tqdm=True, logging_steps=1, seed=3, log_level="error", **settings)
    made = transformers.Trainer(model, arguments, train_dataset=texts(), eval_dataset=evaluated, compute_metrics=metrics,
                                callbacks=list(callbacks))
    made.remove_callback(transformers.PrinterCallback)
    return made


def as_without_a_peer(place, make=language_model, gossip=None, **settings):
    """Trains two models, one of them as a peer, and requires the same values. Returns the latter's Trainer. `gossip`:
    arguments of the peer, or a function of the model that returns them."""
    plain, model = make(), make()
    trainer(place, plain, **settings).train()
    more = gossip(model) if callable(gossip) else gossip or {}
    adapter = starling.transformers.Gossip(**place.arguments(**more))
    peer = trainer(place, model, adapter, **settings)
    peer.train()
    require(adapter.peer is None, "the peer has left")
    near(values(plain), values(model))
    return peer


def the_trainer_counts_all_samples(place):
    as_without_a_peer(place)
    place.counted(90, 12)


def the_trainer_adds_accumulated_batches(place):
    trained = as_without_a_peer(place, gradient_accumulation_steps=4)
    place.counted(90, 4)
    logged = [entry["loss"] for entry in trained.state.log_history if "loss" in entry]
    require(abs(place.loss - logged[-1]) < 1e-3, f"the loss is {place.loss}, the Trainer logs {logged[-1]}")


def the_trainer_trains_in_mixed_precision(place):
    for precision in "bf16", "fp16":
        as_without_a_peer(place, **{precision: True})
        place.counted(90, 12)


def the_trainer_checkpoints_activations(place):
    as_without_a_peer(place, gradient_checkpointing=True)
    place.counted(90, 12)


def the_trainer_counts_what_batch_says(place):
    as_without_a_peer(place, gossip={"batch": 2})
    place.counted(24, 12)


def the_trainer_resumes(place):
    adapter = starling.transformers.Gossip(**place.arguments())
    trainer(place, language_model(), num_train_epochs=1, save_strategy="epoch", lr_scheduler_type="constant").train()
    model, plain = language_model(), language_model()
    trainer(place, model, adapter, lr_scheduler_type="constant").train(
        resume_from_checkpoint=place.path("out/checkpoint-6"))
    place.counted(45, 6)
    trainer(place, plain, lr_scheduler_type="constant").train(resume_from_checkpoint=place.path("out/checkpoint-6"))
    near(values(plain), values(model))


def the_best_model_of_the_trainer_stays(place):
    """Early stopping ends the training at an evaluation, and the Trainer loads the best model."""
    class Kept(transformers.TrainerCallback):
        saved = {}

        def on_save(self, args, state, control, model=None, **_):
            self.saved[state.global_step] = values(model)
    adapter, kept = starling.transformers.Gossip(**place.arguments()), Kept()
    model = language_model()
    trained = trainer(place, model, kept, transformers.EarlyStoppingCallback(2), adapter, num_train_epochs=9,
                      learning_rate=0.05, eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
                      evaluated=texts(8, seed=9))
    trained.train()
    best, last = trained.state.best_global_step, trained.state.global_step
    require(best < last < 54, f"the best step is {best}, the last one {last}")
    near(kept.saved[best], values(model), 0)


def the_accuracy_of_evaluations_is_reported(place):
    adapter = starling.transformers.Gossip(**place.arguments())
    trainer(place, language_model(), adapter, eval_strategy="steps", eval_steps=3, evaluated=texts(8),
            compute_metrics=lambda _: {"accuracy": 0.375}).train()
    require(place.accuracy == 0.375, f"{place.accuracy}")


def divided_models_of_the_trainer_are_refused(place):
    adapter = starling.transformers.Gossip(**place.arguments())
    for name in "fsdp", "deepspeed":
        arguments = transformers.TrainingArguments(place.path("out"), use_cpu=True)
        setattr(arguments, name, "given")
        try:
            adapter.on_train_begin(arguments, None, None, model=language_model())
        except starling.Error as error:
            require("divides the model" in str(error), str(error))
        else:
            raise AssertionError("it began")


def trainer_rank(place):
    if "PLAIN" in os.environ:
        callbacks, name = [], "plain"
    else:
        callbacks, name = [starling.transformers.Gossip(**place.arguments(every="1 steps"))], "peer"
    model = language_model()
    trainer(place, model, *callbacks, ddp_backend="gloo").train()
    torch.save({"values": values(model), "counted": (place.samples, getattr(place, "steps", None))},
               place.path(f"{name}-{os.environ['RANK']}.pt"))


def accelerate_rank(place):
    model, with_peer = language_model(), "PLAIN" not in os.environ
    train_with_accelerate(place, model, with_peer)
    torch.save({"values": values(model), "counted": (place.samples, getattr(place, "steps", None))},
               place.path(f"{'peer' if with_peer else 'plain'}-{os.environ['RANK']}.pt"))


def two_processes(place, name):
    """Runs it in two ranks, without a peer and with one. Returns what the first rank with a peer saved."""
    from concurrent.futures import ThreadPoolExecutor
    for kind in "PLAIN", "PEER":
        with ThreadPoolExecutor() as both:
            port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", kind: "1"}
            list(both.map(lambda rank: place.run("transformers_cases", name, RANK=str(rank), LOCAL_RANK=str(rank), **port),
                          range(2)))
    plain, first, second = (torch.load(place.path(file)) for file in ("plain-0.pt", "peer-0.pt", "peer-1.pt"))
    near(plain["values"], first["values"])
    near(first["values"], second["values"])
    return first


def free_port():
    import socket
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def two_processes_of_the_trainer_are_one_peer(place):
    counted = two_processes(place, "trainer_rank")["counted"]
    require(counted == (96, 6), f"{counted}")  # the last batches are filled up


def two_processes_of_accelerate_are_one_peer(place):
    counted = two_processes(place, "accelerate_rank")["counted"]
    require(counted == (96, 6), f"{counted}")


# ---- accelerate: needs no adapter ----

def train_with_accelerate(place, model, with_peer=True, parts=1, precision=None):
    accelerate.state.AcceleratorState._reset_state(reset_partial_state="RANK" not in os.environ)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=parts, mixed_precision=precision)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    loader = torch.utils.data.DataLoader(texts(), BATCH)
    prepared, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    peer = starling.gossip(prepared, optimizer, **place.arguments(mode="view", every="1 steps")) if with_peer else None
    with peer or torch.enable_grad():
        for _ in range(2):
            for batch in loader:
                with accelerator.accumulate(prepared):
                    accelerator.backward(prepared(**batch).loss)
                    optimizer.step()
                    optimizer.zero_grad()
    accelerator.end_training()


def models_of_accelerate_train_as_they_are(place):
    for settings, steps in ({}, 12), ({"parts": 4}, 4), ({"precision": "bf16"}, 12), ({"parts": 2, "precision": "bf16"}, 6):
        plain, model = language_model(), language_model()
        train_with_accelerate(place, plain, with_peer=False, **settings)
        train_with_accelerate(place, model, **settings)
        place.counted(90, steps)
        near(values(plain), values(model), 0)


# ---- PEFT ----

def train(model, optimizer, steps=6):
    for step in range(steps):
        optimizer.zero_grad()
        model(**{key: torch.stack([row[key] for row in texts(BATCH, step)]) for key in ("input_ids", "labels")}).loss.backward()
        optimizer.step()


def trained(model):
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def only_adapters(model):
    return {"local": starling.peft.base(model)}


def only_adapters_are_exchanged(place):
    names = trained(adapted())
    require(len(names) == 2 and all("lora_" in name for name in names), f"{names}")
    as_without_a_peer(place, adapted)  # of the Trainer, all tensors
    require(len(place.tensors) > 10, f"{place.tensors}")
    as_without_a_peer(place, adapted, only_adapters)
    require(place.tensors == names, f"{place.tensors}")


def merge(place, arguments):
    ends = []
    for with_peer in False, True:
        model = adapted()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 0.05)
        more = arguments(model)
        with starling.gossip(model, optimizer, **place.arguments(**more)) if with_peer else torch.enable_grad():
            train(model, optimizer)
            model.merge_adapter()
            model.unmerge_adapter()
            train(model, optimizer)
            model.merge_adapter()
        ends.append(values(model.unload()))
    near(*ends, 1e-4)


def merged_adapters_stay_merged(place):
    merge(place, only_adapters)


def merged_adapters_of_a_base_that_is_exchanged_stay_merged(place):
    merge(place, lambda model: {})


def a_merge_that_removes_the_adapters_ends_the_exchanges(place):
    model = adapted()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 0.05)
    with starling.gossip(model, optimizer, **place.arguments(**only_adapters(model))):
        train(model, optimizer)
        whole = model.merge_and_unload()
        merged = values(whole)
    near(merged, values(whole), 0)


def parts_that_are_trained_whole_are_exchanged(place):
    torch.manual_seed(1)
    base = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model = peft.get_peft_model(base, peft.LoraConfig(target_modules=["0"], modules_to_save=["2"], r=2))
    names = trained(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    with starling.gossip(model, optimizer, **place.arguments(**only_adapters(model))):
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    require(sorted(place.tensors) == sorted(names) and len(names) == 4, f"{place.tensors}")


def models_without_adapters_are_refused(place):
    try:
        starling.peft.base(language_model())
    except starling.Error as error:
        require("has no adapters of PEFT" in str(error), str(error))
    else:
        raise AssertionError("accepted")


CASES = [the_trainer_counts_all_samples, the_trainer_adds_accumulated_batches, the_trainer_trains_in_mixed_precision,
         the_trainer_checkpoints_activations, the_trainer_counts_what_batch_says, the_trainer_resumes,
         the_best_model_of_the_trainer_stays, the_accuracy_of_evaluations_is_reported,
         divided_models_of_the_trainer_are_refused, two_processes_of_the_trainer_are_one_peer,
         two_processes_of_accelerate_are_one_peer, models_of_accelerate_train_as_they_are, only_adapters_are_exchanged,
         merged_adapters_stay_merged, merged_adapters_of_a_base_that_is_exchanged_stay_merged,
         a_merge_that_removes_the_adapters_ends_the_exchanges,
         parts_that_are_trained_whole_are_exchanged, models_without_adapters_are_refused]
