#include "services.h"

#include "answers.h"
#include "channels.h"
#include "launches.h"
#include "layout.h"
#include "models.h"
#include "nnhal/v1/backend.grpc.pb.h"
#include "nnhal/v1/burst.grpc.pb.h"
#include "nnhal/v1/device.grpc.pb.h"
#include "nnhal/v1/execution.grpc.pb.h"
#include "nnhal/v1/fenced_execution_callback.grpc.pb.h"
#include "nnhal/v1/prepared_model.grpc.pb.h"
#include "nnhal/v1/status.pb.h"
#include "requests.h"
#include "stages.h"

namespace nnhal {
namespace {

using Context = grpc::ServerContext;
constexpr std::size_t kMostErrorBytes = 2000;
constexpr std::int64_t kUnwiringNs = 1'000'000'000;  // the client asks again, and no thread of the server is held
constexpr std::size_t kCacheTokenBytes = 32;

grpc::StatusCode grpc_code(Code code) {
  switch (code) {
    case Code::kDeviceUnavailable: return grpc::StatusCode::UNAVAILABLE;
    case Code::kOutputInsufficientSize: return grpc::StatusCode::OUT_OF_RANGE;
    case Code::kInvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kMissedDeadlineTransient: case Code::kMissedDeadlinePersistent: return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Code::kResourceExhaustedTransient: case Code::kResourceExhaustedPersistent:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    default: return grpc::StatusCode::INTERNAL;
  }
}

template <class Config, class Message>
Config config_of(const Message& request) {
  Config config;
  config.set_measure_timing(request.measure_timing());
  if (request.has_loop_timeout_duration_ns()) config.set_loop_timeout_duration_ns(request.loop_timeout_duration_ns());
  return config;
}

template <class Response>
void to_message(const RunUsage& usage, Response& response) {
  response.set_runs(usage.runs);
  response.set_failed_runs(usage.failed_runs);
  response.set_duration_ns(usage.duration_ns);
}

// The driver's answers about a model, one for each operation; of extensions that it does not have it is not asked.
std::vector<Support> support_of(const Device& device, const Model& model) {
  std::vector<Support> answers = device.driver.supported(model);
  const int count = model.main().operations_size();
  if (static_cast<int>(answers.size()) != count) {
    general_failure("driver ", device.driver.name(), " answered for ", answers.size(), " of ", count, " operations");
  }
  std::map<int, std::string> names;
  for (const auto& entry : model.message().extension_name_to_prefix()) names[entry.prefix()] = entry.name();
  for (int i = 0; i < count; i++) {
    const int type = model.main().operations(i).type();
    if (!layout::is_extension(type)) continue;
    bool is_known = false;
    for (const v1::Extension& each : device.driver.extensions()) is_known |= each.name() == names[type >> 16];
    if (!is_known) {
      answers[i] = Support::no("OP", "an operation of extension " + names[type >> 16], "operations of the base set");
    }
  }
  return answers;
}

void require_support(const Device& device, const Model& model, const std::vector<Support>& answers) {
  for (std::size_t i = 0; i < answers.size(); i++) {
    if (answers[i].supported) continue;
    invalid_argument(described_operation(model.message(), static_cast<int>(i)), " is not supported by ",
                     device.driver.name(), ": ", answers[i].code, ": got ", answers[i].got, ", allowed ",
                     answers[i].allowed);
  }
}

std::vector<AwaitedFence> fences_of(const Session& session, const google::protobuf::RepeatedField<std::uint64_t>& ids) {
  if (ids.size() > kMostFences) invalid_argument(ids.size(), " fences to wait for, expected at most ", kMostFences);
  std::vector<AwaitedFence> fences;
  for (const std::uint64_t id : ids) {
    fences.push_back(awaited_fence(value_of(session.descriptors.get(id)->duplicate()),
                                   text("the fence of descriptor ", id)));
  }
  return fences;
}

// Launches an execution for a call of gRPC: its fence is taken from the link.
void launch(const std::shared_ptr<Session>& session, std::shared_ptr<Execution> execution,
            std::vector<AwaitedFence> fences, std::int64_t deadline_ns, std::int64_t duration_ns,
            v1::FencedExecutionResult& result) {
  const auto launched =
      std::make_shared<Launch>(session, std::move(execution), std::move(fences), deadline_ns, duration_ns);
  Fd fence = launched->make_fence();
  const std::int64_t handle = session->add(launched->callback);
  try {
    result.set_sync_fence_descriptor_id(session->descriptors.offer(std::move(fence), handle));
    start(launched);
  } catch (...) {
    session->release(handle);
    throw;
  }
  result.set_callback(handle);
}

class DeviceService final : public v1::DeviceService::Service {
 public:
  explicit DeviceService(Device& device) : device_(device) {}

