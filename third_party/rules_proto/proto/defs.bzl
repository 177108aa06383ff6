"""Bazel 4's native protocol buffer rules; its own tools' BUILD files load them by this name."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
