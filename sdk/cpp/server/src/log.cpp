#include "log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

namespace nnhal::logs {
namespace {

constexpr std::size_t kKept = 2000;
constexpr const char* kNames[] = {"debug", "info", "warning", "error"};

std::string process_name = "device";
std::atomic<Level> shown{Level::info};
std::mutex guard;
std::deque<Line> kept;
std::int64_t written = 0;

// As structlog's console renderer has it, so that a supervisor finds the level.
std::string rendered(const Line& line) {
  const std::time_t seconds = line.at_ns / 1'000'000'000;
  std::tm parts;
  gmtime_r(&seconds, &parts);
  char instant[32], rest[48];
  std::strftime(instant, sizeof instant, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(rest, sizeof rest, ".%06dZ [%-9s] ", static_cast<int>(line.at_ns % 1'000'000'000 / 1000), name_of(line.level));
  return instant + (rest + line.text) + " process=" + process_name + "\n";
}

}  // namespace

const char* name_of(Level level) { return kNames[static_cast<int>(level)]; }

bool level_from(const std::string& name, Level& level) {
  for (int i = 0; i < 4; i++) {
    if (name == kNames[i]) {
      level = static_cast<Level>(i);
      return true;
    }
  }
  return false;
}

void name_process(const std::string& name) { process_name = name; }
void show_from(Level level) { shown = level; }
Level shown_from() { return shown; }

void write(Level level, const std::string& line) {
  if (level < shown) return;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const std::lock_guard<std::mutex> lock(guard);
  kept.push_back({++written, now.tv_sec * 1'000'000'000LL + now.tv_nsec, level, line});
  if (kept.size() > kKept) kept.pop_front();
  const std::string shown_line = rendered(kept.back());
  [[maybe_unused]] const auto done = ::write(STDERR_FILENO, shown_line.data(), shown_line.size());  // or nobody reads it
}

std::vector<Line> lines_after(std::int64_t number, std::size_t most, std::int64_t& last) {
  const std::lock_guard<std::mutex> lock(guard);
  last = written;
  std::vector<Line> found;
  for (auto line = kept.rbegin(); line != kept.rend() && line->number > number && found.size() < most; ++line) {
    found.push_back(*line);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace nnhal::logs