  grpc::Status GetVersionString(Context*, const v1::GetVersionStringRequest*, v1::GetVersionStringResponse* response) override {
    return answered("GetVersionString", [&] { response->set_version(device_.driver.version()); });
  }
  grpc::Status GetType(Context*, const v1::GetTypeRequest*, v1::GetTypeResponse* response) override {
    return answered("GetType", [&] { response->set_type(device_.driver.type()); });
  }
  grpc::Status GetCapabilities(Context*, const v1::GetCapabilitiesRequest*, v1::GetCapabilitiesResponse* response) override {
    return answered("GetCapabilities", [&] { *response->mutable_capabilities() = device_.driver.capabilities(); });
  }
  grpc::Status GetSupportedExtensions(Context*, const v1::GetSupportedExtensionsRequest*,
                                      v1::GetSupportedExtensionsResponse* response) override {
    return answered("GetSupportedExtensions", [&] {
      for (const v1::Extension& each : device_.driver.extensions()) *response->add_extensions() = each;
    });
  }
  grpc::Status GetNumberOfCacheFilesNeeded(Context*, const v1::GetNumberOfCacheFilesNeededRequest*,
                                           v1::GetNumberOfCacheFilesNeededResponse* response) override {
    response->mutable_number_of_cache_files();  // compilations are not cached
    return grpc::Status::OK;
  }
  grpc::Status GetSupportedOperations(Context* context, const v1::GetSupportedOperationsRequest* request,
                                      v1::GetSupportedOperationsResponse* response) override {
    return answered("GetSupportedOperations", [&] {
      const auto session = session_of(device_, *context);
      const auto model = received_model(request->model(), session->descriptors);
      for (const Support& each : support_of(device_, *model)) response->add_supported(each.supported);
    });
  }

  grpc::Status PrepareModel(Context* context, const v1::PrepareModelRequest* request,
                            grpc::ServerWriter<v1::PrepareModelResponse>* events) override {
    v1::PrepareModelConfig config;
    config.set_preference(request->preference());
    config.set_priority(request->priority());
    config.set_deadline_ns(deadline_of(*request));
    config.set_cache_token(request->token());
    return prepare(*context, request->model(), config, request->model_cache_size() + request->data_cache_size(), *events);
  }
  grpc::Status PrepareModelWithConfig(Context* context, const v1::PrepareModelWithConfigRequest* request,
                                      grpc::ServerWriter<v1::PrepareModelWithConfigResponse>* events) override {
    const v1::PrepareModelConfig& config = request->config();
    return prepare(*context, request->model(), config, config.model_cache_size() + config.data_cache_size(), *events);
  }
  grpc::Status PrepareModelFromCache(Context* context, const v1::PrepareModelFromCacheRequest* request,
                                     grpc::ServerWriter<v1::PrepareModelFromCacheResponse>* events) override {
    const grpc::Status status = answered("PrepareModelFromCache", [&] {
      session_of(device_, *context);
      validate_instant(deadline_of(*request));
      validate_token(request->token());
      general_failure(device_.driver.name(), " does no compilation caching");
    });
    return refused(status, *events);
  }

