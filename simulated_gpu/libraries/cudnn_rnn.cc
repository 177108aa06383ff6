// The stand-in for cuDNN's recurrent networks: where the weights lie, how much memory a pass keeps, one kernel a pass.
//
// The weight space holds the matrices of all layers and then the biases, each layer's gates in order, without padding.

#include <cstddef>
#include <cstdint>

#include "simulated_gpu/libraries/cudnn_objects.h"
#include "simulated_gpu/libraries/cudnn_workspace.h"

namespace frugal::sim {
namespace {

// cudnnRNNMode_t
enum CellMode { kReluCell = 0, kTanhCell = 1, kLstmCell = 2, kGruCell = 3 };

// cudnnForwardMode_t
constexpr int kTraining = 1;

}  // namespace

// What cudnnRNNDescriptor_t points to, and the arithmetic of its weights.
struct RnnDescriptor {
  int cell = kTanhCell;
  bool has_bias = true;
  bool bidirectional = false;
  int data_type = 0;
  int64_t input_size = 0;
  int64_t hidden_size = 0;
  int64_t projected_size = 0;
  int64_t layers = 0;

  // Linear transformations of the input in one layer; as many again of the hidden state.
  int64_t Gates() const { return cell == kLstmCell ? 4 : cell == kGruCell ? 3 : 1; }
  int64_t Directions() const { return bidirectional ? 2 : 1; }
  int64_t PseudoLayers() const { return layers * Directions(); }
  int64_t OutputSize() const { return projected_size > 0 ? projected_size : hidden_size; }
  bool IsProjected() const { return cell == kLstmCell && projected_size > 0 && projected_size != hidden_size; }

  // Columns of an input matrix of a pseudo layer (a layer in one direction).
  int64_t InputColumns(int64_t pseudo_layer) const {
    return pseudo_layer < Directions() ? input_size : OutputSize() * Directions();
  }
  int64_t MatrixElements(int64_t pseudo_layer) const {
    return Gates() * hidden_size * (InputColumns(pseudo_layer) + OutputSize()) +
           (IsProjected() ? projected_size * hidden_size : 0);
  }
  // Elements of the matrices of the pseudo layers before this one.
  int64_t MatricesBefore(int64_t pseudo_layer) const {
    int64_t elements = 0;
    for (int64_t i = 0; i < pseudo_layer; ++i) elements += MatrixElements(i);
    return elements;
  }
  int64_t BiasElements() const { return has_bias ? PseudoLayers() * 2 * Gates() * hidden_size : 0; }
  int64_t WeightElements() const { return MatricesBefore(PseudoLayers()) + BiasElements(); }
};

// What cudnnRNNDataDescriptor_t points to.
struct RnnDataDescriptor {
  int64_t longest_sequence = 0;
  int64_t batch = 0;
};

namespace {

// One weight matrix or bias within the weight space; no rows if there is none.
struct Parameter {
  int64_t offset = 0;
  int64_t rows = 0;
  int64_t columns = 0;
};

// `linear` counts the gates of the input, then those of the hidden state, then the projection.
Parameter FindMatrix(const RnnDescriptor& rnn, int64_t pseudo_layer, int64_t linear) {
  const int64_t gates = rnn.Gates();
  const int64_t input_columns = rnn.InputColumns(pseudo_layer);
  const int64_t start = rnn.MatricesBefore(pseudo_layer);
  const int64_t hidden_start = start + gates * rnn.hidden_size * input_columns;
  if (linear < gates) return {start + linear * rnn.hidden_size * input_columns, rnn.hidden_size, input_columns};
  if (linear < 2 * gates) {
    return {hidden_start + (linear - gates) * rnn.hidden_size * rnn.OutputSize(), rnn.hidden_size, rnn.OutputSize()};
  }
  if (linear == 2 * gates && rnn.IsProjected()) {
    return {hidden_start + gates * rnn.hidden_size * rnn.OutputSize(), rnn.projected_size, rnn.hidden_size};
  }
  return {};
}

Parameter FindBias(const RnnDescriptor& rnn, int64_t pseudo_layer, int64_t linear) {
  if (!rnn.has_bias || linear >= 2 * rnn.Gates()) return {};
  const int64_t index = pseudo_layer * 2 * rnn.Gates() + linear;
  return {rnn.MatricesBefore(rnn.PseudoLayers()) + index * rnn.hidden_size, rnn.hidden_size, 1};
}

// A caller that wants only one of matrix and bias passes a null descriptor for the other.
void Describe(const RnnDescriptor& rnn, const Parameter& parameter, const void* weight_space,
              TensorDescriptor* descriptor, void** address) {
  if (descriptor == nullptr || address == nullptr) return;
  const int rows = static_cast<int>(parameter.rows);
  const int columns = static_cast<int>(parameter.columns);
  if (rows == 0) {
    *descriptor = {rnn.data_type, {}, {}};
    *address = nullptr;
    return;
  }
  *descriptor = {rnn.data_type, {1, rows, columns}, {rows * columns, columns, 1}};
  // The weight space may be null: the caller then asks for the offsets alone.
  *address = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(weight_space) +
                                     parameter.offset * ElementBytes(rnn.data_type));
}

}  // namespace

