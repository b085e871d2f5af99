#!/usr/bin/env python3
"""A small GPT-2 learns a text with adapters (LoRA) of PEFT: gpt2_lora.py [--base FOLDER] [--steps N]

Without a FOLDER that from_pretrained() opens, each peer first trains the same base on another part of the documentation of
Python, byte by byte. The lines with "# starling" are all that a peer needs: without them this is the plain program.
"""
import argparse
from pydoc_data.topics import topics

import peft
import starling.peft  # starling
import torch
import transformers

LENGTH, BATCH = 64, 16


def batches(text, steps, seed):
    """Passages of the text."""
    data = torch.tensor(list(text.encode()))
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield data[torch.randint(len(data) - LENGTH, (BATCH, 1), generator=generator) + torch.arange(LENGTH)]


def train(model, optimizer, passages):
    model.train()
    for step, passage in enumerate(passages, 1):
        optimizer.zero_grad()
        loss = model(input_ids=passage, labels=passage).loss
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)


@torch.no_grad()
def loss_of(model, text):
    model.eval()
    return sum(model(input_ids=passage, labels=passage).loss.item() for passage in batches(text, 10, 9)) / 10


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--base")
parser.add_argument("--steps", type=int, default=200)
arguments = parser.parse_args()
parts = sorted(topics)
general, new = "".join(map(topics.get, parts[:40])), "".join(map(topics.get, parts[40:]))

if arguments.base:
    base = transformers.GPT2LMHeadModel.from_pretrained(arguments.base)
else:
    torch.manual_seed(1)
    base = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=LENGTH, n_embd=96, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0))
    train(base, torch.optim.AdamW(base.parameters(), 2e-3), batches(general, 150, 2))

lora = peft.LoraConfig(task_type="CAUSAL_LM", r=8, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
model = peft.get_peft_model(base, lora)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 3e-3)
print(f"the base has loss {loss_of(model, new):.3f} on the text")
peer = starling.gossip(model, optimizer, local=starling.peft.base(model), model_name="gpt2-lora", batch=BATCH)  # starling
train(model, optimizer, batches(new, arguments.steps, torch.seed()))
peer.close()  # starling
print(f"loss {loss_of(model.merge_and_unload(), new):.3f}")
