"""Shared libraries that take the place of CUDA's driver and runtime."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def simulated_library(name, exports, deps, needed = []):
    """Builds a library under the soname `name`, from whole static libraries.

    Args:
      name: The soname, which is the file's name, too.
      exports: The linker's version script that says what it exports.
      deps: Libraries with `alwayslink`.
      needed: Libraries of this kind that it uses.
    """
    cc_binary(
        name = name,
        additional_linker_inputs = [exports] + needed,
        linkopts = [
            "-Wl,-soname," + name,
            "-Wl,--version-script=$(location %s)" % exports,
            # Beside itself, before LD_LIBRARY_PATH: not what a machine with a real GPU has under these names.
            "-Wl,--disable-new-dtags,-rpath,$$ORIGIN",
            # The C++ library inside: preloaded into a program that brings its own, ours must not take its place.
            "-l:libstdc++.a",
            "-static-libgcc",
            "-Wl,--as-needed,--gc-sections",
            "-ldl",
            "-lpthread",
        ] + ["$(location %s)" % library for library in needed],
        linkshared = True,
        deps = deps + ["//third_party/glibc:oldest_with_static_cxx"],
    )