 private:
  static void validate_instant(std::int64_t deadline_ns) {
    if (deadline_ns < kNoTime) invalid_argument("deadline ", deadline_ns, " ns, expected -1 or more");
  }
  static void validate_token(const std::string& token) {
    if (token.size() != kCacheTokenBytes) {
      invalid_argument("a cache token of ", token.size(), " bytes, expected ", kCacheTokenBytes);
    }
  }

  // Tells a failure in the stream as well, as every preparation ends with one `notified`.
  template <class Response>
  static grpc::Status refused(const grpc::Status& status, grpc::ServerWriter<Response>& events) {
    v1::Status details;
    v1::ErrorDetail detail;
    details.ParseFromString(status.error_details());
    if (details.details_size() == 1) details.details(0).UnpackTo(&detail);
    Response event;
    event.mutable_preparation()->mutable_notified()->set_status(detail.status());
    event.mutable_preparation()->mutable_notified()->set_message(detail.message());
    events.Write(event);
    return status;
  }

  template <class Response>
  grpc::Status prepare(Context& context, const v1::Model& message, const v1::PrepareModelConfig& config, int cache_files,
                       grpc::ServerWriter<Response>& events) {
    std::shared_ptr<Session> session;
    std::shared_ptr<const Model> model;
    std::vector<Support> support;
    const grpc::Status valid = answered("PrepareModel", [&] {
      session = session_of(device_, context);
      model = received_model(message, session->descriptors);
      device_.scheduler.require_open();
      if (config.preference() < 0 || config.preference() > v1::ExecutionPreference_MAX) {
        invalid_argument("preference ", static_cast<int>(config.preference()), ", expected 0 to 2");
      }
      if (config.priority() < 0 || config.priority() > v1::Priority_MAX) {
        invalid_argument("priority ", static_cast<int>(config.priority()), ", expected 0 to 2");
      }
      validate_instant(deadline_of(config));
      if (!config.cache_token().empty() || cache_files > 0) validate_token(config.cache_token());
      validate_hints(config.compilation_hints(), config.extension_name_to_prefix());
      support = support_of(device_, *model);  // which throws if an operation is none at all
    });
    if (!valid.ok()) return refused(valid, events);
    Response event;
    event.mutable_preparation()->mutable_launched();
    events.Write(event);
    std::int64_t handle = 0;
    const grpc::Status made = answered("PrepareModel", [&] {
      require_support(device_, *model, support);
      require_ahead(deadline_of(config));
      auto prepared =
          device_.driver.prepare(model, {config.preference(), config.priority(), deadline_of(config)});
      if (prepared == nullptr) general_failure(device_.driver.name(), " has prepared nothing");
      device_.compiled_models++;
      if (context.IsCancelled()) return;  // the client would never release it
      handle = session->add(
          std::make_shared<PreparedModel>(device_, session, model, std::move(prepared), config.priority()));
    });
    if (!made.ok()) {
      refused(made, events);
      return grpc::Status::OK;
    }
    event.mutable_preparation()->mutable_notified()->set_prepared_model(handle);
    events.Write(event);
    return grpc::Status::OK;
  }

  Device& device_;
};

class PreparedModelService final : public v1::PreparedModelService::Service {
 public:
  explicit PreparedModelService(Device& device) : device_(device) {}

