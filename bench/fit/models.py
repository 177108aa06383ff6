"""What one training step takes of each of 25 models, by `frugal-alloc fit`: a table in Markdown.

The choice of models follows the paper on xMem (arXiv 2510.21048). They are from torchvision, or built from
transformers' configuration classes with random weights. Nothing is downloaded. bench/fit/README.md has the table.

From the root of a checkout, in an environment with torchvision and transformers:
``python -m bench.fit.models [--only TEXT]``.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from typing import Any

import torch
from frugal_alloc._common.arguments import Parser

from bench import markdown

GPU, STEPS = "A100-80GB", 3
IMAGES, SEQUENCES, TOKENS = 32, 4, 512
# By the names of torchvision.models.
IMAGE_MODELS = (
    *("vgg16", "vgg19", "resnet101", "resnet152", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large"),
    *("mnasnet1_0", "regnet_x_400mf", "regnet_y_400mf", "convnext_tiny", "convnext_base"),
)
# The class of transformers, and in what its configuration differs from the default one.
LANGUAGE_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "DistilGPT2": ("GPT2LMHeadModel", {"n_layer": 6}),
    "GPT-2": ("GPT2LMHeadModel", {}),
    "Cerebras-GPT-111M": ("GPT2LMHeadModel", {"n_layer": 10, "n_positions": 2048, "activation_function": "gelu"}),
    "GPT-Neo-125M": (
        "GPTNeoForCausalLM",
        {"hidden_size": 768, "num_layers": 12, "num_heads": 12, "attention_types": [[["global", "local"], 6]]},
    ),
    "OPT-125M": ("OPTForCausalLM", {}),
    "OPT-350M": (
        "OPTForCausalLM",
        {
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "ffn_dim": 4096,
            "word_embed_proj_dim": 512,
            "do_layer_norm_before": False,
        },
    ),
    "Pythia-1B": (
        "GPTNeoXForCausalLM",
        {
            "hidden_size": 2048,
            "num_hidden_layers": 16,
            "num_attention_heads": 8,
            "intermediate_size": 8192,
            "vocab_size": 50304,
        },
    ),
    "Qwen3-0.6B": (
        "Qwen3ForCausalLM",
        {
            "hidden_size": 1024,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 3072,
            "vocab_size": 151936,
            "tie_word_embeddings": True,
        },
    ),
    "Llama-3.2-1B": (
        "LlamaForCausalLM",
        {
            "hidden_size": 2048,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "intermediate_size": 8192,
            "vocab_size": 128256,
            "tie_word_embeddings": True,
        },
    ),
    "DeepSeek-R1-Distill-Qwen-1.5B": (
        "Qwen2ForCausalLM",
        {
            "hidden_size": 1536,
            "num_hidden_layers": 28,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "intermediate_size": 8960,
            "vocab_size": 151936,
            "tie_word_embeddings": False,
        },
    ),
    "T5-small": ("T5ForConditionalGeneration", {"decoder_start_token_id": 0}),
    "T5-base": (
        "T5ForConditionalGeneration",
        {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12, "decoder_start_token_id": 0},
    ),
    "CodeT5-small": ("T5ForConditionalGeneration", {"vocab_size": 32100, "decoder_start_token_id": 0}),
}
NAMES = (*IMAGE_MODELS, *LANGUAGE_MODELS)


def train(name: str) -> None:
    """In single precision, with AdamW."""
    with torch.device("cuda"):
        model = make(name).train()
    print(sum(parameter.numel() for parameter in model.parameters()), flush=True)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        loss_of(model, name).backward()
        optimizer.step()
        optimizer.zero_grad()


def make(name: str) -> torch.nn.Module:
    if name in IMAGE_MODELS:
        import torchvision

        return torchvision.models.get_model(name, weights=None)
    import transformers

    class_name, settings = LANGUAGE_MODELS[name]
    kind = getattr(transformers, class_name)
    return kind(kind.config_class(**settings, use_cache=False))


def loss_of(model: torch.nn.Module, name: str) -> torch.Tensor:
    if name in IMAGE_MODELS:
        images = torch.randn(IMAGES, 3, 224, 224, device="cuda")
        labels = torch.randint(0, 1000, (IMAGES,), device="cuda")
        return torch.nn.functional.cross_entropy(model(images), labels)
    tokens = torch.randint(0, 30000, (SEQUENCES, TOKENS), device="cuda")
    return model(input_ids=tokens, labels=tokens).loss


def row(name: str) -> list[str]:
    """Of the table.

    Raises:
        RuntimeError: there is no verdict; the message is the last line on standard error.
    """
    fit = [sys.executable, "-m", "frugal_alloc", "fit", "--gpu", GPU, "--steps", str(STEPS), "--json", "--"]
    program = [sys.executable, "-m", "bench.fit.models", "--train", name]
    done = subprocess.run([*fit, *program], capture_output=True, text=True)
    found = json.loads(done.stdout)["verdicts"][0] if done.stdout else {"ranks": []}
    if not found["ranks"] or found["fits"] is None:
        raise RuntimeError(f"{name}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    (rank,) = found["ranks"]
    parameters = next(line for line in done.stderr.splitlines() if line.isdigit())
    batch = f"{IMAGES} images" if name in IMAGE_MODELS else f"{SEQUENCES} x {TOKENS} tokens"
    sizes = (rank["requested_peak_bytes"], rank["reserved_peak_bytes"], rank["peak"]["used_bytes"])
    return [name, f"{int(parameters) / 1e6:,.1f}", batch, *(f"{size / (1 << 30):.2f}" for size in sizes)]


def main() -> int:
    parser = Parser("models", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="the models whose name has this in it")
    parser.add_argument("--train", choices=NAMES, help="train it here, for fit")
    options = parser.parse_args()
    if options.train:
        train(options.train)
        return 0
    head = ["model", "million parameters", "batch", "requested (GiB)", "reserved (GiB)", "in use (GiB)"]
    print(markdown.table(head, []), end="", flush=True)
    for name in NAMES:
        if options.only in name:
            print(markdown.table(row(name), []).splitlines()[0], flush=True)
    versions = {package: importlib.metadata.version(package) for package in ("torch", "torchvision", "transformers")}
    print("\n" + ", ".join(f"{package} {version}" for package, version in versions.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
