#include "graph.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "flatbuffer.h"

namespace nnhal::tflite {
namespace {

constexpr int kMostNumbers = 1 << 20;  // of one list, in a graph that is laid out as expected
constexpr std::size_t kIdentifierAt = 4;
constexpr std::string_view kIdentifier = "TFL3";
constexpr std::size_t kComparedBytes = 256;  // of a constant
constexpr std::size_t kSourceWords = 8;      // of an object that knows where the file lies, that are looked at

// Numbers of fields in the schema of TensorFlow Lite, version 3.
enum ModelField { kOperatorCodes = 1, kSubgraphs = 2, kBuffers = 4 };
enum OperatorCodeField { kOldCode = 0, kCode = 3 };
enum BufferField { kData = 0 };
enum SubgraphField { kTensors = 0, kGraphInputs = 1, kGraphOutputs = 2, kOperators = 3 };
enum TensorField { kBuffer = 2, kTensorName = 3 };
enum OperatorField { kCodeIndex = 0, kInputs = 1, kOutputs = 2 };

// A graph of the file.
struct FileGraph {
  std::vector<std::string_view> names;  // of its tensors; of inputs and outputs a runtime may have those of a signature
  std::vector<std::string_view> values;  // of constants; those behind the flatbuffer, in huge files, are left out
  std::vector<bool> is_end;              // whether a tensor is an input or output of the graph
  std::vector<Operator> operators;

