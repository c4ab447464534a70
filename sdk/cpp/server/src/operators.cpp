// AdminService and DeviceAdminService: what operators see of the device, and what they may do. See proto/nnhal/v1/admin.proto.
#include <dirent.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "layout.h"
#include "log.h"
#include "models.h"
#include "nnhal/v1/admin.grpc.pb.h"
#include "services.h"

namespace nnhal {
namespace {

using Context = grpc::ServerContext;
constexpr std::size_t kMostCommandBytes = 4096;
constexpr int kMostLines = 200;

int entries_of(const char* folder) {
  DIR* directory = opendir(folder);
  if (directory == nullptr) return 0;
  int count = -2;  // itself and the one above
  while (readdir(directory) != nullptr) count++;
  closedir(directory);
  return count;
}

std::string contents_of(const std::string& path, std::size_t most) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return "";
  std::string contents(most, '\0');
  contents.resize(std::fread(contents.data(), 1, most, file));
  std::fclose(file);
  return contents;
}

void use_of_process(v1::ProcessUsage& usage) {
  timespec cpu;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  usage.set_cpu_ns(cpu.tv_sec * 1'000'000'000LL + cpu.tv_nsec);
  long long total = 0, resident = 0;
  std::sscanf(contents_of("/proc/self/statm", 256).c_str(), "%lld %lld", &total, &resident);
  usage.set_resident_bytes(resident * sysconf(_SC_PAGESIZE));
  usage.set_threads(entries_of("/proc/self/task"));
  usage.set_descriptors(entries_of("/proc/self/fd"));
}

std::string command_of(int pid) {
  std::string command = contents_of("/proc/" + std::to_string(pid) + "/cmdline", kMostCommandBytes);
  while (!command.empty() && command.back() == '\0') command.pop_back();
  for (char& each : command) {
    if (each == '\0') each = ' ';
  }
  return command;
}

std::string user_name(unsigned uid) {
  const passwd* user = getpwuid(uid);
  return user == nullptr ? "" : user->pw_name;
}

// Tells operators from clients, call by call.
class Guard {
 public:
  Guard(const Device& device, const Oversight& oversight) : device_(device), key_(oversight.admin_key) {}

  std::shared_ptr<Session> caller(const Context& context) const { return session_of(device_, context); }

  // Whether a call has the key. Throws GENERAL_FAILURE if it has one that does not count.
  bool is_operator(const Context& context) const {
    const auto session = caller(context);
    const std::string given = metadata_of(context, "nnhal-admin-key");
    if (given.empty()) return false;
    if (session->uid != geteuid()) {
      general_failure("an admin key counts for user ", geteuid(), " only, who runs the process; the call is of ", session->uid);
    }
    if (key_.empty()) {
      general_failure("the process has no admin key: it was started without a supervisor and without --admin-key");
    }
    if (!is_same(given, key_)) general_failure("the admin key in metadata nnhal-admin-key is not that of this process");
    return true;
  }

  void require_operator(const Context& context, const char* act) const {
    if (is_operator(context)) return;
    general_failure("only an operator may ", act, ": the call has no admin key (expected metadata nnhal-admin-key, from the "
                    "supervisor or --admin-key)");
  }

 private:
  // In a time that does not depend on where they differ.
  static bool is_same(const std::string& a, const std::string& b) {
    unsigned char difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size() && i < b.size(); i++) difference |= a[i] ^ b[i];
    return difference == 0;
  }

  const Device& device_;
  const std::string key_;
};

class AdminService final : public v1::AdminService::Service {
 public:
  AdminService(Device& device, const Oversight& oversight)
      : device_(device), oversight_(oversight), guard_(device, oversight) {}

