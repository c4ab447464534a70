#include "model.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "memory.h"

namespace nnhal::ndk {
namespace {

constexpr std::int32_t kLastOperation = 105;

}  // namespace

void require_consistent(const OperandType& type) {
  if ((type.dimension_count == 0) != (type.dimensions == nullptr))
    bad_data(std::to_string(type.dimension_count) + " dimensions, and a pointer to them that is " +
             (type.dimensions ? "not " : "") + "null");
}

// Makes one model of the HAL out of a model and those that it refers to.
class Model::Assembly {
 public:
  // Without a session constants have no place: that is a draft.
  explicit Assembly(SentModel* sent) : sent_(sent) {}

  client::Subgraph subgraph(const Model& model) {
    client::Subgraph made;
    for (std::size_t index = 0; index < model.operands_.size(); ++index)
      made.add(placed(model, static_cast<std::int32_t>(index)));
    for (const std::uint32_t index : model.inputs_) made.operands[index].lifetime = client::LifeTime::kInput;
    for (const std::uint32_t index : model.outputs_) made.operands[index].lifetime = client::LifeTime::kOutput;
    made.operations = model.operations_;
    made.inputs.assign(model.inputs_.begin(), model.inputs_.end());
    made.outputs.assign(model.outputs_.begin(), model.outputs_.end());
    return made;
  }

  // An operand with what is known of its value.
  client::Operand placed(const Model& model, std::int32_t index) {
    client::Operand operand = model.operands_[index];
    const auto found = model.values_.find(index);
    if (found == model.values_.end()) return operand;
    const Value& value = found->second;
    if (std::holds_alternative<NoValue>(value)) {
      operand.lifetime = client::LifeTime::kNoValue;
    } else if (const auto* inner = std::get_if<std::shared_ptr<const Model>>(&value)) {
      operand.lifetime = client::LifeTime::kSubgraph;
      operand.location = {0, reference(**inner), 0};
    } else if (!sent_) {
      operand.lifetime = client::LifeTime::kConstantCopy;
    } else if (const auto* part = std::get_if<InMemory>(&value)) {
      operand.lifetime = client::LifeTime::kConstantPool;
      operand.location = {pool(*part->memory), static_cast<std::int64_t>(part->offset),
                          static_cast<std::int64_t>(part->length)};
    } else {
      place(std::get<std::string>(value), operand);
    }
    return operand;
  }

  std::vector<client::Subgraph> take_referenced() { return std::move(referenced_); }

  // Large constants share one pool, the last one.
  void add_large_pool() {
    if (!large_bytes_) return;
    SharedMemory memory = required(SharedMemory::make(large_bytes_, "nn-constants"));
    for (const auto& [offset, value] : large_) std::memcpy(memory.data() + offset, value->data(), value->size());
    memory.mapping = Mapping();
    require(seal_contents(memory.file));
    const std::int32_t number = static_cast<std::int32_t>(sent_->model.pools.size());
    const std::uint64_t id = sent_->descriptors.put(memory.file);
    sent_->model.pools.push_back(client::ashmem(id, static_cast<std::int64_t>(large_bytes_)));
    const auto renumber = [&](client::Subgraph& graph) {
      for (client::Operand& operand : graph.operands)
        if (operand.location.pool < 0) operand.location.pool = number;
    };
    renumber(sent_->model.main);
    for (client::Subgraph& graph : sent_->model.referenced) renumber(graph);
  }

 private:
  std::int64_t reference(const Model& model) {
    if (const auto found = numbers_.find(&model); found != numbers_.end()) return found->second;
    const std::size_t number = referenced_.size();
    numbers_[&model] = static_cast<std::int64_t>(number);
    referenced_.emplace_back();
    client::Subgraph made = subgraph(model);
    referenced_[number] = std::move(made);
    return static_cast<std::int64_t>(number);
  }

  std::int32_t pool(const FileMemory& memory) {
    const auto [found, is_new] = pools_.try_emplace(&memory, static_cast<std::int32_t>(sent_->model.pools.size()));
    if (is_new) sent_->model.pools.push_back(memory.in(sent_->descriptors));
    return found->second;
  }

