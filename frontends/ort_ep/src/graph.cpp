#include "graph.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "calls.h"
#include "nnhal/protobuf.h"

namespace nnhal::ort_ep {
namespace {

constexpr int kStringElements = 8;
constexpr const char* kUnreadable = "nnhal.unreadable";  // domains that nobody knows, and so reasons not to take a node
constexpr const char* kOuterValues = "nnhal.needs_onnxruntime_1_27_for_outer_values";
constexpr const char* kMemory = "/memory";     // the location of large constants that lie in no file: no file has it
constexpr std::size_t kLeastBytes = 16 << 10;  // less is not worth a place of its own
constexpr std::size_t kAlignment = 64;
constexpr int kLastPlainType = 13;  // element types above it stay in the model's own file

void write_all(const Fd& file, const char* data, std::size_t size, std::size_t offset) {
  while (size > 0) {
    const ssize_t written = ::pwrite(file.get(), data, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) check(Status::of_errno("a model cannot be written to memory", errno));
    data += written;
    size -= static_cast<std::size_t>(written);
    offset += static_cast<std::size_t>(written);
  }
}

Fd make_file() {
  Fd file(::memfd_create("nnhal-ort-model", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) check(Status::of_errno("no memory for a model", errno));
  return file;
}

// What can no longer change is used in place. Of which the kernel holds a page at the moment, the framework makes a copy.
void seal(const Fd& file) {
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0 && errno != EBUSY)
    check(Status::of_errno("a model cannot be sealed", errno));
}

// Where the values of large constants are.
struct Weights {
  std::filesystem::path folder;     // of the model
  std::map<std::string, Fd> files;  // in which ONNX Runtime would read them, by their paths from there
  Fd file;                          // for those that lie in none
  std::size_t size = 0;

