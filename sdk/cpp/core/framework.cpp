#include "nnhal/client/framework.h"

namespace nnhal::client {
namespace {

// The options, as fields of LoadModelRequest.
Message encode(const LoadOptions& options) {
  Message request = Message().integer(8, options.fallback).bytes(9, options.cache_token);
  request.integer(6, options.partitioner).integer(7, options.min_nodes_per_partition);
  request.integer(11, options.preference).integer(12, options.priority).number(16, options.is_relaxed);
  for (const std::string& device : options.devices) request.bytes(4, device);
  for (const Pin& pin : options.pins) request.message(5, Message().bytes(1, pin.match).bytes(2, pin.device));
  for (const InputDimensions& input : options.input_dimensions)
    request.message(17, Message().bytes(1, input.name).numbers(2, input.dimensions));
  for (const TensorDimensions& tensor : options.tensor_dimensions)
    request.message(22, Message().integer(1, tensor.tensor).numbers(2, tensor.dimensions));
  if (options.deadline_ns != kNoTime) request.integer(13, options.deadline_ns);
  options.hints.add_to(request, 14, 15);
  return request;
}

Message encode(const BoundTensor& tensor) {
  Message message = Message().bytes(1, tensor.name);
  if (tensor.is_omitted) return message.number(5, true);
  if (tensor.memory) return message.integer(4, tensor.memory).numbers(3, tensor.dimensions);
  return message.message(2, message_of(tensor.location)).numbers(3, tensor.dimensions);
}

}  // namespace

Result<std::unique_ptr<Framework>> Framework::open(const std::string& directory, const Link::Options& options) {
  Result<std::unique_ptr<Link>> link = Link::open(directory + "/link.sock", options);
  if (!link.ok()) return link.status();
  return std::unique_ptr<Framework>(new Framework(std::move(*link)));
}

Result<std::vector<DeviceInfo>> Framework::devices() {
  constexpr const char* kMethod = "FrameworkService/ListDevices";
  Result<std::string> answer = rpc_.call(kMethod, Message());
  if (!answer.ok()) return answer.status();
  return decode_devices(*answer, kMethod);
}

Result<LoadedModel> Framework::load(const std::string& name, const Model& model, const LoadOptions& options,
                                    const Patience& patience) {
  return load(encode(options).message(10, model.encode()), name, patience);
}

Result<LoadedModel> Framework::load(const std::string& name, const Fd& file, const LoadOptions& options,
                                    const Patience& patience) {
  return with_file(file, options, [&](Message request) { return load(std::move(request), name, patience); });
}

Result<LoadedModel> Framework::load(const std::string& name, const Plan& plan, std::size_t group,
                                    const Patience& patience) {
  return load(Message().integer(20, plan.handle).integer(21, static_cast<std::int64_t>(group)), name, patience);
}

Result<Plan> Framework::plan(const Fd& file, const LoadOptions& options, const std::vector<std::int32_t>& keeps,
                             const std::vector<std::string>& operators, const std::string& load_as,
                             const Patience& patience) {
  constexpr const char* kMethod = "FrameworkService/PlanModel";
  return with_file(file, options, [&](const Message& model) -> Result<Plan> {
    Message named = model;
    if (!load_as.empty()) named.bytes(1, load_as);
    Message request = Message().message(1, named).number(2, /*leaves_nodes=*/true).numbers(4, keeps);
    request.number(6, !load_as.empty());
    for (const std::string& type : operators) request.bytes(5, type);
    Result<std::string> answer = rpc_.call(kMethod, request, patience);
    if (!answer.ok()) return answer.status();
    return decode_plan(*answer, kMethod);
  });
}

Status Framework::release(const Plan& plan) {
  return rpc_.call("FrameworkService/ReleasePlan", Message().integer(1, plan.handle)).status();
}

template <typename Call>
auto Framework::with_file(const Fd& file, const LoadOptions& options, Call call) -> decltype(call(Message())) {
  std::vector<const Fd*> files{&file};
  for (const WeightsFile& weights : options.weights) files.push_back(weights.file);
  Result<std::vector<std::uint64_t>> ids = link_->put(files);
  if (!ids.ok()) return ids.status();
  Message request = encode(options).number(2, ids->front());
  for (std::size_t at = 0; at < options.weights.size(); ++at)
    request.message(30, Message().bytes(1, options.weights[at].location).number(2, (*ids)[at + 1]));
  auto done = call(std::move(request));
  // The framework has read the files, or has refused them. If the link has ended, the ids have ended with it.
  (void)link_->drop(*ids);
  return done;
}

Result<LoadedModel> Framework::load(Message request, const std::string& name, const Patience& patience) {
  constexpr const char* kMethod = "FrameworkService/LoadModel";
  Result<std::string> answer = rpc_.call(kMethod, request.bytes(1, name), patience);
  if (!answer.ok()) return answer.status();
  return decode_model(*answer, kMethod);
}

Status Framework::unload(const std::string& name, const Patience& patience) {
  return rpc_.call("FrameworkService/UnloadModel", Message().bytes(1, name), patience).status();
}

Status Framework::check(const Model& model, Check what) {
  Message request = Message().message(1, model.encode());
  request.number(2, what == Check::kDraft).number(3, what == Check::kValues);
  return rpc_.call("FrameworkService/CheckModel", request).status();
}

Result<std::vector<bool>> Framework::supported_operations(const Model& model, const std::vector<std::string>& devices) {
  constexpr const char* kMethod = "FrameworkService/GetSupportedOperations";
  Message request = Message().message(1, model.encode());
  for (const std::string& device : devices) request.bytes(2, device);
  Result<std::string> answer = rpc_.call(kMethod, request);
  if (!answer.ok()) return answer.status();
  return decode_supported(*answer, model.main.operations.size(), kMethod);
}

Result<std::unique_ptr<Binding>> Framework::bind(const std::string& model, const std::vector<BoundTensor>& inputs,
                                                 const std::vector<BoundTensor>& outputs,
                                                 const std::vector<Message>& pools, const BindOptions& options,
                                                 const Patience& patience) {
  constexpr const char* kMethod = "FrameworkService/Bind";
  Message request = Message().bytes(1, model).number(9, options.wants_run_channel);
  request.number(10, options.prepares_dimensions);
  request.number(5, options.measures).number(11, options.varies_inputs);
  if (options.loop_timeout_ns != kNoTime) request.integer(6, options.loop_timeout_ns);
  options.hints.add_to(request, 7, 8);
  for (const BoundTensor& tensor : inputs) request.message(2, encode(tensor));
  for (const BoundTensor& tensor : outputs) request.message(3, encode(tensor));
  for (const Message& memory : pools) request.message(4, memory);
  Result<std::string> answer = rpc_.call(kMethod, request, patience);
  if (!answer.ok()) return answer.status();
  std::int64_t handle = 0;
  std::uint64_t channel_id = 0;
  std::string_view run_channel;
  FieldReader reader(*answer);
  while (reader.next()) {
    if (reader.field() == 1) handle = reader.integer();
    if (reader.field() == 2) channel_id = reader.number();
    if (reader.field() == 3) run_channel = reader.bytes();
  }
  if (!reader.well_formed() || !handle || !channel_id)
    return Status(Code::kGeneralFailure, std::string(kMethod) + " answered without a binding");
  Result<Fd> socket = link_->take_channel(channel_id);
  if (!socket.ok()) return socket.status();
  auto channel = std::make_unique<Channel>(std::move(*socket), "the binding's channel", link_->numbers_answers());
  std::unique_ptr<Binding> binding(new Binding(handle, std::move(channel), outputs));
  Result<std::vector<OutputReport>> known = decode_known_outputs(*answer, kMethod);
  if (!known.ok()) return known.status();
  binding->known_ = std::move(*known);
  for (const BoundTensor& input : inputs) binding->inputs_.push_back(input.name);
  if (Status status = open_run_channel(run_channel, *binding); !status.ok()) return status;
  return binding;
}

Status Framework::open_run_channel(std::string_view encoded, Binding& binding) {
  std::uint64_t id = 0;
  bool is_numbered = false;
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) id = reader.number();
    if (reader.field() == 2) binding.execution_ = reader.integer();
    if (reader.field() == 3) binding.may_fall_back_ = reader.number();
    if (reader.field() == 4) binding.outputs_.push_back(reader.text());
    if (reader.field() == 5) is_numbered = reader.number();
    if (reader.field() == 6) binding.run_inputs_.push_back(reader.text());
  }
  if (!reader.well_formed()) return {Code::kGeneralFailure, "a malformed run channel"};
  if (!id) return {};
  Result<Fd> socket = link_->take_channel(id);
  if (!socket.ok()) return socket.status();
  binding.run_channel_ = std::make_unique<Channel>(std::move(*socket), "the run channel", is_numbered);
  return {};
}

