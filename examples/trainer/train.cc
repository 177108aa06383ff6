// Trains a small network on a GPU with LibTorch, with frugal_alloc as PyTorch's CUDA allocator, and reports at the end
// whether the program leaks GPU memory.
//
//   train [--epochs N] [--cpu] [--memory-limit LIMIT] [--keep-losses] tumors.csv
//
// --keep-losses makes a mistake that programs often make, for the report to find: see Evaluate().

#include <frugal_alloc/torch.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int64_t kBatch = 32;
constexpr int64_t kHidden = 128;
constexpr int64_t kClasses = 2;

struct Arguments {
  std::string data;
  int epochs = 12;
  bool cpu = false;
  bool keep_losses = false;
  frugal_alloc::Options memory;
};

// Rows of numbers, and the class of each.
struct Examples {
  torch::Tensor inputs;
  torch::Tensor labels;

  int64_t size() const { return labels.size(0); }
  Examples To(torch::Device device) const { return {inputs.to(device), labels.to(device)}; }
  Examples Select(const torch::Tensor& rows) const {
    return {inputs.index_select(0, rows), labels.index_select(0, rows)};
  }
};

// --- Reading the data

[[noreturn]] void RefuseField(const std::string& where, const std::string& field) {
  throw std::runtime_error(where + ": not a number: " + field);
}

// A line of numbers with commas between; the last is the class.
std::vector<float> ReadRow(const std::string& line, const std::string& where) {
  std::vector<float> row;
  std::istringstream fields(line);
  for (std::string field; std::getline(fields, field, ',');) {
    char* end = nullptr;
    row.push_back(std::strtof(field.c_str(), &end));
    if (field.empty() || *end != '\0') RefuseField(where, field);
  }
  return row;
}

Examples ReadExamples(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  // The first line names the columns.
  if (!std::getline(file, line)) throw std::runtime_error("cannot read " + path);
  std::vector<float> values;
  size_t width = 0;
  for (int number = 2; std::getline(file, line); ++number) {
    const std::string where = path + ", line " + std::to_string(number);
    const std::vector<float> row = ReadRow(line, where);
    if (width == 0) width = row.size();
    if (row.size() != width || width < 2) throw std::runtime_error(where + ": not as many columns as before");
    if (row.back() < 0 || row.back() >= kClasses) throw std::runtime_error(where + ": there is no such class");
    values.insert(values.end(), row.begin(), row.end());
  }
  if (values.empty()) throw std::runtime_error(path + " has no examples");
  const auto columns = static_cast<int64_t>(width);
  const torch::Tensor table = torch::tensor(values).reshape({-1, columns});
  return {table.narrow(1, 0, columns - 1), table.select(1, columns - 1).to(torch::kLong)};
}

// Every fifth example is for the evaluation, the others are for training. Each column gets mean 0 and deviation 1.
void Split(const Examples& all, Examples& training, Examples& evaluation) {
  const torch::Tensor rows = torch::arange(all.size());
  const torch::Tensor fifth = rows.remainder(5) == 0;
  training = all.Select(rows.masked_select(~fifth));
  evaluation = all.Select(rows.masked_select(fifth));
  const torch::Tensor mean = training.inputs.mean(0);
  const torch::Tensor deviation = training.inputs.std(0);
  for (Examples* examples : {&training, &evaluation}) examples->inputs = (examples->inputs - mean) / deviation;
}

// --- Training

torch::nn::Sequential MakeNetwork(int64_t columns) {
  return torch::nn::Sequential(torch::nn::Linear(columns, kHidden), torch::nn::ReLU(),
                               torch::nn::Linear(kHidden, kHidden), torch::nn::ReLU(),
                               torch::nn::Linear(kHidden, kClasses));
}