  grpc::Status ExecuteSynchronously(Context* context, const v1::PreparedModelServiceExecuteSynchronouslyRequest* request,
                                    v1::PreparedModelServiceExecuteSynchronouslyResponse* response) override {
    return execute(*context, *request, config_of<v1::ExecutionConfig>(*request), *response);
  }
  grpc::Status ExecuteSynchronouslyWithConfig(
      Context* context, const v1::PreparedModelServiceExecuteSynchronouslyWithConfigRequest* request,
      v1::PreparedModelServiceExecuteSynchronouslyWithConfigResponse* response) override {
    return execute(*context, *request, request->config(), *response);
  }
  grpc::Status ExecuteFenced(Context* context, const v1::PreparedModelServiceExecuteFencedRequest* request,
                             v1::PreparedModelServiceExecuteFencedResponse* response) override {
    return execute_fenced(*context, *request, config_of<v1::ExecutionConfig>(*request), *response);
  }
  grpc::Status ExecuteFencedWithConfig(Context* context,
                                       const v1::PreparedModelServiceExecuteFencedWithConfigRequest* request,
                                       v1::PreparedModelServiceExecuteFencedWithConfigResponse* response) override {
    return execute_fenced(*context, *request, request->config(), *response);
  }
  grpc::Status ConfigureExecutionBurst(Context* context, const v1::ConfigureExecutionBurstRequest* request,
                                       v1::ConfigureExecutionBurstResponse* response) override {
    return answered("ConfigureExecutionBurst", [&] {
      const auto session = session_of(device_, *context);
      const auto burst = std::make_shared<Burst>(session->get<PreparedModel>(request->prepared_model(), "prepared model"));
      const std::int64_t handle = session->add(burst);
      try {
        response->set_channel_descriptor_id(serve_burst(burst, handle, session));
      } catch (...) {
        session->release(handle);
        throw;
      }
      response->set_burst(handle);
    });
  }
  grpc::Status CreateReusableExecution(Context* context, const v1::CreateReusableExecutionRequest* request,
                                       v1::CreateReusableExecutionResponse* response) override {
    return answered("CreateReusableExecution", [&] {
      const auto session = session_of(device_, *context);
      response->set_execution(session->add(bound(*session, *request, request->config(), true)));
    });
  }
  grpc::Status Release(Context* context, const v1::PreparedModelServiceReleaseRequest* request,
                       v1::PreparedModelServiceReleaseResponse*) override {
    return answered("Release", [&] { session_of(device_, *context)->release(request->prepared_model()); });
  }

 private:
  template <class Request>
  static std::shared_ptr<Execution> bound(const Session& session, const Request& request,
                                          const v1::ExecutionConfig& config, bool allow_unknown_outputs) {
    return bound_execution(session.get<PreparedModel>(request.prepared_model(), "prepared model"), request.request(),
                           config, session.descriptors, allow_unknown_outputs);
  }

  template <class Request, class Response>
  grpc::Status execute(Context& context, const Request& request, const v1::ExecutionConfig& config, Response& response) {
    return answered("ExecuteSynchronously", [&] {
      const Wanted is_wanted = [&context] { return !context.IsCancelled(); };
      RunResult result;
      bound(*session_of(device_, context), request, config, true)->run(deadline_of(request), &is_wanted, result);
      to_message(result, *response.mutable_result());
    });
  }

  template <class Request, class Response>
  grpc::Status execute_fenced(Context& context, const Request& request, const v1::ExecutionConfig& config,
                              Response& response) {
    return answered("ExecuteFenced", [&] {
      const auto session = session_of(device_, context);
      auto execution = bound(*session, request, config, false);
      launch(session, std::move(execution), fences_of(*session, request.wait_for_descriptor_ids()), deadline_of(request),
             duration_of(request), *response.mutable_result());
    });
  }

  Device& device_;
};

class ExecutionService final : public v1::ExecutionService::Service {
 public:
  explicit ExecutionService(Device& device) : device_(device) {}

