"""The PyTorch side of bench_train: the same model, batches, optimizer and precision as ours.

Started by bench_train, which sends one command a line and reads one JSON answer a line:
  check N   N steps without dropout from the initial weights, which come back afterwards: {"loss"}
  run N     N steps: {"ms"} per step
  memory    {"peak"}: resident bytes at most, above what was held before the model was built; on a
            GPU the bytes of tensors at most
"""

import argparse
import json
import struct
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.drop1 = nn.Dropout(0.25)
        self.drop2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = F.relu(self.fc1(torch.flatten(self.drop1(x), 1)))
        return self.fc2(self.drop2(x))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 1024)
        self.fc2 = nn.Linear(1024, 1024)
        self.fc3 = nn.Linear(1024, 10)

    def forward(self, x):
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class GptAttention(nn.Module):
    def __init__(self, dim, heads, bias):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(dim, 3 * dim, bias=bias)
        self.c_proj = nn.Linear(dim, dim, bias=bias)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(x).split(dim, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, dim))


class GptMlp(nn.Module):
    def __init__(self, dim, bias):
        super().__init__()
        self.c_fc = nn.Linear(dim, 4 * dim, bias=bias)
        self.c_proj = nn.Linear(4 * dim, dim, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class GptBlock(nn.Module):
    def __init__(self, dim, heads, bias):
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim, bias=bias)
        self.attn = GptAttention(dim, heads, bias)
        self.ln_2 = nn.LayerNorm(dim, bias=bias)
        self.mlp = GptMlp(dim, bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, vocab, layers, heads, dim, context, bias):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(context, dim)
        self.h = nn.ModuleList(GptBlock(dim, heads, bias) for _ in range(layers))
        self.ln_f = nn.LayerNorm(dim, bias=bias)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


MODELS = {
    "cnn": Cnn,
    "mlp": Mlp,
    "nanogpt": lambda: Gpt(65, 4, 4, 128, 64, False),
    "gpt": lambda: Gpt(65, 6, 6, 384, 256, False),
    "gpt2": lambda: Gpt(50257, 12, 12, 768, 1024, True),
}
DTYPES = {"F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]]
        flat = torch.frombuffer(data, dtype=torch.uint8)[begin:end].clone()
        tensors[name] = flat.view(dtype).reshape(entry["shape"])
    return tensors


def status_bytes(name):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return 0


class Trainer:
    """The training step that is measured."""

    def __init__(self, args, tensors):
        self.args = args
        self.device = torch.device("cuda", args.rank) if args.device == "cuda" else torch.device("cpu")
        self.weights = {k[6:]: v for k, v in tensors.items() if k.startswith("model.")}
        self.batches = []
        while f"inputs.{len(self.batches)}" in tensors:
            i = len(self.batches)
            inputs = tensors[f"inputs.{i}"].to(self.device)
            if inputs.dim() == 4:
                inputs = inputs.to(memory_format=self.layout())
            self.batches.append((inputs, tensors[f"targets.{i}"].to(self.device)))
        self.before = status_bytes("VmRSS")
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        self.module = MODELS[args.model]().to(self.device).to(memory_format=self.layout())
        self.model = self.module
        if args.ranks > 1:
            self.model = nn.parallel.DistributedDataParallel(self.module)
        self.reset()

    def layout(self):
        return torch.channels_last if self.args.channels_last else torch.contiguous_format

    def reset(self):
        with torch.no_grad():
            for name, parameter in self.module.named_parameters():
                parameter.copy_(self.weights[name])
        if self.args.optimizer == "sgd":
            self.optimizer = torch.optim.SGD(self.module.parameters(), lr=self.args.lr, fused=True)
        elif self.args.optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(
                self.module.parameters(), lr=self.args.lr, weight_decay=0.01, fused=True)
        else:  # Adadelta has no fused form
            self.optimizer = torch.optim.Adadelta(
                self.module.parameters(), lr=self.args.lr, foreach=True)
        self.step = 0

    def one_step(self):
        inputs, targets = self.batches[self.step % len(self.batches)]
        self.step += 1
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.args.dtype == "bf16"):
            logits = self.model(inputs)
            loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten())
        loss.backward()
        self.optimizer.step()
        return loss

    def check(self, steps):
        self.reset()
        dropouts = [m for m in self.module.modules() if isinstance(m, nn.Dropout)]
        for layer in dropouts:
            layer.eval()
        for _ in range(steps):
            loss = self.one_step()
        for layer in dropouts:
            layer.train()
        self.reset()
        return {"loss": loss.item()}

    def run(self, steps):
        if self.args.ranks > 1:
            torch.distributed.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            self.one_step()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        if self.args.ranks > 1:
            torch.distributed.barrier()
        return {"ms": (time.perf_counter() - begin) * 1e3 / steps}

    def memory(self):
        if self.device.type == "cuda":
            return {"peak": torch.cuda.max_memory_allocated(self.device)}
        return {"peak": status_bytes("VmHWM") - self.before}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--dtype", choices=["f32", "bf16"])
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--optimizer", choices=["sgd", "adadelta", "adamw"])
    parser.add_argument("--lr", type=float)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--channels-last", type=int)
    parser.add_argument("--tensors", help="initial weights and batches, safetensors")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--meet", help="file by which the ranks find each other")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.ranks > 1:
        torch.distributed.init_process_group(
            "nccl" if args.device == "cuda" else "gloo", init_method=f"file://{args.meet}", rank=args.rank, world_size=args.ranks)
    trainer = Trainer(args, read_safetensors(args.tensors))
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        answer = getattr(trainer, command)(*map(int, numbers))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