  grpc::Status GetProcess(Context* context, const v1::GetProcessRequest*, v1::GetProcessResponse* response) override {
    return answered("GetProcess", [&] {
      const auto caller = guard_.caller(*context);
      const bool is_whole = guard_.is_operator(*context);
      response->set_name(device_.driver.name());
      response->set_kind("device");
      response->set_pid(getpid());
      response->set_version(device_.driver.version());
      response->set_started_ns(started_ns_);
      response->set_supervisor(oversight_.is_supervised ? v1::SUPERVISOR_NNHAL : v1::SUPERVISOR_UNSPECIFIED);
      response->set_draining(device_.scheduler.is_draining());
      response->set_log_level(logs::name_of(logs::shown_from()));
      response->set_is_whole(is_whole);
      use_of_process(*response->mutable_usage());
      for (const auto& session : device_.sessions.all()) {
        if (is_whole || session == caller) add(*session, session == caller, *response);
      }
      device_.scheduler.show([&](const ShownRun& run) {
        if (is_whole || run.owner == caller.get()) add(run, *response);
      });
      response->set_at_ns(now_ns());
    });
  }
  grpc::Status EndSession(Context* context, const v1::EndSessionRequest* request, v1::EndSessionResponse*) override {
    return answered("EndSession", [&] {
      if (guard_.caller(*context)->id != request->session()) {
        guard_.require_operator(*context, "end a session of another client");
      }
      for (const auto& session : device_.sessions.all()) {
        if (session->id != request->session()) continue;
        logs::info("link ended by an operator client='", session->title(), "' session=", session->id);
        session->end_link();
        return;
      }
      invalid_argument("there is no session '", request->session(), "', or it has ended");
    });
  }
  grpc::Status CancelExecution(Context* context, const v1::CancelExecutionRequest* request,
                               v1::CancelExecutionResponse* response) override {
    return answered("CancelExecution", [&] {
      const auto caller = guard_.caller(*context);
      const bool is_whole = guard_.is_operator(*context);
      std::int64_t number = 0;
      device_.scheduler.show([&](const ShownRun& run) {
        if (name_of(run) == request->execution() && (is_whole || run.owner == caller.get())) number = run.number;
      });
      bool ended = false;
      if (number == 0 || !device_.scheduler.cancel(number, ended)) {
        invalid_argument("no execution '", request->execution(), "' runs or waits");
      }
      response->set_ended(ended);
    });
  }
  grpc::Status Drain(Context* context, const v1::DrainRequest* request, v1::DrainResponse* response) override {
    return answered("Drain", [&] {
      guard_.require_operator(*context, "drain the process");
      int launched = 0;
      for (const auto& session : device_.sessions.all()) launched += session->launched();
      response->set_executions(std::max(device_.scheduler.drain(request->drain()), launched));
      logs::info(request->drain() ? "draining" : "taking new work", " executions=", response->executions());
    });
  }
  grpc::Status Exit(Context* context, const v1::ExitRequest*, v1::ExitResponse*) override {
    return answered("Exit", [&] {
      guard_.require_operator(*context, "end the process");
      logs::info("an operator ends the process");
      oversight_.exit();
    });
  }
  grpc::Status SetLogLevel(Context* context, const v1::SetLogLevelRequest* request, v1::SetLogLevelResponse*) override {
    return answered("SetLogLevel", [&] {
      guard_.require_operator(*context, "change the level of the log");
      logs::Level level;
      if (!logs::level_from(request->level(), level)) {
        invalid_argument("log level '", request->level(), "', expected one of debug, info, warning, error");
      }
      logs::show_from(level);
    });
  }
  grpc::Status GetLogLines(Context* context, const v1::GetLogLinesRequest* request,
                           v1::GetLogLinesResponse* response) override {
    return answered("GetLogLines", [&] {
      guard_.require_operator(*context, "read the log");
      if (request->after() < 0 || request->most() < 0) {
        invalid_argument("lines after ", request->after(), ", at most ", request->most(), "; expected no negative numbers");
      }
      std::int64_t last = 0;
      for (const logs::Line& line : logs::lines_after(request->after(), request->most() ? request->most() : kMostLines, last)) {
        v1::LogLine& one = *response->add_lines();
        one.set_number(line.number);
        one.set_at_ns(line.at_ns);
        one.set_process(device_.driver.name());
        one.set_level(logs::name_of(line.level));
        one.set_text(line.text);
      }
      response->set_last(last);
    });
  }

 private:
  static std::string name_of(const ShownRun& run) { return "e" + std::to_string(run.number); }

  void add(const ShownRun& run, v1::GetProcessResponse& response) const {
    v1::ExecutionState& state = *response.add_executions();
    state.set_id(name_of(run));
    state.set_what(summary_of(run.execution->prepared->model->message()));
    state.set_phase(run.runs ? v1::ExecutionState::PHASE_RUNNING : v1::ExecutionState::PHASE_WAITING);
    state.set_since_ns(run.since_ns);
    state.set_deadline_ns(run.deadline_ns);
    state.set_priority(static_cast<v1::Priority>(run.priority));
    state.set_can_be_cancelled(true);
    if (const auto session = run.execution->prepared->session.lock()) {
      state.set_session(session->id);
      state.set_client(session->title());
    }
  }