  void place(const std::string& value, client::Operand& operand) {
    const auto length = static_cast<std::int64_t>(value.size());
    if (value.size() > kImmediatelyCopiedBytes) {
      operand.lifetime = client::LifeTime::kConstantPool;
      operand.location = {-1, static_cast<std::int64_t>(large_bytes_), length};  // the pool's number comes later
      large_.emplace_back(large_bytes_, &value);
      large_bytes_ += aligned(value.size());
      return;
    }
    std::string& constants = sent_->model.constants;
    constants.resize((constants.size() + 7) / 8 * 8);
    operand.lifetime = client::LifeTime::kConstantCopy;
    operand.location = {0, static_cast<std::int64_t>(constants.size()), length};
    constants += value;
  }

  SentModel* const sent_;
  std::vector<client::Subgraph> referenced_;
  std::map<const Model*, std::int64_t> numbers_;
  std::map<const FileMemory*, std::int32_t> pools_;
  std::vector<std::pair<std::size_t, const std::string*>> large_;
  std::size_t large_bytes_ = 0;
};

void Model::add_operand(const OperandType& given) {
  require_unfinished();
  require_consistent(given);
  client::Operand operand;
  operand.type = given.type;
  operand.dimensions.assign(given.dimensions, given.dimensions + given.dimension_count);
  operand.scale = given.scale;
  operand.zero_point = given.zero_point;
  // What these need beside is set by a later call.
  const bool is_incomplete = given.type == kSubgraph || given.type == kTensorQuant8SymmPerChannel;
  if (given.type == kSubgraph && given.dimension_count) bad_data("a model as an operand with dimensions");
  if (is_incomplete && (given.scale != 0 || given.zero_point)) bad_data("an operand that has no scale is given one");
  uses_oem_ |= is_oem(given.type);
  if (!is_incomplete && !is_oem(given.type)) {
    client::Model draft;
    draft.main.operands = {operand};
    draft.extensions = known_prefixes();
    Session::current()->check(draft);
  }
  operands_.push_back(std::move(operand));
}

void Model::set_value(std::int32_t index, const void* buffer, std::size_t length) {
  require_unfinished();
  if (!buffer && length) refuse(kUnexpectedNull, "the value's buffer is null");
  operand(index);
  if (buffer && !length) bad_data("a value of no bytes");
  if (!buffer) {
    values_[index] = NoValue();
    return;
  }
  require_length(index, length);
  values_[index] = std::string(static_cast<const char*>(buffer), length);
}

void Model::set_value(std::int32_t index, std::shared_ptr<Memory> memory, std::size_t offset, std::size_t length) {
  require_unfinished();
  operand(index);
  require_length(index, length);
  auto file = std::dynamic_pointer_cast<const FileMemory>(memory);
  if (!file) bad_data("memory that was made for roles has no constants");
  file->require_range(offset, length);
  values_[index] = InMemory{std::move(file), offset, length};
}

void Model::set_value(std::int32_t index, std::shared_ptr<const Model> model) {
  require_unfinished();
  model->require_finished();
  if (operand(index).type != kSubgraph) bad_data("operand " + std::to_string(index) + " is no model");
  uses_oem_ |= model->uses_oem_;
  values_[index] = std::move(model);
}

void Model::set_channel_quantisation(std::int32_t index, const ChannelQuantisation& given) {
  require_unfinished();
  if (given.scale_count && !given.scales) bad_data("the scales are null");
  client::Operand changed = operand(index);
  if (changed.type != kTensorQuant8SymmPerChannel) bad_data("scales of channels for another type of operand");
  changed.channel_dim = static_cast<std::int32_t>(given.channel_dim);
  changed.scales.assign(given.scales, given.scales + given.scale_count);
  client::Model draft;
  draft.main.operands = {changed};
  Session::current()->check(draft);
  operand(index) = std::move(changed);
}

void Model::set_extension_data(std::int32_t index, const void* data, std::size_t length) {
  require_unfinished();
  if (!data && length) refuse(kUnexpectedNull, "the data is null");
  if (!is_extension(operand(index).type)) bad_data("operand " + std::to_string(index) + " has a type of the NDK");
  if (data && !length) bad_data("data of no bytes");
  operand(index).extension_data.assign(static_cast<const char*>(data), length);
}

void Model::add_operation(std::int32_t type, Dimensions inputs, Dimensions outputs) {
  require_unfinished();
  if (type != kOemOperation && !is_extension(type) && (type < 0 || type > kLastOperation))
    bad_data("operation type " + std::to_string(type));
  for (const Dimensions* list : {&inputs, &outputs})
    for (const std::uint32_t index : *list) operand(static_cast<std::int32_t>(index));
  client::Operation operation{type, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}};
  uses_oem_ |= type == kOemOperation;
  bool is_checked = type != kOemOperation;
  // The framework sees the operands of this operation only, numbered anew.
  client::Model draft;
  Assembly assembly(nullptr);
  std::map<std::int32_t, std::int32_t> numbers;
  client::Operation checked{type, {}, {}};
  const auto add = [&](const std::vector<std::int32_t>& from, std::vector<std::int32_t>& to) {
    for (const std::int32_t index : from) {
      const auto [found, is_new] = numbers.try_emplace(index, static_cast<std::int32_t>(numbers.size()));
      if (is_new) draft.main.operands.push_back(assembly.placed(*this, index));
      to.push_back(found->second);
      if (!is_oem(operands_[index].type)) continue;
      if (type != kOemOperation && !is_extension(type))  // who defines these says what they take
        bad_data("operand " + std::to_string(index) + " has a type of an OEM, which no operation of the NDK takes");
      is_checked = false;
    }
  };
  add(operation.inputs, checked.inputs);
  add(operation.outputs, checked.outputs);
  draft.main.operations = {std::move(checked)};
  draft.referenced = assembly.take_referenced();
  draft.extensions = known_prefixes();
  if (is_checked) Session::current()->check(draft);
  operations_.push_back(std::move(operation));
}