  grpc::Status ExecuteSynchronously(Context* context, const v1::ExecutionServiceExecuteSynchronouslyRequest* request,
                                    v1::ExecutionServiceExecuteSynchronouslyResponse* response) override {
    return answered("ExecuteSynchronously", [&] {
      const Wanted is_wanted = [context] { return !context->IsCancelled(); };
      RunResult result;
      session_of(device_, *context)->get<Execution>(request->execution(), "execution")
          ->run(deadline_of(*request), &is_wanted, result);
      to_message(result, *response->mutable_result());
    });
  }
  grpc::Status ExecuteFenced(Context* context, const v1::ExecutionServiceExecuteFencedRequest* request,
                             v1::ExecutionServiceExecuteFencedResponse* response) override {
    return answered("ExecuteFenced", [&] {
      const auto session = session_of(device_, *context);
      auto execution = session->get<Execution>(request->execution(), "execution");
      launch(session, std::move(execution), fences_of(*session, request->wait_for_descriptor_ids()),
             deadline_of(*request), duration_of(*request), *response->mutable_result());
    });
  }
  grpc::Status OpenLaunchChannel(Context* context, const v1::OpenLaunchChannelRequest*,
                                 v1::OpenLaunchChannelResponse* response) override {
    return answered("OpenLaunchChannel", [&] {
      response->set_channel_descriptor_id(serve_launches(session_of(device_, *context)));
    });
  }
  grpc::Status OpenRunChannel(Context* context, const v1::OpenRunChannelRequest* request,
                              v1::OpenRunChannelResponse* response) override {
    return answered("OpenRunChannel", [&] {
      const auto session = session_of(device_, *context);
      const auto execution = session->get<Execution>(request->execution(), "execution");
      response->set_channel_descriptor_id(run_channel_of(*session, request->execution())->open(execution, session));
    });
  }
  grpc::Status GetRunChannelUsage(Context* context, const v1::GetRunChannelUsageRequest* request,
                                  v1::GetRunChannelUsageResponse* response) override {
    return answered("GetRunChannelUsage", [&] {
      const auto session = session_of(device_, *context);
      const auto channel = run_channel_of(*session, request->execution());
      if (request->close()) {
        channel->end();
        session->descriptors.withdraw(request->execution());
      }
      to_message(channel->usage(), *response);
    });
  }
  grpc::Status Release(Context* context, const v1::ExecutionServiceReleaseRequest* request,
                       v1::ExecutionServiceReleaseResponse*) override {
    return answered("Release", [&] { session_of(device_, *context)->release(request->execution()); });
  }

 private:
  Device& device_;
};

class BurstService final : public v1::BurstService::Service {
 public:
  explicit BurstService(Device& device) : device_(device) {}

  grpc::Status ExecuteSynchronously(Context* context, const v1::BurstServiceExecuteSynchronouslyRequest* request,
                                    v1::BurstServiceExecuteSynchronouslyResponse* response) override {
    return execute(*context, *request, config_of<v1::ExecutionConfig>(*request), *response);
  }
  grpc::Status ExecuteSynchronouslyWithConfig(Context* context,
                                              const v1::BurstServiceExecuteSynchronouslyWithConfigRequest* request,
                                              v1::BurstServiceExecuteSynchronouslyWithConfigResponse* response) override {
    return execute(*context, *request, request->config(), *response);
  }
  grpc::Status ReleaseMemoryResource(Context* context, const v1::ReleaseMemoryResourceRequest* request,
                                     v1::ReleaseMemoryResourceResponse*) override {
    return answered("ReleaseMemoryResource", [&] {
      session_of(device_, *context)->get<Burst>(request->burst(), "burst")
          ->release_memory(request->memory_identifier_token());
    });
  }
  grpc::Status Release(Context* context, const v1::BurstServiceReleaseRequest* request,
                       v1::BurstServiceReleaseResponse*) override {
    return answered("Release", [&] { session_of(device_, *context)->release(request->burst()); });
  }

 private:
  template <class Request, class Response>
  grpc::Status execute(Context& context, const Request& request, const v1::ExecutionConfig& config, Response& response) {
    return answered("ExecuteSynchronously", [&] {
      const auto session = session_of(device_, context);
      const Wanted is_wanted = [&context] { return !context.IsCancelled(); };
      const auto& tokens = request.memory_identifier_tokens();
      RunResult result;
      session->get<Burst>(request.burst(), "burst")
          ->execute(request.request(), {tokens.begin(), tokens.end()}, config, deadline_of(request), &is_wanted,
                    session->descriptors, result);
      to_message(result, *response.mutable_result());
    });
  }

  Device& device_;
};

class CallbackService final : public v1::FencedExecutionCallbackService::Service {
 public:
  explicit CallbackService(Device& device) : device_(device) {}