  static void add(const Session& session, bool is_own, v1::GetProcessResponse& response) {
    v1::SessionState& state = *response.add_sessions();
    state.set_id(session.id);
    state.set_pid(session.pid);
    state.set_uid(static_cast<int>(session.uid));
    state.set_user(user_name(session.uid));
    state.set_command(command_of(session.pid));
    state.set_client_name(session.client_name);
    state.set_opened_ns(session.opened_ns);
    state.set_descriptors(static_cast<int>(session.descriptors.size()));
    state.set_is_own(is_own);
    state.set_owner(session.owner());
    std::map<std::string, std::pair<int, std::int64_t>> counts;
    std::map<std::pair<std::string, std::int64_t>, v1::PoolState> pools;
    for (const auto& [handle, object] : session.objects()) {
      auto& [count, bytes] = counts[object->kind()];
      count++;
      const auto execution = std::dynamic_pointer_cast<Execution>(object);
      if (execution == nullptr) continue;
      if (execution->has_own_runner()) counts["run channel"].first++;
      for (const auto* staged : {&execution->staged_inputs, &execution->staged_outputs}) {
        for (const Staged& each : *staged) bytes += static_cast<std::int64_t>(each.size);
      }
      for (const auto& pool : execution->pools) add(*pool, session, pools);
    }
    if (session.launched() > 0) counts["launch"].first = session.launched();
    for (const auto& [kind, each] : counts) {
      v1::ObjectCount& one = *state.add_objects();
      one.set_kind(kind);
      one.set_count(each.first);
      one.set_bytes(each.second);
    }
    for (auto& [key, pool] : pools) *response.add_pools() = std::move(pool);
  }

  static void add(const Pool& pool, const Session& session, std::map<std::pair<std::string, std::int64_t>, v1::PoolState>& pools) {
    struct stat status {};
    fstat(pool.fd(), &status);
    const std::string memory = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
    v1::PoolState& state = pools[{memory, pool.size()}];
    state.set_session(session.id);
    state.set_kind(nnhal::name_of(pool.kind()));
    state.set_bytes(pool.size());
    state.set_mapped(pool.data() != nullptr);
    state.set_staged(pool.data() == nullptr);
    state.set_memory(memory);
    state.set_purpose("executions");
  }

  Device& device_;
  const Oversight oversight_;
  const Guard guard_;
  const std::int64_t started_ns_ = now_ns();
};

class DeviceAdminService final : public v1::DeviceAdminService::Service {
 public:
  DeviceAdminService(Device& device, const Oversight& oversight) : device_(device), guard_(device, oversight) {}

  grpc::Status GetDevice(Context* context, const v1::GetDeviceRequest*, v1::GetDeviceResponse* response) override {
    return answered("GetDevice", [&] {
      guard_.caller(*context);
      response->set_workers(device_.scheduler.workers);
      device_.scheduler.show([&](const ShownRun& run) {
        if (run.runs) {
          response->set_running(response->running() + 1);
        } else {
          response->set_waiting(response->waiting() + 1);
        }
      });
      response->set_executions_ended(device_.scheduler.ended());
      response->set_busy_ns(device_.scheduler.busy_ns());
      response->set_staged_bytes(device_.staged_bytes);
    });
  }
  grpc::Status GetFigures(Context* context, const v1::GetFiguresRequest*, v1::GetFiguresResponse*) override {
    return answered("GetFigures", [&] { guard_.require_operator(*context, "look at the figures of a prepared model"); });
  }
  grpc::Status MeasureOperations(Context* context, const v1::MeasureOperationsRequest*,
                                 v1::MeasureOperationsResponse* response) override {
    return answered("MeasureOperations", [&] {
      guard_.require_operator(*context, "measure the operations of a prepared model");
      response->set_note(device_.driver.name() + " does not tell the times of operations");
    });
  }

 private:
  Device& device_;
  const Guard guard_;
};

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> operator_services(Device& device, const Oversight& oversight) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<AdminService>(device, oversight));
  services.push_back(std::make_unique<DeviceAdminService>(device, oversight));
  return services;
}

}  // namespace nnhal
