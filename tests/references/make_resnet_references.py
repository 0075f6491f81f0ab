#!/usr/bin/env python3
"""Writes resnet.safetensors beside this file.

Usage: python3 tests/references/make_resnet_references.py   (torch 2.15)
It holds a narrow ResNet-18 for small images under torchvision's names, and what torch computes of it
in f64: reference.logits and reference.loss in training, then the running statistics and
reference.eval_logits; of the gradients some, grad.NAME.
"""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

WIDTH = 2
CLASSES = 5
GRADIENTS = [
    "conv1.weight",
    "bn1.weight",
    "layer1.0.conv1.weight",
    "layer2.0.bn2.bias",
    "layer3.0.downsample.0.weight",
    "layer3.0.downsample.1.weight",
    "layer4.1.bn1.weight",
    "fc.weight",
    "fc.bias",
]


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        residual = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + residual)


class ResNet18(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for i in range(4):
            outputs = width << i
            setattr(self, "layer%d" % (i + 1), nn.Sequential(
                BasicBlock(inputs, outputs, 1 if i == 0 else 2), BasicBlock(outputs, outputs, 1)))
            inputs = outputs
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


# Values of f32, so that the file is small; computed with in f64.
generator = torch.Generator().manual_seed(7)
model = ResNet18(WIDTH, CLASSES)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.normal_(0, 0.3, generator=generator)
        if parameter.ndim == 1:
            parameter.add_(1)
images = torch.randn(4, 3, 15, 16, generator=generator)
targets = torch.randint(CLASSES, (4,), generator=generator)
tensors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
tensors["reference.images"] = images
tensors["reference.targets"] = targets

model = model.double().train()
logits = model(images.double())
loss = F.cross_entropy(logits, targets)
loss.backward()
tensors["reference.logits"] = logits.detach()
tensors["reference.loss"] = loss.detach()
for name in GRADIENTS:
    tensors["grad." + name] = model.get_parameter(name).grad
for name, buffer in model.named_buffers():
    if not name.endswith("num_batches_tracked"):
        tensors[name] = buffer.clone()
with torch.no_grad():
    tensors["reference.eval_logits"] = model.eval()(images.double())

folder = os.path.dirname(os.path.abspath(__file__))
save_file(tensors, os.path.join(folder, "resnet.safetensors"))