void Model::identify(Dimensions inputs, Dimensions outputs) {
  require_unfinished();
  std::set<std::uint32_t> listed;
  for (const Dimensions* list : {&inputs, &outputs})
    for (const std::uint32_t index : *list) {
      operand(static_cast<std::int32_t>(index));
      if (values_.count(static_cast<std::int32_t>(index)))
        bad_data("operand " + std::to_string(index) + " is a constant, and so no input or output");
      if (!listed.insert(index).second) bad_data("operand " + std::to_string(index) + " is listed twice");
    }
  inputs_ = std::move(inputs);
  outputs_ = std::move(outputs);
}

void Model::relax(bool is_allowed) {
  require_unfinished();
  is_relaxed_ = is_allowed;
}

void Model::finish() {
  require_unfinished();
  is_finished_ = true;
  has_failed_ = true;
  if (!uses_oem_) {
    const SentModel checked = sent(Session::current());
    require(checked.framework().check(checked.model));
  }
  has_failed_ = false;
}

void Model::require_finished() const {
  if (!is_finished_ || has_failed_) bad_state("the model is not finished, or invalid");
}

SentModel Model::sent(std::shared_ptr<Session> session) const {
  SentModel made{{}, PutDescriptors(std::move(session))};
  Assembly assembly(&made);
  made.model.main = assembly.subgraph(*this);
  made.model.referenced = assembly.take_referenced();
  made.model.is_relaxed = is_relaxed_;
  made.model.extensions = known_prefixes();
  assembly.add_large_pool();
  return made;
}

void Model::require_unfinished() const {
  if (is_finished_) bad_state("the model is finished, or invalid");
}

client::Operand& Model::operand(std::int32_t index) {
  if (index < 0 || static_cast<std::size_t>(index) >= operands_.size())
    bad_data("operand " + std::to_string(index) + " of " + std::to_string(operands_.size()));
  return operands_[static_cast<std::size_t>(index)];
}

void Model::require_length(std::int32_t index, std::size_t length) {
  const client::Operand& one = operand(index);
  if (is_extension(one.type) || one.type == kOemScalar) return;
  if (one.type == kSubgraph || !is_fully_specified(one.type, one.dimensions))
    bad_data("operand " + std::to_string(index) + " is to be a constant, with dimensions " + describe(one.dimensions));
  const std::uint64_t size = byte_size(one.type, one.dimensions);
  if (size != length)
    bad_data("operand " + std::to_string(index) + " is given " + std::to_string(length) + " bytes, expected " +
             std::to_string(size));
}

}  // namespace nnhal::ndk