  // Whether a file can be read.
  bool open(const std::string& path) {
    if (files.count(path)) return true;
    Fd opened(::open((folder / path).c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened) return false;
    files.emplace(path, std::move(opened));
    return true;
  }

  std::size_t add(const char* data, std::size_t bytes) {
    if (!file) file = make_file();
    const std::size_t offset = size;
    write_all(file, data, bytes, offset);
    size += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }
};

std::vector<const OrtValueInfo*> values(const std::vector<const OrtValueInfo*>& all) {
  std::vector<const OrtValueInfo*> there;
  std::copy_if(all.begin(), all.end(), std::back_inserter(there), [](const auto* value) { return value; });
  return there;
}

std::vector<std::string> names_of(const std::vector<const OrtValueInfo*>& values) {
  std::vector<std::string> names;
  for (const auto* value : values) names.push_back(name_of(value));
  return names;
}

Shape shape_of(const OrtTensorTypeAndShapeInfo* info) {
  Shape shape;
  shape.type = read<int>(ort().GetTensorElementType, info);
  shape.is_known = ort().TensorTypeAndShape_HasShape(info);
  if (!shape.is_known) return shape;
  shape.dimensions.resize(read<std::size_t>(ort().GetDimensionsCount, info));
  std::vector<const char*> names(shape.dimensions.size());
  check(ort().GetDimensions(info, shape.dimensions.data(), shape.dimensions.size()));
  check(ort().GetSymbolicDimensions(info, names.data(), names.size()));
  for (const char* const name : names) shape.names.emplace_back(name ? name : "");
  return shape;
}

std::optional<Shape> shape_of(const OrtValueInfo* value) {
  const auto* const type = read<const OrtTypeInfo*>(ort().GetValueInfoTypeInfo, value);
  if (!type) return std::nullopt;
  const auto* const info = read<const OrtTensorTypeAndShapeInfo*>(ort().CastTypeInfoToTensorInfo, type);
  if (!info) return std::nullopt;  // a sequence, an optional, a dictionary
  return shape_of(info);
}

// Field numbers are those of onnx.proto.
Message encode_value(const OrtValueInfo* value) {
  Message message = Message().bytes(1, name_of(value));
  const std::optional<Shape> shape = shape_of(value);
  if (!shape) return message;
  Message tensor = Message().integer(1, shape->type), dimensions;
  for (std::size_t axis = 0; axis < shape->dimensions.size(); ++axis) {
    Message dimension;
    if (shape->dimensions[axis] >= 0)
      dimension.integer(1, shape->dimensions[axis]);
    else if (!shape->names[axis].empty())
      dimension.bytes(2, shape->names[axis]);
    dimensions.message(1, dimension);
  }
  if (shape->is_known) tensor.message(2, dimensions);
  return message.message(2, Message().message(1, tensor));
}

// A tensor whose values are elsewhere.
Message refer(Message tensor, const std::string& location, std::size_t offset, std::size_t size) {
  const auto add = [&](const char* key, const std::string& entry) {
    tensor.message(13, Message().bytes(1, key).bytes(2, entry));
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(size));
  return tensor.number(14, 1);
}

// A large constant in a file, which ONNX Runtime need not read. Nothing for all others.
std::optional<Message> encode_in_file(const OrtValueInfo* value, Weights& weights) {
  auto* const info = read<OrtExternalInitializerInfo*>(ort().ValueInfo_GetExternalInitializerInfo, value);
  if (!info) return std::nullopt;
  const std::string path = ort().ExternalInitializerInfo_GetFilePath(info);
  const auto offset = static_cast<std::size_t>(ort().ExternalInitializerInfo_GetFileOffset(info));
  const std::size_t size = ort().ExternalInitializerInfo_GetByteSize(info);
  ort().ReleaseExternalInitializerInfo(info);
  const std::optional<Shape> shape = shape_of(value);
  if (!shape || shape->type > kLastPlainType || size <= kLeastBytes || !weights.open(path)) return std::nullopt;
  Message tensor = Message().numbers(1, shape->dimensions).integer(2, shape->type).bytes(8, name_of(value));
  return refer(std::move(tensor), path, offset, size);
}

// Nothing for a tensor of strings, whose elements are not bytes of it. A large one goes to the weights, if there are
// any.
std::optional<Message> encode_tensor(const std::string& name, const OrtValue* value, Weights* weights = nullptr) {
  auto* const info = read<OrtTensorTypeAndShapeInfo*>(ort().GetTensorTypeAndShape, value);
  const Shape shape = shape_of(info);
  ort().ReleaseTensorTypeAndShapeInfo(info);
  if (shape.type == kStringElements) return std::nullopt;
  const auto size = read<std::size_t>(ort().GetTensorSizeInBytes, value);
  const auto* const data =
      static_cast<const char*>(read<void*>(ort().GetTensorMutableData, const_cast<OrtValue*>(value)));
  Message tensor = Message().numbers(1, shape.dimensions).integer(2, shape.type).bytes(8, name);
  if (!weights || shape.type > kLastPlainType || size <= kLeastBytes) return tensor.bytes(9, {data, size});
  return refer(std::move(tensor), kMemory, weights->add(data, size), size);
}

std::string read_attribute(const OrtOpAttr* attribute, int type) {
  std::size_t size = 0;
  // Without room it fails, and says how much it needs.
  if (OrtStatus* const status = ort().ReadOpAttr(attribute, type, nullptr, 0, &size)) ort().ReleaseStatus(status);
  std::string bytes(size, '\0');
  if (size) check(ort().ReadOpAttr(attribute, type, bytes.data(), size, &size));
  return bytes;
}

template <typename T>
std::vector<T> elements(const std::string& bytes) {
  const auto* const begin = reinterpret_cast<const T*>(bytes.data());  // std::string aligns what it allocates
  return {begin, begin + bytes.size() / sizeof(T)};
}

// Nothing for one of a graph, which is written with the graph, and for what ONNX Runtime's API does not tell.
std::optional<Message> encode_attribute(const OrtOpAttr* attribute, bool& is_readable) {
  int type = 0;
  if (OrtStatus* const unknown = ort().OpAttr_GetType(attribute, &type)) {  // a type of values, as Optional has
    ort().ReleaseStatus(unknown);
    is_readable = false;
    return std::nullopt;
  }
  Message message = Message().bytes(1, read<const char*>(ort().OpAttr_GetName, attribute));
  if (type == kGraph) return std::nullopt;
  if (type == kTensor) {
    auto* const value = read<OrtValue*>(ort().OpAttr_GetTensorAttributeAsOrtValue, attribute);
    const std::optional<Message> tensor = value ? encode_tensor("", value) : std::nullopt;
    if (value) ort().ReleaseValue(value);
    is_readable &= tensor.has_value();
    if (!tensor) return std::nullopt;
    return message.message(5, *tensor).number(20, 4);
  }
  const std::string bytes = type >= kInt && type <= kStrings ? read_attribute(attribute, type) : std::string();
  switch (type) {
    case kInt: return message.integer(3, elements<std::int64_t>(bytes).at(0)).number(20, 2);
    case kFloat: return message.real(2, elements<float>(bytes).at(0)).number(20, 1);
    case kString: return message.bytes(4, bytes).number(20, 3);
    case kInts: return message.numbers(8, elements<std::int64_t>(bytes)).number(20, 7);
    case kFloats: return message.reals(7, elements<float>(bytes)).number(20, 6);
    case kStrings:
      for (std::size_t at = 0; at < bytes.size(); at = bytes.find('\0', at) + 1) message.bytes(9, bytes.data() + at);
      return message.number(20, 8);
    default: is_readable = false; return std::nullopt;
  }
}

// Whether a graph inside it reads a value of the graph that the node is in.
bool reads_outer_values(const OrtNode* node) {
  const auto read_ones =
      values(list<const OrtValueInfo*>(ort().Node_GetNumImplicitInputs, ort().Node_GetImplicitInputs, node));
  return std::any_of(read_ones.begin(), read_ones.end(), [](const OrtValueInfo* value) {
    return !read<bool>(ort().ValueInfo_IsConstantInitializer, value);
  });
}

Message encode_graph(const OrtGraph* graph, std::set<std::string>& domains, Weights* weights = nullptr);

Message encode_node(const OrtNode* node, bool is_nested, std::set<std::string>& domains) {
  Message message;
  std::vector<std::string> inputs = inputs_of(node);
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  for (const std::string& name : inputs) message.bytes(1, name);
  for (const std::string& name : outputs_of(node)) message.bytes(2, name);
  message.bytes(3, read<const char*>(ort().Node_GetName, node)).bytes(4, operator_of(node));
  bool is_readable = true;
  for (const auto* attribute : list<const OrtOpAttr*>(ort().Node_GetNumAttributes, ort().Node_GetAttributes, node))
    if (const std::optional<Message> encoded = encode_attribute(attribute, is_readable)) message.message(5, *encoded);
  std::vector<const OrtGraph*> graphs(read<std::size_t>(ort().Node_GetNumSubgraphs, node));
  std::vector<const char*> names(graphs.size());
  if (!graphs.empty()) check(ort().Node_GetSubgraphs(node, graphs.data(), graphs.size(), names.data()));
  for (std::size_t index = 0; index < graphs.size(); ++index) {
    Message attribute = Message().bytes(1, names[index]).message(6, encode_graph(graphs[index], domains));
    message.message(5, attribute.number(20, 5));
  }
  std::string domain = is_readable ? read<const char*>(ort().Node_GetDomain, node) : kUnreadable;
  if (!is_nested && !gives_outer_values() && reads_outer_values(node)) domain = kOuterValues;
  domains.insert(domain);
  return message.bytes(7, domain);
}

// What nodes of a graph read, also in graphs of their own, and what they write. ONNX Runtime gives a node that stands
// for them no other input of the model, and wants no other output.
std::set<std::string> values_of_nodes(const OrtGraph* graph) {
  std::set<std::string> names;
  for (const OrtNode* const node : nodes_of(graph))
    for (const std::vector<std::string>& some :
         {inputs_of(node), outputs_of(node),
          names_of(list<const OrtValueInfo*>(ort().Node_GetNumImplicitInputs, ort().Node_GetImplicitInputs, node))})
      names.insert(some.begin(), some.end());
  return names;
}

Message encode_graph(const OrtGraph* graph, std::set<std::string>& domains, Weights* weights) {
  Message message = Message().bytes(2, "graph");
  std::set<std::string> told;  // what needs no value_info
  const bool is_nested = read<const OrtNode*>(ort().Graph_GetParentNode, graph);
  const std::set<std::string> used = is_nested ? std::set<std::string>() : values_of_nodes(graph);
  const auto is_used = [&](const OrtValueInfo* value) { return is_nested || used.count(name_of(value)); };
  for (const auto* value :
       list<const OrtValueInfo*>(ort().Graph_GetNumInitializers, ort().Graph_GetInitializers, graph)) {
    if (!read<bool>(ort().ValueInfo_IsConstantInitializer, value) || !is_used(value)) continue;
    std::optional<Message> tensor = weights ? encode_in_file(value, *weights) : std::nullopt;
    if (!tensor) {
      const auto* const contents = read<const OrtValue*>(ort().ValueInfo_GetInitializerValue, value);
      tensor = encode_tensor(name_of(value), contents, weights);
    }
    // Strings are told as an input of the model: what reads them has strings at its border, and is left.
    message.message(tensor ? 5 : 11, tensor ? *tensor : encode_value(value));
    told.insert(name_of(value));
  }
  for (const auto* value : values(list<const OrtValueInfo*>(ort().Graph_GetNumInputs, ort().Graph_GetInputs, graph)))
    if (is_used(value) && told.insert(name_of(value)).second) message.message(11, encode_value(value));
  for (const auto* value :
       values(list<const OrtValueInfo*>(ort().Graph_GetNumOutputs, ort().Graph_GetOutputs, graph))) {
    if (!is_used(value)) continue;
    message.message(12, encode_value(value));
    told.insert(name_of(value));
  }
  for (const OrtNode* const node : nodes_of(graph)) {
    message.message(1, encode_node(node, is_nested, domains));
    for (const auto* value : values(list<const OrtValueInfo*>(ort().Node_GetNumOutputs, ort().Node_GetOutputs, node)))
      if (told.insert(name_of(value)).second) message.message(13, encode_value(value));
  }
  return message;
}

std::string encode_model(const OrtGraph* graph, Weights* weights) {
  std::set<std::string> domains{""};
  Message model = Message().integer(1, read<std::int64_t>(ort().Graph_GetOnnxIRVersion, graph));
  model.message(7, encode_graph(graph, domains, weights));
  std::vector<const char*> known(read<std::size_t>(ort().Graph_GetNumOperatorSets, graph));
  std::vector<std::int64_t> versions(known.size());
  check(ort().Graph_GetOperatorSets(graph, known.data(), versions.data(), known.size()));
  for (std::size_t index = 0; index < known.size(); ++index)
    if (domains.count(known[index])) model.message(8, Message().bytes(1, known[index]).integer(2, versions[index]));
  return model.encoded();
}

}  // namespace

std::string name_of(const OrtValueInfo* value) { return value ? read<const char*>(ort().GetValueInfoName, value) : ""; }

std::string operator_of(const OrtNode* node) { return read<const char*>(ort().Node_GetOperatorType, node); }

std::vector<const OrtNode*> nodes_of(const OrtGraph* graph) {
  return list<const OrtNode*>(ort().Graph_GetNumNodes, ort().Graph_GetNodes, graph);
}

std::vector<std::string> inputs_of(const OrtNode* node) {
  return names_of(list<const OrtValueInfo*>(ort().Node_GetNumInputs, ort().Node_GetInputs, node));
}

std::vector<std::string> outputs_of(const OrtNode* node) {
  return names_of(list<const OrtValueInfo*>(ort().Node_GetNumOutputs, ort().Node_GetOutputs, node));
}

client::ModelFile file_of(const std::string& bytes) {
  client::ModelFile model{"onnxruntime", make_file(), {}};
  write_all(model.file, bytes.data(), bytes.size(), 0);
  seal(model.file);
  return model;
}

client::ModelFile make_model(const OrtGraph* graph) {
  Weights weights;
  weights.folder = std::filesystem::path(read<const char*>(ort().Graph_GetModelPath, graph)).parent_path();
  client::ModelFile model = file_of(encode_model(graph, &weights));
  if (weights.file) {
    seal(weights.file);
    weights.files.emplace(kMemory, std::move(weights.file));
  }
  model.weights = std::move(weights.files);
  return model;
}

std::string encode_model(const OrtGraph* graph) { return encode_model(graph, nullptr); }

std::string string_attribute(const OrtNode* node, const std::string& name) {
  for (const auto* attribute : list<const OrtOpAttr*>(ort().Node_GetNumAttributes, ort().Node_GetAttributes, node))
    if (name == read<const char*>(ort().OpAttr_GetName, attribute) &&
        read<int>(ort().OpAttr_GetType, attribute) == kString)
      return read_attribute(attribute, kString);
  return {};
}

}  // namespace nnhal::ort_ep
