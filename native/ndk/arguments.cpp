#include "arguments.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

namespace nnhal::ndk {

ArgumentList::ArgumentList(const Compilation& compilation, bool is_output)
    : compilation_(compilation),
      model_(compilation.model()),
      is_output_(is_output),
      arguments_(is_output ? model_.outputs() : model_.inputs()) {}

void ArgumentList::set_buffer(std::int32_t index, const OperandType* given, void* buffer, std::size_t length) {
  std::optional<Argument>& argument = place(index);
  if (!buffer && (length || is_output_)) refuse(kUnexpectedNull, name_of(index) + ": the buffer is null");
  Argument set;
  if (!buffer) {
    set.dimensions = dimensions_of(index, given, true);
    argument = std::move(set);
    return;
  }
  const client::Operand& one = operand(index);
  set.dimensions = dimensions_of(index, given, is_output_);
  set.size = byte_size(one.type, set.dimensions);
  require_length(index, set.size, length);
  set.buffer = buffer;
  set.length = set.size ? static_cast<std::size_t>(set.size) : length;
  argument = std::move(set);
}

void ArgumentList::set_memory(std::int32_t index, const OperandType* given, std::shared_ptr<Memory> memory,
                              std::size_t offset, std::size_t length) {
  std::optional<Argument>& argument = place(index);
  Argument set;
  if (const auto* made = dynamic_cast<const RoleMemory*>(memory.get())) {
    if (!made->serves(compilation_, is_output_, static_cast<std::uint32_t>(index)))
      bad_data(name_of(index) + " of this compilation is no role of the memory");
    if (offset || length) bad_data(name_of(index) + " is a part of memory that is used whole");
    set.dimensions = dimensions_of(index, given, true);
    if (!combine(set.dimensions, made->dimensions))
      bad_data(name_of(index) + " has dimensions " + describe(set.dimensions) + ", the memory " +
               describe(made->dimensions));
  } else {
    const auto& file = dynamic_cast<const FileMemory&>(*memory);
    set.dimensions = dimensions_of(index, given, is_output_);
    set.size = byte_size(operand(index).type, set.dimensions);
    if (!offset && !length) length = file.size();
    file.require_range(offset, length);
    require_length(index, set.size, length);
    set.offset = offset;
    set.length = length;
  }
  set.memory = std::move(memory);
  argument = std::move(set);
}

bool ArgumentList::is_any_set() const {
  return std::any_of(arguments_.begin(), arguments_.end(), [](const auto& one) { return one.has_value(); });
}

void ArgumentList::require_complete() const {
  for (std::size_t index = 0; index < arguments_.size(); ++index)
    if (!arguments_[index]) bad_data(name_of(static_cast<std::int32_t>(index)) + " is not set");
}

std::vector<RoleMemory*> ArgumentList::in_role_memory() const {
  std::vector<RoleMemory*> found;
  for (const std::optional<Argument>& argument : arguments_)
    if (auto* memory = dynamic_cast<RoleMemory*>(argument->memory.get())) found.push_back(memory);
  return found;
}

const client::Operand& ArgumentList::operand(std::int32_t index) const {
  if (index < 0 || static_cast<std::size_t>(index) >= arguments_.size())
    bad_data(name_of(index) + " of " + std::to_string(arguments_.size()));
  return is_output_ ? model_.output(static_cast<std::size_t>(index)) : model_.input(static_cast<std::size_t>(index));
}

Dimensions ArgumentList::dimensions_of(std::int32_t index, const OperandType* given, bool may_be_open) const {
  const client::Operand& known = operand(index);
  Dimensions dimensions = known.dimensions;
  if (given) {
    // Android's runtime reads the dimensions and nothing else, and some programs rely on that (PyTorch's avg_pool2d).
    static std::atomic_flag is_told = ATOMIC_FLAG_INIT;
    const bool is_alike =
        given->type == known.type && given->scale == known.scale && given->zero_point == known.zero_point;
    if (!is_alike && is_logging() && !is_told.test_and_set())
      std::fprintf(stderr,
                   "nnhal: %s is given with another type or quantisation than the model's, of which, as on a phone, only "
                   "the dimensions count; this is said once\n",
                   name_of(index).c_str());
    require_consistent(*given);
    dimensions.assign(given->dimensions, given->dimensions + given->dimension_count);
    bool fits = dimensions.size() == known.dimensions.size();
    for (std::size_t axis = 0; fits && axis < dimensions.size(); ++axis)
      fits = !known.dimensions[axis] || known.dimensions[axis] == dimensions[axis];
    if ((!known.dimensions.empty() && !fits) || (is_scalar(known.type) && !dimensions.empty()))
      bad_data(name_of(index) + " is given dimensions " + describe(dimensions) + ", the model says " +
               describe(known.dimensions));
  }
  if (!may_be_open && !is_extension(known.type) && !is_fully_specified(known.type, dimensions))
    bad_data(name_of(index) + " has dimensions " + describe(dimensions) + ", expected all known");
  return dimensions;
}

void ArgumentList::require_length(std::int32_t index, std::uint64_t size, std::size_t length) const {
  if (size && (length < size || (length > size && !is_padded_)))
    bad_data(name_of(index) + " has " + std::to_string(length) + " bytes, expected " + std::to_string(size) +
             (is_padded_ ? " or more" : ""));
}

std::string ArgumentList::name_of(std::int32_t index) const {
  return (is_output_ ? "output " : "input ") + std::to_string(index);
}

std::optional<Argument>& ArgumentList::place(std::int32_t index) {
  operand(index);
  std::optional<Argument>& argument = arguments_[static_cast<std::size_t>(index)];
  if (argument) bad_state(name_of(index) + " is set already");
  return argument;
}

}  // namespace nnhal::ndk
