// The wire form of protobuf messages: a writer that appends fields, and a cursor that reads them without copying.
//
// Numbers of fields are those of proto/nnhal/v1. client/messages.h and client/model.h have the messages themselves.
#ifndef NNHAL_PROTOBUF_H_
#define NNHAL_PROTOBUF_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nnhal {

// A message that is being written. Fields may be added in any order.
class Message {
 public:
  // An unsigned integer, a boolean or an enumeration.
  Message& number(int field, std::uint64_t value);
  // int32 and int64; a negative one has ten bytes.
  Message& integer(int field, std::int64_t value) { return number(field, static_cast<std::uint64_t>(value)); }
  Message& real(int field, float value);
  Message& fixed64(int field, std::uint64_t value);
  Message& bytes(int field, std::string_view value);
  Message& message(int field, const Message& value) { return bytes(field, value.encoded_); }
  // Repeated numbers, packed; nothing if there are none.
  template <typename Numbers>
  Message& numbers(int field, const Numbers& values) {
    Message packed;
    for (const auto value : values) packed.varint(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    return values.empty() ? *this : message(field, packed);
  }
  Message& reals(int field, const std::vector<float>& values);

  const std::string& encoded() const { return encoded_; }

 private:
  void varint(std::uint64_t value);
  std::string encoded_;
};

// Reads the fields of a message one after the other:
//
//     for (FieldReader reader(bytes); reader.next();)
//       if (reader.field() == 1) status = reader.number();
//
// It refers to the bytes, which have to outlive it. Unknown fields are passed over, as protobuf asks. What must be
// known is asked for at the end: whether the message was well formed.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}

  // Goes to the next field. False at the end, and at a malformed field.
  bool next();
  // False if the message ends in the middle of a field, or has a field that cannot be.
  bool well_formed() const { return !is_malformed_; }

  int field() const { return field_; }
  // Whether the field has the form of a number() or of bytes(). What reads another form returns 0 or nothing.
  bool is_number() const { return type_ == kVarint; }
  bool is_bytes() const { return type_ == kBytes; }
  std::uint64_t number() const { return is_number() ? number_ : 0; }
  std::int64_t integer() const { return static_cast<std::int64_t>(number()); }
  std::int32_t integer32() const { return static_cast<std::int32_t>(number()); }
  float real() const;
  std::uint64_t fixed64() const;
  std::string_view bytes() const { return bytes_; }
  std::string text() const { return std::string(bytes_); }
  // Appends the numbers of a repeated field, packed or not. The message is malformed if they are.
  template <typename Number>
  void append_to(std::vector<Number>& numbers) {
    if (is_number()) numbers.push_back(static_cast<Number>(number_));
    std::uint64_t value;
    for (std::string_view packed = is_bytes() ? bytes_ : std::string_view(); !packed.empty();) {
      if (!read_varint(packed, value)) {
        fail();
        return;
      }
      numbers.push_back(static_cast<Number>(value));
    }
  }

 private:
  enum Type { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  static bool read_varint(std::string_view& rest, std::uint64_t& value);
  bool fail();

  std::string_view rest_, bytes_;
  std::uint64_t number_ = 0;
  int field_ = 0;
  int type_ = kVarint;
  bool is_malformed_ = false;
};

}  // namespace nnhal

#endif  // NNHAL_PROTOBUF_H_
