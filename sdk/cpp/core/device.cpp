#include "nnhal/client/device.h"

namespace nnhal::client {
namespace {

// The last event of a preparation; the one before says that it has begun.
std::string_view notified_in(const std::vector<std::string>& events) {
  std::string_view found;
  for (const std::string& event : events)
    for (FieldReader outer(event); outer.next();)
      for (FieldReader preparation(outer.bytes()); preparation.next();)
        if (preparation.field() == 2) found = preparation.bytes();
  return found;
}

}  // namespace

Result<ExecutionResult> Burst::run(std::int64_t execution, std::int64_t deadline_ns, const Patience& patience) {
  const Message run = Message().integer(1, execution).integer(2, deadline_ns);
  return exchange(Message().message(1, run), patience);
}

Result<ExecutionResult> Burst::execute(const Request& request, const std::vector<std::int64_t>& tokens,
                                       std::int64_t deadline_ns, const Patience& patience) {
  const Message arguments = Message().message(2, request.encode()).numbers(3, tokens).integer(5, deadline_ns);
  return exchange(Message().message(3, arguments), patience);
}

Result<ExecutionResult> Burst::exchange(const Message& call, const Patience& patience) {
  if (is_busy_.test_and_set())
    return Status(Code::kGeneralFailure, channel_.place() + " runs an execution already; one at a time is allowed");
  Result<Channel::Answer> answer = channel_.exchange(call, {}, patience);
  is_busy_.clear();
  if (!answer.ok()) return answer.status();
  return decode_burst_answer(answer->bytes, channel_.place());
}

Result<std::optional<Fence>> Launcher::launch(std::int64_t execution, const std::vector<const Fence*>& wait_for,
                                              std::int64_t deadline_ns, std::int64_t duration_ns,
                                              const Patience& patience) {
  std::vector<int> descriptors;
  for (const Fence* fence : wait_for) descriptors.push_back(fence->fd().get());
  const Message launch = Message().integer(1, execution).integer(2, deadline_ns).integer(3, duration_ns);
  Result<Channel::Answer> answer = exchange(Message().message(1, launch), 1, descriptors, patience);
  if (!answer.ok()) return answer.status();
  if (answer->descriptors.empty()) return std::optional<Fence>();
  Result<Fence> fence = Fence::received(std::move(answer->descriptors.front()));
  if (!fence.ok()) return fence.status().in(channel_.place());
  return std::optional<Fence>(std::move(*fence));
}

Result<ExecutionInfo> Launcher::info(std::int64_t execution, const Patience& patience) {
  Result<Channel::Answer> answer = exchange(Message().message(2, Message().integer(1, execution)), 2, {}, patience);
  if (!answer.ok()) return answer.status();
  return decode_info(answer->bytes, channel_.place());
}

Result<Channel::Answer> Launcher::exchange(const Message& call, int expected, const std::vector<int>& descriptors,
                                           const Patience& patience) {
  constexpr int kRefused = 3;
  Result<Channel::Answer> answer = channel_.exchange(call, descriptors, patience);
  if (!answer.ok()) return answer.status();
  bool is_there = false;
  std::string found;
  Status refused;
  FieldReader reader(answer->bytes);
  while (reader.next()) {
    if (reader.field() == expected && reader.is_bytes()) {
      is_there = true;
      found = reader.text();
    } else if (reader.field() == kRefused) {
      int code = static_cast<int>(Code::kGeneralFailure);
      std::string text;
      for (FieldReader refusal(reader.bytes()); refusal.next();) {
        if (refusal.field() == 1 && refusal.number()) code = refusal.integer32();
        if (refusal.field() == 2) text = refusal.text();
      }
      refused = Status::answered(static_cast<Code>(code), channel_.place() + ": " + text);
    }
  }
  if (!refused.ok()) return refused;
  if (!is_there || !reader.well_formed())
    return Status(Code::kGeneralFailure, channel_.place() + ": an answer that does not belong to the call");
  return Channel::Answer{std::move(found), std::move(answer->descriptors)};
}

Result<std::unique_ptr<Device>> Device::open(const std::string& directory, const Link::Options& options) {
  Result<std::unique_ptr<Link>> link = Link::open(directory + "/link.sock", options);
  if (!link.ok()) return link.status();
  return std::unique_ptr<Device>(new Device(std::move(*link), directory, options));
}

Result<std::string> Device::version() {
  Result<std::string> answer = rpc_.call("DeviceService/GetVersionString", Message());
  if (!answer.ok()) return answer.status();
  std::string version;
  for (FieldReader reader(*answer); reader.next();)
    if (reader.field() == 1) version = reader.text();
  return version;
}

Result<std::vector<bool>> Device::supported_operations(const Model& model) {
  constexpr const char* kMethod = "DeviceService/GetSupportedOperations";
  Result<std::string> answer = rpc_.call(kMethod, Message().message(1, model.encode()));
  if (!answer.ok()) return answer.status();
  return decode_supported(*answer, model.main.operations.size(), kMethod);
}

Result<std::int64_t> Device::prepare(const Model& model, int preference, int priority, std::int64_t deadline_ns,
                                     const Patience& patience) {
  Message request;
  request.message(1, model.encode()).integer(2, preference).integer(3, priority).integer(4, deadline_ns);
  Result<std::vector<std::string>> events = rpc_.stream("DeviceService/PrepareModel", request, patience);
  if (!events.ok()) return events.status();
  return decode_prepared(notified_in(*events), "preparing");
}

Result<ExecutionResult> Device::execute(std::int64_t prepared_model, const Request& request, std::int64_t deadline_ns,
                                        const Patience& patience) {
  constexpr const char* kMethod = "PreparedModelService/ExecuteSynchronously";
  const Message arguments = Message().integer(1, prepared_model).message(2, request.encode()).integer(4, deadline_ns);
  Result<std::string> answer = rpc_.call(kMethod, arguments, patience);
  if (!answer.ok()) return answer.status();
  return decode_result(*answer, kMethod);
}

Result<std::int64_t> Device::create_execution(std::int64_t prepared_model, const Request& request, bool measures) {
  const Message arguments =
      Message().integer(1, prepared_model).message(2, request.encode()).message(3, Message().number(1, measures));
  return call_for("PreparedModelService/CreateReusableExecution", arguments, 1);
}

Result<std::unique_ptr<Burst>> Device::open_burst(std::int64_t prepared_model) {
  Result<std::int64_t> id =
      call_for("PreparedModelService/ConfigureExecutionBurst", Message().integer(1, prepared_model), 2);
  if (!id.ok()) return id.status();
  Result<Fd> socket = link_->take_channel(static_cast<std::uint64_t>(*id));
  if (!socket.ok()) return socket.status();
  return std::make_unique<Burst>(std::move(*socket), "the burst", link_->numbers_answers());
}

Result<std::unique_ptr<Burst>> Device::open_run_channel(std::int64_t execution) {
  Result<std::int64_t> id = call_for("ExecutionService/OpenRunChannel", Message().integer(1, execution), 1);
  if (!id.ok()) return id.status();
  Result<Fd> socket = link_->take_channel(static_cast<std::uint64_t>(*id));
  if (!socket.ok()) return socket.status();
  return std::make_unique<Burst>(std::move(*socket), "the run channel", link_->numbers_answers());
}

Result<std::unique_ptr<Launcher>> Device::open_launcher() {
  Result<std::int64_t> id = call_for("ExecutionService/OpenLaunchChannel", Message(), 1);
  if (!id.ok()) return id.status();
  Result<Fd> socket = link_->take_channel(static_cast<std::uint64_t>(*id));
  if (!socket.ok()) return socket.status();
  return std::make_unique<Launcher>(std::move(*socket), "the launch channel", link_->numbers_answers());
}

Status Device::release_prepared_model(std::int64_t prepared_model) {
  return rpc_.call("PreparedModelService/Release", Message().integer(1, prepared_model)).status();
}

Status Device::release_execution(std::int64_t execution) {
  return rpc_.call("ExecutionService/Release", Message().integer(1, execution)).status();
}

Result<std::int64_t> Device::call_for(const std::string& method, const Message& request, int field) {
  Result<std::string> answer = rpc_.call(method, request);
  if (!answer.ok()) return answer.status();
  std::int64_t found = 0;
  FieldReader reader(*answer);
  while (reader.next())
    if (reader.field() == field) found = reader.integer();
  if (!reader.well_formed() || found <= 0) return Status(Code::kGeneralFailure, method + " answered without a handle");
  return found;
}

}  // namespace nnhal::client
