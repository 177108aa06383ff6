#include "allocator/blocks/address_directory.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace frugal {
namespace {

// The directory never looks behind the pointer.
DeviceAllocator* Owner(uint64_t number) { return reinterpret_cast<DeviceAllocator*>(number); }

TEST(AddressDirectory, FindsTheOwnerOfEveryAddressOfARangeAndOfNoOther) {
  AddressDirectory directory;
  const Address start(uint64_t{1} << 40);
  directory.Insert(start, MiB(4), Owner(1));
  directory.Insert(start + MiB(4), MiB(2), Owner(2));
  EXPECT_EQ(directory.Find(start), Owner(1));
  EXPECT_EQ(directory.Find(start + MiB(4) - Bytes(1)), Owner(1));
  EXPECT_EQ(directory.Find(start + MiB(4)), Owner(2));
  EXPECT_EQ(directory.Find(start + MiB(6)), nullptr);
  EXPECT_EQ(directory.Find(start - Bytes(1)), nullptr);
}

TEST(AddressDirectory, FindsEachOfManyRangesThatCameInAnyOrder) {
  AddressDirectory directory;
  constexpr uint64_t kRanges = 1000;
  const Address start(uint64_t{1} << 40);
  const auto place = [start](uint64_t number) { return start + MiB(static_cast<int64_t>(number * 373 % kRanges)); };
  for (uint64_t number = 0; number < kRanges; ++number) directory.Insert(place(number), KiB(512), Owner(number + 1));
  for (uint64_t number = 0; number < kRanges; number += 2) directory.Erase(place(number));
  for (uint64_t number = 0; number < kRanges; ++number) {
    EXPECT_EQ(directory.Find(place(number)), number % 2 == 0 ? nullptr : Owner(number + 1));
    EXPECT_EQ(directory.Find(place(number) + KiB(512)), nullptr);
  }
}

TEST(AddressDirectory, ReadersNeverMissARangeThatStaysWhileOthersComeAndGo) {
  AddressDirectory directory;
  const Address stays(uint64_t{1} << 40);
  directory.Insert(stays, MiB(2), Owner(1));
  std::atomic<bool> stop{false};
  std::atomic<int> missed{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) missed += directory.Find(stays) != Owner(1) ? 1 : 0;
    });
  }
  for (int i = 1; i <= 2000; ++i) {
    directory.Insert(stays + MiB(2) * i, MiB(2), Owner(2));
    if (i % 2 == 0) directory.Erase(stays + MiB(2) * i);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace frugal
