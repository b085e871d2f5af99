#!/usr/bin/env python3
"""A small BERT that fills in masked letters of a text, with the Trainer of transformers: bert_trainer.py [--steps N]

The text is the documentation of Python. The lines with "# starling" are all that a peer needs: without them this is the
plain program.
"""
import argparse
import tempfile
from pydoc_data.topics import topics

import starling.transformers  # starling
import torch
import transformers

LENGTH, BATCH, MASK = 64, 16, 256


def passages(text):
    data = torch.tensor(list(text.encode()))
    return [{"input_ids": piece} for piece in data.split(LENGTH) if len(piece) == LENGTH]


def masked(samples):
    """A batch: 15 percent of the letters are hidden, and are the labels."""
    letters = torch.stack([sample["input_ids"] for sample in samples])
    hidden = torch.rand(letters.shape) < 0.15
    return {"input_ids": letters.masked_fill(hidden, MASK), "labels": letters.masked_fill(~hidden, -100)}


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=400)
arguments = parser.parse_args()
text = "".join(topics[name] for name in sorted(topics))
model = transformers.BertForMaskedLM(transformers.BertConfig(
    vocab_size=257, hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=192,
    max_position_embeddings=LENGTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
with tempfile.TemporaryDirectory() as folder:
    trainer = transformers.Trainer(
        model,
        transformers.TrainingArguments(
            folder, max_steps=arguments.steps, per_device_train_batch_size=BATCH, learning_rate=1e-3, use_cpu=True,
            report_to=[], save_strategy="no", logging_steps=100, disable_tqdm=True, remove_unused_columns=False,
            seed=torch.seed() % 2**32),
        train_dataset=passages(text[:-20000]), eval_dataset=passages(text[-20000:]), data_collator=masked,
        callbacks=[starling.transformers.Gossip(model_name="bert", data="python")],  # starling
    )
    trainer.train()
    print(f"loss {trainer.evaluate()['eval_loss']:.3f}")
