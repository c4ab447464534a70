// How operands lie in memory: the sizes of their elements, and what is known of their dimensions.
#ifndef NNHAL_SERVER_LAYOUT_H_
#define NNHAL_SERVER_LAYOUT_H_

#include <string>

#include "nnhal/device.h"

namespace nnhal::layout {

constexpr int kMostAxes = 32;
constexpr std::int64_t kMostBytes = (1LL << 32) - 1;  // of an operand
constexpr int kExtensionBase = 0x10000;

inline bool is_extension(int code) { return code >= kExtensionBase; }
bool is_scalar(int type);
// 0 for SUBGRAPH and types of extensions.
int element_bytes(int type);

// Whether the size of an operand of the base set is known.
bool is_known(int type, const Dimensions& dimensions);
// The bytes of an operand of the base set; 0 if they are not known, INT64_MAX if they are too many to count.
std::int64_t bytes_of(int type, const Dimensions& dimensions);
// Merges two partial descriptions of the same dimensions into the first; returns false if they contradict each other.
bool combine(Dimensions& first, const Dimensions& second);
// Whether a result's dimensions agree with those that were known before, where 0 is an axis of unknown size.
bool fits(const Dimensions& dimensions, const Dimensions& known);

// The HAL's names, such as TENSOR_FLOAT32; the number in hexadecimal for those of extensions.
std::string type_name(int type);
std::string operation_name(int type);

template <class Repeated>
Dimensions dimensions_of(const Repeated& values) {
  return Dimensions(values.begin(), values.end());
}

}  // namespace nnhal::layout

#endif  // NNHAL_SERVER_LAYOUT_H_
