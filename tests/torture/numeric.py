"""Random layers in float32, float64 and under autocast: finite, and as accurate as the inputs allow.

Every draw of `torture.cases` is computed in the plain form and, where there is one, in the fused form, with
gradients for inputs and parameters. The plain form in float64 is the reference. The sensitivity of a problem
is the change of the reference when every input, parameter, vote, first assignment and least variance moves
by one unit in its last place. An error is beyond conditioning if it exceeds `MULTIPLE` times that change (or
the change by `MULTIPLE` units, where the problem is not linear) plus a floor.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import islice
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from torchcaps import Capsules, kernels
from torchcaps.layers import CapsuleLayer
from torchcaps.votes import Votes
from torture.cases import SAMPLES, Draw, case_names, draw

MULTIPLE = 100.0
CANCELED = 0.01
FLOORS = {"pose": 1e-4, "activation": 1e-4, "logits": 1e-3, "gradient": 1e-3, "parameters": 1e-3}
# A gradient of a bfloat16 tensor has 8 bits.
BFLOAT16_FLOORS = {**FLOORS, "gradient": 2e-2}
FLOAT64_FLOORS = dict.fromkeys(FLOORS, 1e-9)

# Powers of ten of votes between which float32 is promised to be finite, and accurate: docs/reliability.md.
# A gradient of EM depends on variances beside ε = 1e-6, others on lengths alone.
FINITE = (-30.0, 15.0)
ACCURATE = (-12.0, 12.0)
ACCURATE_EM = (-3.0, 3.0)


@dataclass
class Result:
    """Outputs and gradients in float64; all but those of parameters have the sample first.

    `size` is the norm of each sample's terms of the sum whose gradients are taken, `[B]`.
    """

    values: list[Tensor]
    inputs: list[Tensor]
    parameters: list[Tensor]
    mask: Tensor
    size: Tensor

    def finite(self) -> Tensor:
        """Whether all numbers of each sample are finite, `[B]`; gradients of parameters count for all."""
        good = torch.stack([each.flatten(1).isfinite().all(1) for each in [*self.values, *self.inputs]]).all(
            0
        )
        return good & all(bool(each.isfinite().all()) for each in self.parameters)


def evaluate(
    layer: CapsuleLayer,
    capsules: Capsules,
    *,
    fused: bool = False,
    autocast: bool = False,
    mask: Tensor | None = None,
    noise: Callable[[Tensor], Tensor] | None = None,
    moves_start: bool = False,
) -> Result:
    """Outputs, and the gradients of a fixed random combination.

    `noise` changes the votes, and the first assignment if `moves_start`.
    """
    pose, activation = (each.detach().clone().requires_grad_() for each in capsules)
    start = None
    if noise is not None and moves_start:
        start = noise(first_assignment(layer, Capsules(pose, activation)))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), votes_with(layer, noise):
        routed = layer(Capsules(pose, activation), coupling=not fused, start=start)
    outputs = [routed.pose, routed.activation, routed.logits]
    if mask is None:
        # The logit of a length near 1 amplifies the rounding of the length: 1 - a has few digits.
        length_logits = torch.logit(routed.activation, eps=1e-6) == routed.logits
        mask = (~(length_logits & (routed.activation > 0.999))).detach()
    generator = torch.Generator().manual_seed(7)
    factors = [torch.randn(each.shape, generator=generator).to(each.dtype) for each in outputs]
    factors[2] = factors[2] * mask
    terms = [(each * factor).flatten(1) for each, factor in zip(outputs, factors)]
    loss = sum(each.sum() for each in terms)
    parameters = list(layer.parameters())
    leaves = [pose, activation, *parameters]
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)  # type: ignore[arg-type]
    filled = [torch.zeros_like(leaf) if each is None else each for leaf, each in zip(leaves, gradients)]
    return Result(
        [each.detach().double() for each in outputs],
        [each.double() for each in filled[:2]],
        [each.double() for each in filled[2:]],
        mask,
        torch.cat(terms, 1).detach().double().norm(dim=1),
    )


@contextmanager
def votes_with(layer: CapsuleLayer, noise: Callable[[Tensor], Tensor] | None) -> Iterator[None]:
    """Change the votes that the routing of this layer reads, as their rounding does.

    It is not the rounding of the inputs: coordinates and biases are added to votes, and beside them the
    digits of small votes are lost, which no move of the poses shows.
    """
    if noise is None:
        yield
        return
    make = layer.votes

    def moved(capsules: Capsules) -> Votes:
        votes = make(capsules)
        votes._votes = noise(votes.tensor())
        return votes

    try:
        layer.votes = moved  # type: ignore[method-assign]
        yield
    finally:
        del layer.votes


def first_assignment(layer: CapsuleLayer, capsules: Capsules) -> Tensor:
    """What routing starts from, the learned prior or even shares, in the shape of the couplings."""
    votes = layer.votes(capsules)
    start = layer._start(votes, None)
    start = votes.uniform() if start is None else start
    return start.unflatten(1, votes.grid) if votes.grid else start[:, 0]


def differences(actual: Result, exact: Result, layer: CapsuleLayer, capsules: Capsules) -> dict[str, Tensor]:
    """How far a result is from another, by kind: `[B]`, or one number for the gradients of parameters.

    Gradients are multiplied by the size of what they belong to (a child's pose, a parameter), so that they
    are all changes of the output per relative change of an input, and comparable. They are compared with
    their norm, or with `CANCELED` of the output: below that, terms cancel and rounding errors are left.
    """
    pose, activation, logits = (
        (first - second).flatten(1) for first, second in zip(actual.values, exact.values)
    )
    size = capsules.pose.double().square().mean(-1, keepdim=True).sqrt()
    total = torch.cat([(exact.inputs[0] * size).flatten(1), exact.inputs[1].flatten(1)], 1).norm(dim=1)
    wrong = torch.cat(
        [
            ((actual.inputs[0] - exact.inputs[0]) * size).flatten(1),
            (actual.inputs[1] - exact.inputs[1]).flatten(1),
        ],
        1,
    ).norm(dim=1)
    off = norm = torch.zeros((), dtype=torch.float64)
    for parameter, first, second in zip(layer.parameters(), actual.parameters, exact.parameters):
        scale = parameter.detach().double().square().mean().sqrt().clamp(min=1e-3)
        off = off + ((first - second) * scale).square().sum()
        norm = norm + (second * scale).square().sum()
    kept = exact.mask.flatten(1)
    return {
        "pose": pose.norm(dim=1) / exact.values[0].flatten(1).norm(dim=1).clamp(min=1e-37),
        "activation": activation.abs().amax(1),
        "logits": (logits * kept).norm(dim=1) / (exact.values[2].flatten(1) * kept).norm(dim=1).clamp(min=1),
        "gradient": wrong / torch.maximum(total, CANCELED * exact.size).clamp(min=1e-37),
        "parameters": off.sqrt() / torch.maximum(norm.sqrt(), CANCELED * exact.size.norm()).clamp(min=1e-37),
    }


def rounding_float32(mean: Tensor, limits: torch.dtype | None = None) -> Tensor:
    """`torchcaps.routing.covariance.rounding` of float32, whatever the type."""
    return (torch.finfo(torch.float32).eps * mean.detach()).square()


def length_float32(vectors: Tensor, *, keepdim: bool = False) -> Tensor:
    """`torchcaps.length` with the limit of float32: a vector whose square has few digits there is 0."""
    square = (vectors * vectors).sum(-1, keepdim=keepdim)
    zero = square < torch.finfo(torch.float32).tiny
    return torch.where(zero, 0.0, torch.where(zero, 1.0, square).sqrt())


# What a routing computes depends on its type in these places, and not by rounding: limits of float32.
FLOAT32_LIMITS: dict[str, Callable[..., Any]] = {
    "min_mass": lambda dtype: 1e-20,
    "rounding": rounding_float32,
    "length": length_float32,
}


@cache
def limited_modules() -> list[tuple[ModuleType, str]]:
    """The modules that have a limit of float32, and its name there."""
    names = ("torchcaps.routing", "torchcaps.capsules")
    modules = [module for name, module in sys.modules.items() if name.startswith(names)]
    return [(module, name) for module in modules for name in FLOAT32_LIMITS if hasattr(module, name)]


@contextmanager
def float32_limits() -> Iterator[None]:
    """Compute in float64 with the limits of float32, so that both types compute the same function."""
    before = [getattr(module, name) for module, name in limited_modules()]
    try:
        for module, name in limited_modules():
            setattr(module, name, FLOAT32_LIMITS[name])
        yield
    finally:
        for (module, name), function in zip(limited_modules(), before):
            setattr(module, name, function)


@contextmanager
def rounding_with(noise: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Change the least variance around a mean: the square of the mean's rounding, where that is large.

    A vote of 0 is 1 / eps of such σ away, whatever the mean is: no move of the inputs shows that its squared
    distance, 1e31 in float64, has no digits left that could tell two parents apart.
    """
    modules = [module for module, name in limited_modules() if name == "rounding"]
    before = [module.rounding for module in modules]
    try:
        for module, function in zip(modules, before):
            module.rounding = lambda *arguments, of=function: noise(of(*arguments))  # type: ignore[attr-defined]
        yield
    finally:
        for module, function in zip(modules, before):
            module.rounding = function  # type: ignore[attr-defined]


class Reference:
    """The plain form of a draw in float64, and how it changes when its inputs move.

    Args:
        case: the draw.
    """

    def __init__(self, case: Draw) -> None:
        self.layer = deepcopy(case.layer).double()
        self.capsules = Capsules(*(each.double() for each in case.capsules))
        self.unit = torch.finfo(torch.float64 if case.precision == "float64" else torch.float32).eps
        self.limits = nullcontext if case.precision == "float64" else float32_limits
        with self.limits():
            self.exact = evaluate(self.layer, self.capsules)
        with torch.no_grad(), self.limits():
            start = first_assignment(self.layer, self.capsules)
            pose = self.layer(self.capsules, coupling=True, start=start).pose
        # Two votes of a parent lie one σ from their mean, whatever they are. Moves of the inputs alone keep
        # such symmetries, which rounding does not. In leaky routing even shares are not what it starts from.
        self.moves_start = torch.allclose(pose, self.exact.values[0], rtol=1e-9, atol=0)

    def compare(self, actual: Result, exact: Result | None = None) -> dict[str, Tensor]:
        """Differences from the reference, or from another result."""
        return differences(actual, self.exact if exact is None else exact, self.layer, self.capsules)

    def sensitivity(self, trials: int, units: float = 1.0) -> dict[str, Tensor]:
        """The largest differences by random moves of all inputs by this many units in the last place."""
        largest: dict[str, Tensor] = {}
        saved = [parameter.detach().clone() for parameter in self.layer.parameters()]
        generator = torch.Generator().manual_seed(11)

        def move(values: Tensor) -> Tensor:
            sign = torch.randint(2, values.shape, generator=generator).double() * 2 - 1
            return values * (1 + units * self.unit * sign)

        for _ in range(trials):
            with torch.no_grad():
                for parameter, before in zip(self.layer.parameters(), saved):
                    parameter.copy_(move(before))
            with self.limits(), rounding_with(move):
                capsules = Capsules(*map(move, self.capsules))
                moved = evaluate(
                    self.layer, capsules, mask=self.exact.mask, noise=move, moves_start=self.moves_start
                )
            with torch.no_grad():
                for parameter, before in zip(self.layer.parameters(), saved):
                    parameter.copy_(before)
            for name, change in self.compare(moved).items():
                largest[name] = torch.maximum(largest.get(name, change), change)
        return largest


def judge(case: Draw) -> Counter[str]:
    """Run one draw and count its samples by what went wrong; nothing is counted where all is well."""
    found: Counter[str] = Counter()
    reference = Reference(case)
    if not reference.exact.finite().all():
        found["nonfinite float64"] += int((~reference.exact.finite()).sum())
    options: dict[str, Any] = {"autocast": case.precision == "bfloat16", "mask": reference.exact.mask}
    results = {"plain": evaluate(case.layer, case.capsules, **options)}
    if has_fused(case):
        results["fused"] = evaluate(case.layer, case.capsules, fused=True, **options)
        found["fused cases"] += SAMPLES
    single = case.precision != "float64"
    for form, result in results.items():
        bad = int((~result.finite()).sum())
        if bad:
            where = "" if not single else " inside" if within(case, FINITE) else " outside"
            found[f"nonfinite {'float32' if single else 'float64'}{where} {form}"] += bad
    accurate = ACCURATE_EM if case.words["routing"] == "em" else ACCURATE
    if single and not within(case, accurate):
        return found
    if case.words.get("temperature") == 0:
        return found  # rounding decides ties, so that a hard assignment has no reference
    found["compared cases"] += SAMPLES
    both = {"plain": (results["plain"], reference.exact)}
    if "fused" in results:
        both["fused"] = (results["fused"], results["plain"])
    floors = {"float32": FLOORS, "float64": FLOAT64_FLOORS, "bfloat16": BFLOAT16_FLOORS}[case.precision]
    near: dict[str, Tensor] | None = None
    for form, (result, wanted) in both.items():
        if result is wanted or (not single and form == "plain"):
            continue
        wrong = reference.compare(result, wanted)
        near = near or reference.sensitivity(2)
        suspects = [name for name in wrong if (wrong[name] > MULTIPLE * near[name] + floors[name]).any()]
        if suspects:
            far = {units: reference.sensitivity(8, units) for units in (1.0, 10.0, MULTIPLE)}
        for name in suspects:
            allowed = torch.stack([MULTIPLE / units * each[name] for units, each in far.items()]).amax(0)
            bad = int((wrong[name] > allowed + floors[name]).sum())
            if bad:
                found[f"beyond {case.precision} {form} {name}"] += bad
    return found


def has_fused(case: Draw) -> bool:
    """Whether a kernel serves this layer."""
    if not kernels.status().enabled:
        return False
    with torch.no_grad():
        votes = case.layer.votes(case.capsules)
        if case.layer._start(votes, None) is not None:
            return False
        activation = case.capsules.activation.flatten(1)
        return case.layer.routing.fused(votes, activation.to(votes.pose.dtype)) is not None


def within(case: Draw, limits: tuple[float, float]) -> bool:
    """Whether all scales of a draw are between these powers of ten."""
    return limits[0] <= case.exponents[0] and case.exponents[1] <= limits[1]


def run_case(name: str) -> tuple[Counter[str], str]:
    """What went wrong in one draw, and what it was; an exception is one of the things that can go wrong."""
    words = "not drawn"
    try:
        case = draw(name)
        words = str(case)
        return judge(case), words
    except Exception as error:
        return Counter({"exceptions": SAMPLES}), f"{words}: {type(error).__name__}: {error}"


def run(seed: int, cases: int, progress: Callable[[int], None]) -> tuple[Counter[str], list[dict[str, Any]]]:
    """All counts, and the draws in which something went wrong."""
    total: Counter[str] = Counter()
    kept = []
    for name in islice(case_names(seed), -(-cases // SAMPLES)):
        found, words = run_case(name)
        total += found
        for kind in ("fused cases", "compared cases"):
            found.pop(kind, 0)
        if found:
            kept.append({"case": name, "found": dict(found), "what": words})
        progress(SAMPLES)
    return total, kept
