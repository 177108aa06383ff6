"""One GoogleTest target for every *_test.cc of a package."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

def cc_tests(deps, data = [], size = "small", tags = []):
    """Declares `foo_test` for every foo_test.cc beside the BUILD file.

    The package's other .h and .cc files become `:support`, which every test links.

    Args:
      deps: what the tests need besides GoogleTest and `:support`.
      data: files the tests read at run time.
      size: Bazel's size, hence the time limit, of each test.
      tags: Bazel's tags; "unsanitized" leaves the package out of the sanitizers' runs.
    """
    sources = native.glob(["*_test.cc"])
    cc_library(
        name = "support",
        testonly = True,
        srcs = native.glob(["*.cc"], exclude = sources),
        hdrs = native.glob(["*.h"]),
        deps = deps + ["//tests:environment", "@com_google_googletest//:gtest"],
    )
    for source in sources:
        cc_test(
            name = source[:-len(".cc")],
            size = size,
            srcs = [source],
            data = data,
            linkstatic = True,
            tags = tags,
            deps = deps + [
                ":support",
                "//tests:environment",
                "//tests:sanitizers",
                "@com_google_googletest//:gtest_main",
            ],
        )
