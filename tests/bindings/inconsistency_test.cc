// Broken books cost a run memory, not its life: with a driver that hands out one address range twice.

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "bindings/c_api/c_api.h"
#include "cuda/driver_api.h"
#include "gtest/gtest.h"
#include "tests/bindings/started_cuda.h"

namespace frugal {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr size_t kSize = 10 << 20;
constexpr char kAnothers[] = "what is another's";

CUdeviceptr first_range = 0;
decltype(&::cuMemAddressReserve) true_reserve = nullptr;
bool repeats = false;

CUresult RepeatReserve(CUdeviceptr* range, size_t size, size_t alignment, CUdeviceptr address,
                       unsigned long long flags) {  // NOLINT(google-runtime-int): the driver's type
  if (repeats) {
    *range = first_range;
    return CUDA_SUCCESS;
  }
  const CUresult result = true_reserve(range, size, alignment, address, flags);
  if (first_range == 0) first_range = *range;
  return result;
}

struct Warnings : c10::WarningHandler {
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;
};

class InconsistencyTest : public testing::Test {
 protected:
  // Once for all tests: what is broken stays so.
  static void SetUpTestSuite() {
    StartCuda(1);
    // Its table of functions is a driver's only for programs that leave it alone.
    auto& api = const_cast<DriverApi&>(**DriverApi::Get());
    true_reserve = api.MemAddressReserve;
    api.MemAddressReserve = &RepeatReserve;
    folder = std::filesystem::path(testing::TempDir()) / "inconsistency";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    // What another user may plant in a folder that all may write to.
    std::ofstream planted(folder / "another's");
    planted << kAnothers;
    planted.close();
    std::filesystem::create_symlink(folder / "another's", ReportPath());
    std::filesystem::create_symlink(folder / "another's", ReportPath().string() + ".part");
    const std::string settings = "self_check:fast,report_dir:" + folder.string();
    ASSERT_EQ(frugal_enable_with(settings.c_str()), 0) << frugal_last_error();
    c10::WarningUtils::set_warning_handler(&warnings);
    older = caching::get()->raw_alloc(kSize);
    repeats = true;
    // The first of small blocks: a range of their own is reserved for them.
    newer = caching::get()->raw_alloc(512);
  }

  static bool IsOurs(void* block) { return frugal_owns(block) != 0; }
  static std::filesystem::path ReportPath() {
    return folder / ("frugal-inconsistent-0-" + std::to_string(getpid()) + ".txt");
  }

  static inline Warnings warnings;
  static inline std::filesystem::path folder;
  static inline void* older = nullptr;
  static inline void* newer = nullptr;
};

TEST_F(InconsistencyTest, LetsNativeServeNewMemory) {
  EXPECT_NE(newer, nullptr);
  EXPECT_FALSE(IsOurs(newer));
  const c10::DataPtr block = caching::get()->allocate(kSize);
  EXPECT_NE(block.get(), nullptr);
  EXPECT_FALSE(IsOurs(block.get()));
}

TEST_F(InconsistencyTest, LeavesOlderMemoryInUseAndTakesItBackWithoutUsingItAgain) {
  EXPECT_TRUE(IsOurs(older));
  EXPECT_EQ(cudaMemset(older, 1, kSize), cudaSuccess);
  caching::get()->raw_delete(older);
  EXPECT_EQ(cudaMemset(older, 1, kSize), cudaSuccess) << "still mapped: a kernel may be using it";
  caching::get()->emptyCache();
  EXPECT_EQ(cudaMemset(older, 1, kSize), cudaSuccess);
}

TEST_F(InconsistencyTest, IsToldOnceAndWrittenDownWhole) {
  ASSERT_EQ(warnings.texts.size(), 1u) << warnings.texts.back();
  EXPECT_NE(warnings.texts[0].find("do not add up"), std::string::npos) << warnings.texts[0];
  EXPECT_NE(warnings.texts[0].find(ReportPath().string()), std::string::npos) << warnings.texts[0];
  std::ifstream file(ReportPath());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const char* part : {"address_directory.cc", "self_check:fast", "torch: 2.", "native"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in:\n" << text;
  }
  const auto files = std::distance(std::filesystem::directory_iterator(folder), {});
  EXPECT_EQ(files, 3) << "nothing unfinished is left behind";
}

TEST_F(InconsistencyTest, FollowsNoLinkThatIsThereAlready) {
  EXPECT_FALSE(std::filesystem::is_symlink(ReportPath()));
  std::ifstream file(folder / "another's");
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>(file), {}}), kAnothers);
}

}  // namespace
}  // namespace frugal
