// What the policy decides, to the call: the same work takes the same driver calls and holds the same memory, on record.
//
// The figures are no ideal, but any change of theirs is to be meant: one that is not is a bug that the tests of
// invariants cannot see, such as a cost that is subtracted. After a change that is meant, see that they did not get
// worse, and put them on record:
//
//   bazel run //tests/allocator:decisions_test -- --accept

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/allocator/random_work.h"

namespace frugal {
namespace {

using Figures = std::map<std::string, int64_t>;

// Figures of several works that are on record, in a file of JSON: {"work": {"figure": number, ...}, ...}.
class RecordedFigures {
 public:
  // The file's, below the working directory or, where `bazel run` started the program, below the checkout.
  explicit RecordedFigures(const std::string& path);

  // Those that differ, each as "map 1,087, on record 1,090"; of what one side lacks "none". Empty: all are alike.
  std::vector<std::string> Differences(const std::string& work, const Figures& figures) const;

  void Set(const std::string& work, const Figures& figures) { works_[work] = figures; }
  // False: the file cannot be written.
  bool Save() const;

 private:
  std::string path_;
  std::map<std::string, Figures> works_;
};

std::string InCheckout(const std::string& path) {
  const char* const checkout = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  return checkout == nullptr ? path : absl::StrCat(checkout, "/", path);
}

std::string Text(const Figures& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? "none" : absl::StrCat(found->second);
}

// Reads what Save has written: a work or a figure on each line.
RecordedFigures::RecordedFigures(const std::string& path) : path_(InCheckout(path)) {
  std::ifstream file(path_);
  std::string line;
  Figures* work = nullptr;
  while (std::getline(file, line)) {
    char name[128] = {};
    long long number = 0;
    if (std::sscanf(line.c_str(), "    \"%127[^\"]\": %lld", name, &number) == 2) {
      if (work != nullptr) (*work)[name] = number;
    } else if (std::sscanf(line.c_str(), "  \"%127[^\"]\": {", name) == 1) {
      work = &works_[name];
    }
  }
}

std::vector<std::string> RecordedFigures::Differences(const std::string& work, const Figures& figures) const {
  const auto found = works_.find(work);
  const Figures& on_record = found == works_.end() ? Figures() : found->second;
  Figures all = figures;
  all.insert(on_record.begin(), on_record.end());
  std::vector<std::string> differences;
  for (const auto& [name, number] : all) {
    const std::string now = Text(figures, name);
    const std::string before = Text(on_record, name);
    if (now != before) differences.push_back(absl::StrCat(name, " ", now, ", on record ", before));
  }
  return differences;
}

bool RecordedFigures::Save() const {
  std::ofstream file(path_);
  file << "{";
  const char* between_works = "\n";
  for (const auto& [work, figures] : works_) {
    file << between_works << "  \"" << work << "\": {";
    const char* between = "\n";
    for (const auto& [name, number] : figures) {
      file << between << "    \"" << name << "\": " << number;
      between = ",\n";
    }
    file << "\n  }";
    between_works = ",\n";
  }
  file << "\n}\n";
  file.close();
  return file.good();
}

RecordedFigures* the_record = nullptr;
bool accepts = false;

Figures Counted(RandomWork& random) {
  Figures figures;
  for (auto kind :
       {sim::CallKind::kCreate, sim::CallKind::kMap, sim::CallKind::kSetAccess, sim::CallKind::kUnmap,
        sim::CallKind::kRelease, sim::CallKind::kReserve, sim::CallKind::kEventRecord, sim::CallKind::kEventQuery,
        sim::CallKind::kStreamWait, sim::CallKind::kSync, sim::CallKind::kMalloc, sim::CallKind::kFree}) {
    const auto calls = static_cast<int64_t>(random.device().calls(kind));
    if (calls > 0) figures["calls: " + std::string(sim::kCallKindNames[static_cast<size_t>(kind)])] = calls;
  }
  const Statistics statistics = random.allocator().GetStatistics();
  figures["peak MiB"] = random.device().peak().count() >> 20;
  figures["stitches"] = statistics.num_stitches;
  figures["stitched pages"] = statistics.num_stitched_pages;
  figures["stream waits"] = statistics.num_stream_waits;
  figures["out of memory"] = statistics.num_ooms;
  figures["retries"] = statistics.num_alloc_retries;
  if (random.work().often.failures == 0) return figures;
  figures["failed calls"] = static_cast<int64_t>(random.faults());
  figures["failed calls absorbed"] = statistics.num_driver_failures;
  figures["returned MiB"] = random.returned().count() >> 20;
  figures["held MiB"] = random.allocator().inspect().Held().count() >> 20;
  for (const auto& [what, times] : random.told()) figures[absl::StrCat("told ", what)] = times;
  return figures;
}

class Decisions : public testing::TestWithParam<Work> {};

TEST_P(Decisions, AreThoseOnRecord) {
  RandomWork random(GetParam());
  for (int step = 0; step < GetParam().steps(); ++step) random.Step(step);
  random.allocator().inspect().CheckInvariants();
  if (accepts) {
    the_record->Set(GetParam().name, Counted(random));
  } else {
    EXPECT_THAT(the_record->Differences(GetParam().name, Counted(random)), testing::IsEmpty());
  }
  std::cout << "COUNTS " << GetParam().name << ": " << GetParam().steps() << " operations, " << random.faults()
            << " failed calls\n";
  random.GiveAllBack();
}

INSTANTIATE_TEST_SUITE_P(Works, Decisions, testing::ValuesIn(AllWorks()),
                         [](const auto& info) { return info.param.name; });

int Run(bool accept) {
  RecordedFigures record("tests/allocator/decisions.json");
  the_record = &record;
  accepts = accept;
  const int failed = RUN_ALL_TESTS();
  return accepts && !record.Save() ? 1 : failed;
}

}  // namespace
}  // namespace frugal

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  return frugal::Run(argc == 2 && std::string_view(argv[1]) == "--accept");
}
