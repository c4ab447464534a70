#include "nnhal/client/model.h"

namespace nnhal::client {
namespace {

Message message_of(const Operand& operand) {
  Message message;
  message.number(1, static_cast<std::uint32_t>(operand.type)).numbers(2, operand.dimensions);
  message.real(3, operand.scale).integer(4, operand.zero_point);
  message.number(5, static_cast<std::uint64_t>(operand.lifetime)).message(6, message_of(operand.location));
  if (!operand.scales.empty()) {
    const Message quantised = Message().reals(1, operand.scales).integer(2, operand.channel_dim);
    message.message(7, Message().message(1, quantised));
  }
  if (!operand.extension_data.empty()) message.message(7, Message().bytes(2, operand.extension_data));
  return message;
}

Message message_of(const Subgraph& subgraph) {
  Message message;
  for (const Operand& operand : subgraph.operands) message.message(1, message_of(operand));
  for (const Operation& operation : subgraph.operations)
    message.message(2, Message()
                           .number(1, static_cast<std::uint32_t>(operation.type))
                           .numbers(2, operation.inputs)
                           .numbers(3, operation.outputs));
  return message.numbers(3, subgraph.inputs).numbers(4, subgraph.outputs);
}

Message message_of(const ExtensionPrefix& extension) {
  return Message().bytes(1, extension.name).number(2, extension.prefix);
}

}  // namespace

std::int32_t Subgraph::add(Operand operand) {
  operands.push_back(std::move(operand));
  return static_cast<std::int32_t>(operands.size()) - 1;
}

std::int32_t Model::add_constant(Operand operand, const void* value, std::size_t size) {
  operand.lifetime = LifeTime::kConstantCopy;
  operand.location = {0, static_cast<std::int64_t>(constants.size()), static_cast<std::int64_t>(size)};
  constants.append(static_cast<const char*>(value), size);
  return main.add(std::move(operand));
}

Message Model::encode() const {
  Message message;
  message.message(1, message_of(main));
  for (const Subgraph& subgraph : referenced) message.message(2, message_of(subgraph));
  message.bytes(3, constants);
  for (const Message& memory : pools) message.message(4, memory);
  for (const ExtensionPrefix& extension : extensions) message.message(6, message_of(extension));
  return message.number(5, is_relaxed);
}

void Hints::add_to(Message& request, int values_field, int extensions_field) const {
  for (const Hint& hint : values) request.message(values_field, Message().integer(1, hint.token).bytes(2, hint.value));
  for (const ExtensionPrefix& extension : extensions) request.message(extensions_field, message_of(extension));
}

Message ashmem(std::uint64_t descriptor, std::int64_t size) {
  return Message().message(1, Message().number(1, descriptor).integer(2, size));
}

Message hardware_buffer_blob(std::uint64_t descriptor, std::int64_t size) {
  constexpr std::int64_t kMagic = 0x4E4E4842, kVersion = 1, kBlob = 0x21, kUsage = 0x33 | 1 << 24;  // CPU, data of GPUs
  const std::vector<std::int64_t> ints{kMagic, kVersion, size, 1, 1, kBlob, kUsage, 0, size, 0};
  const Message handle = Message().numbers(1, std::vector<std::uint64_t>{descriptor}).numbers(2, ints);
  return Message().message(3, Message().message(1, handle));
}

Message ClientMemory::pool(std::uint64_t descriptor, std::int64_t size) const {
  return is_blob && size <= INT32_MAX ? hardware_buffer_blob(descriptor, size) : ashmem(descriptor, size);
}

Message mappable_file(std::uint64_t descriptor, std::int64_t length, std::int32_t protection, std::int64_t offset) {
  return Message().message(
      2, Message().integer(1, length).integer(2, protection).number(3, descriptor).integer(4, offset));
}

Message message_of(const Location& location) {
  Message message = Message().integer(1, location.pool).integer(2, location.offset).integer(3, location.length);
  return location.padding ? message.integer(4, location.padding) : message;
}

}  // namespace nnhal::client
