// Memory that is given back within a capture is used again there once what is captured next comes after its uses.

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

constexpr Stream kThird{3};
constexpr PoolId kPool{0, 1};

// Tells the order within the one capture that its streams are in.
class OrderedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  // Work is captured of the stream.
  void Work(Stream stream) { before_[stream].insert(last_[stream] = {.capture = 1, .node = ++nodes_}); }
  // What is captured next of `waiter` comes after all that was of `other`.
  void Join(Stream waiter, Stream other) {
    before_[waiter].insert(before_[other].begin(), before_[other].end());
    Work(waiter);
  }
  int questions() const { return questions_; }

  absl::StatusOr<std::vector<CapturePoint>> MarkInCapture(Stream stream) override {
    ++questions_;
    if (!last_.contains(stream)) return absl::UnavailableError("not captured");
    return std::vector{last_[stream]};
  }
  std::vector<CapturePoint> BehindInCapture(Stream waiter, const std::vector<CapturePoint>& points) override {
    ++questions_;
    std::vector<CapturePoint> behind;
    std::copy_if(points.begin(), points.end(), std::back_inserter(behind),
                 [&](CapturePoint point) { return before_[waiter].contains(point); });
    return behind;
  }

 private:
  uint64_t nodes_ = 0;
  std::map<Stream, CapturePoint> last_;
  std::map<Stream, std::set<CapturePoint>> before_;
  int questions_ = 0;
};

class CaptureReuse : public AllocatorBehind<OrderedDevice> {
 protected:
  CaptureReuse() : AllocatorBehind(GiB(1)) {}

  void Capture(const std::vector<Stream>& streams) {
    for (Stream stream : streams) {
      device_.BeginCapture(stream);
      between_.Work(stream);
    }
  }
  Address AllocateInPool(Stream stream = kMain) { return AllocateFrom({kPool, MemoryKind::kSegment}, MiB(12), stream); }
  // Of the main stream; `others` have used it, too.
  Address GivenBack(const std::vector<Stream>& others) {
    const Address block = AllocateInPool();
    for (Stream other : others) {
      EXPECT_TRUE(allocator_->RecordStream(block, other).ok());
      between_.Work(other);
    }
    Free(block);
    return block;
  }
};

TEST_F(CaptureReuse, WaitsForTheOwnerToJoinTheStreamThatUsedIt) {
  Capture({kMain, kSide});
  const Address block = GivenBack({kSide});
  EXPECT_NE(AllocateInPool(), block);
  between_.Join(kMain, kSide);
  EXPECT_EQ(AllocateInPool(), block);
}

TEST_F(CaptureReuse, WaitsForTheLastOfSeveralStreams) {
  Capture({kMain, kSide, kThird});
  const Address block = GivenBack({kSide, kThird});
  between_.Join(kMain, kSide);
  EXPECT_NE(AllocateInPool(), block);
  between_.Join(kMain, kThird);
  EXPECT_EQ(AllocateInPool(), block);
  EXPECT_EQ(all(statistics().active_bytes()), all(statistics().allocated_bytes));
}

TEST_F(CaptureReuse, WaitsForTheOwnerAndNoOther) {
  Capture({kMain, kSide, kThird});
  const Address block = GivenBack({kSide});
  between_.Join(kThird, kSide);
  AllocateInPool(kThird);
  EXPECT_NE(AllocateInPool(), block);
}

TEST_F(CaptureReuse, IsNotForWhatAStreamOutsideTheCaptureUses) {
  Capture({kMain, kSide});
  MakeBusyUntil(kThird, 100);
  const Address block = AllocateInPool();
  for (Stream other : {kSide, kThird}) EXPECT_TRUE(allocator_->RecordStream(block, other).ok());
  Free(block);
  between_.Join(kMain, kSide);
  EXPECT_NE(AllocateInPool(), block);
}

TEST_F(CaptureReuse, IsForgottenWhenTheCaptureHasEnded) {
  Capture({kMain, kSide});
  const Address block = GivenBack({kSide});
  for (Stream stream : {kMain, kSide}) device_.EndCapture(stream);
  EXPECT_EQ(AllocateInPool(), block);
  const int questions = between_.questions();
  AllocateInPool();
  EXPECT_EQ(between_.questions(), questions);
}

TEST_F(CaptureReuse, IsForPrivatePoolsAlone) {
  Capture({kMain, kSide});
  const Address block = Allocate(MiB(12));
  EXPECT_TRUE(allocator_->RecordStream(block, kSide).ok());
  Free(block);
  AllocateInPool();
  EXPECT_EQ(between_.questions(), 0);
}

using NoCaptureReuse = AllocatorTest;

TEST_F(NoCaptureReuse, WhereTheDeviceDoesNotTellTheOrder) {
  for (Stream stream : {kMain, kSide}) device_.BeginCapture(stream);
  const MemorySource source{kPool, MemoryKind::kSegment};
  const Address block = AllocateFrom(source, MiB(12));
  EXPECT_TRUE(allocator_->RecordStream(block, kSide).ok());
  Free(block);
  EXPECT_NE(AllocateFrom(source, MiB(12)), block);
}

}  // namespace
}  // namespace frugal
