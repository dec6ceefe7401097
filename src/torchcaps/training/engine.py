"""The training loop, to be read from top to bottom."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchcaps._compiling import INLINE_VOTES
from torchcaps._files import digest
from torchcaps.data.batches import Batch, make_batches, mixed
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.models.weights import load_file_into, save_weights
from torchcaps.training.callbacks import Callback, CallbackList, Plan, Stopper
from torchcaps.training.checkpoint import Position, load_state, new_totals, save_state
from torchcaps.training.data import Images, has_several_labels, load_train
from torchcaps.training.distributed import broadcast_choice, broadcast_weights, make_accelerator, split_batch
from torchcaps.training.evaluation import evaluate
from torchcaps.training.few_updates import notice_few_updates
from torchcaps.training.large_layer import notice_large_layer
from torchcaps.training.metrics import Evaluation
from torchcaps.training.nonfinite import LateCheck, gradients_finite, raise_not_finite
from torchcaps.training.objective import Objective, Scored
from torchcaps.training.optim import EMA, inverse_temperature_factor, lr_factor, make_optimizer
from torchcaps.training.plain_form import notice_plain_form
from torchcaps.training.run import Run, choose_folder, now
from torchcaps.training.task import Task

RECORD_EVERY = 100
# Several processes agree on saving and stopping only every few steps: to agree, they wait for each other.
AGREE_EVERY = 10


class Engine:
    """All that a training needs; `train` is the loop. Arguments are those of `torchcaps.training.train`."""

    def __init__(
        self,
        task: Task,
        out: str | Path | None,
        *,
        name: str = "run",
        resume: bool = False,
        save_every: float = 120.0,
        keep_epochs: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.task, self.recipe, self.model, self.data = task, task.recipe, task.model, task.splits
        recipe = self.recipe
        self.accelerator = make_accelerator(recipe.training.precision)
        self.precision = "bf16" if self.accelerator.mixed_precision == "bf16" else "fp32"
        self.main = self.accelerator.is_main_process
        self.callbacks = CallbackList(callbacks if self.main else ())
        self.save_every, self.keep_epochs = save_every, keep_epochs
        decoder = getattr(self.model, "decoder", None)
        if isinstance(decoder, torch.nn.Module) and not recipe.loss.reconstruction:
            # It has no loss, and data parallelism would wait for gradients that are never computed.
            decoder.requires_grad_(False)
        if self.accelerator.device.type == "cpu":
            # Convolutions are faster in this layout, above all the first one, whose images have few channels:
            # 5 to 25 % more images per second.
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.use_images(self.data.train, epoch=0)
        self.wrapped = self.accelerator.prepare(Objective(self.model, recipe.loss, task.custom_loss))
        self.objective = self.wrapped
        if recipe.training.compile:
            self.objective = torch.compile(self.wrapped, options=INLINE_VOTES)
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(recipe.optimizer, self.parameters)
        device = self.accelerator.device
        # A GPU would have to be waited for at every step.
        self.late_check = LateCheck(self.optimizer, device) if device.type == "cuda" else None
        self.average = EMA(self.model, recipe.training.ema_decay)
        self.routings = [each for each in self.model.modules() if hasattr(each, "inverse_temperature_factor")]

        # Sums of loss, images right and images: of this epoch, and of its part up to the latest record.
        self.totals, self.recorded = new_totals(device), new_totals(device)
        folder = broadcast_choice(self.accelerator, lambda: str(choose_folder(out, name, resume=resume)))
        self.run = Run(folder, recipe, resume=resume, main=self.main)
        self.position = Position()
        if self.run.resumes:
            try:
                self._restore()
            except BaseException:
                self.run.close()
                raise
        self.save_seconds = self.test_seconds = 0.0
        self.timed = (0, 0.0)  # images and seconds at the latest record

    def use_images(self, images: Images, epoch: int) -> None:
        """Train on these images from now on; `epoch` says of which epoch they are."""
        batch_size = self.recipe.training.batch_size
        assert batch_size is not None
        self.batches = make_batches(
            images,
            batch_size,
            train=True,
            preprocess=self.task.preprocess,
            seed=self.recipe.seed,
            rank=self.accelerator.process_index,
            world_size=self.accelerator.num_processes,
            device=self.accelerator.device,
            num_workers=self.task.num_workers,
        )
        self.objects: Tensor | None = None
        if self.recipe.loss.reconstruction and has_several_labels(images):
            assert isinstance(images, ImageSet)
            self.objects = images.metadata["parts"].to(self.accelerator.device)
        self.images_epoch = epoch

    def _restore(self) -> None:
        totals = {"epoch": self.totals, "recorded": self.recorded}
        self.position = load_state(self.run.state, self.model, self.optimizer, self.average, totals)
        if not self.main:
            # The saved totals are sums over all processes, and the main one continues them.
            self.totals.zero_()
            self.recorded.zero_()
        self.run.begin(self.position.records, self.position.step)
        if self.position.ended == "epochs" and self.position.epoch < self.recipe.training.epochs:
            self.position.ended = ""

    def train(self, stopper: Stopper) -> dict[str, Any]:
        """Train to the end of the recipe, or until the stopper says to stop; then close the run."""
        with self.run:
            try:
                return self._train(stopper)
            finally:
                # As its owner gave it: export to other formats needs the usual layout.
                self.model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    def _train(self, stopper: Stopper) -> dict[str, Any]:
        position, total = self.position, len(self.batches)
        if self.main:
            notice_few_updates(self.recipe.training, total)
            notice_large_layer(self.model)
            notice_plain_form(self.model, self.accelerator.device)
        self.timed = position.images, position.seconds
        self.callbacks.on_train_begin(self.plan(), position)
        saved_at = time.monotonic()
        decision = ""
        while not position.ended and decision not in ("budget", "interrupted"):
            started, before = time.monotonic(), position.images
            earlier = position.seconds
            if self.recipe.data.resample_each_epoch and self.images_epoch != position.epoch:
                images = load_train(self.recipe.data, position.epoch, self.recipe.seed)
                self.use_images(images, position.epoch)
            for batch in self.batches.epoch(position.epoch, start=position.batch):
                self.update(batch)
                if position.step % AGREE_EVERY == 0:
                    self.raise_if_late()
                position.seconds = earlier + time.monotonic() - started
                self.callbacks.on_step_end(position, self.totals)
                if position.step % RECORD_EVERY == 0:
                    self.record_step()
                if self.accelerator.num_processes == 1 or position.step % AGREE_EVERY == 0:
                    due = time.monotonic() - saved_at >= self.save_every
                    decision = self.decide(stopper, self.save_seconds, "save" if due else "")
                    if decision:
                        self.save()
                        saved_at = time.monotonic()
                    if decision in ("budget", "interrupted"):
                        break
            if position.batch < total:
                break
            rate = (position.images - before) / max(1e-9, position.seconds - earlier)
            # Before the first test: it is faster than training on as many images.
            expected = self.test_seconds or len(self.data.validation or ()) / max(rate, 1e-9)
            decision = self.decide(stopper, self.save_seconds + expected)
            if not decision:
                self.finish_epoch(rate)
            self.save()
            saved_at = time.monotonic()
        if position.ended and not decision:
            # The final tests take time too; a run that has none left is tested when it is resumed.
            tests = 1 + 2 * len(self.recipe.evaluation.extra_datasets)
            decision = self.decide(stopper, self.test_seconds * tests)
        result = self.result(decision or "ended")
        self.run.finish(result)
        self.callbacks.on_train_end(result)
        self.accelerator.wait_for_everyone()  # no process leaves while another one still needs it
        return result

    def decide(self, stopper: Stopper, needed: float, otherwise: str = "") -> str:
        """Why to stop now, or `otherwise`: what the main process decides, on all of them."""
        return broadcast_choice(self.accelerator, lambda: stopper.reason(needed) or otherwise)

    def update(self, batch: Batch) -> None:
        """One step of the optimizer, on one batch."""
        recipe, position = self.recipe, self.position
        processes = self.accelerator.num_processes
        batch_size = self.batches.batch_size
        whole = min(batch_size, self.batches.num_images - position.batch * batch_size)
        # Each step seeds its own random numbers (dropout), so that no generator's state is saved.
        seed = mixed(recipe.seed, position.step, self.accelerator.process_index)
        torch.manual_seed(seed)
        total_steps = recipe.training.epochs * len(self.batches)
        rate = recipe.optimizer.lr * lr_factor(recipe.schedule, position.step, total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.set_inverse_temperature(inverse_temperature_factor(recipe.schedule, position.step))

        pieces = list(split_batch(batch, recipe.training.grad_accum_steps, whole, processes))
        loss = torch.zeros((), device=self.totals.device)
        for number, (piece, weight) in enumerate(pieces):
            last = number == len(pieces) - 1
            # Gradients are exchanged once, with the last piece.
            with nullcontext() if last else self.accelerator.no_sync(self.wrapped):
                scored = self.forward(piece)
                share = scored.loss * weight
                self.accelerator.backward(share)
            loss += share.detach()
            if weight:
                self.totals[1] += scored.right
        finite = gradients_finite(loss, self.parameters)
        if self.late_check is not None:
            self.late_check.add(finite)
        elif not finite:
            self.raise_fault(batch, position.step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        position.step += 1
        position.batch += 1
        position.images += whole
        self.average.update(position.step)
        self.totals[0] += loss * (whole / processes)
        self.totals[2] += len(batch.labels)

    def raise_if_late(self) -> None:
        """End the run if a step since the last call was not finite; the weights are those before it."""
        if self.late_check is None or not (steps := self.late_check.steps_since_fault()):
            return
        position = self.position
        batch = next(self.batches.epoch(position.epoch, start=position.batch - steps))
        torch.manual_seed(mixed(self.recipe.seed, position.step - steps, self.accelerator.process_index))
        with self.accelerator.no_sync(self.wrapped):
            self.accelerator.backward(self.forward(batch).loss)
        self.raise_fault(batch, position.step - steps)

    def raise_fault(self, batch: Batch, step: int) -> None:
        """End a run whose loss or gradient was not finite in the update after `step`."""
        torch.manual_seed(mixed(self.recipe.seed, step, self.accelerator.process_index))
        self.objective = self.wrapped  # forward hooks do not fire in a compiled model
        pieces = [piece for piece, _ in split_batch(batch, self.recipe.training.grad_accum_steps, 1, 1)]
        raise_not_finite(
            self.run.failed, self.model, batch, lambda: [self.forward(piece) for piece in pieces],
            step=step + 1, main=self.main,
        )  # fmt: skip

    def forward(self, piece: Batch) -> Scored:
        """Loss and number of right images of a piece of a batch."""
        objects = None
        if self.objects is not None:
            objects = self.task.preprocess.test(self.objects[piece.indices].flatten(0, 1))
            objects = objects.unflatten(0, (len(piece.indices), -1)).unsqueeze(2)
        return self.objective(piece.images, piece.labels, self.position.step, objects)

    def set_inverse_temperature(self, factor: float) -> None:
        """Multiply the inverse temperature of every EM routing in the model by a factor."""
        for routing in self.routings:
            routing.inverse_temperature_factor = factor  # type: ignore[assignment]

    def record_step(self) -> None:
        """Write a line of metrics about the steps since the previous one."""
        loss, right, images = self.accelerator.reduce(self.totals - self.recorded).tolist()
        self.recorded.copy_(self.totals)
        position, (images_before, seconds_before) = self.position, self.timed
        self.timed = position.images, position.seconds
        self.record(
            {
                "step": position.step,
                "epoch": position.epoch + 1,
                "loss": loss / images,
                "accuracy": right / images,
                "lr": self.optimizer.param_groups[0]["lr"],
                "images_per_second": round(
                    (position.images - images_before) / max(1e-9, position.seconds - seconds_before), 2
                ),
            }
        )

    def record(self, numbers: dict[str, Any]) -> None:
        """Write a line of metrics."""
        self.run.record(numbers)
        self.position.records += 1
        self.callbacks.on_record(numbers)

    def finish_epoch(self, images_per_second: float) -> None:
        """Test, record, keep the best model, and decide whether training is over."""
        position, stop = self.position, self.recipe.stop
        self.raise_if_late()
        tested = None
        if self.data.validation is not None:
            started = time.monotonic()
            with self.average.applied():
                tested = self.test(self.data.validation, self.task.preprocess)
            self.test_seconds = time.monotonic() - started
        loss, right, images = self.accelerator.reduce(self.totals.clone()).tolist()
        position.epoch, position.batch = position.epoch + 1, 0
        trained = {"loss": loss / images, "accuracy": right / images}
        record: dict[str, Any] = {"step": position.step, "epoch": position.epoch, "train": trained}
        if tested is not None:
            record[self.data.validation_name] = tested.summary()
        record["lr"] = self.optimizer.param_groups[0]["lr"]
        record["seconds"] = round(position.seconds, 3)
        record["images_per_second"] = round(images_per_second, 2)
        self.record(record)
        self.callbacks.on_epoch_end(record)
        self.totals.zero_()
        self.recorded.zero_()

        metric = (trained if tested is None else tested.summary()).get(stop.metric, 0.0)
        value = metric if stop.metric == "accuracy" else -metric
        position.waited += 1
        if position.best is None or value > position.best:
            position.best, position.waited = value, 0
            if tested is not None:
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
        started = time.monotonic()
        self.raise_if_late()
        totals = {"epoch": self.totals, "recorded": self.recorded}
        sums = {name: self.accelerator.reduce(each.clone()) for name, each in totals.items()}
        self.save_model(self.run.last)
        if self.main:
            with self.run.writing(self.run.state):
                save_state(self.run.state, self.position, self.model, self.optimizer, self.average, sums)
        self.save_seconds = time.monotonic() - started

    def save_model(self, path: Path, tested: Evaluation | None = None) -> None:
        """Write the model as it is used: with averaged weights, if they are averaged."""
        facts: dict[str, Any] = {"step": self.position.step, "data": self.recipe.data.name}
        if tested is not None:
            facts[self.data.validation_name] = tested.summary()
        if self.main:
            with self.run.writing(path), self.average.applied():
                save_weights(path, self.model, replace(self.task.card, facts=facts))

    def test(self, images: Images, preprocess: Preprocess, crops: int = 1) -> Evaluation:
        """Test the model as it is, every process on its share of the images.

        In full precision, as it will be used: rounding to half can cost a network with batch normalization
        several points.
        """
        self.set_inverse_temperature(1.0)
        return evaluate(
            self.model,
            images,
            preprocess,
            batch_size=self.recipe.evaluation.batch_size,
            crops=crops,
            loss=self.recipe.loss,
            custom_loss=self.task.custom_loss,
            num_workers=self.task.num_workers,
            rank=self.accelerator.process_index,
            world_size=self.accelerator.num_processes,
            add_up=self.accelerator.reduce,
        )

    def result(self, status: str) -> dict[str, Any]:
        """The content of `result.json`; of a run that has ended, the tests of the model it reports too.

        That model (see `reported_model`) is then in `self.model`.
        """
        position, recipe = self.position, self.recipe
        result: dict[str, Any] = {
            "status": status,
            "run": str(self.run.path),
            "recipe": recipe.to_table(),
            "seed": recipe.seed,
            "precision": self.precision,
            "num_params": sum(parameter.numel() for parameter in self.parameters),
            "step": position.step,
            "epochs": position.epoch,
            "seconds": round(position.seconds, 1),
            "images_per_second": round(position.images / max(1e-9, position.seconds), 1),
        }
        if status != "ended":
            return result
        if self.main:
            load_file_into(self.model, self.run.reported)
        broadcast_weights(self.accelerator, self.model)
        return result | {
            "ended": position.ended,
            "model": self.run.reported.name,
            "sha256": digest(self.run.reported) if self.main else "",
            "metrics": {
                test.name: self.test(test.images, test.preprocess, test.crops).summary()
                for test in self.task.final_tests()
            },
            "ended_at": now(),
            # Of this session when it started: its git state is that of the code that was loaded.
            "environment": self.run.sessions()[-1] if self.main else {},
            "threads": torch.get_num_threads(),
        }

    def plan(self) -> Plan:
        """What is about to happen, for callbacks."""
        return Plan(
            run=str(self.run.path),
            model=self.recipe.model.name,
            num_params=sum(parameter.numel() for parameter in self.parameters),
            data=self.recipe.data.name,
            loss=self.recipe.loss.name,
            images=len(self.data.train),
            batches=len(self.batches),
            batch_size=self.batches.batch_size,
            epochs=self.recipe.training.epochs,
            device=f"{self.accelerator.device}, {self.precision}",
            processes=self.accelerator.num_processes,
        )
