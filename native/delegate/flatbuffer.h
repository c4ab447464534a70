// A flatbuffer, read without its schema: fields are named by their numbers.
#ifndef NNHAL_TFLITE_FLATBUFFER_H_
#define NNHAL_TFLITE_FLATBUFFER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nnhal/failure.h"

namespace nnhal::tflite {

// A table in bytes that outlive it. A field that is left out reads as nothing. Throws Failure if an offset leads out of
// the bytes.
class Table {
 public:
  static Table root(std::string_view bytes) { return {bytes, read<std::uint32_t>(bytes, 0)}; }

  template <typename Number>
  Number number(int field) const {
    const std::size_t place = place_of(field);
    return place ? read<Number>(bytes_, place) : Number();
  }
  std::vector<Table> tables(int field) const {
    std::vector<Table> found;
    const auto [begin, count] = vector(field, sizeof(std::uint32_t));
    for (std::size_t at = begin; found.size() < count; at += sizeof(std::uint32_t))
      found.push_back({bytes_, at + read<std::uint32_t>(bytes_, at)});
    return found;
  }
  std::vector<int> integers(int field) const {
    const auto [begin, count] = vector(field, sizeof(int));
    std::vector<int> found(count);
    if (count) std::memcpy(found.data(), bytes_.data() + begin, count * sizeof(int));
    return found;
  }
  std::string_view text(int field) const {
    const auto [begin, count] = vector(field, 1);
    return bytes_.substr(begin, count);
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
  // Where a field lies; 0 if it is left out.
  std::size_t place_of(int field) const {
    const std::size_t offsets = at_ - static_cast<std::size_t>(read<std::int32_t>(bytes_, at_));
    const std::size_t entry = sizeof(std::uint16_t) * static_cast<std::size_t>(field + 2);
    const bool is_there = entry < read<std::uint16_t>(bytes_, offsets);
    const auto offset = is_there ? read<std::uint16_t>(bytes_, offsets + entry) : std::uint16_t{0};
    return offset ? at_ + offset : 0;
  }
  // Where the elements of a vector begin, and how many there are.
  std::pair<std::size_t, std::size_t> vector(int field, std::size_t size) const {
    const std::size_t place = place_of(field);
    if (!place) return {0, 0};
    const std::size_t at = place + read<std::uint32_t>(bytes_, place);
    const std::size_t count = read<std::uint32_t>(bytes_, at), begin = at + sizeof(std::uint32_t);
    if (begin > bytes_.size() || (bytes_.size() - begin) / size < count)
      throw Failure("the model's file has a vector of " + std::to_string(count) + " elements that ends outside of it");
    return {begin, count};
  }

  std::string_view bytes_;
  std::size_t at_;
};

}  // namespace nnhal::tflite

#endif  // NNHAL_TFLITE_FLATBUFFER_H_
