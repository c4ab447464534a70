#include "nnhal/hpack.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace nnhal {
namespace {

// RFC 7541, appendix A, from index 1 on.
constexpr std::pair<std::string_view, std::string_view> kStaticTable[] = {{":authority", ""},
                                                                          {":method", "GET"},
                                                                          {":method", "POST"},
                                                                          {":path", "/"},
                                                                          {":path", "/index.html"},
                                                                          {":scheme", "http"},
                                                                          {":scheme", "https"},
                                                                          {":status", "200"},
                                                                          {":status", "204"},
                                                                          {":status", "206"},
                                                                          {":status", "304"},
                                                                          {":status", "400"},
                                                                          {":status", "404"},
                                                                          {":status", "500"},
                                                                          {"accept-charset", ""},
                                                                          {"accept-encoding", "gzip, deflate"},
                                                                          {"accept-language", ""},
                                                                          {"accept-ranges", ""},
                                                                          {"accept", ""},
                                                                          {"access-control-allow-origin", ""},
                                                                          {"age", ""},
                                                                          {"allow", ""},
                                                                          {"authorization", ""},
                                                                          {"cache-control", ""},
                                                                          {"content-disposition", ""},
                                                                          {"content-encoding", ""},
                                                                          {"content-language", ""},
                                                                          {"content-length", ""},
                                                                          {"content-location", ""},
                                                                          {"content-range", ""},
                                                                          {"content-type", ""},
                                                                          {"cookie", ""},
                                                                          {"date", ""},
                                                                          {"etag", ""},
                                                                          {"expect", ""},
                                                                          {"expires", ""},
                                                                          {"from", ""},
                                                                          {"host", ""},
                                                                          {"if-match", ""},
                                                                          {"if-modified-since", ""},
                                                                          {"if-none-match", ""},
                                                                          {"if-range", ""},
                                                                          {"if-unmodified-since", ""},
                                                                          {"last-modified", ""},
                                                                          {"link", ""},
                                                                          {"location", ""},
                                                                          {"max-forwards", ""},
                                                                          {"proxy-authenticate", ""},
                                                                          {"proxy-authorization", ""},
                                                                          {"range", ""},
                                                                          {"referer", ""},
                                                                          {"refresh", ""},
                                                                          {"retry-after", ""},
                                                                          {"server", ""},
                                                                          {"set-cookie", ""},
                                                                          {"strict-transport-security", ""},
                                                                          {"transfer-encoding", ""},
                                                                          {"user-agent", ""},
                                                                          {"vary", ""},
                                                                          {"via", ""},
                                                                          {"www-authenticate", ""}};

// The length in bits of the code of each byte, and of the end of the text (RFC 7541, appendix B): digits of base 32.
// Codes of one length are consecutive, in the order of the bytes, and shorter codes come first: the lengths say it all.
constexpr std::string_view kCodeLengths =
    "dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6cad677777777777777777777"
    "77878djde6f56565666577666567655677777fbedskmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmo"
    "lmnnllmlnmnnkmmmnmmnqqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrqu";
constexpr int kLongestCode = 30;
constexpr std::size_t kEndOfText = 256;

class HuffmanCode {
 public:
  HuffmanCode() {
    for (int length = 1; length <= kLongestCode; ++length) {
      first_position_[length] = count_;
      for (std::size_t symbol = 0; symbol < kCodeLengths.size(); ++symbol)
        if (length_of(symbol) == length) symbols_[count_++] = static_cast<std::uint16_t>(symbol);
    }
    first_position_[kLongestCode + 1] = count_;
  }

  // Decodes `coded`; false if it is none.
  bool decode(std::string_view coded, std::string& text) const {
    std::uint32_t code = 0, first = 0;  // the bits of a symbol so far, and the first code of that length
    int length = 0;
    for (const char byte : coded) {
      for (int bit = 7; bit >= 0; --bit) {
        code = code << 1 | (static_cast<unsigned char>(byte) >> bit & 1);
        first = (first + count_of(length)) << 1;
        if (++length > kLongestCode) return false;
        if (code - first >= count_of(length)) continue;
        const std::size_t symbol = symbols_[first_position_[length] + (code - first)];
        if (symbol == kEndOfText) return false;
        text += static_cast<char>(symbol);
        code = first = 0;
        length = 0;
      }
    }
    return length < 8 && code == (1u << length) - 1;  // what is left of the last byte is filled with ones
  }

