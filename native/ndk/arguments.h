// The inputs, or the outputs, of an execution, as far as an application has set them.
#ifndef NNHAL_NDK_ARGUMENTS_H_
#define NNHAL_NDK_ARGUMENTS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compilation.h"
#include "memory.h"
#include "model.h"

namespace nnhal::ndk {

struct Argument {
  Dimensions dimensions;               // 0 for one that is unknown
  std::uint64_t size = 0;              // the bytes of the value; 0 if they are unknown
  void* buffer = nullptr;              // of the application
  std::shared_ptr<Memory> memory;      // or memory
  std::size_t offset = 0, length = 0;  // of the buffer, or in the memory

  // An optional input without a value, unless it is in memory that is used whole.
  bool is_omitted() const { return !buffer && !memory; }
};

class ArgumentList {
 public:
  // Of a compilation that is ready, which must outlive it.
  ArgumentList(const Compilation& compilation, bool is_output);

  // `given` completes the dimensions that the model does not say; null says no more. BAD_DATA if it contradicts the
  // model, if a dimension of an input stays unknown, or if the buffer has another size than they need.
  void set_buffer(std::int32_t index, const OperandType* given, void* buffer, std::size_t length);
  void set_memory(std::int32_t index, const OperandType* given, std::shared_ptr<Memory> memory, std::size_t offset,
                  std::size_t length);
  // Whether buffers that are set later may be longer than what lies in them.
  void pad(bool is_padded) { is_padded_ = is_padded; }
  bool is_any_set() const;
  // BAD_DATA names those that are not set.
  void require_complete() const;
  const std::vector<std::optional<Argument>>& all() const { return arguments_; }
  const client::Operand& operand(std::int32_t index) const;
  // The arguments in memory that was made for roles.
  std::vector<RoleMemory*> in_role_memory() const;

 private:
  Dimensions dimensions_of(std::int32_t index, const OperandType* given, bool may_be_open) const;
  void require_length(std::int32_t index, std::uint64_t size, std::size_t length) const;
  std::string name_of(std::int32_t index) const;
  // The place of an argument that is not set yet: each may be set once.
  std::optional<Argument>& place(std::int32_t index);

  const Compilation& compilation_;
  const Model& model_;
  const bool is_output_;
  bool is_padded_ = false;
  std::vector<std::optional<Argument>> arguments_;
};

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_ARGUMENTS_H_