  grpc::Status GetExecutionInfo(Context* context, const v1::GetExecutionInfoRequest* request,
                                v1::GetExecutionInfoResponse* response) override {
    return answered("GetExecutionInfo", [&] {
      *response = session_of(device_, *context)->get<LaunchCallback>(request->callback(), "callback")->info();
    });
  }
  grpc::Status Release(Context* context, const v1::FencedExecutionCallbackServiceReleaseRequest* request,
                       v1::FencedExecutionCallbackServiceReleaseResponse*) override {
    return answered("Release", [&] { session_of(device_, *context)->release(request->callback()); });
  }

 private:
  Device& device_;
};

class BackendService final : public v1::BackendService::Service {
 public:
  explicit BackendService(Device& device) : device_(device) {}

  grpc::Status Describe(Context*, const v1::DescribeRequest*, v1::DescribeResponse* response) override {
    return answered("Describe", [&] {
      const Driver& driver = device_.driver;
      response->set_name(driver.name());
      response->set_alignment(device_.alignment);
      response->set_modelled_timing(driver.modelled_timing());
      response->set_workers(device_.scheduler.workers);
      response->set_realisation(driver.realisation());
      response->set_can_be_wired(true);
      response->set_optimizes_nothing(true);
      response->set_ignores_networks(true);
      const Costs costs = driver.costs();
      response->mutable_transfer_costs()->set_hop_ns(costs.hop_ns);
      response->mutable_transfer_costs()->set_sync_ns(costs.sync_ns);
      response->mutable_transfer_costs()->set_import_ns(costs.import_ns);
      response->mutable_transfer_costs()->set_copy_ns_per_byte(costs.copy_ns_per_byte);
      v1::TensorHandleFactory& factory = *response->add_tensor_handle_factories();
      factory.set_id(driver.name() + "/import");
      factory.set_maps(true);
      factory.set_alignment(device_.alignment);
      for (const v1::MemoryKind kind :
           {v1::MEMORY_KIND_ASHMEM, v1::MEMORY_KIND_MMAP_FD, v1::MEMORY_KIND_HARDWARE_BUFFER_BLOB}) {
        response->add_imports(kind);
        factory.add_imports(kind);
        factory.add_exports(kind);
      }
    });
  }
  grpc::Status AssessModel(Context* context, const v1::AssessModelRequest* request,
                           v1::AssessModelResponse* response) override {
    return answered("AssessModel", [&] {
      const auto model = received_model(request->model(), session_of(device_, *context)->descriptors);
      const std::vector<Support> answers = support_of(device_, *model);
      for (const Support& each : answers) {
        v1::OperationSupport& one = *response->add_operations();
        one.set_supported(each.supported);
        one.set_code(each.code);
        one.set_got(each.got);
        one.set_allowed(each.allowed);
        one.set_hint(each.hint);
      }
      const std::vector<double> costs = device_.driver.operation_ns(*model);
      for (std::size_t i = 0; i < costs.size() && costs.size() == answers.size(); i++) {
        response->add_operation_ns(answers[i].supported ? costs[i] : 0);
      }
    });
  }
  grpc::Status OptimizeSubgraph(Context* context, const v1::OptimizeSubgraphRequest* request,
                                v1::OptimizeSubgraphResponse* response) override {
    return answered("OptimizeSubgraph", [&] {
      const auto model = received_model(request->model(), session_of(device_, *context)->descriptors);
      require_support(device_, *model, support_of(device_, *model));
      for (int i = 0; i < model->main().operations_size(); i++) response->add_untouched(i);
    });
  }
  grpc::Status NotifyNetwork(Context* context, const v1::NotifyNetworkRequest*, v1::NotifyNetworkResponse*) override {
    return answered("NotifyNetwork", [&] { session_of(device_, *context); });
  }
  grpc::Status WireStep(Context* context, const v1::WireStepRequest* request, v1::WireStepResponse* response) override {
    return answered("WireStep", [&] { response->set_stage(wire_step(session_of(device_, *context), *request)); });
  }
  grpc::Status GetStageUsage(Context* context, const v1::GetStageUsageRequest* request,
                             v1::GetStageUsageResponse* response) override {
    return answered("GetStageUsage", [&] {
      to_message(session_of(device_, *context)->get<Stage>(request->stage(), "stage")->usage(), *response);
    });
  }
  grpc::Status UnwireStep(Context* context, const v1::UnwireStepRequest* request,
                          v1::UnwireStepResponse* response) override {
    return answered("UnwireStep", [&] {
      const auto session = session_of(device_, *context);
      const auto stage = session->get<Stage>(request->stage(), "stage");
      stage->end();
      response->set_runs(!stage->await_idle(kUnwiringNs));
      if (!response->runs()) session->release(request->stage());
    });
  }
  grpc::Status GetUsage(Context*, const v1::GetUsageRequest*, v1::GetUsageResponse* response) override {
    return answered("GetUsage", [&] {
      const auto sessions = device_.sessions.all();
      response->set_sessions(static_cast<int>(sessions.size()));
      for (const auto& session : sessions) {
        response->set_descriptors(response->descriptors() + static_cast<int>(session->descriptors.size()));
        response->set_launched(response->launched() + session->launched());
        for (const auto& [handle, object] : session->objects()) count(*object, *response);
      }
      std::int64_t mappings = 0, bytes = 0;
      Pool::count(mappings, bytes);
      response->set_mappings(static_cast<int>(mappings));
      response->set_mapped_bytes(bytes);
      response->set_executions_ended(device_.scheduler.ended());
      response->set_staged_bytes(device_.staged_bytes);
      response->set_compiled_models(device_.compiled_models);
    });
  }

