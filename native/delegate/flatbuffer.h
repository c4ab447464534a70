// A flatbuffer, read without its schema: fields are named by their numbers.
#ifndef NNHAL_TFLITE_FLATBUFFER_H_
#define NNHAL_TFLITE_FLATBUFFER_H_

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "nnhal/failure.h"

namespace nnhal::tflite {

// A table in bytes that outlive it. A field that is left out reads as nothing. Throws Failure if an offset leads out of
// the bytes.
class Table {
 public:
  static Table root(std::string_view bytes) { return {bytes, read<std::uint32_t>(bytes, 0)}; }

  std::vector<Table> tables(int field) const {
    std::vector<Table> found;
    for (const std::size_t place : places(field, sizeof(std::uint32_t)))
      found.push_back({bytes_, place + read<std::uint32_t>(bytes_, place)});
    return found;
  }
  std::vector<int> integers(int field) const {
    std::vector<int> found;
    for (const std::size_t place : places(field, sizeof(std::int32_t)))
      found.push_back(read<std::int32_t>(bytes_, place));
    return found;
  }
  std::string_view text(int field) const {
    const std::vector<std::size_t> characters = places(field, 1);
    return characters.empty() ? std::string_view() : bytes_.substr(characters.front(), characters.size());
  }

 private:
  Table(std::string_view bytes, std::size_t at) : bytes_(bytes), at_(at) {}

  template <typename Number>
  static Number read(std::string_view bytes, std::size_t at) {
    Number number;
    if (at > bytes.size() || bytes.size() - at < sizeof number)
      throw Failure("the model's file is cut off: byte " + std::to_string(at) + " of " + std::to_string(bytes.size()));
    std::memcpy(&number, bytes.data() + at, sizeof number);
    return number;
  }
  // Where the elements of a vector lie.
  std::vector<std::size_t> places(int field, std::size_t size) const {
    const std::size_t offsets = at_ - static_cast<std::size_t>(read<std::int32_t>(bytes_, at_));
    const std::size_t entry = sizeof(std::uint16_t) * static_cast<std::size_t>(field + 2);
    if (entry >= read<std::uint16_t>(bytes_, offsets)) return {};
    const auto offset = read<std::uint16_t>(bytes_, offsets + entry);
    if (!offset) return {};
    const std::size_t vector = at_ + offset + read<std::uint32_t>(bytes_, at_ + offset);
    const std::size_t count = read<std::uint32_t>(bytes_, vector), begin = vector + sizeof(std::uint32_t);
    if (begin > bytes_.size() || (bytes_.size() - begin) / size < count)
      throw Failure("the model's file has a vector of " + std::to_string(count) + " elements that ends outside of it");
    std::vector<std::size_t> found(count);
    for (std::size_t index = 0; index < count; ++index) found[index] = begin + index * size;
    return found;
  }

  std::string_view bytes_;
  std::size_t at_;
};

}  // namespace nnhal::tflite

#endif  // NNHAL_TFLITE_FLATBUFFER_H_
