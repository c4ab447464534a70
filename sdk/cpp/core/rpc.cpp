#include "nnhal/client/rpc.h"

#include <sys/socket.h>

#include <cstdint>

#include "nnhal/unix_socket.h"

namespace nnhal::client {
namespace {

// More are not kept: they would only hold descriptors of the process.
constexpr std::size_t kMaxIdle = 4;
constexpr std::size_t kPrefixBytes = 5;  // of a message: whether it is compressed, and its size

std::string from_base64(std::string_view coded) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string decoded;
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

// grpc-message is percent-encoded.
std::string from_percent(std::string_view coded) {
  const auto digit = [](char one) {
    return one >= '0' && one <= '9'                     ? one - '0'
           : (one | 0x20) >= 'a' && (one | 0x20) <= 'f' ? (one | 0x20) - 'a' + 10
                                                        : -1;
  };
  std::string decoded;
  for (std::size_t at = 0; at < coded.size(); ++at) {
    const bool is_coded =
        coded[at] == '%' && at + 2 < coded.size() && digit(coded[at + 1]) >= 0 && digit(coded[at + 2]) >= 0;
    decoded += is_coded ? static_cast<char>(digit(coded[at + 1]) << 4 | digit(coded[at + 2])) : coded[at];
    at += is_coded ? 2 : 0;
  }
  return decoded;
}

// The ErrorDetail in a google.rpc.Status, if there is one: what the process itself has answered.
bool read_detail(const std::string& details, Status& status) {
  static constexpr std::string_view kType = "type.googleapis.com/nnhal.v1.ErrorDetail";
  for (FieldReader outer(details); outer.next();) {
    if (outer.field() != 3) continue;
    std::string_view type, value;
    for (FieldReader any(outer.bytes()); any.next();) (any.field() == 1 ? type : value) = any.bytes();
    if (type != kType) continue;
    int code = 0;
    std::string message;
    FieldReader detail(value);
    while (detail.next()) {
      if (detail.field() == 1) code = detail.integer32();
      if (detail.field() == 2) message = detail.text();
    }
    if (code <= 0 || !detail.well_formed()) return false;
    status = Status::answered(static_cast<Code>(code), std::move(message));
    return true;
  }
  return false;
}

// How a call ended, by its trailers.
Status status_of(const Headers& headers, const std::string& method) {
  const std::string number = header_of(headers, "grpc-status");
  if (number == "0") return {};
  Status refused;
  if (read_detail(from_base64(header_of(headers, "grpc-status-details-bin")), refused)) return refused.in(method);
  if (number.empty())
    return {Code::kGeneralFailure,
            method + " ended without a status of gRPC, with status " + header_of(headers, ":status") + " of HTTP"};
  static constexpr std::string_view kUnimplemented = "12", kUnavailable = "14";
  const std::string message = from_percent(header_of(headers, "grpc-message"));
  return {number == kUnavailable ? Code::kDeviceUnavailable : Code::kGeneralFailure,
          method + (number == kUnimplemented ? " is not served" : " failed with status " + number + " of gRPC") +
              (message.empty() ? "" : ": " + message)};
}

}  // namespace

Rpc::Rpc(std::string path, std::string token, std::vector<uid_t> server_uids)
    : path_(std::move(path)), token_(std::move(token)), server_uids_(std::move(server_uids)) {}

Result<std::string> Rpc::call(const std::string& method, const Message& request, const Patience& patience) {
  Result<std::vector<std::string>> messages = stream(method, request, patience);
  if (!messages.ok()) return messages.status();
  if (messages->size() != 1)
    return Status(Code::kGeneralFailure,
                  method + " answered " + std::to_string(messages->size()) + " messages, expected 1");
  return std::move(messages->front());
}

Result<std::vector<std::string>> Rpc::stream(const std::string& method, const Message& request,
                                             const Patience& patience) {
  const std::string& encoded = request.encoded();
  std::string body(1, '\0');  // not compressed
  for (int shift = 24; shift >= 0; shift -= 8) body += static_cast<char>(encoded.size() >> shift);
  Result<Http2Connection::Answer> answer = exchange(method, body + encoded, patience);
  if (!answer.ok()) return answer.status().in(method);
  std::vector<std::string> messages;
  const std::string_view whole = answer->body;
  for (std::size_t at = 0; at < whole.size();) {
    std::size_t size = 0;
    if (whole.size() - at >= kPrefixBytes)
      for (std::size_t digit = 1; digit < kPrefixBytes; ++digit)
        size = size << 8 | static_cast<unsigned char>(whole[at + digit]);
    if (whole.size() - at < kPrefixBytes || whole[at] != 0 || size > whole.size() - at - kPrefixBytes)
      return Status(Code::kGeneralFailure, method + " answered half a message, or a compressed one");
    messages.emplace_back(whole.substr(at + kPrefixBytes, size));
    at += kPrefixBytes + size;
  }
  // After the messages: a preparation that has failed answers its last one as well (see notified in device.proto).
  if (Status status = status_of(answer->headers, method); !status.ok()) return status;
  return messages;
}

Result<Http2Connection::Answer> Rpc::exchange(const std::string& method, const std::string& body,
                                              const Patience& patience) {
  Headers headers = {{":method", "POST"},
                     {":scheme", "http"},
                     {":path", "/nnhal.v1." + method},
                     {":authority", "localhost"},
                     {"content-type", "application/grpc"},
                     {"te", "trailers"}};
  if (!token_.empty()) headers.emplace_back("nnhal-session", token_);
  for (bool is_repeated = false;; is_repeated = true) {
    Result<std::unique_ptr<Http2Connection>> used = connection(patience);
    if (!used.ok()) return used.status();
    Result<Http2Connection::Answer> answer = (*used)->exchange(headers, body, patience);
    if (answer.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (idle_.size() < kMaxIdle) idle_.push_back(std::move(*used));
    }
    // A process that closes a connection says which calls it has not looked at: those may be sent again.
    if (answer.ok() || is_repeated || !(*used)->was_not_processed()) return answer;
  }
}

Result<std::unique_ptr<Http2Connection>> Rpc::connection(const Patience& patience) {
  for (;;) {
    std::unique_ptr<Http2Connection> kept;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (idle_.empty()) break;
      kept = std::move(idle_.back());
      idle_.pop_back();
    }
    if (kept->is_usable()) return kept;
  }
  Result<Fd> connected = connect_to(path_, SOCK_STREAM, server_uids_, patience);
  if (!connected.ok()) return connected.status();
  return std::make_unique<Http2Connection>(std::move(*connected), path_);
}

}  // namespace nnhal::client
