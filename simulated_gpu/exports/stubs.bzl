"""C stubs for functions that are not simulated."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def stubs(name, symbols):
    """A library with a weak function for each symbol of a list, one a line, that answers "not supported".

    Weak, so that a function that is simulated takes its place without being struck off the list. Lines that begin
    with # are comments.
    """
    native.genrule(
        name = name + "_source",
        srcs = [symbols],
        outs = [name + ".c"],
        cmd = """
            { echo '#include "simulated_gpu/exports/unsupported.h"'
              sed '/^#/d; s/.*/__attribute__((weak)) int &(void) { return frugal_sim_unsupported("&"); }/' $<
            } > $@""",
    )
    cc_library(
        name = name,
        srcs = [name + ".c"],
        deps = [":unsupported"],
        alwayslink = True,
    )
