#include "operands.h"

#include <algorithm>

namespace nnhal::ndk {
namespace {

// By type: the bytes of an element, and whether it is a scalar. ANEURALNETWORKS_MODEL has no elements.
struct Layout {
  std::uint8_t bytes;
  bool is_scalar;
};
constexpr Layout kLayouts[] = {
    {4, true},  {4, true},  {4, true}, {4, false}, {4, false}, {1, false}, {1, true},  {2, false},
    {2, false}, {1, false}, {2, true}, {1, false}, {2, false}, {1, false}, {1, false},
};

Layout layout_of(std::int32_t type) {
  if (type == kOemScalar) return {1, true};
  if (type == kTensorOemByte) return {1, false};
  if (type < 0 || type >= static_cast<std::int32_t>(std::size(kLayouts))) return {0, false};
  return kLayouts[type];
}

}  // namespace

bool is_scalar(std::int32_t type) { return layout_of(type).is_scalar; }

bool is_fully_specified(std::int32_t type, const Dimensions& dimensions) {
  return is_scalar(type) ||
         (!dimensions.empty() && std::find(dimensions.begin(), dimensions.end(), 0U) == dimensions.end());
}

std::uint64_t byte_size(std::int32_t type, const Dimensions& dimensions) {
  if (!is_fully_specified(type, dimensions)) return 0;
  std::uint64_t bytes = layout_of(type).bytes;
  for (const std::uint32_t length : dimensions) bytes *= length;
  return bytes;
}

std::optional<Dimensions> combine(const Dimensions& first, const Dimensions& second) {
  if (first.empty() || second.empty()) return first.empty() ? second : first;
  if (first.size() != second.size()) return std::nullopt;
  Dimensions both = first;
  for (std::size_t axis = 0; axis < both.size(); ++axis) {
    if (both[axis] && second[axis] && both[axis] != second[axis]) return std::nullopt;
    if (!both[axis]) both[axis] = second[axis];
  }
  return both;
}

std::string describe(const Dimensions& dimensions) {
  std::string text;
  for (const std::uint32_t length : dimensions)
    text += (text.empty() ? "" : ", ") + (length ? std::to_string(length) : "?");
  return "[" + text + "]";
}

}  // namespace nnhal::ndk
