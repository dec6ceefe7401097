"""The training loop, to be read from top to bottom."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchcaps._compiling import INLINE_VOTES
from torchcaps.data.batches import Batch, Batches, mixed
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.models.weights import ModelCard, save_weights
from torchcaps.training.callbacks import Callback, Plan, Stopper
from torchcaps.training.checkpoint import Position, load_state, new_tally, save_state
from torchcaps.training.distributed import agreed, make_accelerator, pieces
from torchcaps.training.evaluation import evaluate
from torchcaps.training.metrics import Evaluation
from torchcaps.training.nonfinite import gradients_finite, raise_not_finite
from torchcaps.training.objective import Objective, check_fit
from torchcaps.training.optim import EMA, lr_factor, make_optimizer
from torchcaps.training.recipe import Recipe
from torchcaps.training.result import final_result
from torchcaps.training.run import Run
from torchcaps.training.splits import background, load_splits, load_train

RECORD_EVERY = 100
# Several processes agree on saving and stopping only now and then: agreeing makes them wait for each other.
AGREE_EVERY = 10
DECISIONS = ("", "save", "budget", "interrupted")


def train(
    recipe: Recipe,
    out: str | Path,
    *,
    resume: bool = False,
    budget: float | None = None,
    save_every: float = 120.0,
    keep_epochs: bool = False,
    watch: Callback | None = None,
) -> dict[str, Any]:
    """Train a model as a recipe says.

    On several devices or machines, start it with `torchrun`: every batch is then split among the processes,
    and the gradients are those of one process with the whole batch.

    Args:
        recipe: what to train, on what, and how.
        out: the run's folder (several machines share it).
        resume: go on with the run in that folder, if there is one. On a CPU the weights end bitwise as if it
            had never stopped.
        budget: seconds after which to stop, saved.
        save_every: seconds after which the state is saved, besides at the end of each epoch.
        keep_epochs: keep the model of every epoch, as `epoch-3.safetensors`, to look at how it learned.
        watch: is told how it goes.

    Returns what is also in the run's `result.json`; its `status` is `"ended"`, `"budget"` or
    `"interrupted"`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from torchcaps.training import default_recipe
        >>> recipe = default_recipe("pooled_cnn", "digits").override(
        ...     ["training.epochs=1", "model.options.stages=[[4], [4]]", "evaluation.extra_datasets=[]"])
        >>> with TemporaryDirectory() as folder:
        ...     train(recipe, folder)["status"]
        'ended'
    """
    watch = watch or Callback()
    with Stopper(budget) as stopper:
        engine = Engine(
            recipe, out, resume=resume, save_every=save_every, keep_epochs=keep_epochs, watch=watch
        )
        try:
            return engine.train(stopper)
        finally:
            watch.close()


class Engine:
    """All that a training needs, set up; `train` is the loop."""

    def __init__(
        self,
        recipe: Recipe,
        out: str | Path,
        *,
        resume: bool,
        save_every: float,
        watch: Callback,
        keep_epochs: bool = False,
    ) -> None:
        self.recipe = recipe
        self.accelerator = make_accelerator(recipe.training.precision)
        self.precision = "bf16" if self.accelerator.mixed_precision == "bf16" else "fp32"
        self.main, device = self.accelerator.is_main_process, self.accelerator.device
        self.watch = watch if self.main else Callback()
        self.save_every, self.keep_epochs = save_every, keep_epochs
        self.data = load_splits(recipe.data, recipe.seed)
        self.preprocess = Preprocess.from_options(recipe.data.preprocess)
        self.card = ModelCard(
            model=recipe.model.name,
            options=recipe.model.options,
            num_classes=self.data.train.num_classes,
            in_channels=self.data.train.in_channels,
            image_size=self.preprocess.output_size(self.data.train.image_size),
            classes=self.data.train.classes,
            preprocess=recipe.data.preprocess,
            background=background(self.data.train),
        )
        torch.manual_seed(recipe.seed)
        self.model = self.card.build()
        check_fit(recipe, self.model, self.data.train)
        decoder = getattr(self.model, "decoder", None)
        if decoder is not None and not recipe.loss.reconstruction:
            # Nothing is asked of it, and data parallelism would wait for gradients that never come.
            decoder.requires_grad_(False)
        self.take(self.data.train, epoch=0)
        self.wrapped = self.accelerator.prepare(Objective(self.model, recipe.loss))
        self.objective = self.wrapped
        if recipe.training.compile:
            self.objective = torch.compile(self.wrapped, options=INLINE_VOTES)
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(recipe.optimizer, self.parameters)
        self.average = EMA(self.model, recipe.training.ema_decay)

        # Sums of loss, images right and images: of this epoch, and of it up to the latest record.
        self.tally, self.recorded = new_tally(device), new_tally(device)
        self.run = Run(out, recipe, resume=resume, main=self.main)
        self.position = Position()
        if self.run.resumes:
            self._go_on()
        self.save_seconds = self.test_seconds = 0.0

    def take(self, images: ImageSet, epoch: int) -> None:
        """Make these the images to train on, those of an epoch."""
        self.batches = Batches(
            images,
            self.recipe.training.batch_size,
            train=True,
            preprocess=self.preprocess,
            seed=self.recipe.seed,
            rank=self.accelerator.process_index,
            world_size=self.accelerator.num_processes,
            device=self.accelerator.device,
        )
        self.objects: Tensor | None = None
        if self.recipe.loss.reconstruction and images.labels.ndim == 2:
            self.objects = images.metadata["parts"].to(self.accelerator.device)
        self.drawn = epoch

    def _go_on(self) -> None:
        tallies = {"epoch": self.tally, "recorded": self.recorded}
        self.position = load_state(self.run.state, self.model, self.optimizer, self.average, tallies)
        if not self.main:
            # What was saved is the sum over all processes, and the main one carries it on.
            self.tally.zero_()
            self.recorded.zero_()
        self.run.keep_records(self.position.records, self.position.step)
        if self.position.ended == "epochs" and self.position.epoch < self.recipe.training.epochs:
            self.position.ended = ""

    def train(self, stopper: Stopper) -> dict[str, Any]:
        """Train until the recipe, the budget or a signal says to stop."""
        position, total = self.position, len(self.batches)
        self.watch.begin(self.plan(), position)
        saved_at = time.monotonic()
        decision = ""
        while not position.ended and decision not in ("budget", "interrupted"):
            begun, before = time.monotonic(), position.images
            earlier = position.seconds
            if self.recipe.data.resample_each_epoch and self.drawn != position.epoch:
                self.take(load_train(self.recipe.data, position.epoch), position.epoch)
            for batch in self.batches.epoch(position.epoch, start=position.batch):
                self.update(batch)
                position.seconds = earlier + time.monotonic() - begun
                self.watch.step(position, self.tally)
                if position.step % RECORD_EVERY == 0:
                    self.record_step()
                if self.accelerator.num_processes == 1 or position.step % AGREE_EVERY == 0:
                    due = time.monotonic() - saved_at >= self.save_every
                    wish = stopper.reason(self.save_seconds) or ("save" if due else "")
                    decision = agreed(self.accelerator, wish, DECISIONS)
                    if decision:
                        self.save()
                        saved_at = time.monotonic()
                    if decision in ("budget", "interrupted"):
                        break
            if position.batch < total:
                break
            rate = (position.images - before) / max(1e-9, position.seconds - earlier)
            # A test is faster than training on as many images, which is what is known before the first one.
            expected = self.test_seconds or len(self.data.watch) / max(rate, 1e-9)
            wish = stopper.reason(self.save_seconds + expected)
            decision = agreed(self.accelerator, wish, DECISIONS)
            if not decision:
                self.finish_epoch(rate)
            self.save()
            saved_at = time.monotonic()
        if position.ended and not decision:
            # The final tests take time too; a run that has none left is tested when it is resumed.
            wish = stopper.reason(self.test_seconds * (1 + 2 * len(self.recipe.evaluation.extra_datasets)))
            decision = agreed(self.accelerator, wish, DECISIONS)
        result = final_result(self, status=decision or "ended")
        self.run.finish(result)
        self.watch.end(result)
        return result

    def update(self, batch: Batch) -> None:
        """One step of the optimizer, on one batch."""
        recipe, position = self.recipe, self.position
        processes = self.accelerator.num_processes
        whole = min(
            self.batches.batch_size, len(self.batches.images) - position.batch * self.batches.batch_size
        )
        # Each step starts its own random numbers (dropout), so no generator's state is ever saved.
        seed = mixed(recipe.seed, position.step, self.accelerator.process_index)
        torch.manual_seed(seed)
        total_steps = recipe.training.epochs * len(self.batches)
        rate = recipe.optimizer.lr * lr_factor(recipe.schedule, position.step, total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

        parts = list(pieces(batch, recipe.training.grad_accum_steps, whole, processes))
        loss = torch.zeros((), device=self.tally.device)
        for number, (part, weight) in enumerate(parts):
            last = number == len(parts) - 1
            # Gradients are exchanged once, with the last piece.
            with nullcontext() if last else self.accelerator.no_sync(self.wrapped):
                scored = self.forward(part)
                share = scored.loss * weight
                self.accelerator.backward(share)
            loss += share.detach()
            if weight:
                self.tally[1] += scored.right
        if not gradients_finite(loss, self.parameters):
            torch.manual_seed(seed)
            self.objective = self.wrapped  # layers can be watched only where they were not compiled away
            raise_not_finite(
                self.run.failed,
                self.model,
                batch,
                lambda: [self.forward(part) for part, _ in parts],
                step=position.step + 1,
                main=self.main,
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        position.step += 1
        position.batch += 1
        position.images += whole
        self.average.update(position.step)
        self.tally[0] += loss * (whole / processes)
        self.tally[2] += len(batch.labels)

    def forward(self, part: Batch) -> Any:
        """Loss and right answers of a piece of a batch."""
        objects = None
        if self.objects is not None:
            objects = self.preprocess.test(self.objects[part.indices].flatten(0, 1))
            objects = objects.unflatten(0, (len(part.indices), -1)).unsqueeze(2)
        return self.objective(part.images, part.labels, self.position.step, objects)

    def record_step(self) -> None:
        """A line in the metrics about the steps since the one before."""
        loss, right, images = self.accelerator.reduce(self.tally - self.recorded).tolist()
        self.recorded.copy_(self.tally)
        self.record(
            {
                "step": self.position.step,
                "epoch": self.position.epoch + 1,
                "loss": loss / images,
                "accuracy": right / images,
                "lr": self.optimizer.param_groups[0]["lr"],
            }
        )

    def record(self, numbers: dict[str, Any]) -> None:
        """Add a line to the metrics."""
        self.run.record(numbers)
        self.position.records += 1

    def finish_epoch(self, images_per_second: float) -> None:
        """Test, record, keep the best model, and decide whether training is over."""
        position, stop = self.position, self.recipe.stop
        begun = time.monotonic()
        with self.average.applied():
            tested = self.test(self.data.watch)
        self.test_seconds = time.monotonic() - begun
        loss, right, images = self.accelerator.reduce(self.tally.clone()).tolist()
        position.epoch, position.batch = position.epoch + 1, 0
        numbers = {
            "step": position.step,
            "epoch": position.epoch,
            "train": {"loss": loss / images, "accuracy": right / images},
            self.data.watch_name: tested.summary(),
            "seconds": round(position.seconds, 3),
            "images_per_second": round(images_per_second, 2),
        }
        self.record(numbers)
        self.watch.epoch(numbers)
        self.tally.zero_()
        self.recorded.zero_()

        value = tested.accuracy if stop.metric == "accuracy" else -(tested.loss or 0.0)
        position.waited += 1
        if position.best is None or value > position.best:
            position.best, position.waited = value, 0
            self.save_model(self.run.best, tested)
        if self.keep_epochs:
            self.save_model(self.run.of_epoch(position.epoch), tested)
        if position.epoch >= self.recipe.training.epochs:
            position.ended = "epochs"
        if stop.patience and position.waited >= stop.patience:
            position.ended = "patience"
        if stop.target is not None and value >= (stop.target if stop.metric == "accuracy" else -stop.target):
            position.ended = "target"

    def save(self) -> None:
        """Write the latest model, then the state."""
        begun = time.monotonic()
        tallies = {"epoch": self.tally, "recorded": self.recorded}
        sums = {name: self.accelerator.reduce(tally.clone()) for name, tally in tallies.items()}
        self.save_model(self.run.last)
        if self.main:
            save_state(self.run.state, self.position, self.model, self.optimizer, self.average, sums)
        self.save_seconds = time.monotonic() - begun

    def save_model(self, path: Path, tested: Evaluation | None = None) -> None:
        """Write the model as it is used: with averaged weights, if they are averaged."""
        facts: dict[str, Any] = {"step": self.position.step, "data": self.recipe.data.name}
        if tested is not None:
            facts[self.data.watch_name] = tested.summary()
        if self.main:
            with self.average.applied():
                save_weights(path, self.model, replace(self.card, facts=facts))

    def test(self, images: ImageSet, crops: int = 1, preprocess: Preprocess | None = None) -> Evaluation:
        """Test the model as it is, every process on its share of the images.

        In full precision, as it will be used: rounding to half can cost a network with batch normalization
        several points.
        """
        return evaluate(
            self.model,
            images,
            preprocess or self.preprocess,
            batch_size=self.recipe.evaluation.batch_size,
            crops=crops,
            loss=self.recipe.loss,
            rank=self.accelerator.process_index,
            world_size=self.accelerator.num_processes,
            add_up=self.accelerator.reduce,
        )

    def plan(self) -> Plan:
        """What is about to happen, for whoever watches."""
        return Plan(
            run=str(self.run.path),
            model=self.recipe.model.name,
            num_params=sum(parameter.numel() for parameter in self.parameters),
            data=self.recipe.data.name,
            images=len(self.data.train),
            batches=len(self.batches),
            batch_size=self.batches.batch_size,
            epochs=self.recipe.training.epochs,
            device=f"{self.accelerator.device}, {self.precision}",
            processes=self.accelerator.num_processes,
        )
