// Models and requests: what is prepared or loaded, and what it is executed with (proto/nnhal/v1/model.proto,
// request.proto).
//
// The structs hold what their messages hold, with the HAL's numbers; docs/reference/operations.md says which operands each
// operation has. The process validates them: a fault of a model comes back as INVALID_ARGUMENT with its place.
#ifndef NNHAL_CLIENT_MODEL_H_
#define NNHAL_CLIENT_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../protobuf.h"

namespace nnhal::client {

enum class LifeTime {
  kTemporary = 0,
  kInput = 1,
  kOutput = 2,
  kConstantCopy = 3,
  kConstantPool = 4,
  kNoValue = 5,
  kSubgraph = 6,
};

// A range of a pool.
struct Location {
  std::int32_t pool = 0;
  std::int64_t offset = 0;
  std::int64_t length = 0;
  std::int64_t padding = 0;  // bytes after it that may be used as scratch space
};

struct Operand {
  std::int32_t type = 0;  // an OperandType, or an extension's code
  std::vector<std::uint32_t> dimensions;
  float scale = 0;
  std::int32_t zero_point = 0;
  LifeTime lifetime = LifeTime::kTemporary;
  Location location;          // of constants; of a reference to a subgraph its index is the offset
  std::vector<float> scales;  // TENSOR_QUANT8_SYMM_PER_CHANNEL only
  std::int32_t channel_dim = 0;
  std::string extension_data;  // extra parameters of an extension's type
};

// The prefix of an extension's codes: the upper 16 bits of its types, operations and hints.
struct ExtensionPrefix {
  std::string name;
  std::uint16_t prefix = 0;
};

// What a client asks of devices beside the contract, in terms of extensions that they know.
struct Hints {
  struct Hint {
    std::int32_t token = 0;
    std::string value;
  };
  std::vector<Hint> values;
  std::vector<ExtensionPrefix> extensions{};

  // Adds the fields of a request that has hints.
  void add_to(Message& request, int values_field, int extensions_field) const;
};

struct Operation {
  std::int32_t type = 0;  // an OperationType, or an extension's code
  std::vector<std::int32_t> inputs, outputs;
};

struct Subgraph {
  std::vector<Operand> operands;
  std::vector<Operation> operations;
  std::vector<std::int32_t> inputs, outputs;

  std::int32_t add(Operand operand);
};

struct Model {
  Subgraph main;
  std::vector<Subgraph> referenced;
  std::string constants;       // of CONSTANT_COPY operands
  std::vector<Message> pools;  // of CONSTANT_POOL operands: what ashmem() and its like make
  bool is_relaxed = false;     // float32 may be computed as float16
  std::vector<ExtensionPrefix> extensions{};

  // Adds a constant with its value, which should be small: large ones belong into a pool.
  std::int32_t add_constant(Operand operand, const void* value, std::size_t size);
  Message encode() const;
};

// Memory by the id of a descriptor that was put on the link. Its size is in bytes.
Message ashmem(std::uint64_t descriptor, std::int64_t size);
// A part of a regular file; `protection` is PROT_READ, with PROT_WRITE if outputs lie in it.
Message mappable_file(std::uint64_t descriptor, std::int64_t length, std::int32_t protection, std::int64_t offset = 0);

// The same as a hardware buffer of format BLOB, of less than 2 GiB.
Message hardware_buffer_blob(std::uint64_t descriptor, std::int64_t size);

// The memory of a loaded model's inputs and outputs of which devices copy the least.
struct ClientMemory {
  bool is_blob = false;
  std::size_t alignment = 64;  // bytes, of which each offset is a multiple; the default is what the HAL recommends

  std::size_t aligned(std::size_t size) const { return (size + alignment - 1) / alignment * alignment; }
  // Memory by the id of a descriptor that was put on the link: ashmem if a BLOB cannot be so large.
  Message pool(std::uint64_t descriptor, std::int64_t size) const;
};

Message message_of(const Location& location);

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_MODEL_H_
