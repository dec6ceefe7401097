"""Every network in the forms that deployment asks for: copies, other number formats, transforms, sharding."""

from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn

from models.test_models import THIN, build, images_for
from torchcaps.models import Model, Output

pytestmark = pytest.mark.parametrize("name", THIN)


def evaluated(name: str) -> Model:
    torch.manual_seed(0)
    return build(name).eval()


@torch.no_grad()
def check_same(model: Model, twin: nn.Module) -> None:
    images = images_for(model)
    assert torch.equal(twin(images).scores, model(images).scores)


def test_pickles_and_loads(name: str) -> None:
    model = evaluated(name)
    check_same(model, pickle.loads(pickle.dumps(model)))
    twin = build(name).eval()
    twin.load_state_dict(model.state_dict())
    check_same(model, twin)
    check_same(model, deepcopy(model))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gives_nearly_the_same_scores(name: str, dtype: torch.dtype) -> None:
    model = evaluated(name)
    images = images_for(model)
    with torch.no_grad():
        expected = model(images).scores
        scores = model.to(dtype)(images.to(dtype)).scores
    torch.testing.assert_close(scores.float(), expected, atol=0.05, rtol=0.05)


def test_half_precision_trains(name: str) -> None:
    model = build(name).to(torch.bfloat16)
    output = model(images_for(model).to(torch.bfloat16))
    output.logits.float().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_channels_last_changes_nothing(name: str) -> None:
    model = evaluated(name)
    images = images_for(model)
    with torch.no_grad():
        expected = model(images).scores
        model.to(memory_format=torch.channels_last)
        scores = model(images.to(memory_format=torch.channels_last)).scores
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-4)


def test_functional_call_and_vmap_agree_with_the_batch(name: str) -> None:
    model = evaluated(name)
    images = images_for(model, 3)
    state = {key: value.detach() for key, value in model.state_dict().items()}

    def scores(image: torch.Tensor) -> torch.Tensor:
        output: Output = torch.func.functional_call(model, state, (image[None],))
        return output.scores[0]

    with torch.no_grad():
        expected = model(images).scores
    torch.testing.assert_close(torch.func.vmap(scores)(images), expected, atol=1e-5, rtol=1e-4)


def test_shapes_without_memory(name: str) -> None:
    with torch.device("meta"):
        model = build(name)
        output = model(images_for(model))
    assert output.scores.device.type == "meta"
    assert output.scores.shape == (2, 10)


@pytest.mark.parametrize("training", [False, True])
def test_an_empty_batch_gives_empty_scores(name: str, training: bool) -> None:
    model = build(name).train(training)
    if training and any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in model.modules()):
        pytest.skip("batch normalization has no statistics of an empty batch")
    assert model(images_for(model, 0)).scores.shape == (0, 10)


def test_traces_with_any_batch(name: str) -> None:
    model = evaluated(name)
    with torch.no_grad():
        traced = torch.jit.trace(model, images_for(model), check_trace=False)
        images = images_for(model, 3)
        torch.testing.assert_close(traced(images)[0], model(images).scores, atol=1e-5, rtol=1e-4)


def test_linear_layers_quantize_or_say_why_not(name: str) -> None:
    model = evaluated(name)
    images = images_for(model)
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    if name == "inverted_capsnet":
        with pytest.raises(ValueError, match="score layer of inverted_attention cannot be quantized"):
            quantized(images)
        return
    with torch.no_grad():
        torch.testing.assert_close(quantized(images).scores, model(images).scores, atol=0.05, rtol=0.1)


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiles_in_one_piece(name: str, backend: str) -> None:
    torch.compiler.reset()
    model = evaluated(name)
    images = images_for(model, 3)
    with torch.no_grad():
        expected = model(images).scores
        scores = torch.compile(model, backend=backend, fullgraph=True)(images).scores
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-4)


def test_scripts_and_symbolic_traces_are_refused_in_a_sentence(name: str) -> None:
    model = evaluated(name)
    with pytest.raises(
        NotImplementedError, match=r"torch\.jit\.script cannot compile .* Use torch\.jit\.trace"
    ):
        torch.jit.script(nn.Sequential(model))
    with pytest.raises(NotImplementedError, match="symbolic_trace cannot record"):
        torch.fx.symbolic_trace(model)


def test_a_new_classifier_keeps_all_other_layers(name: str) -> None:
    model = evaluated(name)
    before = {key: (value, value.clone()) for key, value in model.state_dict().items()}
    model.reset_classifier(7)
    images = images_for(model)
    output = model(images)
    assert output.scores.shape == (2, 7)
    assert model.num_classes == 7
    assert model.new_parameters
    for key, value in model.state_dict().items():
        assert (key in model.new_parameters) == (value.shape != before[key][1].shape), key
        if key not in model.new_parameters:
            assert torch.equal(value, before[key][1]), key
    output.logits.sum().backward()


def test_features_are_what_the_class_layer_reads(name: str) -> None:
    model = evaluated(name)
    images = images_for(model, 3)
    features = model.forward_features(images)
    tensors = [features] if isinstance(features, torch.Tensor) else list(features)[:2]
    assert all(len(tensor) == 3 for tensor in tensors)
    model.reset_classifier(7)  # nothing below the class layer changes
    again = model.forward_features(images)
    again = [again] if isinstance(again, torch.Tensor) else list(again)[:2]
    if name != "inverted_capsnet":  # there the layers are routed together
        assert all(torch.equal(one, other) for one, other in zip(tensors, again))


def test_folders_hold_the_whole_model(name: str, tmp_path: Path) -> None:
    model = evaluated(name)
    model.save_pretrained(tmp_path, facts={"data": "none"})
    again = Model.from_pretrained(tmp_path)
    check_same(model, again)
    assert again.card.facts == {"data": "none"}
    assert name in (tmp_path / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def one_process(tmp_path: Path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


def test_fully_sharded_networks_give_the_same_scores(name: str, one_process: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = evaluated(name)
    images = images_for(model)
    with torch.no_grad():
        expected = model(images).scores
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    output = model(images)
    torch.testing.assert_close(output.scores, expected, atol=1e-5, rtol=1e-4)
    output.logits.sum().backward()