Status Framework::reset_state(const Binding& binding) {
  return rpc_.call("FrameworkService/ResetState", Message().integer(1, binding.handle())).status();
}

Result<LaunchedRun> Framework::launch(const Binding& binding, const std::vector<const Fence*>& wait_for,
                                      std::int64_t deadline_ns, std::int64_t duration_ns) {
  std::vector<const Fd*> ends;
  for (const Fence* fence : wait_for) ends.push_back(&fence->fd());
  Result<std::vector<std::uint64_t>> ids = link_->put(ends);
  if (!ids.ok()) return ids.status();
  Message request = Message().integer(1, binding.handle()).numbers(2, *ids);
  request.integer(3, deadline_ns).integer(4, duration_ns);
  Result<std::string> answer = rpc_.call("FrameworkService/LaunchRun", request);
  (void)link_->drop(*ids);  // the launch keeps copies of its own
  if (!answer.ok()) return answer.status();
  LaunchedRun launched;
  std::uint64_t fence_id = 0;
  for (FieldReader reader(*answer); reader.next();) {
    if (reader.field() == 1) launched.handle = reader.integer();
    if (reader.field() == 2) fence_id = reader.number();
  }
  if (!fence_id) return launched;
  Result<Fd> end = link_->take(fence_id);
  if (!end.ok()) return end.status();
  Result<Fence> fence = Fence::received(std::move(*end));
  if (!fence.ok()) return fence.status();
  launched.fence = std::move(*fence);
  return launched;
}

