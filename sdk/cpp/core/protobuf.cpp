#include "nnhal/protobuf.h"

#include <cstring>

namespace nnhal {

Message& Message::number(int field, std::uint64_t value) {
  varint(static_cast<std::uint64_t>(field) << 3);
  varint(value);
  return *this;
}

Message& Message::real(int field, float value) {
  varint(static_cast<std::uint64_t>(field) << 3 | 5);
  encoded_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

Message& Message::fixed64(int field, std::uint64_t value) {
  varint(static_cast<std::uint64_t>(field) << 3 | 1);
  encoded_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

Message& Message::bytes(int field, std::string_view value) {
  varint(static_cast<std::uint64_t>(field) << 3 | 2);
  varint(value.size());
  encoded_ += value;
  return *this;
}

Message& Message::reals(int field, const std::vector<float>& values) {
  if (values.empty()) return *this;
  return bytes(field, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

void Message::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) encoded_ += static_cast<char>(value | 0x80);
  encoded_ += static_cast<char>(value);
}

bool FieldReader::fail() {
  is_malformed_ = true;
  rest_ = bytes_ = {};
  return false;
}

bool FieldReader::read_varint(std::string_view& rest, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 70 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    // Of the tenth byte one bit counts; protobuf's own readers ignore the others as well.
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool FieldReader::next() {
  if (rest_.empty()) return false;
  std::uint64_t key, size = 0;
  if (!read_varint(rest_, key)) return fail();
  if (key >> 3 == 0 || key >> 3 > (1u << 29) - 1) return fail();
  field_ = static_cast<int>(key >> 3);
  type_ = static_cast<int>(key & 7);
  bytes_ = {};
  switch (type_) {
    case kVarint: return read_varint(rest_, number_) || fail();
    case kFixed64: size = 8; break;
    case kFixed32: size = 4; break;
    case kBytes:
      if (!read_varint(rest_, size)) return fail();
      break;
    default: return fail();  // groups are not in proto3, and types 6 and 7 not at all
  }
  if (size > rest_.size()) return fail();
  bytes_ = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return true;
}

std::uint64_t FieldReader::fixed64() const {
  std::uint64_t value = 0;
  if (type_ == kFixed64) std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

float FieldReader::real() const {
  float value = 0;
  if (type_ == kFixed32) std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

}  // namespace nnhal
