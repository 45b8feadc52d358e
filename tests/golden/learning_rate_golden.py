"""Learning rates of PyTorch's schedulers, as constants of a C++ header: python3 learning_rate_golden.py > learning_rate_golden.h

Index n of an array is the rate of PyTorch's step n, counted from 0, before scheduler.step() was called n + 1 times.
"""
import torch
from torch.optim import lr_scheduler

PEAK = 0.01


def rates(steps, scheduler):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    schedule, out = scheduler(optimizer), []
    for _ in range(steps):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return out


def one_cycle(o):
    return lr_scheduler.OneCycleLR(o, PEAK, total_steps=20, pct_start=0.3, cycle_momentum=False)


def restarts(factor):
    return lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=5, T_mult=factor, eta_min=1e-4)


def polynomial(power):
    return lambda o: lr_scheduler.PolynomialLR(o, total_iters=12, power=power)


print("// Made by learning_rate_golden.py with PyTorch %s." % torch.__version__.split("+")[0])
print("#pragma once\n\nnamespace trainyard::golden {\n")
for name, steps, scheduler in (("one_cycle", 20, one_cycle), ("restarts", 20, restarts(1)), ("longer_restarts", 35, restarts(2)),
                               ("polynomial", 12, polynomial(2)), ("root", 12, polynomial(0.5))):
    print("inline constexpr double %s[] = {%s};" % (name, ", ".join(repr(float(r)) for r in rates(steps, scheduler))))
print("\n}  // namespace trainyard::golden")
