#include "bound_run.h"

#include <algorithm>
#include <cstring>

namespace nnhal::ndk {
namespace {

// Calls `each` with every argument in a buffer and its place, the same for equal lists of arguments.
template <typename Each>
void for_buffers(const client::ClientMemory& memory, const ArgumentList& arguments, std::size_t& at, const Each& each) {
  for (const std::optional<Argument>& argument : arguments.all()) {
    if (!argument->buffer) continue;
    each(*argument, at);
    at += memory.aligned(argument->length);
  }
}

void append(std::string& key, std::uint64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

std::string BoundRun::key_of(const ArgumentList& inputs, const ArgumentList& outputs,
                             const client::BindOptions& options) {
  std::string key;
  append(key, static_cast<std::uint64_t>(options.loop_timeout_ns) * 2 + options.measures);
  for (const client::Hints::Hint& hint : options.hints.values) {
    append(key, static_cast<std::uint64_t>(hint.token));
    append(key, hint.value.size());
    key += hint.value;
  }
  for (const ArgumentList* list : {&inputs, &outputs})
    for (const std::optional<Argument>& argument : list->all()) {
      append(key, argument->dimensions.size());
      for (const std::uint32_t length : argument->dimensions) append(key, length);
      append(key, argument->buffer != nullptr);
      append(key, reinterpret_cast<std::uintptr_t>(argument->memory.get()));
      append(key, argument->offset);
      append(key, argument->length);
    }
  return key;
}

BoundRun::BoundRun(Compilation& compilation, std::string key, const ArgumentList& inputs, const ArgumentList& outputs,
                   const client::BindOptions& options)
    : key_(std::move(key)), session_(compilation.session()), layout_(compilation.memory()) {
  PutDescriptors descriptors(session_);  // what is bound is mapped
  std::size_t bytes = 0;
  const auto pass = [](const Argument&, std::size_t) {};
  for_buffers(layout_, inputs, bytes, pass);
  for_buffers(layout_, outputs, bytes, pass);
  if (bytes) {
    memory_ = required(SharedMemory::make(bytes, "nnhal-ndk"));
    pools_.push_back(layout_.pool(descriptors.put(memory_.file), static_cast<std::int64_t>(bytes)));
  }
  std::vector<client::BoundTensor> bound_inputs, bound_outputs;
  for (const std::optional<Argument>& argument : inputs.all())
    bound_inputs.push_back(bound("input" + std::to_string(bound_inputs.size()), *argument, descriptors));
  for (const std::optional<Argument>& argument : outputs.all()) {
    const client::Operand& operand = outputs.operand(static_cast<std::int32_t>(bound_outputs.size()));
    bound_outputs.push_back(bound("output" + std::to_string(bound_outputs.size()), *argument, descriptors));
    bound_outputs.back().declared.assign(operand.dimensions.begin(), operand.dimensions.end());
    if (!argument->memory || !argument->memory->has_roles())
      bound_outputs.back().element_bytes = byte_size(operand.type, {1});
  }
  auto made = session_->framework().bind(compilation.name(), bound_inputs, bound_outputs, pools_, options);
  // Each argument was checked by itself when it was set: what is wrong with all of them is no bad argument of NNAPI's.
  if (made.status().code() == Code::kInvalidArgument) refuse(kOpFailed, made.status().text());
  binding_ = required(std::move(made));
}

client::BoundTensor BoundRun::bound(const std::string& name, const Argument& argument, PutDescriptors& descriptors) {
  client::BoundTensor tensor;
  tensor.name = name;
  tensor.dimensions = argument.dimensions;
  if (argument.is_omitted()) {
    tensor.is_omitted = true;
  } else if (argument.buffer) {
    tensor.location = {0, static_cast<std::int64_t>(placed_), static_cast<std::int64_t>(argument.length)};
    placed_ += layout_.aligned(argument.length);
  } else if (argument.memory->has_roles()) {
    tensor.memory = dynamic_cast<const RoleMemory&>(*argument.memory).handle();
  } else {
    auto found = std::find(used_.begin(), used_.end(), argument.memory);
    const auto shared = static_cast<std::int32_t>(memory_.size() ? 1 : 0);
    if (found == used_.end()) {
      pools_.push_back(dynamic_cast<const FileMemory&>(*argument.memory).in(descriptors));
      used_.push_back(argument.memory);
      found = used_.end() - 1;
    }
    const auto length = static_cast<std::int64_t>(argument.length);
    const std::int64_t size = argument.size ? static_cast<std::int64_t>(argument.size) : length;
    tensor.location = {static_cast<std::int32_t>(found - used_.begin()) + shared,
                       static_cast<std::int64_t>(argument.offset), size, length - size};
  }
  if (argument.memory && argument.memory->has_roles()) roles_.push_back(argument.memory);
  return tensor;
}

void BoundRun::fill(const ArgumentList& inputs) {
  std::size_t at = 0;
  for_buffers(layout_, inputs, at, [&](const Argument& argument, std::size_t offset) {
    std::memcpy(memory_.data() + offset, argument.buffer, argument.length);
  });
  outputs_at_ = at;
}

void BoundRun::take_out(const ArgumentList& outputs) const {
  std::size_t at = outputs_at_;
  for_buffers(layout_, outputs, at, [&](const Argument& argument, std::size_t offset) {
    std::memcpy(argument.buffer, memory_.data() + offset, argument.length);
  });
}

}  // namespace nnhal::ndk