  bool is_of(const Context& context, const Graph& graph) const;
};

bool FileGraph::is_of(const Context& context, const Graph& graph) const {
  if (operators != graph.operators || names.size() > context.tensor_count) return false;
  for (std::size_t index = 0; index < names.size(); ++index) {
    const Tensor& tensor = context.tensors[index];
    if (!is_end[index] && names[index] != (tensor.name ? tensor.name : "")) return false;
    if (tensor.allocation != kMapped || !tensor.data || values[index].empty()) continue;
    const std::size_t compared = std::min({values[index].size(), tensor.bytes, kComparedBytes});
    if (std::memcmp(values[index].data(), tensor.data, compared) != 0) return false;
  }
  return true;
}

std::vector<FileGraph> read_graphs(std::string_view bytes) {
  const Table model = Table::root(bytes);
  std::vector<int> codes;
  for (const Table& code : model.tables(kOperatorCodes))
    codes.push_back(std::max<int>(code.number<std::int8_t>(kOldCode), code.number<std::int32_t>(kCode)));
  std::vector<std::string_view> buffers;
  for (const Table& buffer : model.tables(kBuffers)) buffers.push_back(buffer.text(kData));
  const auto at = [](const auto& list, std::size_t index) {
    if (index >= list.size()) throw Failure("the model's file refers to what it does not have");
    return list[index];
  };
  std::vector<FileGraph> graphs;
  for (const Table& subgraph : model.tables(kSubgraphs)) {
    FileGraph& graph = graphs.emplace_back();
    for (const Table& tensor : subgraph.tables(kTensors)) {
      graph.names.push_back(tensor.text(kTensorName));
      graph.values.push_back(at(buffers, tensor.number<std::uint32_t>(kBuffer)));
    }
    graph.is_end.resize(graph.names.size());
    for (const int field : {kGraphInputs, kGraphOutputs})
      for (const int end : subgraph.integers(field))
        if (end >= 0 && static_cast<std::size_t>(end) < graph.is_end.size())
          graph.is_end[static_cast<std::size_t>(end)] = true;
    for (const Table& node : subgraph.tables(kOperators))
      graph.operators.push_back(
          {at(codes, node.number<std::uint32_t>(kCodeIndex)), node.integers(kInputs), node.integers(kOutputs)});
  }
  return graphs;
}

[[noreturn]] void refuse_layout(const std::string& what) {
  throw Failure("this version of TensorFlow Lite lays out its structures in a way that this library does not know: " +
                what);
}

const Ints& checked(const Ints* list, MemoryMap& memory, const std::string& what) {
  if (!memory.has(list, sizeof(Ints)) || list->size < 0 || list->size > kMostNumbers ||
      !memory.has(list, sizeof(Ints) + static_cast<std::size_t>(list->size) * sizeof(int)))
    refuse_layout(what + " is no list of numbers");
  return *list;
}

std::vector<int> checked_tensors(const Ints* list, const Context& context, MemoryMap& memory, const std::string& what) {
  const Ints& tensors = checked(list, memory, what);
  for (const int tensor : tensors)
    if (tensor < -1 || tensor >= static_cast<int>(context.tensor_count))
      refuse_layout(what + " has tensor " + std::to_string(tensor) + " of " + std::to_string(context.tensor_count));
  return {tensors.begin(), tensors.end()};
}

bool is_model(std::string_view bytes) {
  return bytes.size() > kIdentifierAt + kIdentifier.size() &&
         bytes.substr(kIdentifierAt, kIdentifier.size()) == kIdentifier;
}

// A constant of the graph, else a tensor with a name: both lie in the file's bytes. Null if there is none.
const Tensor* tensor_in_file(const Context& context, const void*& address) {
  const Tensor *const begin = context.tensors, *const end = begin + context.tensor_count;
  const Tensor* found =
      std::find_if(begin, end, [](const Tensor& tensor) { return tensor.allocation == kMapped && tensor.data; });
  if (found != end) return address = found->data, found;
  found = std::find_if(begin, end, [](const Tensor& tensor) { return tensor.name && *tensor.name; });
  if (found == end) return nullptr;
  return address = found->name, found;
}

}  // namespace

Graph Graph::read(Context* context, MemoryMap& memory) {
  Graph graph;
  if (!memory.has(context, sizeof(Context)) || context->tensor_count > kMostNumbers ||
      !memory.has(context->tensors, context->tensor_count * sizeof(Tensor)))
    refuse_layout("the graph has no list of tensors");
  for (std::size_t index = 0; index < context->tensor_count; ++index) {
    const Tensor& tensor = context->tensors[index];
    if (tensor.dimensions) checked(tensor.dimensions, memory, "the dimensions of tensor " + std::to_string(index));
    if (tensor.name && !memory.has(tensor.name, 1)) refuse_layout("tensor " + std::to_string(index) + " has no name");
  }
  Ints* plan = nullptr;
  if (context->get_execution_plan(context, &plan) != kOk) throw Failure("TensorFlow Lite has no plan of the graph");
  const Ints& listed = checked(plan, memory, "the plan of the graph");
  std::vector<int> planned(listed.begin(), listed.end());
  // A delegate's nodes come after those of the file.
  const auto node_of = [&](int index) -> std::pair<const Node&, const Registration&> {
    Node* node = nullptr;
    Registration* registration = nullptr;
    if (context->get_node(context, index, &node, &registration) != kOk || !memory.has(node, sizeof(Node)) ||
        !memory.has(registration, offsetof(Registration, custom_name)))
      refuse_layout("node " + std::to_string(index) + " is none");
    return {*node, *registration};
  };
  int count = 0;
  for (const int index : planned) count = std::max(count, index + 1);
  for (const int index : planned)
    if (node_of(index).first.delegate) count = std::min(count, index);
  std::vector<bool> is_free(static_cast<std::size_t>(count));
  for (const int index : planned)
    if (index < count) is_free[static_cast<std::size_t>(index)] = true;
  for (int index = 0; index < count; ++index) {
    const auto [node, registration] = node_of(index);
    const std::string what = "node " + std::to_string(index);
    graph.operators.push_back({registration.builtin_code,
                               checked_tensors(node.inputs, *context, memory, "the input list of " + what),
                               checked_tensors(node.outputs, *context, memory, "the output list of " + what)});
    if (!is_free[static_cast<std::size_t>(index)]) graph.taken.push_back(index);
  }
  return graph;
}

ModelBytes ModelBytes::find(const Context& context, MemoryMap& memory, const std::string& path,
                            std::string_view& last) {
  if (!path.empty()) {
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) check(Status::of_errno("the model's file " + path, errno));
    return of(std::move(file), path);
  }
  const std::string advice = "; the option 'model' names the model's file";
  const void* address = nullptr;
  const Tensor* const tensor = tensor_in_file(context, address);
  if (!tensor) throw Failure("the graph has no constant and no name by which its file is found" + advice);
  const MemoryMap::Region* const region = memory.find(address);
  if (region && region->inode && region->offset == 0) {
    Fd file(::open(region->path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat found{};
    if (file && ::fstat(file.get(), &found) == 0 && found.st_ino == region->inode &&
        memory.has(reinterpret_cast<const void*>(region->begin), kIdentifierAt + kIdentifier.size() + 1) &&
        is_model({reinterpret_cast<const char*>(region->begin), region->end - region->begin}))
      return of(std::move(file), region->path);
  }
  // The object that has read the file knows its first byte and its length, one after the other.
  const auto* const words = static_cast<const std::uintptr_t*>(tensor->source);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t word = 1; words && word + 1 < kSourceWords; ++word) {
    if (!memory.has(words + word, 2 * sizeof(std::uintptr_t))) break;
    const std::uintptr_t begin = words[word], size = words[word + 1];
    const auto* const data = reinterpret_cast<const char*>(begin);
    if (begin < at && at - begin < size && memory.has(data, size) && is_model({data, size}))
      return copied(last = {data, size});
  }
  const auto last_at = reinterpret_cast<std::uintptr_t>(last.data());
  if (last_at < at && at - last_at < last.size() && memory.has(last.data(), last.size()) && is_model(last))
    return copied(last);
  throw Failure("the file that the model was made of is not found in memory" + advice);
}

ModelBytes ModelBytes::of(Fd file, const std::string& place) {
  struct stat found{};
  if (::fstat(file.get(), &found) < 0) check(Status::of_errno("the model's file " + place, errno));
  ModelBytes model;
  model.mapping_ = take(Mapping::map(file, static_cast<std::size_t>(found.st_size), Mapping::Access::kRead));
  model.file_ = std::move(file);
  model.place_ = place;
  return model;
}

ModelBytes ModelBytes::copied(std::string_view bytes) {
  Fd file = take(make_memfd("nnhal-tflite-model", bytes.size()));
  {
    const Mapping writable = take(Mapping::map(file, bytes.size(), Mapping::Access::kReadWrite));
    std::memcpy(writable.data(), bytes.data(), bytes.size());
  }
  check(seal_contents(file));  // so that the framework uses it in place
  return of(std::move(file), "the program's memory");
}

std::size_t ModelBytes::graph_of(const Context& context, const Graph& graph) const {
  const std::string_view bytes{reinterpret_cast<const char*>(mapping_.data()), mapping_.size()};
  if (!is_model(bytes)) throw Failure(place_ + " is no TFLite file");
  const std::vector<FileGraph> graphs = read_graphs(bytes);
  for (std::size_t number = 0; number < graphs.size(); ++number)
    if (graphs[number].is_of(context, graph)) return number;
  throw Failure(place_ + " has no graph with the nodes and tensors of the interpreter's");
}

}  // namespace nnhal::tflite
