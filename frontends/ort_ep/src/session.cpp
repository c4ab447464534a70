#include "session.h"

#include <pthread.h>

#include <atomic>
#include <map>

#include "calls.h"

namespace nnhal::ort_ep {
namespace {

constexpr std::int64_t kGoodbyeNs = 5'000'000'000;  // how long a framework that has stopped may keep a session's end

std::atomic<unsigned> fork_count{0};
const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++fork_count; });

// A name that no other model of the session has.
std::string next_name() {
  static std::atomic<unsigned long> count{0};
  return "onnxruntime-" + std::to_string(++count);
}

}  // namespace

unsigned forks() { return fork_count.load(std::memory_order_relaxed); }

std::shared_ptr<Session> Session::of(const std::string& directory) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Session>> sessions;
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Session>& known = sessions[directory];
  if (std::shared_ptr<Session> session = known.lock()) return session;
  std::shared_ptr<Session> session(new Session(directory));
  known = session;
  return session;
}

std::shared_ptr<client::Framework> Session::framework() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (has_ended()) {
    client::Link::Options options;
    options.client_name = "ONNX Runtime";
    framework_.reset();
    forks_ = forks();
    framework_ = take(client::Framework::open(directory_, options));
  }
  return framework_;
}

bool Session::is_current(const client::Framework& framework) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return framework_.get() == &framework && !has_ended();
}

LoadedModel::~LoadedModel() {
  // The connection of a fork's parent is not this process's to speak on.
  if (is_own() && !framework_->link().has_ended()) (void)framework_->unload(model_.name, {now_ns() + kGoodbyeNs});
}

PlannedModel::PlannedModel(std::shared_ptr<client::Framework> framework, OnnxModel model, client::LoadOptions options)
    : model_(std::move(model)), options_(model_.with_weights(std::move(options))) {
  make(framework);
}

PlannedModel::~PlannedModel() {
  if (forks_ == forks() && !framework_->link().has_ended()) (void)framework_->release(plan_);
}

void PlannedModel::make(const std::shared_ptr<client::Framework>& framework) {
  plan_ = take(framework->plan(model_.file, options_));
  framework_ = framework;
  forks_ = forks();
}

client::LoadedModel PlannedModel::load(const std::shared_ptr<client::Framework>& framework,
                                       const std::vector<std::int32_t>& nodes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (bool is_fresh = false;; is_fresh = true) {
    if (is_fresh || framework_ != framework) make(framework), is_fresh = true;
    std::size_t group = 0;
    while (group < plan_.groups.size() && plan_.groups[group].nodes != nodes) ++group;
    if (group < plan_.groups.size()) {
      Result<client::LoadedModel> model = framework->load(next_name(), plan_, group);
      // A plan that was not used for a while is no longer kept.
      const bool is_gone = model.status().code() == Code::kInvalidArgument && model.status().is_answer();
      if (model.ok() || is_fresh || !is_gone) return take(std::move(model));
    } else if (is_fresh) {
      throw Failure(
          "the devices that are there now run other nodes than at the session's begin: make the session anew");
    }
  }
}

client::LoadedModel PlannedSource::load(const std::shared_ptr<client::Framework>& framework) {
  return model_->load(framework, nodes_);
}

client::LoadedModel FileSource::load(const std::shared_ptr<client::Framework>& framework) {
  return take(framework->load(next_name(), file_, options_));
}

}  // namespace nnhal::ort_ep