OBJECT(RnnDescriptor, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor)
OBJECT(RnnDataDescriptor, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor)

FRUGAL_STAND_IN int cudnnSetRNNDescriptor_v8(RnnDescriptor* descriptor, int /*algorithm*/, int cell, int bias,
                                             int direction, int /*input_mode*/, int data_type, int /*math_precision*/,
                                             int /*math_type*/, int32_t input_size, int32_t hidden_size,
                                             int32_t projected_size, int32_t layers, void* /*dropout*/,
                                             uint32_t /*flags*/) {
  if (descriptor == nullptr || cell < kReluCell || cell > kGruCell) return kBadParameter;
  *descriptor = {.cell = cell,
                 .has_bias = bias != 0,
                 .bidirectional = direction == 1,
                 .data_type = data_type,
                 .input_size = input_size,
                 .hidden_size = hidden_size,
                 .projected_size = projected_size,
                 .layers = layers};
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnSetRNNDataDescriptor(RnnDataDescriptor* descriptor, int /*data_type*/, int /*layout*/,
                                              int longest_sequence, int batch, int /*vector_size*/,
                                              const int* /*lengths*/, void* /*padding*/) {
  if (descriptor == nullptr) return kBadParameter;
  *descriptor = {longest_sequence, batch};
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnGetRNNWeightSpaceSize(Handle*, const RnnDescriptor* rnn, size_t* bytes) {
  if (rnn == nullptr) return kBadParameter;
  return kLibrary.Give(rnn->WeightElements() * ElementBytes(rnn->data_type), bytes);
}

namespace {

// A pass over a sequence.
struct RnnPass {
  const RnnDescriptor& rnn;
  const RnnDataDescriptor& data;
};

// The products of a layer's input with its matrices, which can be computed for all steps at once.
size_t ModelledWorkspace(const WorkspaceGpu&, const void* of) {
  const auto& [rnn, data] = *static_cast<const RnnPass*>(of);
  const int64_t products = data.longest_sequence * data.batch * rnn.Directions() * rnn.Gates() * rnn.hidden_size;
  return static_cast<size_t>(products) * ElementBytes(rnn.data_type);
}

// A training pass keeps each gate and state of each step for the way back: an estimate, as cuDNN does not publish what
// it keeps.
size_t ReservedBytes(const RnnPass& pass) {
  const auto& [rnn, data] = pass;
  const int64_t kept_per_step = rnn.PseudoLayers() * (rnn.Gates() + 1) * rnn.hidden_size;
  return static_cast<size_t>(data.longest_sequence * data.batch * kept_per_step) * ElementBytes(rnn.data_type);
}

}  // namespace

FRUGAL_STAND_IN int cudnnGetRNNTempSpaceSizes(Handle*, const RnnDescriptor* rnn, int mode,
                                              const RnnDataDescriptor* data, size_t* workspace_bytes,
                                              size_t* reserve_bytes) {
  if (rnn == nullptr || data == nullptr) return kBadParameter;
  const RnnPass pass{*rnn, *data};
  if (workspace_bytes != nullptr) *workspace_bytes = AskedWorkspace(&ModelledWorkspace, &pass);
  if (reserve_bytes != nullptr) *reserve_bytes = mode == kTraining ? ReservedBytes(pass) : 0;
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnGetRNNWeightParams(Handle*, const RnnDescriptor* rnn, int32_t pseudo_layer,
                                            size_t /*weight_bytes*/, const void* weight_space, int32_t linear,
                                            TensorDescriptor* matrix, void** matrix_address, TensorDescriptor* bias,
                                            void** bias_address) {
  if (rnn == nullptr || pseudo_layer < 0 || pseudo_layer >= rnn->PseudoLayers() || linear < 0) return kBadParameter;
  Describe(*rnn, FindMatrix(*rnn, pseudo_layer, linear), weight_space, matrix, matrix_address);
  Describe(*rnn, FindBias(*rnn, pseudo_layer, linear), weight_space, bias, bias_address);
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnRNNForward(Handle* handle, const RnnDescriptor*, int /*mode*/, const int32_t* /*lengths*/,
                                    const RnnDataDescriptor*, const void* /*x*/, const RnnDataDescriptor*, void* /*y*/,
                                    const TensorDescriptor*, const void* /*hx*/, void* /*hy*/, const TensorDescriptor*,
                                    const void* /*cx*/, void* /*cy*/, size_t /*weight_bytes*/, const void* /*weights*/,
                                    size_t workspace_bytes, void* workspace, size_t /*reserve_bytes*/,
                                    void* /*reserve*/) {
  return kLibrary.ComputeIn(workspace, workspace_bytes, handle);
}

FRUGAL_STAND_IN int cudnnRNNBackwardData_v8(Handle* handle, const RnnDescriptor*, const int32_t* /*lengths*/,
                                            const RnnDataDescriptor*, const void* /*y*/, const void* /*dy*/,
                                            const RnnDataDescriptor*, void* /*dx*/, const TensorDescriptor*,
                                            const void* /*hx*/, const void* /*dhy*/, void* /*dhx*/,
                                            const TensorDescriptor*, const void* /*cx*/, const void* /*dcy*/,
                                            void* /*dcx*/, size_t /*weight_bytes*/, const void* /*weights*/,
                                            size_t workspace_bytes, void* workspace, size_t /*reserve_bytes*/,
                                            void* /*reserve*/) {
  return kLibrary.ComputeIn(workspace, workspace_bytes, handle);
}

FRUGAL_STAND_IN int cudnnRNNBackwardWeights_v8(Handle* handle, const RnnDescriptor*, int /*mode*/,
                                               const int32_t* /*lengths*/, const RnnDataDescriptor*, const void* /*x*/,
                                               const TensorDescriptor*, const void* /*hx*/, const RnnDataDescriptor*,
                                               const void* /*y*/, size_t /*weight_bytes*/, void* /*weights*/,
                                               size_t workspace_bytes, void* workspace, size_t /*reserve_bytes*/,
                                               void* /*reserve*/) {
  return kLibrary.ComputeIn(workspace, workspace_bytes, handle);
}

// --- As cuDNN 8 has it for PyTorch before 2.4: a descriptor knows neither its input, which comes with each call as the
// descriptors of the sequence's steps, nor that there could be no bias. The passes are in cudnn_functions.inc.

namespace {

RnnDescriptor WithInput(const RnnDescriptor& rnn, const TensorDescriptor& step) {
  RnnDescriptor result = rnn;
  result.input_size = step.sizes.size() > 1 ? step.sizes[1] : 0;
  return result;
}

RnnDataDescriptor DataOf(int steps, const TensorDescriptor& first) {
  return {steps, first.sizes.empty() ? 0 : first.sizes[0]};
}

}  // namespace

FRUGAL_STAND_IN int cudnnSetRNNDescriptor_v6(Handle*, RnnDescriptor* descriptor, int hidden_size, int layers,
                                             void* dropout, int input_mode, int direction, int cell, int algorithm,
                                             int data_type) {
  return cudnnSetRNNDescriptor_v8(descriptor, algorithm, cell, 1, direction, input_mode, data_type, data_type, 0, 0,
                                  hidden_size, hidden_size, layers, dropout, 0);
}

FRUGAL_STAND_IN int cudnnSetRNNProjectionLayers(Handle*, RnnDescriptor* rnn, int recurrent_size, int /*output_size*/) {
  if (rnn == nullptr) return kBadParameter;
  rnn->projected_size = recurrent_size;
  return Library::kSuccess;
}

FRUGAL_STAND_IN int cudnnGetRNNParamsSize(Handle* handle, const RnnDescriptor* rnn, const TensorDescriptor* step,
                                          size_t* bytes, int /*data_type*/) {
  if (rnn == nullptr || step == nullptr) return kBadParameter;
  const RnnDescriptor with_input = WithInput(*rnn, *step);
  return cudnnGetRNNWeightSpaceSize(handle, &with_input, bytes);
}

FRUGAL_STAND_IN int cudnnGetRNNWorkspaceSize(Handle*, const RnnDescriptor* rnn, int steps,
                                             const TensorDescriptor* const* step, size_t* bytes) {
  if (rnn == nullptr || step == nullptr) return kBadParameter;
  const RnnDataDescriptor data = DataOf(steps, **step);
  const RnnPass pass{*rnn, data};
  return kLibrary.Give(AskedWorkspace(&ModelledWorkspace, &pass), bytes);
}

FRUGAL_STAND_IN int cudnnGetRNNTrainingReserveSize(Handle*, const RnnDescriptor* rnn, int steps,
                                                   const TensorDescriptor* const* step, size_t* bytes) {
  if (rnn == nullptr || step == nullptr) return kBadParameter;
  const RnnDataDescriptor data = DataOf(steps, **step);
  return kLibrary.Give(ReservedBytes({*rnn, data}), bytes);
}

#define WEIGHTS_OF_LAYER(name, Find)                                                                          \
  FRUGAL_STAND_IN int name(Handle*, const RnnDescriptor* rnn, int pseudo_layer, const TensorDescriptor* step, \
                           const TensorDescriptor* /*weights*/, const void* weight_space, int linear,         \
                           TensorDescriptor* found, void** address) {                                         \
    if (rnn == nullptr || step == nullptr || pseudo_layer < 0 || linear < 0) return kBadParameter;            \
    const RnnDescriptor with_input = WithInput(*rnn, *step);                                                  \
    Describe(with_input, Find(with_input, pseudo_layer, linear), weight_space, found, address);               \
    return Library::kSuccess;                                                                                 \
  }
WEIGHTS_OF_LAYER(cudnnGetRNNLinLayerMatrixParams, FindMatrix)
WEIGHTS_OF_LAYER(cudnnGetRNNLinLayerBiasParams, FindBias)
#undef WEIGHTS_OF_LAYER

}  // namespace frugal::sim