 private:
  static void count(const Object& object, v1::GetUsageResponse& response) {
    if (dynamic_cast<const PreparedModel*>(&object) != nullptr) response.set_prepared_models(response.prepared_models() + 1);
    if (dynamic_cast<const Execution*>(&object) != nullptr) response.set_executions(response.executions() + 1);
    if (dynamic_cast<const Burst*>(&object) != nullptr) response.set_bursts(response.bursts() + 1);
    if (dynamic_cast<const Stage*>(&object) != nullptr) response.set_stages(response.stages() + 1);
  }

  Device& device_;
};

}  // namespace

grpc::Status status_of(const Failure& failure) {
  const Code code = failure.code == Code::kNone ? Code::kGeneralFailure : failure.code;
  const std::string message = std::string(failure.what()).substr(0, kMostErrorBytes);
  v1::ErrorDetail detail;
  detail.set_status(wire_status(code));
  detail.set_message(message);
  v1::Status details;
  details.set_code(grpc_code(code));
  details.set_message(message);
  details.add_details()->PackFrom(detail);
  return grpc::Status(grpc_code(code), message, details.SerializeAsString());
}

grpc::Status answered(const char* method, const std::function<void()>& work) {
  try {
    work();
    return grpc::Status::OK;
  } catch (const std::exception& error) {
    return status_of(told(error, method));
  }
}

std::string metadata_of(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  return found == context.client_metadata().end() ? "" : std::string(found->second.data(), found->second.size());
}

std::shared_ptr<Session> session_of(const Device& device, const grpc::ServerContext& context) {
  return device.sessions.of(metadata_of(context, "nnhal-session"));
}

std::vector<std::unique_ptr<grpc::Service>> contract_services(Device& device) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<DeviceService>(device));
  services.push_back(std::make_unique<PreparedModelService>(device));
  services.push_back(std::make_unique<ExecutionService>(device));
  services.push_back(std::make_unique<BurstService>(device));
  services.push_back(std::make_unique<CallbackService>(device));
  services.push_back(std::make_unique<BackendService>(device));
  return services;
}

const std::vector<std::string> kServiceNames = {
    v1::DeviceService::service_full_name(),     v1::PreparedModelService::service_full_name(),
    v1::ExecutionService::service_full_name(),  v1::BurstService::service_full_name(),
    v1::FencedExecutionCallbackService::service_full_name(), v1::BackendService::service_full_name(),
    "nnhal.v1.AdminService", "nnhal.v1.DeviceAdminService"};

}  // namespace nnhal