 private:
  static int length_of(std::size_t symbol) {
    const char digit = kCodeLengths[symbol];
    return digit <= '9' ? digit - '0' : digit - 'a' + 10;
  }
  std::uint32_t count_of(int length) const { return first_position_[length + 1] - first_position_[length]; }

  std::array<std::uint16_t, 257> symbols_{};  // in the order of their codes
  std::array<std::uint32_t, kLongestCode + 2> first_position_{};
  std::uint32_t count_ = 0;
};

class BlockReader {
 public:
  explicit BlockReader(std::string_view block) : rest_(block) {}

  Result<Headers> read() {
    Headers headers;
    while (!rest_.empty() && !fault_) {
      const auto first = static_cast<unsigned char>(rest_[0]);
      if (first & 0x80) {  // name and value are in the table
        const auto [name, value] = entry(integer(7));
        headers.emplace_back(name, value);
      } else if ((first & 0xe0) == 0x20) {  // the size of the dynamic table
        if (integer(5) != 0) fail("a table that was not asked for");
      } else {
        const std::uint64_t index = integer(first & 0x40 ? 6 : 4);
        std::string name = index ? std::string(entry(index).first) : text();
        headers.emplace_back(std::move(name), text());
      }
    }
    if (fault_) return Status(Code::kGeneralFailure, std::string("malformed headers: ") + fault_);
    return headers;
  }

 private:
  std::pair<std::string_view, std::string_view> entry(std::uint64_t index) {
    if (index >= 1 && index <= std::size(kStaticTable)) return kStaticTable[index - 1];
    fail("a reference to a table that is empty");
    return {};
  }
  std::uint64_t integer(int bits) {
    const std::uint64_t most = (1u << bits) - 1;
    std::uint64_t value = octet() & most;
    if (value < most) return value;
    for (int shift = 0; shift < 28; shift += 7) {
      const unsigned char next = octet();
      value += static_cast<std::uint64_t>(next & 0x7f) << shift;
      if (next < 0x80) return value;
    }
    fail("a number that is too large");
    return 0;
  }
  std::string text() {
    static const HuffmanCode kHuffmanCode;
    const bool is_coded = !rest_.empty() && static_cast<unsigned char>(rest_[0]) & 0x80;
    const std::uint64_t size = integer(7);
    if (size > rest_.size()) {
      fail("a text that ends too early");
      return "";
    }
    const std::string_view raw = rest_.substr(0, size);
    rest_.remove_prefix(size);
    if (!is_coded) return std::string(raw);
    std::string decoded;
    if (!kHuffmanCode.decode(raw, decoded)) fail("a text that is not in Huffman's code");
    return decoded;
  }
  unsigned char octet() {
    if (rest_.empty()) {
      fail("an end that is too early");
      return 0;
    }
    const auto value = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }

  // The first fault is the cause of the others.
  void fail(const char* fault) {
    if (!fault_) fault_ = fault;
  }

  std::string_view rest_;
  const char* fault_ = nullptr;
};

void append_text(std::string& block, std::string_view text) {
  if (text.size() < 127) {
    block += static_cast<char>(text.size());
  } else {
    block += '\x7f';
    std::size_t rest = text.size() - 127;
    for (; rest >= 0x80; rest >>= 7) block += static_cast<char>(rest | 0x80);
    block += static_cast<char>(rest);
  }
  block += text;
}

}  // namespace

void append_header(std::string& block, std::string_view name, std::string_view value) {
  block += '\x10';  // literal, never to be put into a table: values are keys of sessions
  append_text(block, name);
  append_text(block, value);
}

Result<Headers> decode_headers(std::string_view block) { return BlockReader(block).read(); }

}  // namespace nnhal
