#include "bindings/publishing/live_document.h"

#include <unistd.h>

#include <limits>

#include "bindings/publishing/publisher.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

LiveGpu SomeGpu() {
  return {.gpu = 1,
          .name = "H100",
          .uuid = "GPU-1",
          .total = 100,
          .free = 40,
          .is_size_known = true,
          .in_use = 30,
          .asleep = 5,
          .held = 50,
          .peak = 45,
          .stitches = 3,
          .out_of_memory_errors = 2,
          .last_out_of_memory = "too_big"};
}

TEST(LiveDocumentTest, AllFiguresAreThere) {
  LiveFigures figures;
  figures.pid = 7;
  figures.age_seconds = 1.5;
  figures.command = {"python", "a b.py"};
  figures.is_simulated = true;
  figures.epochs = 9;
  figures.gpus = {SomeGpu()};
  figures.pools = {{.gpu = 1, .line = "a.py:2", .captured = true, .reserved = 8, .allocated = 2, .idle = 4}};
  figures.verdicts = {{"leak", 1, "a.py:1 leaks", 2.0}};
  EXPECT_EQ(
      WriteLiveDocument(figures),
      R"({"schema":"frugal_alloc.live","version":1,"pid":7,"age_seconds":1.5,"command":["python","a b.py"],)"
      R"("simulated":true,"node":"","tracking":true,"epochs":9,"gpus":[{"gpu":1,"name":"H100","uuid":"GPU-1",)"
      R"("total_bytes":100,"free_bytes":40,"limit_bytes":0,"allocated_bytes":30,"reserved_bytes":50,)"
      R"("asleep_bytes":5,"waste_bytes":25,"peak_allocated_bytes":45,"stitches":3,)"
      R"("out_of_memory_errors":2,"last_out_of_memory":"too_big"}],)"
      R"("pools":[{"gpu":1,"line":"a.py:2","captured":true,"released":false,"reserved_bytes":8,"allocated_bytes":2,)"
      R"("idle_bytes":4}],"verdicts":[{"kind":"leak","gpu":1,"bytes_per_epoch":2,"text":"a.py:1 leaks"}]})");
}

TEST(LiveDocumentTest, ASizeThatTheDriverDoesNotTellIsNull) {
  LiveFigures figures;
  figures.gpus = {SomeGpu()};
  figures.gpus[0].is_size_known = false;
  EXPECT_NE(WriteLiveDocument(figures).find(R"("total_bytes":null,"free_bytes":null)"), std::string::npos);
}

TEST(LiveDocumentTest, AnyBytesBecomeJson) {
  LiveFigures figures;
  figures.command = {"\"\\\n\x1b[2J\x7f", "\xc3\xa4 \xff \xc0\xaf \xed\xa0\x80 \xf0\x9f\x98\x80", "\xe2\x82"};
  figures.verdicts = {{"leak", 0, "x", std::numeric_limits<double>::quiet_NaN()}};
  const std::string document = WriteLiveDocument(figures);
  EXPECT_NE(document.find(R"(["\"\\\u000a\u001b[2J\u007f",)"), std::string::npos) << document;
  EXPECT_NE(
      document.find("\"\xc3\xa4 \\ufffd \\ufffd\\ufffd \\ufffd\\ufffd\\ufffd \xf0\x9f\x98\x80\",\"\\ufffd\\ufffd\""),
      std::string::npos)
      << document;
  EXPECT_NE(document.find(R"("bytes_per_epoch":0,)"), std::string::npos);
}

TEST(LiveDocumentTest, TheLargestDocumentCanBeAnswered) {
  LiveFigures figures;
  figures.command.assign(1000, std::string(10000, '\x1b'));
  figures.gpus.assign(128, SomeGpu());
  for (LiveGpu& gpu : figures.gpus) gpu.name = std::string(1000, 'x');
  figures.pools.assign(100, {.line = std::string(1000, '\x1b')});
  figures.verdicts.assign(100, {"leak", 0, std::string(10000, '\x1b'), 1.0});
  EXPECT_LT(WriteLiveDocument(figures).size(), Publisher::kMostBytes);
}

TEST(LiveDocumentTest, TheKernelTellsWhatThisProcessIs) {
  const std::vector<std::string> command = CommandLine();
  ASSERT_FALSE(command.empty());
  EXPECT_NE(command[0].find("live_document_test"), std::string::npos);
  EXPECT_GE(AgeSeconds(), 0);
  EXPECT_LT(AgeSeconds(), 3600);
}

}  // namespace
}  // namespace frugal