Result<AllocatedMemory> Framework::allocate(const std::vector<MemoryRole>& roles,
                                            const std::vector<std::uint32_t>& dimensions) {
  Message request;
  for (const MemoryRole& role : roles)
    request.message(
        1, Message().bytes(1, role.model).number(2, role.is_output).integer(3, role.index).real(4, role.probability));
  Result<std::string> answer = rpc_.call("FrameworkService/AllocateMemory", request.numbers(2, dimensions));
  if (!answer.ok()) return answer.status();
  AllocatedMemory memory;
  for (FieldReader reader(*answer); reader.next();) {
    if (reader.field() == 1) memory.handle = reader.integer();
    if (reader.field() == 2) memory.device = reader.text();
  }
  return memory;
}

Status Framework::copy(const Message& source, const Message& destination) {
  return rpc_.call("FrameworkService/CopyMemory", Message().message(1, source).message(2, destination)).status();
}

Status Framework::free(const AllocatedMemory& memory) {
  return rpc_.call("FrameworkService/FreeMemory", Message().integer(1, memory.handle)).status();
}

Message allocated(const AllocatedMemory& memory) { return Message().integer(1, memory.handle); }

Message of_host(const Message& memory) { return Message().message(2, memory); }

Status Framework::launched_run(std::int64_t launched, RunReport* report) {
  constexpr const char* kMethod = "FrameworkService/GetLaunchedRun";
  RunReport unwanted;
  Result<std::string> answer = rpc_.call(kMethod, Message().integer(1, launched));
  if (!answer.ok()) return answer.status();
  return decode_launched_run(*answer, kMethod, report ? report : &unwanted);
}

Status Framework::cancel(std::int64_t launched) {
  return rpc_.call("FrameworkService/CancelLaunchedRun", Message().integer(1, launched)).status();
}

Status Framework::release(std::int64_t launched) {
  return rpc_.call("FrameworkService/ReleaseLaunchedRun", Message().integer(1, launched)).status();
}

}  // namespace nnhal::client
