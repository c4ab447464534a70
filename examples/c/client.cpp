// A client of nnhal in one file: C++17, Linux, and no library besides that of the language.
//
//     ./client device DIR [SECONDS]      computes on a device process, by each way of executing
//     ./client framework DIR [SECONDS]   has a framework compute the same, on whichever devices it chooses
//
// No answer may take longer than so many seconds, 30 without them.
//
// DIR is the process's endpoint, with its two sockets: gRPC, and the link (docs/reference/protocol.md). The parts are protobuf, the
// little of HTTP/2 that gRPC needs, the link, and what the client does with them. They are in one file so that it can
// be read from the top down, and copied. Numbers of fields are those of proto/nnhal/v1.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using Bytes = std::string;

// Why the client cannot go on, in words. main() prints it.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int seconds = 30;  // no answer may take longer

[[noreturn]] void fail_with_errno(const Bytes& what) {
  const Bytes reason = errno == EAGAIN ? "nothing for " + std::to_string(seconds) + " s" : Bytes(std::strerror(errno));
  throw Failure(what + ": " + reason);
}

// A descriptor that is closed at the end.
class File {
 public:
  explicit File(int number = -1) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~File() { close(); }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  int number() const { return number_; }

 private:
  int number_;
};

// ---------------------------------------------------------------------------------------------------- protobuf

// A message that is being encoded. Fields may be added in any order.
class Message {
 public:
  // An integer, a boolean or an enumeration. A negative number is cast, and has ten bytes then.
  Message& number(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    encoded_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.encoded_); }
  Message& numbers(int field, const std::vector<std::uint64_t>& values) {
    Message packed;
    for (std::uint64_t value : values) packed.varint(value);
    return bytes(field, packed.encoded_);
  }
  const Bytes& encoded() const { return encoded_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) encoded_ += static_cast<char>(value | 0x80);
    encoded_ += static_cast<char>(value);
  }
  Bytes encoded_;
};

// A message that was received. Absent fields are 0 or empty; of a repeated field the last value is returned.
class Fields {
 public:
  explicit Fields(std::string_view rest) {
    while (!rest.empty()) {
      const std::uint64_t key = varint(rest);
      const int field = static_cast<int>(key >> 3);
      switch (key & 7) {
        case 0: numbers_[field] = varint(rest); break;
        case 1: take(rest, 8); break;  // a double: this client reads none
        case 2: bytes_[field] = Bytes(take(rest, varint(rest))); break;
        case 5: take(rest, 4); break;  // a float
        default: throw Failure("a message with a field of an unknown wire type");
      }
    }
  }
  std::uint64_t number(int field) const { return numbers_.count(field) ? numbers_.at(field) : 0; }
  Bytes bytes(int field) const { return bytes_.count(field) ? bytes_.at(field) : Bytes(); }
  Fields message(int field) const { return Fields(bytes(field)); }
  bool has(int field) const { return bytes_.count(field) || numbers_.count(field); }
  // The first element of a repeated number, which is packed.
  std::uint64_t first(int field) const {
    const Bytes packed = bytes(field);
    std::string_view rest = packed;
    return varint(rest);
  }

 private:
  static std::uint64_t varint(std::string_view& rest) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(rest, 1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw Failure("a message with a number of more than 64 bits");
  }
  static std::string_view take(std::string_view& rest, std::uint64_t count) {
    if (count > rest.size()) throw Failure("a message that ends in the middle of a field");
    const std::string_view taken = rest.substr(0, count);
    rest.remove_prefix(count);
    return taken;
  }
  std::map<int, std::uint64_t> numbers_;
  std::map<int, Bytes> bytes_;
};

// ------------------------------------------------------------------------------------- headers of HTTP/2 (RFC 7541)

using Headers = std::map<Bytes, Bytes>;

