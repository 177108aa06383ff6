"""The table of GPUs: every figure has a source, and what people type finds the GPU that they mean."""

from __future__ import annotations

import re

import pytest
from simulated_gpu import gpu_models
from simulated_gpu.gpu_models import GpuModel, UnknownGpu, find, models

FIGURES = {"memory_bytes", "capability", "multiprocessors", "l2_bytes", "context_bytes"}
ADDRESS = re.compile(r"https://[\w.-]+/\S+")
OTHERS = ("public log", "derived from ", "estimated: ")
EACH = pytest.mark.parametrize("model", models(), ids=lambda model: model.name)


@EACH
def test_every_figure_has_a_source(model: GpuModel) -> None:
    assert set(model.sources) == FIGURES
    for source in model.sources.values():
        assert ADDRESS.fullmatch(source) or source.startswith(OTHERS), source


@EACH
def test_what_is_estimated_says_so_in_its_source(model: GpuModel) -> None:
    said = {figure for figure, source in model.sources.items() if source.startswith("estimated")}
    assert said <= set(model.estimated) <= FIGURES
    # An estimate that is another GPU's figure names that GPU.
    assert all(model.sources[figure].startswith("derived from ") for figure in set(model.estimated) - said)


@EACH
def test_memory_is_a_little_below_what_the_gpu_is_sold_with(model: GpuModel) -> None:
    sold = model.marketing_gb << 30
    assert 0.9 * sold < model.memory_bytes < sold
    assert 32 << 20 < model.context_bytes < 1 << 30


@EACH
def test_figures_are_of_a_gpu_that_there_can_be(model: GpuModel) -> None:
    assert re.fullmatch(r"(6|7|8|9|10|12)\.\d", model.capability)
    assert 10 <= model.multiprocessors < 200
    assert 1 << 20 <= model.l2_bytes < 160 << 20 and model.l2_bytes % 1024 == 0
    assert "," not in model.name, "the simulated GPU takes a name without one"


def test_names_are_sorted_and_unique() -> None:
    names = [model.name.casefold() for model in models()]
    assert names == sorted(set(names))
    assert len(names) >= 40


@EACH
def test_a_gpu_is_found_by_its_name_and_by_an_alias(model: GpuModel) -> None:
    for name in (model.name, model.name.lower(), model.name.replace(" ", "-"), f"{model.name} {model.marketing_gb}GB"):
        assert find(name) is model
    assert any(_finds(alias, model) for alias in model.aliases)


def _finds(alias: str, model: GpuModel) -> bool:
    try:
        return find(alias) is model
    except UnknownGpu as error:
        assert "more than one GPU" in str(error)
        return False


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("4090", "NVIDIA GeForce RTX 4090"),
        ("rtx4090", "NVIDIA GeForce RTX 4090"),
        ("RTX 4090 24GB", "NVIDIA GeForce RTX 4090"),
        ("4090 mobile", "NVIDIA GeForce RTX 4090 Laptop GPU"),
        ("4060 Ti 16GB", "NVIDIA GeForce RTX 4060 Ti"),
        ("H100", "NVIDIA H100 80GB HBM3"),
        ("h100-pcie", "NVIDIA H100 PCIe"),
        ("A100-40GB", "NVIDIA A100-SXM4-40GB"),
        ("a100 80g", "NVIDIA A100-SXM4-80GB"),
        ("V100 32GB", "Tesla V100-SXM2-32GB"),
        ("a6000", "NVIDIA RTX A6000"),
        ("6000 Ada", "NVIDIA RTX 6000 Ada Generation"),
        ("DGX Spark", "NVIDIA GB10"),
        ("P100", "Tesla P100-PCIE-16GB"),
        ("gtx1080ti", "NVIDIA GeForce GTX 1080 Ti"),
        ("1660 super", "NVIDIA GeForce GTX 1660 SUPER"),
    ],
)
def test_what_people_type_finds_the_gpu(text: str, name: str) -> None:
    assert find(text).name == name


@pytest.mark.parametrize(
    ("text", "near"),
    [("RTX 4095", "RTX 4090"), ("4060 Ti 8GB", "RTX 4060 Ti"), ("H1000", "H100"), ("", "RTX 4090"), ("L40X", "L40S")],
)
def test_an_unknown_name_gets_the_nearest_ones_in_one_line(text: str, near: str) -> None:
    with pytest.raises(UnknownGpu) as raised:
        find(text)
    said = str(raised.value)
    assert near in said and "\n" not in said
    assert len(re.split(", ", said.split("near it are ")[1])) <= gpu_models.NEAREST


@pytest.mark.parametrize("text", ["MI300X", "AMD Instinct MI250", "RX 7900 XTX", "Radeon Pro W7900"])
def test_a_gpu_of_amds_is_said_not_to_be_modelled(text: str) -> None:
    with pytest.raises(UnknownGpu, match="AMD's, and those are not modelled"):
        find(text)


def test_what_is_for_sale_is_in_no_laptop_nor_small_computer_and_is_still_made() -> None:
    assert all(find(name).is_for_sale for name in ("4090", "L4", "T4", "H100"))
    assert not any(find(name).is_for_sale for name in ("4090 mobile", "DGX Spark", "GTX 1650", "P100"))


def test_a_name_of_several_gpus_is_refused_with_theirs() -> None:
    with pytest.raises(UnknownGpu, match="'A100' is more than one GPU; write A100-40GB or A100-80GB"):
        find("A100")


def test_the_simulated_gpu_is_told_the_model() -> None:
    environment = find("4090").environment()
    text = environment["FRUGAL_SIM_GPU"]
    assert text == "name=NVIDIA GeForce RTX 4090,capability=8.9,multiprocessors=128,l2=73728KiB"
    assert environment["FRUGAL_SIM_CONTEXT"] == str(find("4090").context_bytes)
    assert "FRUGAL_SIM_UNIFIED" not in environment
    assert find("DGX Spark").environment()["FRUGAL_SIM_UNIFIED"] == "1"
