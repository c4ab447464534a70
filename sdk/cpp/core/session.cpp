#include "nnhal/client/session.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace nnhal::client {
namespace {

constexpr std::int64_t kGoodbyeNs = 5'000'000'000;  // how long a framework that has stopped may keep a session's end

std::atomic<unsigned> fork_count{0};
bool is_of(const std::string& folder, uid_t user) {
  struct stat found;
  return ::stat(folder.c_str(), &found) == 0 && found.st_uid == user;
}

// The directory of the testbed that this user's "nnhal up" starts: as default_directory() in hal/nnhal/endpoint.py.
std::string own_directory(const std::string& of_system) {
  const uid_t user = ::geteuid();
  if (user == 0 || is_of(of_system, user)) return of_system;
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime && *runtime == '/' && is_of(runtime, user)) return std::string(runtime) + "/nnhal";
  return "/tmp/nnhal-" + std::to_string(user);
}

const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++fork_count; });

}  // namespace

std::string default_directory() {
  const char* const named = std::getenv("NNHAL_FRAMEWORK");
  if (named && *named) return named;
  const std::string of_system = "/run/nnhal", own = own_directory(of_system) + "/framework";
  struct stat found;
  return ::stat(own.c_str(), &found) == 0 ? own : of_system + "/framework";
}

unsigned forks() { return fork_count.load(std::memory_order_relaxed); }

std::shared_ptr<Session> Session::of(const std::string& directory, const std::string& client_name) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Session>> sessions;
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Session>& known = sessions[directory];
  if (std::shared_ptr<Session> session = known.lock()) return session;
  std::shared_ptr<Session> session(new Session(directory, client_name));
  known = session;
  return session;
}

Result<std::shared_ptr<Framework>> Session::framework() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (has_ended()) {
    Link::Options options;
    options.client_name = client_name_;
    framework_.reset();
    forks_ = forks();
    Result<std::unique_ptr<Framework>> opened = Framework::open(directory_, options);
    if (!opened.ok()) return opened.status();
    framework_ = std::move(*opened);
  }
  return framework_;
}

bool Session::is_current(const Framework& framework) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return framework_.get() == &framework && !has_ended();
}

OwnedModel::~OwnedModel() {
  // The connection of a fork's parent is not this process's to speak on.
  if (is_own() && !framework_->link().has_ended()) (void)framework_->unload(model_.name, {now_ns() + kGoodbyeNs});
}

std::string ModelFile::next_name() const {
  static std::atomic<unsigned long> count{0};
  return name + "-" + std::to_string(++count);
}

std::vector<std::pair<off_t, std::int64_t>> ModelFile::versions() const {
  std::vector<std::pair<off_t, std::int64_t>> found;  // the size, and when it was written last in nanoseconds
  for (const auto& [location, weights_file] : weights) {
    struct stat status {};
    if (::fstat(weights_file.get(), &status) < 0) status.st_size = -1;
    found.emplace_back(status.st_size, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
  }
  return found;
}

LoadOptions ModelFile::with_weights(LoadOptions options) const {
  for (const auto& [location, weights_file] : weights) options.weights.push_back({location, &weights_file});
  return options;
}

Result<std::shared_ptr<PlannedModel>> PlannedModel::make(const std::shared_ptr<Framework>& framework, ModelFile model,
                                                         LoadOptions options, std::vector<std::int32_t> keeps,
                                                         std::vector<std::string> operators, bool may_load) {
  std::shared_ptr<PlannedModel> made(
      new PlannedModel(std::move(model), std::move(options), std::move(keeps), std::move(operators), may_load));
  if (Status status = made->plan_in(framework); !status.ok()) return status;
  return made;
}

PlannedModel::~PlannedModel() {
  if (!framework_ || forks_ != forks() || framework_->link().has_ended()) return;
  if (plan_.handle) (void)framework_->release(plan_);
  if (plan_.loaded) (void)framework_->unload(plan_.loaded->name, {now_ns() + kGoodbyeNs});
}

Status PlannedModel::plan_in(const std::shared_ptr<Framework>& framework) {
  if (model_.versions() != versions_)
    return Status(Code::kInvalidArgument, "a file with values of the model has changed since the model was planned");
  Result<Plan> plan =
      framework->plan(model_.file, options_, keeps_, operators_, may_load_ ? model_.next_name() : std::string());
  if (!plan.ok()) return plan.status();
  plan_ = std::move(*plan);
  framework_ = framework;
  forks_ = forks();
  return {};
}

Result<LoadedModel> PlannedModel::load(const std::shared_ptr<Framework>& framework,
                                       const std::vector<std::int32_t>& nodes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (bool is_fresh = false;; is_fresh = true) {
    if (is_fresh || framework_ != framework || !(plan_.handle || plan_.loaded)) {
      if (Status status = plan_in(framework); !status.ok()) return status;
      is_fresh = true;
    }
    std::size_t group = 0;
    while (group < plan_.groups.size() && plan_.groups[group].nodes != nodes) ++group;
    if (group < plan_.groups.size() && plan_.loaded) {
      LoadedModel model = std::move(*plan_.loaded);
      plan_.loaded.reset();
      return model;
    }
    if (group < plan_.groups.size()) {
      Result<LoadedModel> model = framework->load(model_.next_name(), plan_, group);
      // A plan that was not used for a while is no longer kept.
      const bool is_gone = model.status().code() == Code::kInvalidArgument && model.status().is_answer();
      if (model.ok() || is_fresh || !is_gone) return model;
    } else if (is_fresh) {
      return Status(Code::kGeneralFailure,
                    "the devices that are there now run other nodes than at the session's begin: make it anew");
    }
  }
}

Result<LoadedModel> PlannedSource::load(const std::shared_ptr<Framework>& framework) {
  return model_->load(framework, nodes_);
}

Result<LoadedModel> FileSource::load(const std::shared_ptr<Framework>& framework) {
  return framework->load(model_.next_name(), model_.file, options_);
}

}  // namespace nnhal::client