// A header that refers to no table: its name and its value as they are.
Bytes literal_header(std::string_view name, std::string_view value) {
  Bytes encoded("\x10", 1);
  for (std::string_view text : {name, value}) {
    if (text.size() > 126) throw Failure("a header of more than 126 bytes");
    encoded += static_cast<char>(text.size());
    encoded += text;
  }
  return encoded;
}

// Decodes headers. The client has asked for a table of size 0, so that each block stands alone.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view block) : rest_(block) {}

  Headers read() {
    Headers headers;
    while (!rest_.empty()) {
      const auto first = static_cast<unsigned char>(rest_[0]);
      if (first & 0x80) {  // name and value are in the static table
        const std::uint64_t index = integer(7);
        if (index >= 8 && index <= 14) headers[":status"] = index == 8 ? "200" : "an error";
      } else if ((first & 0xe0) == 0x20) {  // the size of the other table
        integer(5);
      } else {
        const std::uint64_t index = integer(first & 0x40 ? 6 : 4);
        if (index > 61) throw Failure("a header from a table that this client does not have");
        // Of the names in the static table this client needs one only.
        const Bytes name = index == 0 ? text() : index >= 8 && index <= 14 ? ":status" : "";
        headers[name] = text();
      }
    }
    return headers;
  }

 private:
  std::uint64_t integer(int bits) {
    const std::uint64_t most = (1u << bits) - 1;
    std::uint64_t value = octet() & most;
    if (value < most) return value;
    for (int shift = 0; shift < 28; shift += 7) {
      const unsigned char next = octet();
      value += static_cast<std::uint64_t>(next & 0x7f) << shift;
      if (next < 0x80) return value;
    }
    throw Failure("a header with a number that is too large");
  }
  Bytes text() {
    const bool coded = !rest_.empty() && static_cast<unsigned char>(rest_[0]) & 0x80;
    const std::uint64_t size = integer(7);
    if (size > rest_.size()) throw Failure("a header that ends too early");
    const Bytes taken(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return coded ? from_huffman(taken) : taken;
  }
  unsigned char octet() {
    if (rest_.empty()) throw Failure("headers that end too early");
    const auto value = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  // The lengths, in bits, of the codes of the characters from ' ' to '~' (RFC 7541, appendix B), as hexadecimal digits.
  // Codes of one length are consecutive, in the order of the characters. Longer codes do not occur in what gRPC sends.
  static constexpr std::string_view kCodeLengths =
      "6aacd68baa8b8666555666666678f6cad677777777777777"
      "77777777878d0de6f56565666577666567655677777fbed";
  static Bytes from_huffman(const Bytes& coded) {
    Bytes text;
    std::uint32_t code = 0;
    int length = 0;
    for (const char byte : coded) {
      for (int bit = 7; bit >= 0; --bit) {
        code = code << 1 | (static_cast<unsigned char>(byte) >> bit & 1);
        if (++length > 15) throw Failure("a header with a character that is no text");
        if (const char found = character(code, length)) {
          text += found;
          code = 0;
          length = 0;
        }
      }
    }
    return text;
  }
  static char character(std::uint32_t code, int length) {
    std::uint32_t next = 0;  // the first code of each length
    for (int bits = 5; bits <= length; ++bits) {
      next <<= 1;
      if (bits == 13) ++next;  // the first one stands for byte 0
      for (std::size_t index = 0; index < kCodeLengths.size(); ++index) {
        const char digit = kCodeLengths[index];
        if ((digit <= '9' ? digit - '0' : digit - 'a' + 10) != bits) continue;
        if (bits == length && next == code) return static_cast<char>(' ' + index);
        ++next;
      }
    }
    return 0;
  }
  std::string_view rest_;
};

// ------------------------------------------------------------------------------------- gRPC over HTTP/2 (RFC 9113)

// Also for channels: a device that does not answer is not waited for without end.
void limit_waiting(const File& connection) {
  const timeval limit{seconds, 0};
  ::setsockopt(connection.number(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(connection.number(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

File connected(const Bytes& path, int type) {
  File connection(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (connection.number() < 0) fail_with_errno("no socket");
  limit_waiting(connection);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw Failure(path + ": too long for the path of a socket");
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
    fail_with_errno(path);
  return connection;
}

Bytes from_base64(std::string_view coded) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Bytes decoded;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : coded) {
    const std::size_t value = kAlphabet.find(digit);
    if (value == std::string_view::npos) break;  // padding
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((count += 6) >= 8) decoded += static_cast<char>(bits >> (count -= 8));
  }
  return decoded;
}

constexpr const char* kStatuses[] = {  // ErrorStatus
    "NONE", "DEVICE_UNAVAILABLE", "GENERAL_FAILURE", "OUTPUT_INSUFFICIENT_SIZE", "INVALID_ARGUMENT",
    "MISSED_DEADLINE_TRANSIENT", "MISSED_DEADLINE_PERSISTENT", "RESOURCE_EXHAUSTED_TRANSIENT",
    "RESOURCE_EXHAUSTED_PERSISTENT"};

Bytes in_words(std::uint64_t status, const Bytes& message) {
  return Bytes(status < std::size(kStatuses) ? kStatuses[status] : "an unknown status") + ": " + message;
}

// A connection for calls, one at a time.
class Rpc {
 public:
  explicit Rpc(const Bytes& path) : path_(path), connection_(connected(path, SOCK_STREAM)) {
    write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    send_frame(kSettings, 0, 0, Bytes("\x00\x01\x00\x00\x00\x00", 6));  // SETTINGS_HEADER_TABLE_SIZE = 0
  }

  // Metadata that all later calls carry.
  void set_session(const Bytes& token) { token_ = token; }

  // The only message that a call answers.
  Fields call(const Bytes& method, const Message& request) {
    const std::vector<Bytes> answers = stream(method, request);
    if (answers.size() != 1) throw Failure(method + " answered " + std::to_string(answers.size()) + " messages");
    return Fields(answers[0]);
  }

  // All messages that a call answers.
  std::vector<Bytes> stream(const Bytes& method, const Message& request) {
    stream_ += 2;
    ends_ = ended_ = false;
    block_.clear();
    data_.clear();
    headers_.clear();
    stream_window_ = initial_window_;
    Bytes headers = literal_header(":method", "POST") + literal_header(":scheme", "http") +
                    literal_header(":path", "/nnhal.v1." + method) + literal_header(":authority", "localhost") +
                    literal_header("content-type", "application/grpc") + literal_header("te", "trailers");
    if (!token_.empty()) headers += literal_header("nnhal-session", token_);
    send_frame(kHeaders, kEndHeaders, stream_, headers);
    Bytes body(1, '\0');  // not compressed
    append_big_endian(body, request.encoded().size(), 4);
    send_data(body + request.encoded());
    while (!ended_) handle_frame();
    if (!headers_.count("grpc-status") || headers_["grpc-status"] != "0") throw Failure(method + " failed: " + error());
    return messages();
  }

 private:
  enum Type { kData, kHeaders, kReset = 3, kSettings, kPing = 6, kGoAway, kWindow, kContinuation };
  enum Flag { kEndStream = 1, kAck = 1, kEndHeaders = 4, kPadded = 8, kPriority = 32 };
  static constexpr std::size_t kMostInFrame = 16384;

  void send_frame(int type, int flags, std::uint32_t stream, const Bytes& payload) {
    Bytes frame;
    append_big_endian(frame, payload.size(), 3);
    frame += static_cast<char>(type);
    frame += static_cast<char>(flags);
    append_big_endian(frame, stream, 4);
    write(frame + payload);
  }
  // The other side says how many bytes it takes, of the stream and in all.
  void send_data(const Bytes& body) {
    for (std::size_t sent = 0; sent < body.size();) {
      while ((window_ <= 0 || stream_window_ <= 0) && !ended_) handle_frame();
      if (ended_) return;
      std::size_t size = std::min(body.size() - sent, kMostInFrame);
      size = std::min({size, static_cast<std::size_t>(window_), static_cast<std::size_t>(stream_window_)});
      send_frame(kData, sent + size == body.size() ? kEndStream : 0, stream_, body.substr(sent, size));
      sent += size;
      window_ -= static_cast<std::int64_t>(size);
      stream_window_ -= static_cast<std::int64_t>(size);
    }
  }
  void handle_frame() {
    const Bytes head = read(9);
    const std::uint64_t size = big_endian(head, 0, 3), stream = big_endian(head, 5, 4) & 0x7fffffff;
    const int type = head[3], flags = static_cast<unsigned char>(head[4]);
    if (size > kMostInFrame) throw Failure(path_ + " sent a frame that is too long");
    Bytes payload = read(size);
    switch (type) {
      case kSettings: if (!(flags & kAck)) settings(payload); break;
      case kPing: if (!(flags & kAck)) send_frame(kPing, kAck, 0, payload); break;
      case kGoAway: throw Failure(path_ + " closes the connection");
      case kWindow:
        (stream ? stream_window_ : window_) += stream == 0 || stream == stream_ ? big_endian(payload, 0, 4) : 0;
        break;
      default: if (stream == stream_) handle_of_stream(type, flags, payload);
    }
  }
  void handle_of_stream(int type, int flags, Bytes payload) {
    if (type == kReset) throw Failure(path_ + " ended a call");
    if (type != kData && type != kHeaders && type != kContinuation) return;
    const std::size_t whole = payload.size();
    if (type != kContinuation && flags & kPadded) {
      const std::uint64_t padding = big_endian(payload, 0, 1);
      if (padding >= payload.size()) throw Failure(path_ + " sent a frame of padding only");
      payload = payload.substr(1, payload.size() - 1 - padding);
    }
    if (type == kHeaders && flags & kPriority) payload = payload.size() < 5 ? Bytes() : payload.substr(5);
    if (flags & kEndStream && type != kContinuation) ends_ = true;
    if (type == kData) {
      data_ += payload;
      if (whole) taken(whole);
      ended_ = ends_;
      return;
    }
    block_ += payload;
    if (!(flags & kEndHeaders)) return;
    for (auto& [name, value] : HeaderReader(block_).read()) headers_[name] = value;
    block_.clear();
    ended_ = ends_;
  }
  // Lets the other side send as many bytes again.
  void taken(std::size_t size) {
    Bytes increment;
    append_big_endian(increment, size, 4);
    send_frame(kWindow, 0, 0, increment);
    send_frame(kWindow, 0, stream_, increment);
  }
  void settings(const Bytes& payload) {
    for (std::size_t at = 0; at + 6 <= payload.size(); at += 6) {
      if (big_endian(payload, at, 2) != 4) continue;  // SETTINGS_INITIAL_WINDOW_SIZE
      const auto window = static_cast<std::int64_t>(big_endian(payload, at + 2, 4));
      stream_window_ += window - initial_window_;
      initial_window_ = window;
    }
    send_frame(kSettings, kAck, 0, "");
  }
  std::vector<Bytes> messages() const {
    std::vector<Bytes> found;
    for (std::size_t at = 0; at + 5 <= data_.size();) {
      const std::uint64_t size = big_endian(data_, at + 1, 4);
      if (data_[at] != 0 || size > data_.size() - at - 5) throw Failure(path_ + " sent half a message");
      found.push_back(data_.substr(at + 5, size));
      at += 5 + size;
    }
    return found;
  }
  // What a device itself has answered is in the details; anything else is the transport's error.
  Bytes error() {
    const Fields status(from_base64(headers_["grpc-status-details-bin"]));  // nnhal.v1.Status
    const Fields any = status.message(3);                                   // google.protobuf.Any
    if (any.bytes(1) != "type.googleapis.com/nnhal.v1.ErrorDetail")
      return headers_.count("grpc-status") ? "gRPC status " + headers_["grpc-status"] + ", " + headers_["grpc-message"]
                                           : "it ended without a status";
    const Fields detail = any.message(2);
    return in_words(detail.number(1), detail.bytes(2));
  }

  static void append_big_endian(Bytes& bytes, std::uint64_t value, int count) {
    while (count--) bytes += static_cast<char>(value >> 8 * count);
  }
  static std::uint64_t big_endian(const Bytes& bytes, std::size_t at, std::size_t count) {
    if (at + count > bytes.size()) throw Failure("a frame that is too short");
    std::uint64_t value = 0;
    while (count--) value = value << 8 | static_cast<unsigned char>(bytes[at++]);
    return value;
  }
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(connection_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) fail_with_errno(path_);
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  Bytes read(std::size_t count) {
    Bytes bytes(count, '\0');
    for (std::size_t at = 0; at < count;) {
      const ssize_t got = ::recv(connection_.number(), &bytes[at], count - at, 0);
      if (got < 0) fail_with_errno(path_);
      if (got == 0) throw Failure(path_ + " has closed the connection");
      at += static_cast<std::size_t>(got);
    }
    return bytes;
  }

  Bytes path_;
  File connection_;
  Bytes token_;
  std::uint32_t stream_ = static_cast<std::uint32_t>(-1);  // the first one is 1
  std::int64_t initial_window_ = 65535, window_ = 65535, stream_window_ = 0;
  bool ends_ = false, ended_ = false;
  Bytes block_, data_;
  Headers headers_;
};

// --------------------------------------------------------------------------------------- the link (docs/reference/protocol.md)

constexpr std::size_t kMostInDatagram = 65536;

// Sends a datagram on a link or on a channel. If the other side has ended it, the last answer may say why: receive it.
void send_datagram(const File& channel, const Message& message, const File* file = nullptr) {
  Bytes bytes = message.encoded();
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr datagram{};
  datagram.msg_iov = &part;
  datagram.msg_iovlen = 1;
  if (file) {
    datagram.msg_control = control;
    datagram.msg_controllen = sizeof control;
    cmsghdr* head = CMSG_FIRSTHDR(&datagram);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = file->number();
    std::memcpy(CMSG_DATA(head), &number, sizeof number);
  }
  const ssize_t sent = ::sendmsg(channel.number(), &datagram, MSG_NOSIGNAL);
  if (sent < 0 && errno != EPIPE && errno != ECONNRESET) fail_with_errno("a datagram cannot be sent");
}

Fields receive_datagram(const File& channel, File* file = nullptr) {
  Bytes bytes(kMostInDatagram, '\0');
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr datagram{};
  datagram.msg_iov = &part;
  datagram.msg_iovlen = 1;
  datagram.msg_control = control;
  datagram.msg_controllen = sizeof control;
  ssize_t size = ::recvmsg(channel.number(), &datagram, MSG_CMSG_CLOEXEC);
  // The kernel reports a reset once, before the datagrams that still wait.
  if (size < 0 && errno == ECONNRESET) size = ::recvmsg(channel.number(), &datagram, MSG_CMSG_CLOEXEC);
  if (size < 0) fail_with_errno("no answer on a channel");
  if (size == 0) throw Failure("the other side has closed a channel");
  for (cmsghdr* head = CMSG_FIRSTHDR(&datagram); head; head = CMSG_NXTHDR(&datagram, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    int number;
    std::memcpy(&number, CMSG_DATA(head), sizeof number);
    File received(number);
    if (file) *file = std::move(received);
  }
  return Fields(std::string_view(bytes).substr(0, static_cast<std::size_t>(size)));
}

// An open link is a session: whatever is made in it is released when it closes.
class Link {
 public:
  explicit Link(const Bytes& path) : connection_(connected(path, SOCK_SEQPACKET)) {
    const Message hello = Message().number(/*protocol_version*/ 1, 1).bytes(/*client_name*/ 2, "a client in C++");
    token_ = exchange(Message().message(/*hello*/ 1, hello)).message(/*welcome*/ 1).bytes(/*session_token*/ 1);
  }
  // What gRPC calls carry as metadata nnhal-session.
  const Bytes& token() const { return token_; }
  // Hands a descriptor over, and returns the id by which messages name it.
  std::uint64_t put(const File& file) {
    const Message put = Message().number(/*count*/ 1, 1);
    return exchange(Message().message(/*put*/ 2, put), &file).message(/*put*/ 2).first(/*descriptor_ids*/ 1);
  }
  // Fetches a descriptor that the answer of a call has named.
  File take(std::uint64_t id) {
    File taken;
    exchange(Message().message(/*take*/ 3, Message().number(/*descriptor_id*/ 1, id)), nullptr, &taken);
    return taken;
  }

 private:
  Fields exchange(const Message& request, const File* sent = nullptr, File* received = nullptr) {
    send_datagram(connection_, request, sent);
    const Fields reply = receive_datagram(connection_, received);
    if (reply.has(/*refusal*/ 5)) throw Failure("the link refuses: " + reply.message(5).bytes(/*message*/ 1));
    return reply;
  }
  File connection_;
  Bytes token_;
};

// -------------------------------------------------------------------------------------- memory, model and requests

constexpr std::size_t kElements = 8;
constexpr std::size_t kTensorBytes = kElements * sizeof(float);
constexpr std::size_t kPoolBytes = 3 * kTensorBytes;  // two terms and their sum, one after the other

// Shared memory: a memfd, sealed so that nobody can shorten it while the other side uses it.
class Pool {
 public:
  Pool() : file_(::memfd_create("pool", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (file_.number() < 0 || ::ftruncate(file_.number(), kPoolBytes) < 0 ||
        ::fcntl(file_.number(), F_ADD_SEALS, F_SEAL_SHRINK) < 0)
      fail_with_errno("no shared memory");
    void* const mapped = ::mmap(nullptr, kPoolBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
    if (mapped == MAP_FAILED) fail_with_errno("no shared memory");
    values_ = static_cast<float*>(mapped);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { ::munmap(values_, kPoolBytes); }

  const File& file() const { return file_; }
  void fill(float first, float second) {
    std::fill_n(values_, kElements, first);
    std::fill_n(values_ + kElements, kElements, second);
    std::fill_n(values_ + 2 * kElements, kElements, -1.0f);
  }
  void print_sum(const char* way) const {
    std::printf("%s:", way);
    for (std::size_t index = 0; index < kElements; ++index) std::printf(" %g", values_[2 * kElements + index]);
    std::printf("\n");
  }

 private:
  File file_;
  float* values_ = nullptr;
};

// A range of pool 0.
Message location(std::size_t offset, std::size_t length = kTensorBytes) {
  return Message().number(/*offset*/ 2, offset).number(/*length*/ 3, length);
}

Message memory(std::uint64_t descriptor) {
  const Message ashmem = Message().number(/*descriptor_id*/ 1, descriptor).number(/*size*/ 2, kPoolBytes);
  return Message().message(/*ashmem*/ 1, ashmem);
}

// ADD of two vectors. docs/reference/operations.md says which operands it has: two tensors, and the number of an activation.
Message addition() {
  const auto vector = [](int lifetime) {
    return Message()
        .number(/*type*/ 1, /*TENSOR_FLOAT32*/ 3)
        .numbers(/*dimensions*/ 2, {kElements})
        .number(/*lifetime*/ 5, lifetime);
  };
  const Message none = Message()
                           .number(/*type*/ 1, /*INT32*/ 1)
                           .number(/*lifetime*/ 5, /*CONSTANT_COPY*/ 3)
                           .message(/*location*/ 6, location(0, sizeof(std::int32_t)));
  const Message operation =
      Message().number(/*type*/ 1, /*ADD*/ 0).numbers(/*inputs*/ 2, {0, 1, 2}).numbers(/*outputs*/ 3, {3});
  const Message main = Message()
                           .message(/*operands*/ 1, vector(/*SUBGRAPH_INPUT*/ 1))
                           .message(/*operands*/ 1, vector(/*SUBGRAPH_INPUT*/ 1))
                           .message(/*operands*/ 1, none)
                           .message(/*operands*/ 1, vector(/*SUBGRAPH_OUTPUT*/ 2))
                           .message(/*operations*/ 2, operation)
                           .numbers(/*input_indexes*/ 3, {0, 1})
                           .numbers(/*output_indexes*/ 4, {3});
  return Message().message(/*main*/ 1, main).bytes(/*operand_values*/ 3, Bytes(sizeof(std::int32_t), '\0'));
}

Message request(std::uint64_t pool, std::size_t offset_of_sum = 2 * kTensorBytes) {
  const auto argument = [](std::size_t offset) { return Message().message(/*location*/ 2, location(offset)); };
  return Message()
      .message(/*inputs*/ 1, argument(0))
      .message(/*inputs*/ 1, argument(kTensorBytes))
      .message(/*outputs*/ 2, argument(offset_of_sum))
      .message(/*pools*/ 3, Message().message(/*pool*/ 1, memory(pool)));
}

void require_none(const Bytes& what, std::uint64_t status, const Bytes& message) {
  if (status) throw Failure(what + " failed: " + in_words(status, message));
}

// ------------------------------------------------------------------------------------------------- a device process

std::uint64_t prepare(Rpc& rpc) {
  // The stream brings 'launched', and then 'notified' with the outcome.
  Fields notified{""};
  for (const Bytes& event : rpc.stream("DeviceService/PrepareModel", Message().message(/*model*/ 1, addition())))
    notified = Fields(event).message(/*preparation*/ 1).message(/*notified*/ 2);
  require_none("preparing", notified.number(/*status*/ 1), notified.bytes(/*message*/ 2));
  return notified.number(/*prepared_model*/ 3);
}

// Runs a reusable execution over a burst's channel: one small datagram each way.
void run_in_a_burst(Rpc& rpc, Link& link, std::uint64_t model, std::uint64_t pool) {
  const Fields burst = rpc.call("PreparedModelService/ConfigureExecutionBurst", Message().number(1, model));
  const File channel = link.take(burst.number(/*channel_descriptor_id*/ 2));
  limit_waiting(channel);
  const Message of_pool = Message().number(/*prepared_model*/ 1, model).message(/*request*/ 2, request(pool));
  const std::uint64_t execution =
      rpc.call("PreparedModelService/CreateReusableExecution", of_pool).number(/*execution*/ 1);
  send_datagram(channel, Message().message(/*run*/ 1, Message().number(/*execution*/ 1, execution)));
  const Fields answer = receive_datagram(channel);
  require_none("the burst", answer.number(/*status*/ 1), answer.bytes(/*message*/ 2));
}

// Waits until a fence has signalled: its byte is there to be peeked at, and stays for others who wait.
void wait_for(const File& fence) {
  pollfd waiting{fence.number(), POLLIN, 0};
  if (::poll(&waiting, 1, 1000 * seconds) <= 0) throw Failure("a fence has not signalled in time");
  char byte;
  if (::recv(fence.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1) throw Failure("a fence is in error");
}

// Launches an execution that waits for a fence of ours, signals that, and waits for the execution's own fence.
void run_fenced(Rpc& rpc, Link& link, std::uint64_t model, std::uint64_t pool) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) fail_with_errno("no fence");
  File signal(ends[0]), fence(ends[1]);
  const Message launch = Message()
                             .number(/*prepared_model*/ 1, model)
                             .message(/*request*/ 2, request(pool))
                             .numbers(/*wait_for_descriptor_ids*/ 3, {link.put(fence)});
  const Fields result = rpc.call("PreparedModelService/ExecuteFenced", launch).message(/*result*/ 1);
  if (const std::uint64_t id = result.number(/*sync_fence_descriptor_id*/ 2)) {  // 0 if it has ended already
    const File ended = link.take(id);
    if (::send(signal.number(), "\x01", 1, MSG_NOSIGNAL) != 1) fail_with_errno("the fence cannot be signalled");
    wait_for(ended);
  }
  const Fields info = rpc.call("FencedExecutionCallbackService/GetExecutionInfo",
                               Message().number(/*callback*/ 1, result.number(/*callback*/ 1)));
  require_none("the fenced execution", info.number(/*error_status*/ 1), info.bytes(/*message*/ 4));
}

void use_device(const Bytes& directory) {
  Link link(directory + "/link.sock");
  Rpc rpc(directory + "/device.sock");
  rpc.set_session(link.token());
  const Fields version = rpc.call("DeviceService/GetVersionString", Message());
  std::printf("device: %s\n", version.bytes(/*version*/ 1).c_str());

  Pool memory;
  const std::uint64_t pool = link.put(memory.file()), model = prepare(rpc);

  memory.fill(1, 2);
  rpc.call("PreparedModelService/ExecuteSynchronously",
           Message().number(/*prepared_model*/ 1, model).message(/*request*/ 2, request(pool)));
  memory.print_sum("synchronously");

  memory.fill(3, 4);
  run_in_a_burst(rpc, link, model, pool);
  memory.print_sum("in a burst");

  memory.fill(5, 6);
  run_fenced(rpc, link, model, pool);
  memory.print_sum("fenced");

  try {  // the sum would lie beyond the pool
    rpc.call("PreparedModelService/ExecuteSynchronously",
             Message().number(1, model).message(2, request(pool, kPoolBytes)));
  } catch (const Failure& failure) {
    std::printf("refused: %s\n", failure.what());
  }
}

// -------------------------------------------------------------------------------------------------- a framework

void use_framework(const Bytes& directory) {
  Link link(directory + "/link.sock");
  Rpc rpc(directory + "/framework.sock");
  rpc.set_session(link.token());
  Pool shared;
  const std::uint64_t pool = link.put(shared.file());

  const Message load = Message().bytes(/*name*/ 1, "addition").message(/*model*/ 10, addition());
  const Fields model = rpc.call("FrameworkService/LoadModel", load).message(/*model*/ 1);
  std::printf("device: %s\n", model.bytes(/*steps*/ 5).c_str());

  const auto tensor = [](const char* name, std::size_t offset) {
    return Message().bytes(/*name*/ 1, name).message(/*location*/ 2, location(offset));
  };
  const Message bind = Message()
                           .bytes(/*model*/ 1, "addition")
                           .message(/*inputs*/ 2, tensor("input0", 0))
                           .message(/*inputs*/ 2, tensor("input1", kTensorBytes))
                           .message(/*outputs*/ 3, tensor("output0", 2 * kTensorBytes))
                           .message(/*pools*/ 4, memory(pool));
  const Fields binding = rpc.call("FrameworkService/Bind", bind);
  const File channel = link.take(binding.number(/*channel_descriptor_id*/ 2));
  limit_waiting(channel);

  shared.fill(7, 8);
  // Without the field the datagram would be empty, which looks like the end of the channel. -1 is no deadline.
  send_datagram(channel, Message().number(/*deadline_ns*/ 1, static_cast<std::uint64_t>(-1)));
  const Fields answer = receive_datagram(channel);
  require_none("the run", answer.number(/*status*/ 1), answer.bytes(/*message*/ 2));
  shared.print_sum("through the framework");
}

}  // namespace

int main(int count, char** arguments) {
  const Bytes kind = count == 3 || count == 4 ? arguments[1] : "";
  if (count == 4) seconds = std::atoi(arguments[3]);
  if ((kind != "device" && kind != "framework") || seconds < 1 || seconds > 3600) {
    std::fprintf(stderr, "usage: %s device|framework DIR [SECONDS]\n", arguments[0]);
    return 2;
  }
  try {
    (kind == "device" ? use_device : use_framework)(arguments[2]);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
  return 0;
}
