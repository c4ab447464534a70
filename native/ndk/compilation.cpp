#include "compilation.h"

#include <algorithm>

#include "bound_run.h"
#include "nnhal/clock.h"

namespace nnhal::ndk {
namespace {

constexpr int kByNnapisRule = 2;          // PARTITIONER_NNAPI
constexpr int kAllowed = 1, kDenied = 3;  // Fallback
constexpr std::size_t kMaxIdle = 8;

}  // namespace

void HintList::add(const std::string& extension, std::uint16_t code, const void* data, std::size_t length) {
  const std::uint16_t prefix = prefix_of(extension);
  const std::int32_t token = prefix << 16 | code;
  for (const client::Hints::Hint& hint : hints_.values)
    if (hint.token == token) bad_data("attribute " + std::to_string(code) + " of " + extension + " is given twice");
  const auto is_same = [&](const client::ExtensionPrefix& one) { return one.prefix == prefix; };
  if (std::none_of(hints_.extensions.begin(), hints_.extensions.end(), is_same))
    hints_.extensions.push_back({extension, prefix});
  hints_.values.push_back({token, std::string(static_cast<const char*>(data), length)});
}

Compilation::Compilation(std::shared_ptr<const Model> model,
                         std::optional<std::vector<std::shared_ptr<Device>>> devices)
    : model_(std::move(model)), devices_(std::move(devices)) {
  model_->require_finished();
  if (devices_) names_ = names_of(*devices_);
}

Compilation::~Compilation() {
  idle_.clear();
  if (is_ready_ && is_sound() && !session_->has_ended()) (void)session_->framework().unload(name_);
}

void Compilation::set_preference(std::int32_t preference) {
  require_unfinished();
  if (preference < 0 || preference > 2) bad_data("preference " + std::to_string(preference) + ", expected 0 to 2");
  options_.preference = preference;
}

void Compilation::set_priority(std::int32_t priority) {
  require_unfinished();
  if (priority != 90 && priority != 100 && priority != 110)
    bad_data("priority " + std::to_string(priority) + ", expected 90, 100 or 110");
  options_.priority = (priority - 90) / 10;
}

void Compilation::set_timeout(std::uint64_t duration_ns) {
  require_unfinished();
  require_one_device("a timeout");
  timeout_ns_ = duration_ns;
}

void Compilation::set_caching(const std::uint8_t* token) {
  require_unfinished();
  options_.cache_token.assign(reinterpret_cast<const char*>(token), kCacheTokenBytes);
}

void Compilation::add_hint(const std::string& extension, std::uint16_t code, const void* data, std::size_t length) {
  require_unfinished();
  add_hint_to(hints_, extension, code, data, length);
}

void Compilation::add_hint_to(HintList& hints, const std::string& extension, std::uint16_t code, const void* data,
                              std::size_t length) const {
  require_one_device("a hint");
  const std::vector<std::string>& known = devices_->front()->info.extensions;
  if (std::find(known.begin(), known.end(), extension) == known.end())
    bad_data("device " + devices_->front()->name + " does not know extension " + extension);
  hints.add(extension, code, data, length);
}

void Compilation::finish() {
  require_unfinished();
  is_finished_ = true;
  if (model_->uses_oem()) bad_data("no device takes operands or operations of an OEM");
  session_ = Session::current();
  name_ = session_->new_name();
  options_.devices = names_;
  options_.partitioner = kByNnapisRule;
  options_.fallback = devices_ ? kDenied : kAllowed;
  options_.deadline_ns = deadline_after(timeout_ns_);
  options_.hints = hints_.hints();
  const SentModel sent = model_->sent(session_);
  const Result<client::LoadedModel> found = session_->framework().load(name_, sent.model, options_);
  const Status& loaded = found.status();
  if (loaded.code() == Code::kInvalidArgument) {
    const Status values = session_->framework().check(sent.model, client::Check::kValues);
    if (values.code() == Code::kInvalidArgument) contradiction_ = values.text();
  }
  if (is_sound()) memory_ = required(found).memory;
  is_ready_ = true;
}

void Compilation::require_one_device(const char* what) const {
  if (devices_ && devices_->size() == 1) return;
  bad_data(std::string(what) + " needs exactly one device to be named, got " +
           (devices_ ? std::to_string(devices_->size()) : "none"));
}

void Compilation::require_ready() const {
  if (!is_ready_) bad_state("the compilation is not finished, or has failed");
}

std::unique_ptr<BoundRun> Compilation::take(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto found = idle_.begin(); found != idle_.end(); ++found) {
    if ((*found)->key() != key) continue;
    std::unique_ptr<BoundRun> run = std::move(*found);
    idle_.erase(found);
    return run;
  }
  return nullptr;
}

void Compilation::give_back(std::unique_ptr<BoundRun> run) {
  std::unique_ptr<BoundRun> oldest;  // is released after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() == kMaxIdle) {
    oldest = std::move(idle_.front());
    idle_.erase(idle_.begin());
  }
  idle_.push_back(std::move(run));
}

void Compilation::require_unfinished() const {
  if (is_finished_) bad_state("the compilation is finished already");
}

std::int64_t deadline_after(std::uint64_t duration_ns) {
  if (!duration_ns) return kNoTime;
  const std::int64_t now = now_ns();
  const auto most = static_cast<std::uint64_t>(INT64_MAX - now);
  return now + static_cast<std::int64_t>(std::min(duration_ns, most));
}

}  // namespace nnhal::ndk
