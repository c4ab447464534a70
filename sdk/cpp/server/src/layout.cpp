#include "layout.h"

#include <algorithm>
#include <cstdio>

namespace nnhal::layout {
namespace {

std::string without_prefix(const std::string& name, const char* prefix, int code) {
  if (!name.empty()) return name.substr(std::string(prefix).size());
  char number[16];
  std::snprintf(number, sizeof number, "%#x", code);
  return number;
}

}  // namespace

bool is_scalar(int type) {
  switch (type) {
    case v1::OPERAND_TYPE_FLOAT32: case v1::OPERAND_TYPE_INT32: case v1::OPERAND_TYPE_UINT32:
    case v1::OPERAND_TYPE_BOOL: case v1::OPERAND_TYPE_FLOAT16:
      return true;
    default:
      return false;
  }
}

int element_bytes(int type) {
  switch (type) {
    case v1::OPERAND_TYPE_FLOAT32: case v1::OPERAND_TYPE_INT32: case v1::OPERAND_TYPE_UINT32:
    case v1::OPERAND_TYPE_TENSOR_FLOAT32: case v1::OPERAND_TYPE_TENSOR_INT32:
      return 4;
    case v1::OPERAND_TYPE_TENSOR_QUANT16_SYMM: case v1::OPERAND_TYPE_TENSOR_QUANT16_ASYMM:
    case v1::OPERAND_TYPE_TENSOR_FLOAT16: case v1::OPERAND_TYPE_FLOAT16:
      return 2;
    case v1::OPERAND_TYPE_TENSOR_QUANT8_ASYMM: case v1::OPERAND_TYPE_BOOL: case v1::OPERAND_TYPE_TENSOR_BOOL8:
    case v1::OPERAND_TYPE_TENSOR_QUANT8_SYMM_PER_CHANNEL: case v1::OPERAND_TYPE_TENSOR_QUANT8_SYMM:
    case v1::OPERAND_TYPE_TENSOR_QUANT8_ASYMM_SIGNED:
      return 1;
    default:
      return 0;
  }
}

bool is_known(int type, const Dimensions& dimensions) {
  return is_scalar(type) || (!dimensions.empty() && std::find(dimensions.begin(), dimensions.end(), 0) == dimensions.end());
}

std::int64_t bytes_of(int type, const Dimensions& dimensions) {
  std::int64_t bytes = is_known(type, dimensions) ? element_bytes(type) : 0;
  for (const std::int32_t each : dimensions) {
    if (__builtin_mul_overflow(bytes, static_cast<std::int64_t>(each), &bytes)) return INT64_MAX;
  }
  return bytes;
}

bool combine(Dimensions& first, const Dimensions& second) {
  if (second.empty()) return true;
  if (first.empty()) {
    first = second;
    return true;
  }
  if (first.size() != second.size()) return false;
  for (std::size_t i = 0; i < first.size(); i++) {
    if (first[i] != 0 && second[i] != 0 && first[i] != second[i]) return false;
    if (first[i] == 0) first[i] = second[i];
  }
  return true;
}

bool fits(const Dimensions& dimensions, const Dimensions& known) {
  if (dimensions.size() != known.size()) return false;
  for (std::size_t i = 0; i < known.size(); i++) {
    if (known[i] != 0 && known[i] != dimensions[i]) return false;
  }
  return true;
}

std::string type_name(int type) {
  return without_prefix(v1::OperandType_Name(static_cast<v1::OperandType>(type)), "OPERAND_TYPE_", type);
}

std::string operation_name(int type) {
  return without_prefix(v1::OperationType_Name(static_cast<v1::OperationType>(type)), "OPERATION_TYPE_", type);
}

}  // namespace nnhal::layout
