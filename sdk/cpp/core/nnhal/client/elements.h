// Elements of tensors: those of a model, and those that nnhal has in memory for them.
#ifndef NNHAL_CLIENT_ELEMENTS_H_
#define NNHAL_CLIENT_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../status.h"

namespace nnhal::client {

// With the numbers of ONNX.
enum class Element : int {
  kNone = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3Fn = 17,
  kFloat8E4M3FnUz = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FnUz = 20,
  kFloat8E8M0Fnu = 24,
};

// By numpy's name. kNone for one that is not in the list.
Element element_named(const std::string& name);

// The element in memory for a type of the HAL, or the model's own for a type of an extension.
Element stored_element(std::int32_t operand_type, Element own);

std::size_t bytes_of(Element element);

std::size_t count_of(const std::vector<std::int64_t>& dimensions);

// The least that memory has room for: in a binding an axis of length 0 is one of unknown length.
std::vector<std::int64_t> not_empty(std::vector<std::int64_t> dimensions);

// For people: [1, 8].
std::string words(const std::vector<std::int64_t>& dimensions);

// Copies elements, and converts them if the types differ: the HAL has 32 bits where models have 64. INVALID_ARGUMENT if
// a whole number does not fit, or if there is no such conversion.
Status convert(const void* from, Element from_type, void* to, Element to_type, std::size_t count);

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_ELEMENTS_H_
