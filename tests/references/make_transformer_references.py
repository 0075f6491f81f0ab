#!/usr/bin/env python3
"""Writes gpt2.safetensors and llama.safetensors beside this file.

Usage: python3 tests/references/make_transformer_references.py   (transformers 5.24, torch 2.15)
Each holds a small random model as save_pretrained names its weights, tokens and targets, and what
transformers computes of them in f32: reference.logits, reference.loss and grad.NAME.
"""

import os
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

VOCAB = 31

GPT2 = GPT2Config(
    vocab_size=VOCAB,
    n_positions=16,
    n_embd=16,
    n_layer=2,
    n_head=2,
    activation_function="gelu_new",
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
    bos_token_id=0,
    eos_token_id=0,
    attn_implementation="eager",
)
LLAMA = LlamaConfig(
    vocab_size=VOCAB,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=16,
    rms_norm_eps=1e-5,
    tie_word_embeddings=False,
    attention_dropout=0.0,
    attn_implementation="eager",
)


def write(name, model):
    model = model.float().train()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter.normal_(0, 0.2, generator=generator)
            is_scale = parameter.ndim == 1 and parameter_name.endswith("weight")
            if is_scale:
                parameter.add_(1)
    tokens = torch.randint(VOCAB, (2, 12), generator=generator)
    targets = torch.randint(VOCAB, (2, 12), generator=generator)
    logits = model(input_ids=tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))
    loss.backward()

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tensors = load_file(os.path.join(folder, "model.safetensors"))
    for parameter_name, parameter in model.named_parameters():
        tensors["grad." + parameter_name] = parameter.grad.contiguous()
    tensors["reference.tokens"] = tokens
    tensors["reference.targets"] = targets
    tensors["reference.logits"] = logits.detach().contiguous()
    tensors["reference.loss"] = loss.detach()
    folder = os.path.dirname(os.path.abspath(__file__))
    save_file(tensors, os.path.join(folder, name + ".safetensors"))


write("gpt2", GPT2LMHeadModel(GPT2))
write("llama", LlamaForCausalLM(LLAMA))
