#include "nnhal/client/elements.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

namespace nnhal::client {
namespace {

template <typename From, typename To>
Status convert_all(const void* from, void* to, std::size_t count) {
  const auto* const source = static_cast<const From*>(from);
  auto* const target = static_cast<To*>(to);
  for (std::size_t at = 0; at < count; ++at) {
    target[at] = static_cast<To>(source[at]);
    if constexpr (std::numeric_limits<From>::is_integer)
      if (static_cast<From>(target[at]) != source[at] || (target[at] < To{}) != (source[at] < From{}))
        return {Code::kInvalidArgument, "an input has the value " + std::to_string(source[at]) +
                                            ", which does not fit " + std::to_string(8 * sizeof(To)) + " bits"};
  }
  return {};
}

using Converter = Status (*)(const void*, void*, std::size_t);

Converter converter(Element from, Element to) {
  if (from == Element::kInt64 && to == Element::kInt32) return convert_all<std::int64_t, std::int32_t>;
  if (from == Element::kInt32 && to == Element::kInt64) return convert_all<std::int32_t, std::int64_t>;
  if (from == Element::kUint64 && to == Element::kInt32) return convert_all<std::uint64_t, std::int32_t>;
  if (from == Element::kInt32 && to == Element::kUint64) return convert_all<std::int32_t, std::uint64_t>;
  if (from == Element::kUint32 && to == Element::kInt32) return convert_all<std::uint32_t, std::int32_t>;
  if (from == Element::kInt32 && to == Element::kUint32) return convert_all<std::int32_t, std::uint32_t>;
  if (from == Element::kFloat64 && to == Element::kFloat32) return convert_all<double, float>;
  if (from == Element::kFloat32 && to == Element::kFloat64) return convert_all<float, double>;
  return nullptr;
}

}  // namespace

Element element_named(const std::string& name) {
  static const std::map<std::string, Element> elements{
      {"float32", Element::kFloat32},     {"uint8", Element::kUint8},
      {"int8", Element::kInt8},           {"uint16", Element::kUint16},
      {"int16", Element::kInt16},         {"int32", Element::kInt32},
      {"int64", Element::kInt64},         {"bool", Element::kBool},
      {"float16", Element::kFloat16},     {"float64", Element::kFloat64},
      {"uint32", Element::kUint32},       {"uint64", Element::kUint64},
      {"complex64", Element::kComplex64}, {"complex128", Element::kComplex128},
      {"bfloat16", Element::kBfloat16},
      {"float8_e4m3fn", Element::kFloat8E4M3Fn},
      {"float8_e4m3fnuz", Element::kFloat8E4M3FnUz},
      {"float8_e5m2", Element::kFloat8E5M2},
      {"float8_e5m2fnuz", Element::kFloat8E5M2FnUz},
      {"float8_e8m0fnu", Element::kFloat8E8M0Fnu}};
  const auto found = elements.find(name);
  return found == elements.end() ? Element::kNone : found->second;
}

Element stored_element(std::int32_t operand_type, Element own) {
  switch (operand_type) {  // an OperandType of types.proto
    case 0:
    case 3: return Element::kFloat32;
    case 1:
    case 4: return Element::kInt32;
    case 2: return Element::kUint32;
    case 5: return Element::kUint8;
    case 6:
    case 9: return Element::kBool;
    case 7: return Element::kInt16;
    case 8:
    case 10: return Element::kFloat16;
    case 11:
    case 13:
    case 14: return Element::kInt8;
    case 12: return Element::kUint16;
    default: return own;
  }
}

std::size_t bytes_of(Element element) {
  switch (element) {
    case Element::kUint8:
    case Element::kInt8:
    case Element::kBool:
    case Element::kFloat8E4M3Fn:
    case Element::kFloat8E4M3FnUz:
    case Element::kFloat8E5M2:
    case Element::kFloat8E5M2FnUz:
    case Element::kFloat8E8M0Fnu: return 1;
    case Element::kUint16:
    case Element::kInt16:
    case Element::kFloat16:
    case Element::kBfloat16: return 2;
    case Element::kFloat32:
    case Element::kInt32:
    case Element::kUint32: return 4;
    case Element::kInt64:
    case Element::kUint64:
    case Element::kFloat64:
    case Element::kComplex64: return 8;
    case Element::kComplex128: return 16;
    default: return 0;
  }
}

std::size_t count_of(const std::vector<std::int64_t>& dimensions) {
  return std::accumulate(dimensions.begin(), dimensions.end(), std::size_t{1},
                         [](std::size_t product, std::int64_t extent) { return product * extent; });
}

std::vector<std::int64_t> not_empty(std::vector<std::int64_t> dimensions) {
  for (std::int64_t& extent : dimensions) extent = std::max<std::int64_t>(extent, 1);
  return dimensions;
}

std::string words(const std::vector<std::int64_t>& dimensions) {
  std::string text;
  for (const std::int64_t extent : dimensions) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

Status convert(const void* from, Element from_type, void* to, Element to_type, std::size_t count) {
  if (from_type == to_type) {
    if (count) std::memcpy(to, from, count * bytes_of(from_type));
    return {};
  }
  const Converter all = converter(from_type, to_type);
  if (!all)
    return {Code::kInvalidArgument, "elements of type " + std::to_string(static_cast<int>(from_type)) +
                                        " of ONNX cannot become type " + std::to_string(static_cast<int>(to_type))};
  return all(from, to, count);
}

}  // namespace nnhal::client
