"""Shared libraries that take the place of NVIDIA's, under their names and symbol versions."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def stand_in(name, srcs, symbols, cuda_major = "13"):
    """Builds a stand-in that PyTorch's own libraries accept for the real one.

    Args:
      name: The real library's soname, which is also its symbols' version.
      srcs: Its sources.
      symbols: A pattern of the symbols that it exports; all others stay inside.
      cuda_major: The CUDA release that it answers for when asked for its version.
    """
    native.genrule(
        name = name + "_exports",
        outs = [name + ".lds"],
        cmd = "echo '%s { global: %s; local: *; };' > $@" % (name, symbols),
    )
    cc_binary(
        name = name,
        srcs = srcs,
        local_defines = ["FRUGAL_SIM_CUDA_MAJOR=" + cuda_major],
        linkopts = [
            "-Wl,-soname," + name,
            "-Wl,--version-script=$(location :%s.lds)" % name,
            # The C++ library inside: preloaded into a program that brings its own, ours must not take its place.
            "-l:libstdc++.a",
            "-static-libgcc",
            "-Wl,--as-needed",
            "-ldl",
        ],
        linkshared = True,
        deps = [
            ":%s.lds" % name,
            ":stand_in",
        ],
    )
