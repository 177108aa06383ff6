// Figures of several works that are on record, in a file of JSON: {"work": {"figure": number, ...}, ...}.

#ifndef FRUGAL_TESTS_ALLOCATOR_RECORDED_FIGURES_H_
#define FRUGAL_TESTS_ALLOCATOR_RECORDED_FIGURES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace frugal {

using Figures = std::map<std::string, int64_t>;

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

}  // namespace frugal

#endif  // FRUGAL_TESTS_ALLOCATOR_RECORDED_FIGURES_H_
