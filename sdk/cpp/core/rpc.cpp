#include "nnhal/client/rpc.h"

#include <cstring>
#include <utility>

#include "nnhal/datagram.h"
#include "nnhal/memory.h"

namespace nnhal::client {
namespace {

// More are not kept: they would only hold descriptors of the process.
constexpr std::size_t kMaxIdle = 4;
// Longer requests are in memory: a datagram has room for these, the method and the number.
constexpr std::size_t kMaxInline = kMaxDatagramBytes - 1024;
// Far more than anything that a process answers: what is longer is no answer.
constexpr std::uint64_t kMaxAnswerBytes = 256 * 1024 * 1024;

// A message that is too long for a datagram.
Result<std::string> read_message(const std::vector<Fd>& descriptors, std::uint64_t size) {
  if (descriptors.size() != 1 || size > kMaxAnswerBytes)
    return Status(Code::kGeneralFailure, "an answer of " + std::to_string(size) + " bytes in " +
                                             std::to_string(descriptors.size()) + " memories");
  const auto length = static_cast<std::int64_t>(size);
  if (Status status = require_ashmem(descriptors.front(), length, "the answer"); !status.ok()) return status;
  Result<Mapping> mapping = Mapping::map(descriptors.front(), size, Mapping::Access::kRead);
  if (!mapping.ok()) return mapping.status();
  return std::string(reinterpret_cast<const char*>(mapping->data()), size);
}

}  // namespace

Result<std::string> Rpc::call(const std::string& method, const Message& request, const Patience& patience) {
  Result<std::string> answer = exchange(method, request, patience);
  if (!answer.ok()) return answer.status().in(method);
  return answer;
}

Result<std::string> Rpc::exchange(const std::string& method, const Message& request, const Patience& patience) {
  Result<std::unique_ptr<Channel>> used = channel();
  if (!used.ok()) return used.status();
  const std::string& encoded = request.encoded();
  Message call = Message().bytes(1, method);
  std::vector<int> descriptors;
  SharedMemory memory;
  if (encoded.size() > kMaxInline) {
    Result<SharedMemory> made = SharedMemory::make(encoded.size(), "nnhal-request");
    if (!made.ok()) return made.status();
    memory = std::move(*made);
    std::memcpy(memory.data(), encoded.data(), encoded.size());
    descriptors.push_back(memory.file.get());
    call.number(3, encoded.size());
  } else {
    call.bytes(2, encoded);
  }
  Result<Channel::Answer> answer = (*used)->exchange(std::move(call), descriptors, patience);
  if (!answer.ok()) return answer.status();
  int code = 0;
  std::uint64_t size = 0;
  std::string text, content;
  FieldReader reader(answer->bytes);
  while (reader.next()) {
    if (reader.field() == 1) code = reader.integer32();
    if (reader.field() == 2) text = reader.text();
    if (reader.field() == 3) content = reader.text();
    if (reader.field() == 4) size = reader.number();
  }
  if (!reader.well_formed()) return Status(Code::kGeneralFailure, "a malformed answer");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(*used));
  }
  if (code) return Status::answered(static_cast<Code>(code), text);
  return size ? read_message(answer->descriptors, size) : content;
}

Result<std::unique_ptr<Channel>> Rpc::channel() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!idle_.empty()) {
      std::unique_ptr<Channel> kept = std::move(idle_.back());
      idle_.pop_back();
      if (!kept->has_ended()) return kept;
    }
  }
  Result<Fd> socket = link_.open_calls();
  if (!socket.ok()) return socket.status();
  return std::make_unique<Channel>(std::move(*socket), link_.path(), link_.numbers_answers());
}

}  // namespace nnhal::client
