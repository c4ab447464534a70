// How operands lie in memory: the sizes of their elements, and their dimensions.
#ifndef NNHAL_NDK_OPERANDS_H_
#define NNHAL_NDK_OPERANDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api.h"

namespace nnhal::ndk {

using Dimensions = std::vector<std::uint32_t>;

bool is_scalar(std::int32_t type);
// Whether the size of an operand is known: a scalar, or all axes are. Extensions' types have no size that is known
// here.
bool is_fully_specified(std::int32_t type, const Dimensions& dimensions);
// The bytes of an operand; 0 if they are unknown.
std::uint64_t byte_size(std::int32_t type, const Dimensions& dimensions);
// What two partial descriptions say together; nothing if they contradict each other. Empty ones say nothing.
std::optional<Dimensions> combine(const Dimensions& first, const Dimensions& second);
// For people: [1, 8, ?].
std::string describe(const Dimensions& dimensions);

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_OPERANDS_H_