// One epoch; returns the mean loss.
double Train(torch::nn::Sequential& network, torch::optim::Optimizer& optimizer, const Examples& examples) {
  // GPU memory that is allocated from here on is reported under this name.
  const frugal_alloc::Phase phase("training");
  double sum = 0;
  const torch::Tensor order = torch::randperm(examples.size()).to(examples.inputs.device());
  for (const torch::Tensor& rows : order.split(kBatch)) {
    const Examples batch = examples.Select(rows);
    optimizer.zero_grad();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(network->forward(batch.inputs), batch.labels);
    loss.backward();
    optimizer.step();
    sum += loss.item<double>() * static_cast<double>(batch.size());
  }
  return sum / static_cast<double>(examples.size());
}

// Returns the part of the examples that the network gets right.
double Evaluate(torch::nn::Sequential& network, const Examples& examples, std::vector<torch::Tensor>* kept_losses) {
  const frugal_alloc::Phase phase("evaluation");
  // Nobody goes backward from here, so nothing has to be remembered on the way. Without the guard, each loss owns
  // the graph that made it, with the outputs of all layers; whoever keeps the losses keeps them all.
  std::optional<torch::NoGradGuard> no_gradients;
  if (kept_losses == nullptr) no_gradients.emplace();
  double right = 0;
  for (const torch::Tensor& rows : torch::arange(examples.size(), examples.labels.options()).split(kBatch)) {
    const Examples batch = examples.Select(rows);
    const torch::Tensor scores = network->forward(batch.inputs);
    right += (scores.argmax(1) == batch.labels).sum().item<double>();
    if (kept_losses != nullptr) {
      kept_losses->push_back(torch::nn::functional::cross_entropy(scores, batch.labels));
    }
  }
  return right / static_cast<double>(examples.size());
}

void Run(const Arguments& arguments) {
  const torch::Device device(arguments.cpu ? torch::kCPU : torch::kCUDA);
  Examples training;
  Examples evaluation;
  Split(ReadExamples(arguments.data), training, evaluation);
  training = training.To(device);
  evaluation = evaluation.To(device);

  torch::manual_seed(1);
  torch::nn::Sequential network = MakeNetwork(training.inputs.size(1));
  network->to(device);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<torch::Tensor> losses;

  for (int epoch = 1; epoch <= arguments.epochs; ++epoch) {
    const double loss = Train(network, optimizer, training);
    const double right = Evaluate(network, evaluation, arguments.keep_losses ? &losses : nullptr);
    // Now only what is meant to last should be alive. All but this call costs nothing.
    frugal_alloc::epoch_end();
    std::printf("epoch %d: loss %.4f, %.1f %% right, %lld bytes of GPU memory in tensors\n", epoch, loss, right * 100,
                static_cast<long long>(frugal_alloc::memory_stats().allocated_bytes));
  }
  if (!arguments.cpu) std::cout << frugal_alloc::report().text;
}

// --- The command line

Arguments ParseArguments(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < count;
    if (word == "--cpu") {
      arguments.cpu = true;
    } else if (word == "--keep-losses") {
      arguments.keep_losses = true;
    } else if (word == "--epochs" && has_value) {
      arguments.epochs = std::atoi(words[++i]);
    } else if (word == "--memory-limit" && has_value) {
      arguments.memory.memory_limit = words[++i];
    } else if (word.empty() || word[0] == '-' || !arguments.data.empty()) {
      throw std::runtime_error("do not understand \"" + word + "\"");
    } else {
      arguments.data = word;
    }
  }
  if (arguments.data.empty() || arguments.epochs < 1) {
    throw std::runtime_error("usage: train [--epochs N] [--cpu] [--memory-limit LIMIT] [--keep-losses] FILE");
  }
  return arguments;
}

}  // namespace

int main(int count, char** words) {
  try {
    const Arguments arguments = ParseArguments(count, words);
    if (!arguments.cpu) {
      // Before the first tensor is on a GPU, so that all of them are in its memory.
      const frugal_alloc::Status installed = frugal_alloc::enable(arguments.memory);
      if (!installed) throw std::runtime_error(installed.message());
    }
    Run(arguments);
  } catch (const std::exception& error) {
    std::cerr << "train: " << error.what() << '\n';
    return 2;
  }
  return 0;
}
