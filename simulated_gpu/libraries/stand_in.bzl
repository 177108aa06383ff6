"""Shared libraries that take the place of NVIDIA's, under their names and symbol versions."""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//simulated_gpu/exports:simulated_library.bzl", "simulated_library")

def stand_in(name, srcs, symbols, cuda_major = "13", defines = [], deps = []):
    """Builds a stand-in that PyTorch's own libraries accept for the real one.

    Args:
      name: The real library's soname, which is also its symbols' version.
      srcs: Its sources.
      symbols: A pattern of the symbols that it exports; all others stay inside.
      cuda_major: The CUDA release that it answers for when asked for its version.
      defines: Of its sources alone.
      deps: Libraries that its sources use.
    """
    native.genrule(
        name = name + "_exports",
        outs = [name + ".lds"],
        cmd = "echo '%s { global: %s; local: *; };' > $@" % (name, symbols),
    )
    cc_library(
        name = name + "_code",
        srcs = srcs,
        local_defines = ["FRUGAL_SIM_CUDA_MAJOR=" + cuda_major] + defines,
        deps = [":stand_in"] + deps,
        alwayslink = True,
    )
    simulated_library(
        name = name,
        exports = name + ".lds",
        deps = [name + "_code"],
    )
