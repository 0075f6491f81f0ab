"""Compares training with PyTorch's, step by step: bench_train's gpt on a text.

    bazel build //tests/parity:gpt_steps
    python3 tests/parity/gpt_parity.py --text tinyshakespeare.txt

PyTorch trains 201 steps: AdamW with beta2 0.99, weight decay 0.1 on matrices, gradients clipped to 1,
the learning rate rising to 1e-3 in 100 steps and falling as a cosine to 1e-4 at step 2000. From its
weights and optimizer state at steps 0, 50, 100 and 200 one step of ours must give the same loss (1e-5)
and the same weights (1e-6); and 201 steps of ours from its first weights must stay within 1e-2 of its
losses.
"""

import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from torch_peer import MODELS  # noqa: E402

BATCH, CONTEXT = 8, 256
WARMUP, STEPS, LR, MIN_LR = 100, 2000, 1e-3, 1e-4


def rate(step):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    done = (step - WARMUP) / (STEPS - WARMUP)
    return MIN_LR + 0.5 * (1 + math.cos(math.pi * done)) * (LR - MIN_LR)


def make_batches(text, steps):
    kinds = sorted(set(text))
    ids = torch.tensor([kinds.index(c) for c in text])
    starts = np.random.default_rng(1).integers(0, len(ids) - CONTEXT - 1, (steps, BATCH))
    windows = torch.stack([torch.stack([ids[s:s + CONTEXT + 1] for s in row]) for row in starts])
    return windows[:, :, :-1].contiguous(), windows[:, :, 1:].contiguous()


def state_of(model, optimizer, tokens, targets, rates):
    names = {parameter: name for name, parameter in model.named_parameters()}
    state = {"model." + name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter, entry in optimizer.state.items():
        name = names[parameter]
        state[name + ".mean"] = entry["exp_avg"].clone()
        state[name + ".variance"] = entry["exp_avg_sq"].clone()
        state[name + ".step"] = entry["step"].to(torch.int64).reshape(())
    state["tokens"], state["targets"] = tokens.clone(), targets.clone()
    state["lr"] = rates
    return state


def ours(program, folder, state):
    save_file(state, folder / "state.safetensors")
    subprocess.run([program, folder / "state.safetensors", folder / "result.safetensors"], check=True)
    result = load_file(folder / "result.safetensors")
    return result.pop("losses").tolist(), result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--program", default=str(ROOT / "bazel-bin/tests/parity/gpt_steps"))
    args = parser.parse_args()
    tokens, targets = make_batches(pathlib.Path(args.text).read_text(), args.steps + 1)
    torch.manual_seed(1)
    model = MODELS["gpt"]()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02) if parameter.dim() > 1 else None
    optimizer = torch.optim.AdamW([
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ], lr=LR, betas=(0.9, 0.99))
    rates = torch.tensor([rate(step) for step in range(args.steps + 1)], dtype=torch.float64)
    checked = {k for k in (0, 50, 100, 200) if k <= args.steps}
    before, after, losses = {}, {}, []
    for step in range(args.steps + 1):
        here = slice(step, step + 1)
        if step in checked:
            before[step] = state_of(model, optimizer, tokens[here], targets[here], rates[here])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens[step]).flatten(0, 1), targets[step].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rates[step].item()
        optimizer.step()
        losses.append(loss.item())
        if step in checked:
            after[step] = {n: p.detach().clone() for n, p in model.named_parameters()}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for step in sorted(checked):
            (loss,), result = ours(args.program, folder, before[step])
            loss_error = abs(loss - losses[step])
            error = max((result["model." + n] - p).abs().max().item() for n, p in after[step].items())
            good = loss_error <= 1e-5 and error <= 1e-6
            failed |= not good
            print(f"step {step}: loss {loss:.7f}, differs by {loss_error:.1e}; parameters by "
                  f"{error:.1e} {'ok' if good else 'FAILED'}", flush=True)
        start = dict(before[0], tokens=tokens, targets=targets, lr=rates)
        free, _ = ours(args.program, folder, start)
        error = max(abs(a - b) for a, b in zip(free, losses))
        failed |= error > 1e-2
        print(f"free running: {len(free)} losses to {free[-1]:.4f} differ by at most {error:.1e} "
              f"{'ok' if error <= 1e-2 else 'FAILED'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
